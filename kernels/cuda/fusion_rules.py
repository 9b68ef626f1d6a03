"""Decide which fused groups the templates of GPUs take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop import iteration_space_of
from tfjit.kernels.cpu.fused import ANCHORS, epilogue_of
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.row_choice import prefers_rows
from tfjit.kernels.ir.op_forms import MOVING
from tfjit.kernels.registry import NodeSpec, Unsupported

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.ir.scalar_program import Program

_REPEATED: Final = 64
"""Scalar ops that a loop may compute again at several places.

A GPU computes about a hundred of them in the time of one access to memory.
"""
_DEAR: Final = frozenset({
    "Digamma", "Lgamma", "Erfinv", "Ndtri", "FresnelCos", "FresnelSin", "Spence", "Expint",
})  # fmt: skip
"""Scalar functions of hundreds of instructions."""


@dataclass(frozen=True, slots=True)
class CudaTemplate:
    """Describe a template of GPUs.

    check: raises Unsupported for a group that does not fit the template.
    """

    check: Callable[[FusedGroup], object]
    accepts_plain: bool = False

    def accepts(self, group: FusedGroup) -> None:
        """Raise Unsupported where the template does not take a group."""
        self.check(group)


def _require_device_forms(program: Program) -> None:
    for op in program.ops:
        if op.op in element_kinds.HOST_ONLY:
            raise Unsupported(f"{op.op} is a sum in a loop, which the GPU does not compute")


def _check_loop(group: FusedGroup) -> None:
    program = iteration_space_of(group).program
    _require_device_forms(program)
    members = [m for m in group.members if m.spec.op not in MOVING]
    if len(program.ops) > len(members) + _REPEATED:
        raise Unsupported("it would compute values again for every place that needs them")


def _check_epilogue(group: FusedGroup) -> None:
    program = epilogue_of(group)[0].program
    _require_device_forms(program)
    if expressions.program_errors(program):
        raise Unsupported("an epilogue that can fail")


def _check_attention(group: FusedGroup) -> None:
    from tfjit.kernels.cuda.fused import group_call

    group_call(group, {})


def _check_rows(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.reduction.row_program import row_program

    _require_device_forms(row_program(group).program)


def _check_reduction(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.reduction.reduce_plan import reduce_plan

    plan = reduce_plan(group)
    for space in (plan.before, plan.after):
        _require_device_forms(space.program)


_TEMPLATES: Final[Mapping[str, CudaTemplate]] = {
    # unseen groups might have functions that only the host computes
    "loop": CudaTemplate(_check_loop),
    **dict.fromkeys(ANCHORS.values(), CudaTemplate(_check_epilogue)),
    "attention": CudaTemplate(_check_attention),
    "rows": CudaTemplate(_check_rows),
    "reduce": CudaTemplate(_check_reduction),
}


class _Rules:
    """Hold the GPU's rules of fusion."""

    anchors: Mapping[str, str] = ANCHORS

    def template_of(self, kind: str) -> CudaTemplate | None:
        return _TEMPLATES.get(kind)

    def holds(self, dtype: DType) -> bool:
        return element_kinds.is_supported(dtype)

    def accepts_anchor(self, spec: NodeSpec) -> bool:
        (result,) = spec.outputs
        if not (result.dtype.is_floating and element_kinds.is_supported(result.dtype)):
            return False
        return spec.attrs.get("data_format", b"NHWC") in (b"NHWC", "NHWC")

    def reduces_by_rows(self, shape: Sequence[int], axes: Sequence[int]) -> bool:
        return prefers_rows(shape, axes)

    def is_cheap(self, op: str) -> bool:
        return op not in _DEAR and op not in element_kinds.HOST_ONLY


RULES: Final = _Rules()

__all__ = ["RULES", "CudaTemplate"]
