"""Generated loops become vector code: the assembly of each template, made in this process, uses the
widest registers there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.golden import templates
from tests.kernels.groups import ReduceBuilder, floats
from tfjit.kernels.cpu.elementwise.loop import loop_call
from tfjit.kernels.jit import compiler, loader, target
from tfjit.kernels.registry import NativeCall
from tfjit.kernels.source import KernelSource


def assembly(source: KernelSource, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the compiler makes of a kernel."""
    seen: list[str] = []
    emit = loader.emit

    def listen(linked: Any, machine: Any, symbols: Any) -> Any:
        seen.append(machine.emit_assembly(linked))
        return emit(linked, machine, symbols)

    monkeypatch.setattr(loader, "emit", listen)
    compiler.compile_text(
        source.text, source.entries, source.arity, source.interleave, "kernel.py", "vectorised"
    )
    return seen[0]


def chain() -> NativeCall:
    g = ReduceBuilder(floats(600), floats(600), np.float32(2).reshape(()))
    x = g.op("Mul", g.op("AddV2", g.input(0), g.input(1)), g.input(2))
    return loop_call(g.group(g.op("Sigmoid", g.op("Relu", x)), g.op("Exp", g.op("Tanh", x))))


@pytest.mark.parametrize(
    "make",
    [chain, templates.loop, templates.reduction, templates.rows],
    ids=lambda f: f.__name__,
)
def test_template_uses_vector_registers(
    make: Callable[[], NativeCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    width = target.host().lanes(1)  # bytes of a register
    wide = {64: r"%zmm\d", 32: r"%ymm\d", 16: r"%xmm\d|\bv\d+\.4s"}[width]
    text = assembly(make().launches[0].source, monkeypatch)
    stores = [
        line
        for line in text.splitlines()
        if re.search(wide, line) and re.search(r"mov[au]ps|\bst[rp]\b|\bvmovup", line)
    ]
    assert stores
