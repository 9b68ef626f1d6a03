"""Store the functions of a graph by name and attrs.

Structured control flow and calls are TensorFlow's own ops (`While`, `If`, `Case`, `PartitionedCall`
and their kin) with attrs that name functions. A name refers to a FunctionDef of the user's graph,
instantiated on first use, or to a body that a pass made.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.errors import InternalError, InvalidArgumentError, NotFoundError, OpError
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CALL
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.subgraph import ancestors

if TYPE_CHECKING:
    from tfjit.protos.function_pb2 import FunctionDef

# attr of an If: the Switch that the If replaces, which accepts no array as predicate
SCALAR_PREDICATE: Final = "_scalar_predicate"


@dataclass(frozen=True, slots=True)
class Function:
    """A function's body.

    graph: parameters are `_Arg` nodes, results `_Retval` nodes, each with its `index`. Only results
    and `must_run` are tied to `_SINK`, so `prune` keeps just the nodes that a call needs. An
    unneeded argument may have no `_Arg`.
    inputs, outputs: dtypes by index.
    must_run: nodes that run at each call whether or not a result depends on them, because they have
    effects.
    attrs: of the function itself (`_noinline` and the like).
    arg_names, result_names: the signature's, by index; for exports.
    unique: everything is inlined that can be, and no other node of the plan has the name of a node
    here. `inline_functions` leaves such a body unchanged.
    copy_of: the user's function of which a body made by a pass is a copy; for messages. The body in
    a library is shared: a pass that changes one copies the graph first and adds a new Function.
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
        """Make a body of a graph with `_Arg` and `_Retval` nodes.

        The graph becomes the function's own, tied and pruned. inputs: dtypes by index; None means
        those of the `_Arg` nodes, of which none may then be left out.
        Raises InternalError for arguments or results that are not numbered 0, 1, ..., and for an
        index that is used twice.
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
        """Return the `_Arg` nodes by index."""
        return indexed(self.graph, "_Arg")

    @property
    def results(self) -> dict[int, Node]:
        """Return the `_Retval` nodes by index."""
        return indexed(self.graph, "_Retval")

    @property
    def returned(self) -> list[tuple[str, int]]:
        """Return the tensors that are returned, by index."""
        found = self.results
        return [self.graph.inputs(found[i].name)[0] for i in range(len(self.outputs))]

    @property
    def is_stateful(self) -> bool:
        """Return whether a call may have effects or depend on state."""
        return any(
            node.is_stateful and node.op not in ("_Arg", "_Retval")
            for node in self.graph.op_nodes()
        )


def indexed(graph: DataflowGraph, op: str) -> dict[int, Node]:
    """Return the `_Arg` or `_Retval` nodes of a graph by index.

    Raises InternalError for an index that is used twice.
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
    """Return the indices of arguments that a body returns unchanged.

    The result must have the same index.
    """
    found = set()
    for index, result in indexed(body, "_Retval").items():
        src, output = body.inputs(result.name)[0]
        while body.node(src).op == "Identity":
            src, output = body.inputs(src)[0]
        node = body.node(src)
        if node.op == "_Arg" and output == 0 and node.attrs["index"] == index:
            found.add(index)
    return found


def settle(graph: DataflowGraph, ends: Sequence[str], keep: Sequence[str] = ()) -> None:
    """Tie just `ends` to `_SINK`, and drop the unneeded nodes.

    Nodes that `ends` or `keep` need stay.
    """
    wanted = set(ends)
    for edge in graph.edges_into(SINK):
        if edge.src not in wanted and edge.src != SOURCE:
            graph.remove_edge(edge.src, SINK, edge.id)
    for name in ends:
        graph.add_control_edge(name, SINK)
    needed = ancestors(graph, [SINK]) | {SOURCE} | set(keep)
    graph.remove_nodes_from([name for name in graph if name not in needed])
    for node in graph.op_nodes():
        groups = node.attrs.get("_class", ())
        if any(group.startswith(b"loc:@") and group[5:].decode() not in graph for group in groups):
            # the place is chosen when the body is used, and the colocated node is not in the body
            del node.attrs["_class"]


def shapes_of_args(function: Function) -> list[Shape]:
    """Return the body's own static shapes of its arguments, by index."""
    args = function.args
    return [args[i].output_shapes[0] if i in args else None for i in range(len(function.inputs))]


def key_of(ref: FuncRef) -> tuple[Any, ...]:
    """Return a hashable form of a FuncRef, attrs included."""
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
    """Return (attr, function) of every function that a node's attrs name.

    The attrs are in order of name.
    """
    found: list[tuple[str, FuncRef]] = []
    for name in sorted(node.attrs):
        value = node.attrs[name]
        if isinstance(value, FuncRef):
            found.append((name, value))
        elif isinstance(value, tuple):
            found.extend((name, item) for item in value if isinstance(item, FuncRef))
    return found


