"""Functions of a graph: bodies as working graphs of their own, and the library that a graph finds
them in by name and attrs.

Structured control flow and calls are TensorFlow's own ops (`While`, `If`, `Case`, `PartitionedCall`
and their kin), whose attrs name functions. A name stands for a FunctionDef of the user's graph,
instantiated when it is first asked for, or for a body that a pass made.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InternalError, InvalidArgumentError, NotFoundError, OpError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_def import OpDef, registry
from tfjit.framework.op_defs.op_traits import CALL
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.subgraph import ancestors

# attr of an If: the Switch it stands for, which asks nothing of arrays
SCALAR_PREDICATE: Final = "_scalar_predicate"


@dataclass(frozen=True, slots=True)
class Function:
    """A function's body.

    graph: parameters are `_Arg` nodes, results `_Retval` nodes, each with its `index`; results and
    `must_run` are tied to `_SINK`, and nothing else is, so `prune` keeps just what a call needs. An
    argument that nothing needs may have no `_Arg`. inputs, outputs: dtypes by index. must_run:
    nodes that run at each call whether or not a result depends on them, because they have effects.
    attrs: of the function itself (`_noinline` and the like). arg_names, result_names: the
    signature's, by index; for exports. unique: all is inlined that can be, and no other node of the
    plan has a name of one here: `inline_functions` leaves it as it is. copy_of: the user's function
    that a body made by a pass is a copy of; for messages. The body in a library is shared: a pass
    that changes one copies the graph first and adds a Function of its own.
    """

    name: str
    graph: DataflowGraph
    inputs: tuple[DType, ...]
    outputs: tuple[DType, ...]
    must_run: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    arg_names: tuple[str, ...] = ()
    result_names: tuple[str, ...] = ()
    unique: bool = False
    copy_of: str = ""

    @classmethod
    def from_graph(
        cls,
        name: str,
        graph: DataflowGraph,
        inputs: Sequence[DType] | None = None,
        must_run: Iterable[str] = (),
        attrs: Mapping[str, Any] | None = None,
        unique: bool = False,
    ) -> Function:
        """A body from a graph with `_Arg` and `_Retval` nodes, which becomes the function's own:
        tied and pruned.

        inputs: dtypes by index; None takes those of the `_Arg` nodes, of which then none may be
        left out.
        Raises InternalError for arguments or results that are not numbered 0, 1, ... or an index
        that stands twice.
        """
        run = tuple(dict.fromkeys(must_run))
        missing = next((node for node in run if node not in graph), None)
        if missing is not None:
            raise InternalError(None, None, f"function '{name}' has no node '{missing}' to run")
        args, results = indexed(graph, "_Arg"), indexed(graph, "_Retval")
        if list(results) != list(range(len(results))):
            raise InternalError(None, None, f"function '{name}' has results {list(results)}")
        if inputs is None:
            if list(args) != list(range(len(args))):
                raise InternalError(None, None, f"function '{name}' has arguments {list(args)}")
            inputs = [node.output_dtypes[0] for node in args.values()]
        settle(
            graph,
            [*(node.name for node in results.values()), *run],
            keep=[node.name for node in args.values()],
        )
        return cls(
            name,
            graph,
            tuple(inputs),
            tuple(node.input_dtypes[0] for node in results.values()),
            run,
            dict(attrs or {}),
            unique=unique,
        )

    @property
    def args(self) -> dict[int, Node]:
        """The `_Arg` nodes by index."""
        return indexed(self.graph, "_Arg")

    @property
    def results(self) -> dict[int, Node]:
        """The `_Retval` nodes by index."""
        return indexed(self.graph, "_Retval")

    @property
    def returned(self) -> list[tuple[str, int]]:
        """The tensors that are returned, by index."""
        found = self.results
        return [self.graph.inputs(found[i].name)[0] for i in range(len(self.outputs))]

    @property
    def is_stateful(self) -> bool:
        """Whether a call may have effects or depend on state."""
        return any(
            node.is_stateful and node.op not in ("_Arg", "_Retval")
            for node in self.graph.op_nodes()
        )


def indexed(graph: DataflowGraph, op: str) -> dict[int, Node]:
    """The `_Arg` or `_Retval` nodes of a graph by index. Raises InternalError for an index that
    stands twice.
    """
    found: dict[int, Node] = {}
    for node in graph.op_nodes():
        if node.op == op:
            index = node.attrs["index"]
            if index in found:
                raise InternalError(
                    None, None, f"'{found[index].name}' and '{node.name}' are both {op} {index}"
                )
            found[index] = node
    return dict(sorted(found.items()))


def passed_through(body: DataflowGraph) -> set[int]:
    """Indices of the arguments that a body gives back as they came, as its results of the same
    index.
    """
    found = set()
    for index, result in indexed(body, "_Retval").items():
        src, slot = body.inputs(result.name)[0]
        while body.node(src).op == "Identity":
            src, slot = body.inputs(src)[0]
        node = body.node(src)
        if node.op == "_Arg" and slot == 0 and node.attrs["index"] == index:
            found.add(index)
    return found


def settle(graph: DataflowGraph, ends: Sequence[str], keep: Sequence[str] = ()) -> None:
    """Tie just `ends` to `_SINK`, and drop what neither they nor `keep` need."""
    wanted = set(ends)
    for edge in graph.edges_into(SINK):
        if edge.src not in wanted and edge.src != SOURCE:
            graph.remove_edge(edge.src, SINK, edge.id)
    for name in ends:
        graph.add_control_edge(name, SINK)
    needed = ancestors(graph, [SINK]) | {SOURCE} | set(keep)
    graph.remove_nodes_from([name for name in graph.nodes if name not in needed])
    for node in graph.op_nodes():
        groups = node.attrs.get("_class", ())
        if any(group.startswith(b"loc:@") and group[5:].decode() not in graph for group in groups):
            # its place is chosen when the body is used, and what it was to be beside is not there
            del node.attrs["_class"]


def shapes_of_args(function: Function) -> list[Shape]:
    """What the body itself says of its arguments' shapes, by index."""
    args = function.args
    return [args[i].output_shapes[0] if i in args else None for i in range(len(function.inputs))]


