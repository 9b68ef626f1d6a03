"""FunctionGraph: a function's body under construction.

Tensors from the graphs around the body become inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.graph_scopes import _operation_of
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape

_numbers: Final = itertools.count(1)
# Collections with the same members inside: variables made in a body are made outside it.
_SHARED: Final = (
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
)


def _is_shared(key: Any) -> bool:
    """Return whether a graph and its bodies share the collection.

    Shared are variables, and the collections of variable scopes.
    """
    return key in _SHARED or not isinstance(key, str)


def unique_function_name(prefix: str) -> str:
    """Return `prefix` with a number that no other function has."""
    return f"{prefix.replace('/', '_')}_{next(_numbers)}"


class FunctionGraph(Graph):
    """The body of a function.

    outer_graph: the graph that the function is built for. inputs: Placeholder tensors here, by
    index; those of `captures` represent tensors of outer graphs. outputs: tensors here.
    structured_outputs: the Python function's result, with tensors of this graph in it.
    control_captures: operations of outer graphs among the control inputs here; callers of the
    function wait for them. automatic_control: effects happen in the order that they were written in
    (as in tf.function).
    """

    def __init__(self, name: str, outer_graph: Graph, automatic_control: bool = False) -> None:
        super().__init__()
        self.name = name
        self.outer_graph = outer_graph
        self.automatic_control = automatic_control
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.makes_variables = False
        self.structured_outputs: Any = None
        self.attrs: dict[str, Any] = {}  # of the function itself
        # operations that every call runs, even where no result needs them
        self.must_run: list[Operation] = []
        # id of an outer tensor -> (the tensor, the input that represents it)
        self._captures: dict[int, tuple[Tensor, Tensor]] = {}
        # id of such an input -> the outer tensor
        self._outer_of: dict[int, Tensor] = {}
        # id of a tensor here -> index of the function's output that hands it to gradients
        self.saved: dict[int, int] = {}
        self.control_captures: dict[Operation, None] = {}
        self._seed = outer_graph.seed
        self._producer = outer_graph._producer
        self._gradient_override = dict(outer_graph._gradient_override)
        self._container = outer_graph._container
        outer = outer_graph._scopes
        self._scopes.devices, self._scopes.device_cache = list(outer.devices), outer.device_cache
        self._collections.take_copies(outer_graph._collections, lambda name: not _is_shared(name))

    @property
    def building_function(self) -> bool:
        """Return whether this graph is a function's body."""
        return True

    @property
    def captures(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs (tensor of an outer graph, input here), in the inputs' order."""
        return list(self._captures.values())

    def captured(self, tensor: Tensor) -> Tensor | None:
        """Return the input that represents an outer tensor, or None."""
        found = self._captures.get(id(tensor))
        return None if found is None else found[1]

    def outer_of(self, tensor: Tensor) -> Tensor | None:
        """Return the outer tensor that an input represents, or None."""
        return self._outer_of.get(id(tensor))

    @property
    def outermost(self) -> Graph:
        """The graph that is no function's body, around all that are."""
        return outermost(self)

    def can_capture_from(self, graph: Graph) -> bool:
        """Return whether tensors of `graph` may be used here.

        They may be if `graph` is this graph or one around it.
        """
        outer = self.outer_graph
        return (
            graph is self
            or graph is outer
            or (isinstance(outer, FunctionGraph) and outer.can_capture_from(graph))
        )

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """Return the input that represents an outer tensor, made when missing.

        A tensor of this graph is returned itself. Raises ValueError for one of another graph.
        """
        if tensor.op.graph is self:
            return tensor
        found = self._captures.get(id(tensor))
        if found is not None:
            return found[1]
        if not self.can_capture_from(tensor.op.graph):
            raise ValueError(
                f"{tensor} is out of scope and cannot be used here: it is of another function or "
                f"code block than '{self.name}'. Use return "
                "values, explicit Python locals or TensorFlow collections to access it."
            )
        return self.add_capture(tensor, name)

    def add_capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """Add an input that represents a tensor of an outer graph."""
        inside = self.add_input(
            tensor.dtype.base_dtype, tensor.shape_tuple, name or tensor.op.name.rpartition("/")[2]
        )
        inside._handle_data = tensor._handle_data
        self._captures[id(tensor)] = tensor, inside
        self._outer_of[id(inside)] = tensor
        return inside

    def add_input(self, dtype: DType, shape: Shape, name: str = "Placeholder") -> Tensor:
        """Return a new input behind the others."""
        from tfjit.framework.types.shape import TensorShape

        with self._free_of_blocks():
            made = super().create_op(
                "Placeholder", (), attrs={"dtype": dtype, "shape": TensorShape(shape)}, name=name
            )
        self.inputs.append(made.outputs[0])
        return made.outputs[0]

    def set_inputs(
        self, inputs: Sequence[Tensor], captures: Sequence[tuple[Tensor, Tensor]]
    ) -> None:
        """Set the inputs, and those that represent outer tensors, anew."""
        self.inputs = list(inputs)
        self._captures = {id(outer): (outer, inner) for outer, inner in captures}
        self._outer_of = {id(inner): outer for outer, inner in captures}

    @contextmanager
    def _free_of_blocks(self) -> Iterator[None]:
        """Free the inputs made inside of control inputs, devices and scopes."""
        scopes = self._scopes
        saved = (
            scopes.name_stack,
            scopes.devices,
            scopes.device_cache,
            scopes.colocation,
            scopes.control,
            scopes.control_flow_context,
        )
        scopes.name_stack, scopes.devices, scopes.device_cache = "", [], ""
        scopes.colocation, scopes.control, scopes.control_flow_context = [], [], None
        try:
            yield
        finally:
            (
                scopes.name_stack,
                scopes.devices,
                scopes.device_cache,
                scopes.colocation,
                scopes.control,
                scopes.control_flow_context,
            ) = saved

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor] = (),
        dtypes: Sequence[DType] | None = None,
        input_types: Sequence[DType] | None = None,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        op_def: OpDef | None = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Add an operation; inputs of outer graphs are captured."""
        taken = [self.capture(t) if isinstance(t, Tensor) else t for t in inputs]
        if op_def is None:
            op_def = self.op_def_of(op_type, name or "")
        return super().create_op(
            op_type, taken, dtypes, input_types, name, attrs, op_def, compute_shapes, compute_device
        )

    @contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Add control dependencies; callers wait for operations of outer graphs."""
        inside = control_inputs
        if control_inputs is not None:
            inside = []
            for item in control_inputs:
                graph = getattr(item, "graph", None)
                if isinstance(graph, Graph) and graph is not self:
                    if self.can_capture_from(graph):
                        self.control_captures[_operation_of(item, graph)] = None
                else:
                    inside.append(item)
        with super().control_dependencies(inside):
            yield

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Colocate as `Graph.colocate_with`; operations outside the body are ignored."""
        graph = getattr(op, "graph", None)
        if op is not None and graph is not None and graph is not self:
            yield
            return
        with super().colocate_with(op, ignore_existing):
            yield

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Add to a collection; variables' collections are the outermost graph's."""
        self.outermost.add_to_collection(name, value) if _is_shared(
            name
        ) else super().add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Return a collection; variables' collections are the outermost graph's."""
        return (
            self.outermost.get_collection_ref(name)
            if _is_shared(name)
            else super().get_collection_ref(name)
        )

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """Return a collection's members; variables' collections are the outermost graph's."""
        return (
            self.outermost.get_collection(name, scope)
            if _is_shared(name)
            else super().get_collection(name, scope)
        )

    def op_def_of(self, op_type: str, node_name: str = "") -> OpDef:
        """Return the contract of an op type or library function.

        Functions stand in the outermost graph's library.
        """
        if op_type not in self._library.functions and op_type in self.outermost.functions:
            return self.outermost.op_def_of(op_type, node_name)
        return super().op_def_of(op_type, node_name)

    def add_function(self, function_def: Any) -> None:
        """Add a FunctionDef to the library of the outermost graph.

        Functions are looked up there.
        """
        self.outermost.add_function(function_def)

    @property
    def functions(self) -> Mapping[str, Any]:
        """FunctionDef messages of the outermost graph by name; not writable."""
        return self.outermost.functions


