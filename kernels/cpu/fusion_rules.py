"""Decide which fused groups the templates of the CPU take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.op_traits import RESHAPE
from tfjit.kernels.cpu import fused
from tfjit.kernels.cpu.reduction.reducers import is_row_reduction
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.ir.op_forms import MOVING
from tfjit.kernels.registry import NodeSpec, Unsupported

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.ir.scalar_program import Program

_REPEATED_NS: Final = 0.25
"""The time per element that a loop may spend on recomputing values.

Reading them back from memory takes about as long.
"""


@dataclass(frozen=True, slots=True)
class CpuTemplate:
    """Describe a template of the CPU.

    check: raises Unsupported for a group that does not fit the template.
    """

    check: Callable[[FusedGroup], object]
    accepts_plain: bool = False

    def accepts(self, group: FusedGroup) -> None:
        """Raise Unsupported where the template does not take a group."""
        self.check(group)


# each template is imported when a group of its kind comes up


def _check_loop(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.elementwise.loop import iteration_space_of

    _check_repetition(group, iteration_space_of(group).program)


def _check_repetition(group: FusedGroup, program: Program) -> None:
    """Raise Unsupported where a loop computes much more than its members.

    The surplus is values that the loop needs at several places.
    """
    once = sum(
        cost_model.op_ns(m.spec.op, m.spec.outputs[0].dtype.size)
        for m in group.members
        if m.spec.op not in MOVING and not m.spec.has_trait(RESHAPE)
    )
    if cost_model.program_ns(program) > once + _REPEATED_NS:
        raise Unsupported("it would compute dear values for every place that needs them")


def _check_rows(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.reduction.row_program import row_program

    row_program(group)


def _check_reduction(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.reduction.reduce_plan import reduce_plan

    reduce_plan(group)


def _check_attention(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.gemm.attention import attention_call

    attention_call(group)


def _check_pool_gradient(group: FusedGroup) -> None:
    from tfjit.kernels.cpu.conv.max_pool_grad import pool_gradient_call

    pool_gradient_call(group)


_TEMPLATES: Final[Mapping[str, CpuTemplate]] = {
    "loop": CpuTemplate(_check_loop, accepts_plain=True),
    "rows": CpuTemplate(_check_rows),
    "reduce": CpuTemplate(_check_reduction),
    "attention": CpuTemplate(_check_attention),
    "pool_gradient": CpuTemplate(_check_pool_gradient),
    **dict.fromkeys(fused.ANCHORS.values(), CpuTemplate(fused.epilogue_of, accepts_plain=True)),
}
_PRODUCT_DTYPES: Final = frozenset({"float32", "float64", "float16", "bfloat16"})


class _Rules:
    """Hold the CPU's rules of fusion."""

    anchors = fused.ANCHORS

    def template_of(self, kind: str) -> CpuTemplate | None:
        return _TEMPLATES.get(kind)

    def holds(self, dtype: DType) -> bool:
        return typed_pointers.is_supported(dtype)

    def accepts_anchor(self, spec: NodeSpec) -> bool:
        (result,) = spec.outputs
        if result.dtype.name not in _PRODUCT_DTYPES:
            return False
        if spec.op == "MatMul" and 1 in result.shape:
            rows, columns = result.shape
            if columns == 1 or (rows == 1 and 1 not in spec.constants):
                return False  # a separate kernel reads the matrix as it lies
        return spec.attrs.get("data_format", b"NHWC") in (b"NHWC", "NHWC")

    def reduces_by_rows(self, shape: Sequence[int], axes: Sequence[int]) -> bool:
        return is_row_reduction(shape, axes)

    def is_cheap(self, op: str) -> bool:
        return cost_model.is_cheap(op)


RULES: Final = _Rules()

__all__ = ["RULES", "CpuTemplate"]
