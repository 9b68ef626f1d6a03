"""Build products with their epilogues from fused groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfjit.kernels.cpu.fused import epilogue_of, remap_inputs
from tfjit.kernels.cpu.gemm.operands import swapped
from tfjit.kernels.cuda.gemm.matmul import batch_matmul_call
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec, Unsupported

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue
    from tfjit.kernels.ir.fused_group import FusedGroup


@dataclass(frozen=True, slots=True)
class AnchoredGroup:
    """The parts of a group around a product or convolution.

    inputs: of the anchor, then the epilogue's operands. order: their numbers in the group.
    """

    anchor: NodeSpec
    inputs: tuple[TensorSpec, ...]
    order: tuple[int, ...]
    epilogue: Epilogue

    def placed(self, call: NativeCall) -> NativeCall:
        """Return a call on `inputs` as one on the group's inputs."""
        return remap_inputs(call, self.order)

    def scalars(self, known: Mapping[int, np.ndarray]) -> dict[int, float]:
        """Return the known scalars among the epilogue's operands, by number.

        known: values of the group's inputs.
        """
        operands = self.order[len(self.anchor.inputs) :]
        return {
            number: float(known[place].reshape(()))
            for number, place in enumerate(operands)
            if place in known and known[place].size == 1
        }


def anchored(group: FusedGroup) -> AnchoredGroup:
    """Return the parts of a group. Raises Unsupported as `epilogue_of` does."""
    epilogue, operands = epilogue_of(group)
    anchor = group.members[group.anchor]
    refs: Sequence = (*anchor.inputs, *operands)
    if anchor.spec.outputs[0].dtype is not group.tensor(anchor.inputs[0]).dtype:
        raise Unsupported(f"product as {anchor.spec.outputs[0].dtype.name}")
    return AnchoredGroup(
        anchor.spec,
        tuple(group.tensor(ref) for ref in refs),
        tuple(ref.index for ref in refs),
        epilogue,
    )


def matmul_group_call(
    group: FusedGroup, known: Mapping[int, np.ndarray] | None = None
) -> NativeCall:
    """Return a matrix product with its epilogue.

    known: values of external inputs, which tell some epilogues of libraries. Raises Unsupported.
    """
    parts = anchored(group)
    adj_x, adj_y = swapped(parts.anchor)
    call = batch_matmul_call(
        parts.inputs,
        adj_x=adj_x,
        adj_y=adj_y,
        epilogue=parts.epilogue,
        scalars=parts.scalars(known or {}),
    )
    return parts.placed(call)
