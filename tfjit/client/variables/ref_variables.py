"""RefVariable: TF1's default variable, whose output is a reference."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tfjit.client.variables.initial_values import guarded
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.function_graph import building
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.ops.arrays.array import identity
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, ShapeLike, TensorLike


class RefVariable(Variable):
    """A VariableV2 node, whose output is a reference.

    `read` dereferences it once for all readers.
    """

    _variable: Tensor
    _snapshot: Tensor

    def _build(
        self,
        initial_value: TensorLike,
        dtype: DType | None,
        shape: ShapeLike,
        validate_shape: bool,
        scope: str,
    ) -> None:
        graph = self.graph
        with ExitStack() as stack:
            if callable(initial_value):
                # the effect of colocating with the variable, which does not exist yet
                stack.enter_context(
                    graph._attr_scope_block({"_class": (b"loc:@" + scope[:-1].encode(),)})
                )
                with graph.name_scope("Initializer"), graph.device(None):
                    initial = self._initial_tensor(initial_value, dtype)
            else:
                initial = self._initial_tensor(initial_value, dtype)
                if initial.op._get_control_flow_context() is not None:
                    raise ValueError(
                        f"Initializer for variable {scope} is from inside a control-flow "
                        "construct, such as a loop or conditional. When "
                        "creating a variable inside a loop or conditional, use a lambda as the "
                        "initializer."
                    )
            if shape is None:
                shape = initial.shape_tuple if validate_shape else None
            self._variable = tensor(
                "VariableV2",
                scope,
                shape=TensorShape(as_shape(shape)),
                dtype=initial.dtype.base_dtype,
            )
        self._initial_value = initial
        self._name = self._variable.name
        if validate_shape and not initial.shape.is_fully_defined():
            raise ValueError(f"initial_value must have a shape specified: {initial}")
        start = guarded(scope, initial)
        with graph.colocate_with(self._variable.op):
            self._initializer_op = create(
                "Assign",
                scope + "Assign/",
                ref=self._variable,
                value=start,
                validate_shape=validate_shape,
            )
        with (
            graph.device(self._caching_device)
            if self._caching_device is not None
            else graph.colocate_with(self._variable.op)
        ):
            self._snapshot = identity(self._variable, name="read")

    def _from_names(self, variable_def: Message, import_scope: str | None) -> None:
        self._settings_from(variable_def, import_scope)
        self._variable = self._element_from(variable_def.variable_name, import_scope)
        self._snapshot = self._element_from(variable_def.snapshot_name, import_scope)
        self._name = self._variable.name

    @property
    def op(self) -> Operation:
        """The VariableV2 operation."""
        return self._variable.op

    @property
    def dtype(self) -> DType:
        """Element type as a reference type."""
        return self._variable.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._variable.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Merge `shape` into the static shape."""
        self._variable.set_shape(shape)
        self._snapshot.set_shape(shape)

    def value(self) -> Tensor:
        """Return the value as a tensor; the same one each time."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """Return a new read of the value.

        It runs after the control dependencies around it.
        """
        return identity(self._variable, name="read")

    def _ref(self) -> Tensor:
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def _strided_slice_assign(self, value: TensorLike, name: str, **where: object) -> Tensor:
        return create_on(self._variable, "StridedSliceAssign", name, value=value, **where).outputs[
            0
        ]

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return whether the variable has a value, as a bool tensor."""
        with building(self.graph):
            return create_on(self._variable, "IsVariableInitialized", name).outputs[0]

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value while there is none.

        Another variable's initial value may use it.
        """
        graph = self.graph
        with graph.as_default(), graph.control_dependencies(None):

            def read(scope: str, chosen: Tensor) -> Tensor:
                with graph.colocate_with(self._variable.op):
                    passed = create(
                        "RefSwitch", scope + "read/Switch/", data=self._variable, pred=chosen
                    ).outputs[1]
                return identity(passed, name=scope + "read/")

            return self._initialized_or(self.is_initialized(), read)

    def _assign(
        self,
        op_type: str,
        value: TensorLike,
        use_locking: bool | None,
        name: str | None,
        read_value: bool,
        **attrs: object,
    ) -> Any:
        assigned = create_on(
            self._variable, op_type, name, value=value, use_locking=use_locking, **attrs
        )
        return assigned.outputs[0] if read_value else assigned

    def assign(
        self,
        value: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Set the value and return a reference tensor of it.

        Without read_value, returns the operation.
        """
        return self._assign("Assign", value, use_locking, name, read_value)

    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Add to the value and return a reference tensor of the sum.

        Without read_value, returns the operation.
        """
        return self._assign("AssignAdd", delta, use_locking, name, read_value)

    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtract from the value and return a reference tensor of it.

        The tensor has the difference. Without read_value, returns the operation.
        """
        return self._assign("AssignSub", delta, use_locking, name, read_value)

    def count_up_to(self, limit: int, name: str | None = None) -> Tensor:
        """Add one: the value before. Its run raises OutOfRangeError at `limit`."""
        return create_on(self._variable, "CountUpTo", name, limit=limit).outputs[0]

    def _scatter(
        self,
        op_type: str,
        indices: TensorLike,
        updates: TensorLike,
        use_locking: bool,
        name: str | None,
    ) -> Tensor:
        return create_on(
            self._variable, op_type, name, indices=indices, updates=updates, use_locking=use_locking
        ).outputs[0]

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return the variable as a VariableDef.

        None when it is not in `export_scope`.
        """
        if export_scope is not None and not self._name.startswith(export_scope):
            return None
        return self._names(export_scope, self._snapshot.name)


def create_on(ref: Tensor, op_type: str, name: str | None, **arguments: Any) -> Operation:
    """Add an operation on a reference, placed with it.

    Its other inputs are made where they would be anyway. Raises TypeError for inputs that don't fit
    the variable's dtype.
    """
    graph = ref.graph
    with building(graph) as graph, graph.name_scope(name or op_type) as scope:
        for key in ("indices", "updates", "value"):
            if key in arguments and not isinstance(arguments[key], Tensor):
                dtype = None if key == "indices" else ref.dtype.base_dtype
                arguments[key] = _input(op_type, key, arguments[key], dtype)
        with graph.colocate_with(ref.op):
            return create(op_type, scope, ref=ref, **arguments)


def _input(op_type: str, key: str, value: TensorLike, dtype: DType | None) -> Tensor:
    try:
        return convert_to_tensor(value, dtype=dtype, name=key)
    except (TypeError, ValueError) as error:
        if dtype is None:
            raise
        raise TypeError(
            f"Expected {dtype.name} passed to parameter '{key}' of op '{op_type}', got {value!r} "
            "of type "
            f"'{type(value).__name__}' instead. Error: {error}"
        ) from error
