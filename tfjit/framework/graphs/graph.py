"""Graph: operations by id and by name.

Scopes for names, devices and control dependencies are in `graph_scopes.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tfjit.framework.graphs.default_graph import entered, pop, push
from tfjit.framework.graphs.default_graph import get_default_graph as get_default_graph
from tfjit.framework.graphs.default_graph import reset_default_graph as reset_default_graph
from tfjit.framework.graphs.element_names import element_of_name
from tfjit.framework.graphs.graph_collections import GraphCollections
from tfjit.framework.graphs.graph_keys import GraphKeys as GraphKeys
from tfjit.framework.graphs.graph_library import GraphLibrary
from tfjit.framework.graphs.graph_scopes import OP_NAME, GraphScopes, Scopes
from tfjit.framework.graphs.node_inference import (
    check_input_types,
    check_inputs,
    check_output_types,
    complete_values,
    deprecation_error,
    infer_output_shapes,
)
from tfjit.framework.graphs.operation import Operation, Tensor, user_frame
from tfjit.framework.graphs.operation import (
    OperatorNotAllowedInGraphError as OperatorNotAllowedInGraphError,
)
from tfjit.framework.graphs.operation import (
    set_default_session_getter as set_default_session_getter,
)
from tfjit.framework.op_defs.node_types import input_dtypes, output_dtypes
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types.dtypes import DType

# The producer version that TensorFlow 2.21 writes into graphs: the version of the op contracts that
# a graph was made with.
PRODUCER: Final = 2474
# Messages of 2 GB and more can't be serialised.
MAX_GRAPH_BYTES: Final = 2**31


class Graph(GraphScopes):
    """A dataflow graph under construction.

    Thread-safe: one lock guards names and operations; scopes belong to a thread. `version` is the
    highest operation id.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._scopes = Scopes()
        self._by_id: list[Operation] = []  # operation with id i at i - 1
        self._by_name: dict[str, Operation] = {}
        self._names_in_use: dict[str, int] = {}
        self._finalized = False
        self._collections = GraphCollections(self._lock)
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Any] = set()
        self._seed: int | None = None
        self._seed_counter = 0
        self._producer = PRODUCER
        self._min_consumer = 0
        self._bad_consumers: tuple[int, ...] = ()
        self._library = GraphLibrary()
        # (version, operation) for operations that gradients gave more inputs and outputs
        self._changed: list[tuple[int, Operation]] = []
        self._gradient_override: dict[str, str] = {}
        self._attr_scope: dict[str, Any] = {}
        self._kernel_labels: dict[str, str] = {}
        self._container = ""
        self._traced: dict[Any, dict[Any, Any]] = {}  # traces of Python functions in this graph
        # Python functions that nodes need in this process
        self.kept_alive: list[object] = []

    @property
    def version(self) -> int:
        """The highest operation id; 0 for an empty graph."""
        return len(self._by_id)

    @property
    def building_function(self) -> bool:
        """Return whether this graph is a function's body."""
        return False

    @property
    def seed(self) -> int | None:
        """The graph-level random seed."""
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed

    @property
    def graph_def_versions(self) -> Any:
        """VersionDef: producer and consumers."""
        from tfjit.protos import versions_pb2

        producer, min_consumer, bad_consumers = self.version_numbers
        return versions_pb2.VersionDef(
            producer=producer, min_consumer=min_consumer, bad_consumers=bad_consumers
        )

    @property
    def version_numbers(self) -> tuple[int, int, tuple[int, ...]]:
        """The fields of `graph_def_versions`: producer, min_consumer, bad_consumers."""
        return self._producer, self._min_consumer, tuple(self._bad_consumers)

    @property
    def finalized(self) -> bool:
        """Return whether the graph is read-only."""
        return self._finalized

    def finalize(self) -> None:
        """Make the graph read-only, so that no step grows it by mistake."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

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
        """Add an operation.

        inputs: flat list of tensors. attrs: Python values or AttrValue messages; type attrs that
        the inputs tell and attrs with defaults may be left out. dtypes, input_types: checked
        against the op's contract, where given. name: made unique, unless it ends in "/" (then taken
        as it is). Raises InvalidGraphError (a ValueError and an InvalidArgumentError) when attrs,
        types or shapes don't fit, NotFoundError for an unknown op type, RuntimeError when the graph
        is finalized.
        """
        self._check_not_finalized()
        for i, tensor in enumerate(inputs):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Input #{i} is not a tensor: {tensor}")
            if tensor.op.graph is not self:
                raise ValueError(
                    f"{tensor} must be from the same graph as operation '{name or op_type}' "
                    f"(graphs are {tensor.op.graph} and {self})."
                )
        if op_def is None:
            op_def = self.op_def_of(op_type, name or "")
        with self._lock:
            self._check_not_finalized()
            if name is None or name == "":
                name = op_type
            if name[-1] == "/":
                name = name[:-1]
                if name in self._by_name:
                    raise ValueError(f"Duplicate node name in graph: '{name}'")
                self._names_in_use.setdefault(name.lower(), 1)
            else:
                name = self.unique_name(name)
            if not OP_NAME.fullmatch(name):
                raise ValueError(
                    f"'{name}' is not a valid node name. Accepted names conform to Regex "
                    f"/{OP_NAME.pattern}/"
                )
            values = self._node_attrs(op_def, attrs, inputs, name)
            return self._add(
                op_def,
                name,
                tuple(inputs),
                values,
                dtypes,
                input_types,
                user_frame(),
                compute_shapes=compute_shapes,
                compute_device=compute_device,
            )

    def _node_attrs(
        self, op_def: OpDef, attrs: Mapping[str, Any] | None, inputs: Sequence[Tensor], name: str
    ) -> dict[str, Any]:
        values = complete_values(op_def, attrs, inputs, name)
        if self._attr_scope:
            for key, value in self._attr_scope.items():
                values.setdefault(key, value(op_def) if callable(value) else value)
        if self._kernel_labels and op_def.name in self._kernel_labels:
            values["_kernel"] = self._kernel_labels[op_def.name].encode()
        if self._gradient_override and op_def.name in self._gradient_override:
            values["_gradient_op_type"] = self._gradient_override[op_def.name].encode()
        if self._container and op_def.is_stateful and values.get("container") == b"":
            values["container"] = self._container.encode()
        return values

    def _add(
        self,
        op_def: OpDef,
        name: str,
        inputs: tuple[Tensor, ...],
        values: dict[str, Any],
        asked_dtypes: Sequence[DType] | None,
        asked_input_types: Sequence[DType] | None,
        frame: Any,
        compute_shapes: bool,
        compute_device: bool,
    ) -> Operation:
        if op_def.deprecated is not None and self._producer >= op_def.deprecated[0]:
            raise deprecation_error(op_def, self._producer)
        check_inputs(op_def, name, input_dtypes(op_def, values), inputs)
        if asked_input_types is not None:
            check_input_types(name, inputs, asked_input_types)
        out_dtypes = output_dtypes(op_def, values)
        if asked_dtypes is not None:
            check_output_types(op_def, name, out_dtypes, asked_dtypes)
        if compute_shapes:
            out_shapes = infer_output_shapes(op_def, name, values, inputs, len(out_dtypes))
        else:
            out_shapes = [None] * len(out_dtypes)
        scopes = self._scopes
        control = self._control_inputs_for(scopes, inputs) if scopes.control else ()
        op = Operation(self, op_def, name, inputs, control, values, frame)
        op.outputs = [
            Tensor(op, i, dtype, shape)
            for i, (dtype, shape) in enumerate(zip(out_dtypes, out_shapes, strict=True))
        ]
        if compute_device:
            self._apply_device(op, scopes)
        if scopes.colocation:
            groups: set[bytes] = set()
            for other in reversed(scopes.colocation):
                groups.update(other.colocation_groups())
                if other._device:
                    op._device = other._device
            values["_class"] = tuple(sorted(groups))
        self._register(op)
        for controller in scopes.control:
            controller.seen.add(op)
        if scopes.control_flow_context is not None:
            op._control_flow_context = scopes.control_flow_context
            scopes.control_flow_context.AddOp(op)
        return op

    def _register(self, op: Operation) -> None:
        """Give the operation its id and tell its inputs of it.

        Under the lock.
        """
        for tensor in op._inputs:
            tensor._consumers.append(op)
        for other in op._control_inputs:
            other._control_outputs.append(op)
        self._by_id.append(op)
        op._id = len(self._by_id)
        self._by_name[op._name] = op

    def get_operations(self) -> list[Operation]:
        """Return every operation, in the order they were made."""
        with self._lock:
            return list(self._by_id)

    def operations_after(self, version: int) -> list[Operation]:
        """Return the operations with an id above `version`."""
        with self._lock:
            return self._by_id[version:]

    def operations_changed_after(self, version: int) -> list[Operation]:
        """Return operations up to id `version` that changed since that version.

        A change is an input or output added when the graph had that version, or later.
        """
        with self._lock:
            return list(
                dict.fromkeys(
                    op for changed, op in self._changed if changed >= version and op._id <= version
                )
            )

    def get_operation_by_name(self, name: str) -> Operation:
        """Return the operation.

        Raises TypeError for no string, KeyError for an unknown name, ValueError for a tensor's
        name.
        """
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)

    def _get_operation_by_name(self, name: str) -> Operation:
        return self._by_name[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor "op:index".

        Raises TypeError for no string, KeyError for an unknown one, ValueError for a malformed
        name.
        """
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Any:
        """Return the Tensor or Operation that `obj` is or names.

        Raises TypeError for an object of another kind, ValueError for one of another graph or a
        malformed name, KeyError for a name that is not in the graph.
        """
        if isinstance(obj, (Tensor, Operation)):
            element: Any = obj
        elif hasattr(obj, "_as_graph_element"):
            element = obj._as_graph_element()
        else:
            element = obj
        if not allow_tensor and not allow_operation:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        if isinstance(element, bytes):
            element = element.decode()
        if isinstance(element, str):
            return element_of_name(element, self._by_name, allow_tensor, allow_operation)
        if isinstance(element, Tensor) and allow_tensor:
            if element.graph is not self:
                raise ValueError(f"Tensor {element} is not an element of this graph.")
            return element
        if isinstance(element, Operation) and allow_operation:
            if element.graph is not self:
                raise ValueError(f"Operation {element} is not an element of this graph.")
            return element
        allowed = [("Tensor", allow_tensor), ("Operation", allow_operation)]
        wanted = " or ".join(kind for kind, is_allowed in allowed if is_allowed)
        raise TypeError(f"Can not convert a {type(element).__name__} into a {wanted}.")

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Return the GraphDef of operations with an id above `from_version`.

        All operations without one. Raises ValueError from 2 GB on.
        """
        from tfjit.framework.graphs.graph_def import graph_to_graph_def

        return graph_to_graph_def(self, from_version or 0, add_shapes)

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Refuse `tensor` as a feed."""
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor: Tensor) -> bool:
        """Return whether `tensor` may be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Any) -> None:
        """Refuse `op` as a fetch."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Return whether a tensor or operation may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable and tensor_or_op not in self._unfetchable

    @property
    def collections(self) -> list[Any]:
        """Names of the collections."""
        return self._collections.names()

    def add_to_collection(self, name: object, value: object) -> None:
        """Append `value` to a collection. Raises RuntimeError when the graph is finalized."""
        self._check_not_finalized()
        self._collections.add(name, value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append `value` to one collection or to several."""
        for name in {names: None} if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: object) -> list[Any]:
        """Return the collection itself, made when missing; changes to it last."""
        return self._collections.list_of(name)

    def get_collection(self, name: object, scope: str | None = None) -> list[Any]:
        """Return the members of a collection.

        scope: a regular expression; only members whose name matches it from the start are given.
        """
        return self._collections.members(name, scope)

    def get_all_collection_keys(self) -> list[Any]:
        """Return the names of the collections that are strings."""
        return [name for name in self._collections.names() if isinstance(name, str)]

    def clear_collection(self, name: object) -> None:
        """Drop a collection."""
        self._check_not_finalized()
        self._collections.clear(name)

    def add_function(self, function_def: Any) -> None:
        """Add a FunctionDef to the library.

        Raises ValueError when another one has its name.
        """
        self._library.add(function_def)

    def op_def_of(self, op_type: str, node_name: str = "") -> OpDef:
        """Return the contract of an op type: the registry's, or a function's.

        A function of the library is called by its name as op type. Raises NotFoundError for a type
        that is neither.
        """
        found = registry.lookup(op_type)
        if found is None:
            found = self._library.op_def_of(op_type)
        return registry.require(op_type, node_name) if found is None else found

    @property
    def functions(self) -> Mapping[str, Any]:
        """FunctionDef messages of the library by name; not to be written to."""
        return self._library.functions

    @property
    def function_gradients(self) -> Sequence[Any]:
        """GradientDef messages of the library; not to be written to."""
        return self._library.gradients

    def as_default(self) -> Any:
        """Return a context manager that makes this the thread's default graph."""
        return entered(self)

    def __enter__(self) -> Graph:
        push(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        pop(self)

    def __deepcopy__(self, memo: object) -> Graph:
        raise TypeError("A Graph can't be copied; import its as_graph_def() into another")
