"""List sources and nodes that cover optimizer updates and random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.data_movement.padded_rows import padded_unique_source
from tfjit.kernels.cpu.elementwise.optimizer_updates import UPDATES, update_source
from tfjit.kernels.cpu.elementwise.sparse_updates import sparse_update_source
from tfjit.kernels.precompile.nodes import integers, node, scalar, tensor
from tfjit.kernels.registry import NodeSpec
from tfjit.kernels.source import KernelSource

_SPARSE: Final = ("Adadelta", "Adagrad", "Ftrl", "Momentum", "RMSProp")
"""Rules of usual optimizers for embeddings."""


def update_sources() -> Iterator[KernelSource]:
    """Yield the kernels of optimizer updates."""
    for name, update in UPDATES.items():
        for kind in ("f32", "f64"):
            for flag in (False, True) if update.flag else (False,):
                yield update_source(name, update, kind, flag)
                if "power" in update.inputs.split():
                    yield update_source(name, update, kind, flag, square_root=True)


def sparse_update_sources() -> Iterator[KernelSource]:
    """Yield the kernels of optimizer updates of float32 rows.

    Flags have their defaults, except for use_nesterov. The kernels that find distinct rows follow.
    """
    for name, index, single in itertools.product(_SPARSE, ("i32", "i64"), (False, True)):
        flag = UPDATES[name].flag
        usual = flag == "update_slots"
        root = "power" in UPDATES[name].inputs.split()
        for value in (False, True) if flag == "use_nesterov" else (usual,):
            yield sparse_update_source(name, "f32", value, index, single, root)
    for index in ("i32", "i64"):
        yield padded_unique_source(index, "i32")


def random_nodes() -> Iterator[NodeSpec]:
    """Yield nodes that draw random numbers."""
    shape = integers(300)
    for dtype in (d.float32, d.float64):
        out = [tensor(dtype, 300)]
        cut = dtype is d.float32  # has a compiled form for float32 alone
        drawn = ("RandomUniform", "RandomStandardNormal", *(("TruncatedNormal",) if cut else ()))
        for op in drawn:
            yield node(op, [shape], out, dtype=dtype, T=d.int32)
            op = "Stateless" + op.replace("Standard", "")
            for seeds in (d.int32, d.int64):
                yield node(op, [shape, tensor(seeds, 2)], out, dtype=dtype)
            key, counter = tensor(d.uint64, 1), tensor(d.uint64, 2)
            yield node(f"{op}V2", [shape, key, counter, scalar(1)], out, dtype=dtype)
    for seeds in (d.int32, d.int64):
        outputs = [tensor(d.uint64, 1), tensor(d.uint64, 2)]
        yield node("StatelessRandomGetKeyCounter", [tensor(seeds, 2)], outputs, Tseed=seeds)
    for dtype in (d.int32, d.int64):
        bounds = [scalar(0, dtype), scalar(9, dtype)]
        yield node("RandomUniformInt", [shape, *bounds], [tensor(dtype, 300)], Tout=dtype)