def _own_message(message: FunctionDef) -> FunctionDef:
    """Return a FunctionDef of our own messages; TensorFlow's are converted."""
    from tfjit.protos import function_pb2

    if isinstance(message, function_pb2.FunctionDef):
        return message
    return function_pb2.FunctionDef.FromString(_serialized(message))


def _serialized(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


class FunctionLibrary:
    """The functions that the nodes of a graph may name.

    A graph and its copies share a library. A graph that `extract` makes for a plan gets a `child`,
    in which the plan's passes put new bodies, so that these are freed with the plan. Bodies are
    instantiated on first use and shared. Thread-safe.
    """

    def __init__(self, parent: FunctionLibrary | None = None) -> None:
        self._parent = parent
        self._lock: Any = parent._lock if parent is not None else threading.RLock()
        # FunctionDef messages of tfjit's protos
        self._defs: dict[str, Any] = parent._defs if parent is not None else {}
        self._gradients: dict[str, str] = parent._gradients if parent is not None else {}
        self._op_defs: dict[str, OpDef] = parent._op_defs if parent is not None else {}
        self._bodies: dict[tuple[Any, ...], Function] = parent._bodies if parent is not None else {}
        self._made: dict[tuple[Any, ...], Function] = {}
        self._made_names: set[str] = set()
        self._kept: dict[Any, Any] = {}
        # Graphs with this library that passes have made. This is no WeakSet: its callbacks are
        # Python that runs when a graph is destroyed. Python would drop an interrupt that is raised
        # in a callback.
        self._copies: list[weakref.ref[DataflowGraph]] = []
        self._prune_at = 64
        self._counter = 0

    def child(self) -> FunctionLibrary:
        """Return a library with the functions of this one and private additions."""
        return FunctionLibrary(self)

    # ---- functions of the user's graph

    def check(
        self, functions: Iterable[Any], gradients: Iterable[Any] = ()
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the additions of `merge`: new functions, names of gradient functions.

        Raises InvalidArgumentError when another function has the name of one, or when a function
        has another gradient.
        """
        new: dict[str, Any] = {}
        for message in functions:
            name = message.signature.name
            known = self._defs.get(name) or new.get(name)
            if known is message:
                continue
            ours = _own_message(message)
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
        """Add FunctionDef and GradientDef messages of any package.

        Returns the names of the new functions.
        Raises the errors of `check`, and then adds nothing.
        """
        with self._lock:
            new, names = self.check(functions, gradients)
            self._defs.update(new)
            self._gradients.update(names)
            return list(new)

    @property
    def definitions(self) -> Mapping[str, Any]:
        """Return FunctionDef messages by name; not to be written to."""
        return self._defs

    @property
    def gradients(self) -> Mapping[str, str]:
        """Return the names of gradient functions from GradientDefs, by function."""
        return self._gradients

    def op_def(self, name: str) -> OpDef | None:
        """Return the contract of a function that serves as an op type.

        None when there is no such FunctionDef.
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
        """Return the body that an attr names.

        Raises NotFoundError for an unknown function, and InvalidArgumentError for a definition that
        does not fit its attrs or is not valid.
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
        """Return the bodies that passes have added, here or in a parent."""
        found = list(self._made.values())
        return found if self._parent is None else [*self._parent.made(), *found]

    def add(self, function: Function, ref: FuncRef | None = None) -> FuncRef:
        """Add a body that a pass has made; return its FuncRef.

        The library of its graph becomes this one, so that names in its nodes are found. ref: the
        name and attrs of the body; by default its name, without attrs.
        Raises InternalError when the name is in use.
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
        """Return an object that belongs to a body, made on first use.

        The object lives as long as the library of the body, and is then `release`d.
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
        """Drop the bodies here, and the objects kept for them.

        Bodies of parents stay. Everything that forms reference cycles is dropped.
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
        """Record a graph copy, to be dissolved with this library.

        The copy may be unused.
        """
        with self._lock:
            self._copies.append(weakref.ref(graph))
            if len(self._copies) >= self._prune_at:
                self._copies = [found for found in self._copies if found() is not None]
                self._prune_at = max(64, 2 * len(self._copies))

    def new_name(self, prefix: str) -> str:
        """Return a name that no function has or had.

        The name is the prefix itself where that is free, else the prefix with a number.
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
        """Return the function that a node calls, None for no call.

        The attr `f` or the op type names the function.
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
        """Return all functions reachable from nodes of a graph, nearest first.

        Nodes name or call functions, and these name others; each comes once. Names that the library
        does not have are left out. A function with an invalid definition leads no further.
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
                        continue  # a caller of the function reports the error
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
