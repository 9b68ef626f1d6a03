"""Function calls, If, While, and Python callbacks."""

from __future__ import annotations

from tfjit.ops.declare import register_op

register_op(
    "_ArrayToList", inputs=("input: N * T",), outputs=("output: out_types",), attrs=("T: type", "N: int >= 1", "out_types: list(type) >= 1")
)
register_op(
    "Case",
    inputs=("branch_index: int32", "input: Tin"),
    outputs=("output: Tout",),
    attrs=("Tin: list(type) >= 0", "Tout: list(type) >= 0", "branches: list(func) >= 1", "output_shapes: list(shape) = []"),
    stateful=True,
)
register_op(
    "EagerPyFunc",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("token: string", "is_async: bool = false", "Tin: list(type) >= 0", "Tout: list(type) >= 0"),
    stateful=True,
)
register_op("FakeParam", outputs=("output: dtype",), attrs=("dtype: type", "shape: shape"))
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
)
register_op(
    "_If",
    inputs=("cond: Tcond", "input: Tin"),
    outputs=("output: Tout",),
    attrs=("Tcond: type", "Tin: list(type) >= 1", "Tout: list(type) >= 1", "then_branch: func", "else_branch: func"),
    stateful=True,
)
register_op("_ListToArray", inputs=("input: Tin",), outputs=("output: N * T",), attrs=("Tin: list(type) >= 1", "T: type", "N: int >= 1"))
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
)
register_op(
    "PyFunc",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("token: string", "Tin: list(type) >= 0", "Tout: list(type) >= 0"),
    stateful=True,
)
register_op(
    "PyFuncStateless",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("token: string", "Tin: list(type) >= 0", "Tout: list(type) >= 0"),
)
register_op(
    "RemoteCall",
    inputs=("target: string", "args: Tin"),
    outputs=("output: Tout",),
    attrs=("Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"),
    stateful=True,
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
)
register_op(
    "StatelessCase",
    inputs=("branch_index: int32", "input: Tin"),
    outputs=("output: Tout",),
    attrs=("Tin: list(type) >= 0", "Tout: list(type) >= 0", "branches: list(func) >= 1", "output_shapes: list(shape) = []"),
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
)
register_op(
    "StatelessWhile",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: list(type) >= 0", "cond: func", "body: func", "output_shapes: list(shape) = []", "parallel_iterations: int = 10"),
)
register_op(
    "SymbolicGradient",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("Tin: list(type) >= 1", "Tout: list(type) >= 1", "f: func"),
)
register_op(
    "While",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: list(type) >= 0", "cond: func", "body: func", "output_shapes: list(shape) = []", "parallel_iterations: int = 10"),
    stateful=True,
)
register_op("_While", inputs=("input: T",), outputs=("output: T",), attrs=("T: list(type) >= 0", "cond: func", "body: func"), stateful=True)