def outermost(graph: Graph) -> Graph:
    """Return the graph around all bodies: `graph` itself outside bodies."""
    while isinstance(graph, FunctionGraph):
        graph = graph.outer_graph
    return graph


def building(graph: Graph) -> Any:
    """Make `graph` the default, unless the default is a body inside it.

    Such a body can take the tensors of `graph`.
    """
    current = get_default_graph()
    if current is graph or (isinstance(current, FunctionGraph) and current.can_capture_from(graph)):
        return nullcontext(current)
    return graph.as_default()


@contextmanager
def init_scope() -> Iterator[None]:
    """Add nodes outside of control dependencies, branches, loops and bodies of functions.

    The name scope stays the same. In a body, nodes are added to the outermost graph.
    """
    current = get_default_graph()
    if not isinstance(current, FunctionGraph):
        with current.control_dependencies(None):
            yield
        return
    outer = current.outermost
    scope = current.get_name_scope()
    with (
        outer.as_default(),
        outer.control_dependencies(None),
        outer.name_scope(scope + "/" if scope else None),
    ):
        yield


@contextmanager
def lifted() -> Iterator[None]:
    """Make variables of a body in the outermost graph.

    The body notes that it makes some.
    """
    around: Graph = get_default_graph()
    while isinstance(around, FunctionGraph):
        around.makes_variables = True
        around = around.outer_graph
    with init_scope():
        yield
