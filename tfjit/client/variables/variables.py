"""Variable: the base of reference and resource variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tfjit.client.session.default_session import get_default_session
from tfjit.client.variables import slice_info
from tfjit.client.variables.resource_default import resource_variables_enabled
from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variable_creators import CreatedVariable
from tfjit.framework.graphs.default_graph import add_to_collections, get_default_graph, name_scope
from tfjit.framework.graphs.function_graph import FunctionGraph, lifted
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor, TensorReference
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.slicing import slice_helper
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor, register_tensor_conversion_function

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Message, SessionLike, ShapeLike, TensorLike


class Variable(metaclass=CreatedVariable):
    """A tensor that keeps its value between runs of a session.

    `Variable(...)` makes a reference variable or, with use_resource (or after
    `enable_resource_variables`), a resource variable.

    initial_value: anything that converts to a tensor, or a callable that returns such; its shape
    must be known unless validate_shape is False. trainable: also list it in TRAINABLE_VARIABLES
    (default True). collections: keys to list it under (default GLOBAL_VARIABLES). dtype: the dtype
    that initial_value is converted to. shape: overrides the shape of initial_value. constraint: a
    function that an optimizer applies after an update. variable_def: a VariableDef to recreate it
    from. Raises ValueError without an initial value, or one of unknown shape.
    """

    SaveSliceInfo: ClassVar[type[slice_info.SaveSliceInfo]] = slice_info.SaveSliceInfo
    # NumPy leaves `array + variable` to the variable.
    __array_priority__ = 100

    graph: Graph
    _name: str
    _initial_value: Tensor | None
    _initializer_op: Any
    _trainable: bool
    _constraint: Callable[[object], object] | None
    _synchronization: int
    _aggregation: int
    _caching_device: object
    _save_slice_info: slice_info.SaveSliceInfo | None = None

    def __new__(cls, *args: Any, use_resource: bool | None = None, **kwargs: Any) -> Variable:
        if cls is not Variable:
            return object.__new__(cls)
        variable_def = kwargs.get("variable_def")
        if variable_def is not None:
            use_resource = variable_def.is_resource
        if use_resource is None and get_default_graph().building_function:
            use_resource = True  # a reference cannot be passed to a function
        if use_resource is None:
            from tfjit.client.variables.variable_scope import get_variable_scope

            use_resource = get_variable_scope().use_resource
        if use_resource is None:
            use_resource = resource_variables_enabled()
        if use_resource:
            from tfjit.client.variables.resource_variables import ResourceVariable

            return object.__new__(ResourceVariable)
        from tfjit.client.variables.ref_variables import RefVariable

        return object.__new__(RefVariable)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: object = None,
        name: str | None = None,
        variable_def: object = None,
        dtype: object = None,
        expected_shape: object = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: int = VariableSynchronization.AUTO,
        aggregation: int = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._from_names(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if collections is None:
            collections = [GraphKeys.GLOBAL_VARIABLES]
        if not isinstance(collections, (list, tuple, set)):
            raise ValueError(
                "collections argument to Variable constructor must be a list, tuple, or set. Got "
                f"{collections} of type {type(collections)}"
            )
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        if trainable is None:
            trainable = synchronization != VariableSynchronization.ON_READ
        if trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = [*collections, GraphKeys.TRAINABLE_VARIABLES]
        self._trainable = trainable
        self._constraint = constraint
        self._synchronization = synchronization
        self._aggregation = aggregation
        self._caching_device = caching_device
        if isinstance(getattr(initial_value, "graph", None), FunctionGraph):
            raise ValueError(
                "Tensor-typed variable initializers must either be wrapped in an init_scope or "
                "callable (e.g., `tf.Variable(lambda : "
                f"tf.truncated_normal([10, 40]))`) when building functions. Got: {initial_value}"
            )
        values = [] if callable(initial_value) else [initial_value]
        # A variable and its initializer run on their own, outside of any block around them.
        with (
            lifted(),
            name_scope(name, "Variable", values) as scope,
            get_default_graph().control_dependencies(None),
        ):
            self.graph = get_default_graph()
            self._build(
                initial_value,
                None if dtype is None else as_dtype(dtype),
                shape,
                validate_shape,
                scope,
            )
            add_to_collections(collections, self)

    def _build(
        self,
        initial_value: TensorLike,
        dtype: DType | None,
        shape: ShapeLike,
        validate_shape: bool,
        scope: str,
    ) -> None:
        raise NotImplementedError

    def _from_names(self, variable_def: Message, import_scope: str | None) -> None:
        raise NotImplementedError

    def _initial_tensor(self, initial_value: TensorLike, dtype: DType | None) -> Tensor:
        if callable(initial_value):
            initial_value = initial_value()
        return convert_to_tensor(initial_value, dtype=dtype, name="initial_value")

    @property
    def name(self) -> str:
        """ "v:0"."""
        return self._name

    @property
    def _shared_name(self) -> str:
        return self._name[: self._name.index(":")]

    def _set_save_slice_info(self, save_slice_info: slice_info.SaveSliceInfo | None) -> None:
        """Set this variable's place in a tensor of checkpoints."""
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self) -> slice_info.SaveSliceInfo | None:
        return self._save_slice_info

    @property
    def initializer(self) -> Any:
        """The operation that sets the initial value."""
        return self._initializer_op

    @property
    def initial_value(self) -> Any:
        """The tensor that it starts from."""
        return self._initial_value

    @property
    def trainable(self) -> bool:
        """Return whether optimizers update it by default."""
        return self._trainable

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        """The function that an optimizer applies after an update."""
        return self._constraint

    @property
    def synchronization(self) -> int:
        """See VariableSynchronization."""
        return self._synchronization

    @property
    def aggregation(self) -> int:
        """See VariableAggregation."""
        return self._aggregation

    @property
    def op(self) -> Operation:
        """The operation that holds the variable."""
        raise NotImplementedError

    @property
    def dtype(self) -> DType:
        """Element type; a reference type for reference variables."""
        raise NotImplementedError

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        raise NotImplementedError

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self.shape

    @property
    def device(self) -> str:
        """Device asked for."""
        return self.op.device

    def value(self) -> Tensor:
        """Return the value as a tensor."""
        raise NotImplementedError

    def read_value(self) -> Tensor:
        """Return a new read of the value.

        It runs after the control dependencies around it.
        """
        raise NotImplementedError

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return whether the variable has a value, as a bool tensor."""
        raise NotImplementedError

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value while there is none.

        Another variable's initial value may use it.
        """
        raise NotImplementedError

    def _initialized_or(self, initialized: Tensor, read: Callable[[str, Tensor], Tensor]) -> Tensor:
        """Return the choice of the value as control flow.

        read: (scope, predicate) -> the value, made of a switch's output.
        """
        assert self._initial_value is not None
        graph = self.graph
        with graph.name_scope("cond") as scope:
            switch = create("Switch", scope + "Switch/", data=initialized, pred=initialized)
            tensor("Identity", scope + "switch_t/", input=switch.outputs[1])
            tensor("Identity", scope + "switch_f/", input=switch.outputs[0])
            chosen = tensor("Identity", scope + "pred_id/", input=initialized)
            value = read(scope, chosen)
            with graph.colocate_with(self._initial_value.op, ignore_existing=True):
                other = create(
                    "Switch", scope + "Switch_1/", data=self._initial_value, pred=chosen
                ).outputs[0]
            return create("Merge", scope + "Merge/", inputs=[other, value]).outputs[0]

    def _scatter(
        self,
        op_type: str,
        indices: TensorLike,
        updates: TensorLike,
        use_locking: bool,
        name: str | None,
    ) -> Any:
        raise NotImplementedError

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Set rows of the variable.

        sparse_delta: an object with `indices` [...] and `values` [*indices.shape, *row], such as
        IndexedSlices.
        """
        return self._scatter(
            "ScatterUpdate", sparse_delta.indices, sparse_delta.values, use_locking, name
        )

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Add to rows."""
        return self._scatter(
            "ScatterAdd", sparse_delta.indices, sparse_delta.values, use_locking, name
        )

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Subtract from rows."""
        return self._scatter(
            "ScatterSub", sparse_delta.indices, sparse_delta.values, use_locking, name
        )

    def scatter_nd_update(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Set slices. indices [..., depth]."""
        return self._scatter("ScatterNdUpdate", indices, updates, True, name)

    def scatter_nd_add(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Add to slices."""
        return self._scatter("ScatterNdAdd", indices, updates, True, name)

    def scatter_nd_sub(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Any:
        """Subtract from slices."""
        return self._scatter("ScatterNdSub", indices, updates, True, name)

    def eval(self, session: SessionLike | None = None) -> Any:
        """Return the value in `session` or this thread's default session.

        Raises ValueError without one.
        """
        return self._as_graph_element().eval(session=session)

    def load(self, value: TensorLike, session: SessionLike | None = None) -> None:
        """Set the value in `session` or the default session.

        No nodes are added to the graph. Raises ValueError without a session.
        """
        session = session or get_default_session()
        if session is None:
            raise ValueError(
                "Either session argument should be provided or default session should be "
                "established to load a variable"
            )
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    def _as_graph_element(self) -> Tensor:
        raise NotImplementedError

    def _ref(self) -> Tensor:
        """Return the reference to the variable, which ops of TF1 update."""
        raise TypeError(
            f"{self!r} is a resource variable and has no reference; the op wants a "
            "reference variable"
        )

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def ref(self) -> Any:
        """Return a hashable stand-in, for dictionaries and sets."""
        return TensorReference(self)  # type: ignore[arg-type]

    experimental_ref = ref

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.value())

    def __bool__(self) -> bool:
        return bool(self.value())

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> Any:
        return np.asarray(self.value())

    def __deepcopy__(self, memo: object) -> Variable:
        raise TypeError(f"Variable {self._name} belongs to its graph and can't be copied")

    # `v += x` means `v = v + x`: the name then is a tensor's, as in TensorFlow.
    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __isub__(self, other: Any) -> Any:
        return self - other

    def __imul__(self, other: Any) -> Any:
        return self * other

    def __itruediv__(self, other: Any) -> Any:
        return self / other

    def __ipow__(self, other: Any) -> Any:
        return self**other

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.get_shape()} dtype={self.dtype.name}>"

    def _names(self, export_scope: str | None, snapshot: str) -> Any:
        from tfjit.protos import VariableDef

        sharing: Any = {"synchronization": self._synchronization, "aggregation": self._aggregation}
        if self._save_slice_info is not None:
            sharing["save_slice_info_def"] = self._save_slice_info.to_proto(export_scope)
        return VariableDef(
            variable_name=_without_scope(self.op.outputs[0].name, export_scope),
            initial_value_name=""
            if self._initial_value is None
            else _without_scope(self._initial_value.name, export_scope),
            initializer_name=_without_scope(self.initializer.name, export_scope),
            snapshot_name=_without_scope(snapshot, export_scope),
            trainable=self._trainable,
            **sharing,
        )

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return the variable as a VariableDef.

        None when it is not in `export_scope`.
        """
        raise NotImplementedError

    @staticmethod
    def from_proto(variable_def: Message, import_scope: str | None = None) -> Variable:
        """Return the variable that a VariableDef names.

        The default graph has its nodes. Raises KeyError when it has them not.
        """
        return Variable(variable_def=variable_def, import_scope=import_scope)

    def _element_from(self, name: str, import_scope: str | None) -> Any:
        if import_scope:
            name = f"{import_scope.rstrip('/')}/{name}"
        return get_default_graph().as_graph_element(name)

    def _settings_from(self, variable_def: Message, import_scope: str | None) -> None:
        self.graph = get_default_graph()
        self._initializer_op = self._element_from(variable_def.initializer_name, import_scope)
        initial = variable_def.initial_value_name
        self._initial_value = self._element_from(initial, import_scope) if initial else None
        self._trainable = variable_def.trainable
        if variable_def.HasField("save_slice_info_def"):
            self._save_slice_info = slice_info.SaveSliceInfo(
                save_slice_info_def=variable_def.save_slice_info_def, import_scope=import_scope
            )
        self._synchronization = variable_def.synchronization
        self._aggregation = variable_def.aggregation
        self._constraint = None
        self._caching_device = None


def _without_scope(name: str, scope: str | None) -> str:
    if scope:
        prefix = scope.rstrip("/") + "/"
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def _convert(
    variable: Variable, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtype.name}' for variable of type "
            f"'{variable.dtype.name}'"
        )
    return variable._ref() if as_ref else variable.value()


register_tensor_conversion_function(Variable, _convert, 100)


def _overload(operator: str) -> None:
    def run(self: Variable, *args: object) -> Any:
        return getattr(Tensor, operator)(self.value(), *args)

    run.__name__ = operator
    setattr(Variable, operator, run)


def _slice(variable: Variable, entries: object) -> Tensor:
    return slice_helper(variable.value(), entries, variable)


# A variable is equal to itself only, so `==` and `!=` stay as they are.
for _operator in sorted(Tensor.OVERLOADABLE_OPERATORS - {"__eq__", "__ne__"}):
    _overload(_operator)
setattr(Variable, "__getitem__", _slice)  # noqa: B010  mypy takes an assignment for a generic class
