"""Compiles kernels for the level that TFJIT_CPU names, checks their values and prints their machine
code as JSON.

jit/test_target.py runs it: a process has one level.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.kernels.jit import compiler, loader

os.environ.update(compiler.numba_target())  # before anything imports Numba

from tests.golden import templates
from tests.kernels import native_nn
from tests.kernels.groups import GroupBuilder, floats
from tests.kernels.native_runner import NativeRunner
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.elementwise.loop import loop_call
from tfjit.kernels.cpu.gemm import matmul
from tfjit.kernels.cpu.gemm.micro_kernels import tile_of
from tfjit.kernels.executor import table_executor
from tfjit.kernels.jit.cache_key import cache_key
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NativeCall


def check(call: NativeCall, inputs: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Compile the kernels of a call in this process, which puts them into the cache, and compare
    what they give.
    """
    for source in call.sources():
        fields = {
            "text": source.text,
            "entries": source.entries,
            "arity": source.arity,
            "interleave": source.interleave,
        }
        answer = compiler._serve(
            {
                **fields,
                "key": cache_key(source),
                "title": source.title,
                "directory": str(store.directory),
            }
        )
        assert "error" not in answer, answer["error"]
    for found, right in zip(
        NativeRunner(call, inputs, native_nn.specs(*wanted)).run(), wanted, strict=True
    ):
        np.testing.assert_allclose(
            found.astype(np.float64), right.astype(np.float64), rtol=2e-5, atol=5e-5
        )


def main() -> None:
    """Print {name: [assembly]} of the walker, a matrix product, an elementwise loop and softmax."""
    code: dict[str, list[str]] = {}
    emit, name = loader.emit, "walker"

    def listen(module: Any, machine: Any, symbols: Any) -> Any:
        code.setdefault(name, []).append(machine.emit_assembly(module))
        return emit(module, machine, symbols)

    loader.emit = listen
    table_executor.get()

    rng = np.random.default_rng(8)
    name = "matmul"
    columns = tile_of(d.float32).columns  # whole vectors: one table of micro-kernels
    a, b = (
        rng.standard_normal((45, 70)).astype(np.float32),
        rng.standard_normal((70, columns)).astype(np.float32),
    )
    check(matmul.matmul_call(native_nn.specs(a, b)), [a, b], [a @ b])

    name = "loop"
    g = GroupBuilder(floats(600), floats(600))
    total = g.op("AddV2", g.input(0), g.input(1))
    narrow = g.op("Cast", total, DstT=d.float16, Truncate=False)
    call = loop_call(g.group(g.op("Exp", g.op("Tanh", total)), narrow))
    check(call, g.arrays, [np.exp(np.tanh(g.values[total])), g.values[narrow]])

    name = "softmax"
    x = floats(6, 50)
    e = np.exp(x - x.max(1, keepdims=True))
    check(templates.rows(), [x], [e / e.sum(1, keepdims=True)])
    print(json.dumps(code))


if __name__ == "__main__":
    main()
