"""Hold a lowered partition: instructions over values.

The list holds all that a step needs, before memory or addresses are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tfjit.framework.op_defs.op_traits import ASSIGN_ADD, WRITES_ROWS
from tfjit.kernels.ir.backend import HOST, Backend, backend_for
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec
from tfjit.passes.ir.region_path import node_path
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.lowering.row_splits import RowSplit
    from tfjit.runtime.lowering.structured_control_flow import Construct, Role

StorageKind = Literal["const", "feed", "variable", "buffer", "object", "handle"]


@dataclass(slots=True)
class Value:
    """Describe one tensor of the step.

    storage: const (array known now), feed (an argument of the run), variable (a Variable's current
    buffer), buffer (arena or fresh output memory), object (a Python object returned by a Python
    kernel), handle (a Variable, for a ref or resource edge). base: the value that provides the
    memory of this view, or None. read_at_end: a fetched reference, so the variable is read after
    all instructions. level: the number of surrounding loops that may change the value in each
    iteration. sequence: position in the order of the nodes.
    """

    index: int
    dtype: DType
    shape: tuple[int, ...]
    storage: StorageKind
    array: np.ndarray | None = None
    feed: int = -1
    variable: Variable | None = None
    base: Value | None = None
    producer: str = ""
    fetched: bool = False
    read_at_end: bool = False
    level: int = 0
    sequence: int = 0

    @property
    def root(self) -> Value:
        """Return the value that owns the memory."""
        value = self
        while value.base is not None:
            value = value.base
        return value

    @property
    def spec(self) -> TensorSpec:
        """Return dtype and shape as kernels see them."""
        return TensorSpec(self.dtype, self.shape)


Serving = Literal["native", "reference", "runtime", "copy", "control"]


@dataclass(slots=True)
class Instruction:
    """Describe one node that does work at run time.

    serving: native (compiled), reference (NumPy), runtime (a kernel with the session's context),
    copy (a variable's value kept before the variable changes). compute: the Python kernel (not for
    native). spec: the node as its kernel sees it. call: its compiled code. unfused: for a group of
    small tensors, its members' own kernels; they serve while `call` is not loaded. construct: the
    innermost loop or branch around the instruction. role: of a marker (control), which has its
    construct's predicate as input. graph, path: the place of its node; a path is that of the region
    ("while/cond", passes/ir/region_path.py). moves: a copy for a loop or a branch,
    coalesced if both values may have one buffer.
    """

    node: Node
    serving: Serving
    inputs: list[Value]
    outputs: list[Value]
    spec: NodeSpec
    compute: Callable[..., Any] | None = None
    call: NativeCall | None = None
    reason: str = ""
    unfused: NativeCall | None = None
    construct: Construct | None = None
    role: Role | None = None
    graph: DataflowGraph | None = None
    path: str = ""
    sequence: int = 0
    moves: bool = False

    @property
    def node_path(self) -> str:
        """Return the path of its node, which is unique in the partition."""
        return node_path(self.path, self.node.name)

    @property
    def locks_variable(self) -> bool:
        """Return whether its kernel runs with its variable's lock held."""
        is_update = self.node.has_trait(ASSIGN_ADD) or updates_rows_locked(self.node)
        return is_update and self.inputs[0].variable is not None


@dataclass(frozen=True, slots=True)
class DividedGroup:
    """Name the parts of a group with a refused kernel.

    node: the path of the group's node. reason: of the refusal. parts: the paths of their nodes;
    none for a node that is compiled in another way.
    """

    node: str
    reason: str
    parts: tuple[str, ...]

    @property
    def remedy(self) -> str:
        """Return a text on the kernels in its place."""
        if self.parts:
            return f"divided into {len(self.parts)}: {', '.join(self.parts)}"
        return "compiled in another way"


@dataclass(slots=True)
class Lowered:
    """Hold a partition's instructions in execution order and its values.

    feeds, fetches: the values of feeds and fetches. Bodies of loops and branches lie among the
    instructions, between markers (`structured_control_flow.py`). graph: the lowered graph, which
    allows instructions to change places; None for a single node, and the graph's NodeOrder in a
    plan that was read from disk (`lowered_pickle.py`). is_body: the fetches continue in the
    caller's step in the form of its edges: scalars are arrays, and unchanged arguments are not
    copied. splits: runs of instructions that may run shard by shard (`loop_parallelization.py`).
    is_shard: the partition is such a shard. divided: groups that parts have replaced, since their
    kernels are refused. backend: of the partition's device.
    """

    instructions: list[Instruction]
    values: list[Value]
    fetches: list[Value]
    feeds: dict[int, Value]
    feed_count: int  # number of the run's feeds; an unused feed has no value
    # node -> (kind, reason), for explain
    kernel_kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    graph: DataflowGraph | None = None
    is_body: bool = False
    is_shard: bool = False
    splits: list[RowSplit] = field(default_factory=list)
    divided: list[DividedGroup] = field(default_factory=list)
    # value -> node and construct of the variable's read
    reads: dict[int, tuple[Node, Construct | None]] = field(default_factory=dict)
    backend: Backend = field(default_factory=lambda: backend_for(HOST))

    @property
    def has_loops(self) -> bool:
        """Return whether some instruction may run more than once."""
        return any(
            instruction.role == "loop" or instruction.node.op == "_Loop"
            for instruction in self.instructions
        )


def updates_rows_locked(node: Node) -> bool:
    """Return whether an update by rows excludes others of its variable."""
    return node.has_trait(WRITES_ROWS) and bool(node.attrs.get("use_locking", False))


def copy_out(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Return a copy of the input: the Python kernel of copies."""
    return [np.array(inputs[0])]
