"""Function calls, If, While."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import CALL, CASE, IF, RUNS_FUNCTIONS, WHILE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, unknown


def _output_shapes(c: ShapeContext) -> Shapes:
    shapes = c.attr("output_shapes")
    if not shapes:
        return [None] * c.num_outputs
    if len(shapes) != c.num_outputs:
        raise fail(
            f"`output_shapes` must be the same length as num outputs ({len(shapes)} vs. "
            f"{c.num_outputs})"
        )
    return [shape.dims_tuple for shape in shapes]


def _while(c: ShapeContext) -> Shapes:
    shapes = c.attr("output_shapes")
    if shapes:
        return _output_shapes(c)
    # A loop variable keeps its shape only where the loop does not change it, which the body
    # decides.
    return [None] * c.num_outputs


def _map_defun(c: ShapeContext) -> Shapes:
    first = None
    for i in range(len(c.attr("Targuments"))):
        shape = c.inputs[i]
        if shape is not None:
            if not shape:
                raise fail("Arguments must have at least rank 1.")
            first = c.merge_dim(first, shape[0])
    return [
        None if s.dims_tuple is None else (first, *s.dims_tuple) for s in c.attr("output_shapes")
    ]


register_op(
    "_ArrayToList",
    inputs=("input: N * T",),
    outputs=("output: out_types",),
    attrs=("T: type", "N: int >= 1", "out_types: list(type) >= 1"),
    shape=unknown,
)
register_op(
    "Case",
    inputs=("branch_index: int32", "input: Tin"),
    outputs=("output: Tout",),
    attrs=(
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "branches: list(func) >= 1",
        "output_shapes: list(shape) = []",
    ),
    stateful=True,
    shape=_output_shapes,
    traits=CASE,
)
register_op(
    "If",
    inputs=("cond: Tcond", "input: Tin"),
    outputs=("output: Tout",),
    attrs=(
        "Tcond: type",
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "then_branch: func",
        "else_branch: func",
        "output_shapes: list(shape) = []",
    ),
    stateful=True,
    shape=_output_shapes,
    traits=IF,
)
register_op(
    "_If",
    inputs=("cond: Tcond", "input: Tin"),
    outputs=("output: Tout",),
    attrs=(
        "Tcond: type",
        "Tin: list(type) >= 1",
        "Tout: list(type) >= 1",
        "then_branch: func",
        "else_branch: func",
    ),
    stateful=True,
    shape=unknown,
)
register_op(
    "_ListToArray",
    inputs=("input: Tin",),
    outputs=("output: N * T",),
    attrs=("Tin: list(type) >= 1", "T: type", "N: int >= 1"),
    shape=unknown,
)
register_op(
    "MapDefun",
    inputs=("arguments: Targuments", "captured_inputs: Tcaptured"),
    outputs=("output: output_types",),
    attrs=(
        "Targuments: list(type) >= 1",
        "Tcaptured: list(type) >= 0 = []",
        "output_types: list(type) >= 1",
        "output_shapes: list(shape) >= 1",
        "f: func",
        "max_intra_op_parallelism: int = 1",
    ),
    shape=_map_defun,
    traits=RUNS_FUNCTIONS,
)
register_op(
    "PartitionedCall",
    inputs=("args: Tin",),
    outputs=("output: Tout",),
    attrs=(
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "f: func",
        "config: string = ''",
        "config_proto: string = ''",
        "executor_type: string = ''",
    ),
    shape=unknown,
    traits=CALL,
)
register_op(
    "RemoteCall",
    inputs=("target: string", "args: Tin"),
    outputs=("output: Tout",),
    attrs=("Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"),
    stateful=True,
    shape=unknown,
    traits=RUNS_FUNCTIONS,
)
register_op(
    "StatefulPartitionedCall",
    inputs=("args: Tin",),
    outputs=("output: Tout",),
    attrs=(
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "f: func",
        "config: string = ''",
        "config_proto: string = ''",
        "executor_type: string = ''",
    ),
    stateful=True,
    distributed_communication=True,
    shape=unknown,
    traits=CALL,
)
register_op(
    "StatelessCase",
    inputs=("branch_index: int32", "input: Tin"),
    outputs=("output: Tout",),
    attrs=(
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "branches: list(func) >= 1",
        "output_shapes: list(shape) = []",
    ),
    shape=_output_shapes,
    traits=CASE,
)
register_op(
    "StatelessIf",
    inputs=("cond: Tcond", "input: Tin"),
    outputs=("output: Tout",),
    attrs=(
        "Tcond: type",
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
        "then_branch: func",
        "else_branch: func",
        "output_shapes: list(shape) = []",
    ),
    shape=_output_shapes,
    traits=IF,
)
register_op(
    "StatelessWhile",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "T: list(type) >= 0",
        "cond: func",
        "body: func",
        "output_shapes: list(shape) = []",
        "parallel_iterations: int = 10",
    ),
    shape=_while,
    traits=WHILE,
)
register_op(
    "SymbolicGradient",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"),
    shape=unknown,
    traits=RUNS_FUNCTIONS,
)
register_op(
    "While",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "T: list(type) >= 0",
        "cond: func",
        "body: func",
        "output_shapes: list(shape) = []",
        "parallel_iterations: int = 10",
    ),
    stateful=True,
    shape=_while,
    traits=WHILE,
)
register_op(
    "_While",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: list(type) >= 0", "cond: func", "body: func"),
    stateful=True,
    shape=unknown,
)
