"""Describe the CPU as a backend, by this folder's builders and templates.

Templates are imported when a group of their kind first comes up: a session with a warm cache needs
few of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.kernels.ir.backend import HOST, Backend, FusionRules
from tfjit.kernels.registry import (
    BoundedCall,
    Builder,
    NativeCall,
    NodeSpec,
    Pointer,
    Reference,
    TensorSpec,
    Unsupported,
    find_bounded,
    find_native,
    find_reference,
)

if TYPE_CHECKING:
    import numpy as np

    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.ir.loop_program import LoopProgram


class CpuBackend(Backend):
    """Use compiled launches where a builder has them, NumPy for all else."""

    device_type = HOST
    name = "cpu"
    priority = 60
    memory_limit_bytes = 256 * 1024 * 1024  # the limit that TensorFlow reports for a CPU device
    lowers = True

    def has_kernel(self, op: str, dtypes: Sequence[DType]) -> bool:
        """Return True.

        Ops that only exist to be imported (SaveV2 ...) count, so that they prune away unharmed;
        running one raises UnimplementedError.
        """
        return True

    def kernel(self, op: str) -> Reference | None:
        return find_reference(op)

    def compiles(self, op: str) -> bool:
        return find_native(op) is not None

    def native_call(self, spec: NodeSpec) -> NativeCall:
        builder = find_native(spec.op)
        if builder is None:
            raise Unsupported(f"no native builder for {spec.op}")
        return builder(spec)

    def bounds(self, op: str) -> bool:
        return find_bounded(op) is not None

    def bounded_call(self, spec: NodeSpec) -> BoundedCall:
        builder = find_bounded(spec.op)
        if builder is None:
            raise Unsupported(f"no bounded builder for {spec.op}")
        return builder(spec)

    @property
    def fusion(self) -> FusionRules:
        from tfjit.kernels.cpu.fusion_rules import RULES

        return RULES

    def member_call(
        self, group: FusedGroup, known: Mapping[int, np.ndarray], build: Builder
    ) -> NativeCall:
        from tfjit.kernels.cpu.template.call_chain import chained_call

        return chained_call(group, known, build)

    def loop_call(self, program: LoopProgram) -> NativeCall:
        from tfjit.kernels.cpu.loop_program.builder import program_call

        return program_call(program)

    def part_copy(self, whole: TensorSpec, part: tuple[slice, ...], reads: bool) -> NativeCall:
        from tfjit.kernels.cpu.data_movement.strided_copy import Layout, View, copy_launch
        from tfjit.kernels.cpu.template.iteration_space import c_strides

        size = whole.dtype.size
        layout = Layout(whole.shape, size)
        there = layout.view(layout.array[part])
        here = View(there.shape, c_strides(there.shape, size))
        views = (there, here) if reads else (here, there)
        launch = copy_launch(size, *views, Pointer("in"), Pointer("out"))
        count = TensorSpec(whole.dtype, there.shape).nbytes
        return NativeCall((launch,) if launch is not None else (), bytes_moved=2 * count)

    def traffic_ns(self, nbytes: int) -> float:
        from tfjit.kernels.cpu.template import cost_model

        return cost_model.traffic_ns(nbytes)