def key_of(ref: FuncRef) -> tuple[Any, ...]:
    """A hashable form of a FuncRef, attrs included."""
    return (ref.name, *((name, _hashable(value)) for name, value in sorted(ref.attrs.items())))


def _hashable(value: Any) -> Any:
    if isinstance(value, FuncRef):
        return key_of(value)
    if isinstance(value, tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, np.ndarray):
        return (
            str(value.dtype),
            value.shape,
            tuple(value.reshape(-1)) if value.dtype == object else value.tobytes(),
        )
    if isinstance(value, TensorShape):
        return "shape", value.dims_tuple
    return type(value).__name__, value


def named_functions(node: Node) -> list[tuple[str, FuncRef]]:
    """(attr, function) of every function that a node's attrs name, in the order of the attrs'
    names.
    """
    found: list[tuple[str, FuncRef]] = []
    for name in sorted(node.attrs):
        value = node.attrs[name]
        if isinstance(value, FuncRef):
            found.append((name, value))
        elif isinstance(value, tuple):
            found.extend((name, item) for item in value if isinstance(item, FuncRef))
    return found


def _serialized(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


class FunctionLibrary:
    """The functions that the nodes of a graph may name.

    Shared by a graph and its copies; what `extract` makes for a plan gets a `child`, in which the
    plan's passes put bodies of their own, so that they go when the plan goes. Bodies are
    instantiated when they are first asked for and shared. Thread-safe.
    """

    def __init__(self, parent: FunctionLibrary | None = None) -> None:
        self._parent = parent
        self._lock: Any = parent._lock if parent is not None else threading.RLock()
        # FunctionDef messages of tfjit's
        self._defs: dict[str, Any] = parent._defs if parent is not None else {}
        self._gradients: dict[str, str] = parent._gradients if parent is not None else {}
        self._op_defs: dict[str, OpDef] = parent._op_defs if parent is not None else {}
        self._bodies: dict[tuple[Any, ...], Function] = parent._bodies if parent is not None else {}
        self._made: dict[tuple[Any, ...], Function] = {}
        self._made_names: set[str] = set()
        self._kept: dict[Any, Any] = {}
        # Graphs with this library that passes have made. No WeakSet: its callbacks are Python that
        # runs when a graph goes, and an interrupt that comes while one is taken apart would be
        # raised in there, where Python drops it.
        self._copies: list[weakref.ref[DataflowGraph]] = []
        self._prune_at = 64
        self._counter = 0

    def child(self) -> FunctionLibrary:
        """A library that finds all that this one has, and keeps what is added to it for itself."""
        return FunctionLibrary(self)

    # ---- what the user's graph brings

    def check(
        self, functions: Iterable[Any], gradients: Iterable[Any] = ()
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """What `merge` would add: new functions, and names of gradient functions.

        Raises InvalidArgumentError when another function has one's name, or a function another
        gradient.
        """
        from tfjit.protos import function_pb2

        new: dict[str, Any] = {}
        for message in functions:
            name = message.signature.name
            known = self._defs.get(name) or new.get(name)
            if known is message:
                continue
            ours = (
                message
                if isinstance(message, function_pb2.FunctionDef)
                else function_pb2.FunctionDef.FromString(_serialized(message))
            )
            if known is None:
                new[name] = ours
            elif _serialized(known) != _serialized(ours):
                raise InvalidArgumentError(
                    None,
                    None,
                    f"Cannot add function '{name}' because a different function with the same name "
                    "already exists.",
                )
        names: dict[str, str] = {}
        for gradient in gradients:
            function = gradient.function_name
            chosen = self._gradients.get(function) or names.get(function)
            if chosen is not None and chosen != gradient.gradient_func:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"Cannot assign gradient function '{gradient.gradient_func}' to '{function}' "
                    "because it already has gradient "
                    f"function '{chosen}'",
                )
            names[function] = gradient.gradient_func
        return new, names

    def merge(self, functions: Iterable[Any], gradients: Iterable[Any] = ()) -> list[str]:
        """Add FunctionDef and GradientDef messages of any package; returns the names of the
        functions that are new.

        Raises what `check` raises, and then adds nothing.
        """
        with self._lock:
            new, names = self.check(functions, gradients)
            self._defs.update(new)
            self._gradients.update(names)
            return list(new)

    @property
    def definitions(self) -> Mapping[str, Any]:
        """FunctionDef messages by name; not to be written to."""
        return self._defs

    @property
    def gradients(self) -> Mapping[str, str]:
        """The function that a GradientDef names for a function's gradient."""
        return self._gradients

    def op_def(self, name: str) -> OpDef | None:
        """The contract of a function that a node calls by having its name as op type; None when
        there is no such FunctionDef.
        """
        message = self._defs.get(name)
        if message is None:
            return None
        found = self._op_defs.get(name)
        if found is None:
            found = self._op_defs.setdefault(name, OpDef.from_proto(message.signature))
        return found

    # ---- bodies

    def body(self, ref: FuncRef | str) -> Function:
        """The body that an attr names. Raises NotFoundError for an unknown function,
        InvalidArgumentError for one whose definition does not fit its attrs or is not valid.
        """
        if isinstance(ref, str):
            ref = FuncRef(ref)
        key = key_of(ref)
        library: FunctionLibrary | None = self
        while library is not None:
            made = library._made.get(key)
            if made is not None:
                return made
            library = library._parent
        found = self._bodies.get(key)
        if found is None:
            message = self._defs.get(ref.name)
            if message is None:
                raise NotFoundError(None, None, f"Function {ref.name} is not defined.")
            from tfjit.passes.ir.function_defs import instantiate

            root = self
            while root._parent is not None:
                root = root._parent
            with self._lock:
                found = self._bodies.get(key)
                if found is None:
                    found = self._bodies[key] = instantiate(message, ref, root)
        return found

    def made(self) -> list[Function]:
        """The bodies that passes have added, here or in a parent."""
        found = list(self._made.values())
        return found if self._parent is None else [*self._parent.made(), *found]

    def add(self, function: Function, ref: FuncRef | None = None) -> FuncRef:
        """Add a body that a pass has made; returns what an attr names it by. Raises InternalError
        when the name is taken.

        Its graph's own library becomes this one, so that what its nodes name is found. ref: the
        name and attrs it stands under; by default its name, without attrs.
        """
        ref = FuncRef(function.name) if ref is None else ref
        key = key_of(ref)
        with self._lock:
            if key in self._made or ref.name in self._defs:
                raise InternalError(None, None, f"function '{ref.name}' is already in the library")
            function.graph.functions = self
            self._made[key] = function
            self._made_names.add(ref.name)
        return ref

    def keep(self, ref: FuncRef, what: str, make: Callable[[], Any]) -> Any:
        """Something that belongs to a body, made once: it lives as long as the library that has the
        body, and is then `release`d.
        """
        key = key_of(ref)
        library = self
        while key not in library._made and library._parent is not None:
            library = library._parent
        with self._lock:
            found = library._kept.get((what, key))
            if found is None:
                found = library._kept[what, key] = make()
            return found

    def dissolve(self) -> None:
        """Let go of the bodies here, those of parents excepted, and of what was kept for them: all
        is dropped that names each other.
        """
        with self._lock:
            bodies = list(self._made.values())
            if self._parent is None:
                bodies += self._bodies.values()
                self._bodies.clear()
            kept = list(self._kept.values())
            copies = [graph for graph in (found() for found in self._copies) if graph is not None]
            self._made.clear()
            self._kept.clear()
            self._copies.clear()
        for thing in kept:
            thing.release()
        for graph in (*(body.graph for body in bodies), *copies):
            graph.dissolve()

    def remember(self, graph: DataflowGraph) -> None:
        """A copy was made with this library: it is dissolved with it, whether or not
        it was used.
        """
        with self._lock:
            self._copies.append(weakref.ref(graph))
            if len(self._copies) >= self._prune_at:
                self._copies = [found for found in self._copies if found() is not None]
                self._prune_at = max(64, 2 * len(self._copies))

    def new_name(self, prefix: str) -> str:
        """A name that no function here has, nor was given before: the prefix itself where it is
        free, else with a number behind it.
        """
        with self._lock:
            name = prefix
            while name in self:
                name = f"{prefix}_{self._counter}"
                self._counter += 1
            self._made_names.add(name)
            return name

    def __contains__(self, name: str) -> bool:
        return (
            name in self._defs
            or name in self._made_names
            or (self._parent is not None and name in self._parent)
        )

    def __bool__(self) -> bool:
        return bool(self._defs or self._made or self._parent)

    def called(self, node: Node) -> FuncRef | None:
        """The function that a node calls: by its attr `f`, or by its own op type; None when it
        calls none that way.
        """
        if node.has_trait(CALL) or node.op == "RemoteCall":
            ref: FuncRef = node.attrs["f"]
            return ref
        if node.op_def is not None and node.op in self._defs and registry.lookup(node.op) is None:
            declared = {attr.name for attr in node.op_def.attrs}
            return FuncRef(
                node.op, {name: value for name, value in node.attrs.items() if name in declared}
            )
        return None

    def reachable(self, graph: DataflowGraph) -> list[FuncRef]:
        """Every function that nodes of a graph name or call, and those that these name, each once,
        nearest first.

        Names that the library does not have are left out; a function whose definition is not valid
        leads no further.
        """
        found: list[FuncRef] = []
        seen: set[tuple[Any, ...]] = set()
        graphs = [graph]
        while graphs:
            for node in graphs.pop(0).op_nodes():
                refs = [ref for _, ref in named_functions(node)]
                if node.op in self._defs:
                    by_name = self.called(node)
                    refs += [by_name] if by_name is not None else []
                for ref in refs:
                    key = key_of(ref)
                    if key in seen or ref.name not in self:
                        continue
                    seen.add(key)
                    found.append(ref)
                    try:
                        graphs.append(self.body(ref).graph)
                    except OpError:
                        continue  # who calls it meets the error
        return found


__all__ = [
    "Function",
    "FunctionLibrary",
    "indexed",
    "key_of",
    "named_functions",
    "settle",
    "shapes_of_args",
]
