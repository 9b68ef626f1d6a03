"""Automatic control dependencies between the effects of a function.

Effects happen in the order that they were written in, and all of them happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.function_graph import FunctionGraph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import create, tensor

_READS: Final = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"}
)
# Stateful ops in any order: none of them sees another's effect.
_UNORDERED: Final = frozenset(
    {
        *(
            "RandomUniform",
            "RandomUniformInt",
            "RandomStandardNormal",
            "ParameterizedTruncatedNormal",
            "TruncatedNormal",
            "RandomShuffle",
        ),
        *(
            "Multinomial",
            "RandomGamma",
            "RandomPoisson",
            "RandomPoissonV2",
            "Placeholder",
            "VarHandleOp",
            "VariableV2",
        ),
    }
)


def reads_only(op: Operation, index: int) -> bool:
    """Return whether an operation only reads the resource at input `index`."""
    if op.type in _READS:
        return True
    listed = op.attrs.get("_read_only_resource_inputs")
    return isinstance(listed, tuple) and index in listed


def read_only_inputs(body: FunctionGraph) -> set[int]:
    """Return the inputs that are resources which a body only reads."""
    return {
        i
        for i, value in enumerate(body.inputs)
        if value.dtype is dtypes.resource
        and all(
            reads_only(op, j)
            for op in value.consumers()
            for j, taken in enumerate(op.inputs)
            if taken is value
        )
    }


class AutomaticControl:
    """The effects of one body, ordered by `close` at its end.

    Operations on one resource run in the order of the program, but reads with nothing between them
    in any order; stateful operations without a resource run one after the other. Source of the
    semantics: TensorFlow 2.21, automatic control dependencies of tf.function.
    """

    def __init__(self, body: FunctionGraph) -> None:
        self._body = body

    def close(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Add the control dependencies; the outputs wait for all effects."""
        body = self._body
        last: dict[Tensor | None, Operation] = {}  # None: of operations without a resource
        reads: dict[Tensor, list[Operation]] = {}
        effects: list[Operation] = []
        for op in body.get_operations():
            if not op.op_def.is_stateful or op.type in _UNORDERED:
                continue
            if op.type not in ("Const", "NoOp"):
                effects.append(op)
            waits: dict[Operation, None] = {}
            resources = [
                (i, _origin(value))
                for i, value in enumerate(op.inputs)
                if value.dtype is dtypes.resource
            ]
            for i, resource in resources:
                if resource in last:
                    waits[last[resource]] = None
                if reads_only(op, i):
                    reads.setdefault(resource, []).append(op)
                else:
                    waits.update(dict.fromkeys(reads.pop(resource, [])))
            for i, resource in resources:
                if not reads_only(op, i):
                    last[resource] = op
            if not resources:
                if None in last:
                    waits[last[None]] = None
                last[None] = op
            waits.pop(op, None)
            op._add_control_inputs(list(waits))
        body.must_run = effects
        waits_for: list[Operation] = []
        if effects and outputs:
            with control_dependencies(effects):
                waits_for.append(create("NoOp"))
        with control_dependencies(waits_for):
            return [tensor("Identity", input=value) for value in outputs]


def _origin(value: Tensor) -> Tensor:
    while value.op.type == "Identity":
        value = value.op.inputs[0]
    return value
