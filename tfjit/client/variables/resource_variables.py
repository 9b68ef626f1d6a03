"""ResourceVariable: a variable behind a handle, read explicitly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.client.variables.initial_values import guarded
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.function_graph import building
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.ops.arrays.array import identity
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, ShapeLike, TensorLike


class ResourceVariable(Variable):
    """A VarHandleOp node; each read is a separate ReadVariableOp.

    The control dependencies around a read order it.
    """

    _handle: Tensor
    _dtype: DType
    _shape: TensorShape
    _validate_shape: bool
    _is_initialized: Tensor | None
    _graph_element: Tensor
    _cached_value: Tensor | None

    def _build(
        self,
        initial_value: TensorLike,
        dtype: DType | None,
        shape: ShapeLike,
        validate_shape: bool,
        scope: str,
    ) -> None:
        graph = self.graph
        handle_name = scope[:-1]
        # the effect of colocating with the variable, which does not exist yet
        with graph._attr_scope_block({"_class": (b"loc:@" + handle_name.encode(),)}):
            with graph.name_scope("Initializer"), graph.device(None):
                initial = self._initial_tensor(initial_value, dtype)
            if shape is None:
                shape = initial.shape
            elif not initial.shape.is_compatible_with(shape):
                raise ValueError(
                    f"In this `tf.Variable` creation, the initial value's shape ({initial.shape}) "
                    "is not compatible with the explicitly "
                    f"supplied `shape` argument ({shape})."
                )
            self._dtype = initial.dtype.base_dtype
            self._shape = TensorShape(as_shape(shape))
            self._handle = tensor(
                "VarHandleOp",
                scope,
                dtype=self._dtype,
                shape=self._shape,
                shared_name=handle_name,
                debug_name=scope,
            )
        if initial.op._get_control_flow_context() is not None:
            raise ValueError(
                f"The `initial_value` passed to `tf.Variable` {scope} is from inside a "
                "control-flow construct, such as a loop or "
                "conditional. When creating a `tf.Variable` inside a loop or conditional, use a "
                "lambda as the `initial_value`. "
                f"Got: initial_value=({initial})"
            )
        self._handle._handle_data = ((self._shape.dims_tuple, self._dtype),)
        self._name = handle_name + ":0"
        self._validate_shape = validate_shape
        self._initial_value = initial
        with graph.name_scope("IsInitialized"):
            self._is_initialized = tensor("VarIsInitializedOp", resource=self._handle)
        with (
            graph.name_scope("Assign") as assign,
            graph.colocate_with(None, ignore_existing=True),
            graph.device(self._handle.device),
        ):
            self._initializer_op = create(
                "AssignVariableOp", assign, resource=self._handle, value=guarded(scope, initial)
            )
        with graph.name_scope("Read"):
            with graph.device(self._handle.device):
                self._graph_element = self._read()
            self._cached_value = None
            if self._caching_device is not None:
                with (
                    graph.colocate_with(None, ignore_existing=True),
                    graph.device(self._caching_device),
                ):
                    self._cached_value = identity(self._graph_element)

    def _from_names(self, variable_def: Message, import_scope: str | None) -> None:
        self._settings_from(variable_def, import_scope)
        self._handle = self._element_from(variable_def.variable_name, import_scope)
        self._name = self._handle.name
        self._dtype = as_dtype(self._handle.op.attr("dtype"))
        self._shape = self._handle.op.attr("shape")
        self._handle._handle_data = ((self._shape.dims_tuple, self._dtype),)
        self._validate_shape = True
        self._is_initialized = None
        snapshot = self._element_from(variable_def.snapshot_name, import_scope)
        cached = snapshot.op.type != "ReadVariableOp"
        self._graph_element = snapshot.op.inputs[0] if cached else snapshot
        self._cached_value = snapshot if cached else None

    @property
    def handle(self) -> Tensor:
        """The resource tensor."""
        return self._handle

    @property
    def op(self) -> Operation:
        """The VarHandleOp operation."""
        return self._handle.op

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Merge `shape` into the static shape."""
        self._shape = self._shape.merge_with(shape)

    @property
    def create(self) -> Any:
        """The operation that sets the initial value."""
        return self._initializer_op

    def _read(self, name: str | None = None) -> Tensor:
        value = tensor("ReadVariableOp", name, resource=self._handle, dtype=self._dtype)
        value.set_shape(self._shape)
        return value

    def value(self) -> Tensor:
        """Return the value as a tensor.

        It is a new read, unless the variable has a caching device.
        """
        if self._cached_value is not None:
            return self._cached_value
        with building(self.graph) as graph, graph.colocate_with(None, ignore_existing=True):
            return self._read()

    def read_value(self) -> Tensor:
        """Return a new read of the value.

        It runs after the control dependencies around it.
        """
        with building(self.graph) as graph:
            with graph.name_scope("Read"):
                value = self._read()
            return identity(value)

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows of the value: indices [...] -> [..., row]."""
        with building(self.graph) as graph, graph.name_scope(name or "Gather") as scope:
            rows = tensor(
                "ResourceGather", scope, resource=self._handle, indices=indices, dtype=self._dtype
            )
            rows.set_shape(rows.op.inputs[1].shape.concatenate(self.shape[1:]))
            return rows

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return whether the variable has a value, as a bool tensor."""
        with building(self.graph):
            return tensor("VarIsInitializedOp", name, resource=self._handle)

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value while there is none.

        Another variable's initial value may use it.
        """
        graph = self.graph
        with graph.as_default(), graph.control_dependencies(None):

            def read(scope: str, chosen: Tensor) -> Tensor:
                with graph.colocate_with(self._handle.op, ignore_existing=True):
                    passed = create(
                        "Switch",
                        scope + "Read/ReadVariableOp/Switch/",
                        data=self._handle,
                        pred=chosen,
                    ).outputs[1]
                value = tensor(
                    "ReadVariableOp",
                    scope + "Read/ReadVariableOp/",
                    resource=passed,
                    dtype=self._dtype,
                )
                value.set_shape(self._shape)
                return identity(value, name=scope + "Identity/")

            return self._initialized_or(self.is_initialized(), read)

    def _value_for(self, value: TensorLike) -> Tensor:
        converted = convert_to_tensor(value, dtype=self._dtype)
        if not self._shape.is_compatible_with(converted.shape):
            raise ValueError(
                f"Cannot assign value to variable '{self._name}': Shape mismatch.The variable "
                f"shape {self._shape}, and the assigned value "
                f"shape {converted.shape} are incompatible."
            )
        return converted

    def _after(self, op: Operation, read_value: bool = True) -> Any:
        return UpdatedVariable(self, op) if read_value else op

    def assign(
        self,
        value: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Set the value and return the variable as it is afterwards.

        Without read_value, returns the operation. Raises ValueError for another shape.
        """
        with building(self.graph):
            converted = self._value_for(value)
            checked = self._validate_shape and self._shape.is_fully_defined()
            op = create(
                "AssignVariableOp",
                name,
                resource=self._handle,
                value=converted,
                validate_shape=checked,
            )
            return self._after(op, read_value)

    def _strided_slice_assign(self, value: TensorLike, name: str, **where: Any) -> Any:
        with building(self.graph):
            converted = convert_to_tensor(value, dtype=self._dtype)
            op = create(
                "ResourceStridedSliceAssign", name, ref=self._handle, value=converted, **where
            )
            return self._after(op, True)

    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Add to the value and return the variable as it is afterwards.

        Without read_value, returns the operation.
        """
        return self._change("AssignAddVariableOp", delta, name, read_value)

    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtract from the value and return the variable afterwards.

        Without read_value, returns the operation.
        """
        return self._change("AssignSubVariableOp", delta, name, read_value)

    def _change(self, op_type: str, delta: TensorLike, name: str | None, read_value: bool) -> Any:
        with building(self.graph):
            value = convert_to_tensor(delta, dtype=self._dtype)
            op = create(op_type, name, resource=self._handle, value=value)
            return self._after(op, read_value)

    def count_up_to(self, limit: int, name: str | None = None) -> Tensor:
        """Add one: the value before. Its run raises OutOfRangeError at `limit`."""
        with building(self.graph):
            before = tensor(
                "ResourceCountUpTo", name, resource=self._handle, limit=limit, T=self._dtype
            )
            before.set_shape(self._shape)
            return before

    def _scatter(
        self,
        op_type: str,
        indices: TensorLike,
        updates: TensorLike,
        use_locking: bool,
        name: str | None,
    ) -> Any:
        with building(self.graph):
            value = convert_to_tensor(updates, dtype=self._dtype)
            if op_type.startswith("ScatterNd"):
                return self._after(
                    create(
                        "Resource" + op_type, name, ref=self._handle, indices=indices, updates=value
                    )
                )
            return self._after(
                create(
                    "Resource" + op_type,
                    name,
                    resource=self._handle,
                    indices=indices,
                    updates=value,
                    dtype=self._dtype,
                )
            )

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return the variable as a VariableDef.

        None when it is not in `export_scope`.
        """
        if export_scope is not None and not self._name.startswith(export_scope):
            return None
        names = self._names(
            export_scope,
            (self._graph_element if self._cached_value is None else self._cached_value).name,
        )
        names.is_resource = True
        return names


class UpdatedVariable(ResourceVariable):
    """A resource variable after `op` changed it.

    `assign` and its like return it. Its reads wait for `op`.
    """

    _parent_op: Operation

    def __init__(self, variable: ResourceVariable, op: Operation) -> None:
        self.graph = op.graph  # a function's body, where it is changed in one
        for key in (
            "_handle",
            "_dtype",
            "_shape",
            "_validate_shape",
            "_is_initialized",
            "_initial_value",
            "_initializer_op",
        ):
            setattr(self, key, getattr(variable, key))
        for key in (
            "_trainable",
            "_constraint",
            "_synchronization",
            "_aggregation",
            "_caching_device",
        ):
            setattr(self, key, getattr(variable, key))
        self._cached_value = None
        self._name = op.name
        self._parent_op = op
        if not self.graph.building_function:  # every read runs there
            self._graph_element = self._read()

    @property
    def _shared_name(self) -> str:
        return self._handle.op.name

    def _as_graph_element(self) -> Tensor:
        return self._read() if self.graph.building_function else self._graph_element

    @property
    def op(self) -> Operation:
        """The operation that changed the variable."""
        return self._parent_op

    def _read(self, name: str | None = None) -> Tensor:
        with self.graph.control_dependencies([self._parent_op]):
            return super()._read(name)

    def value(self) -> Tensor:
        """Return a new read of the value after the change."""
        with building(self.graph):
            return self._read()

    read_value = value

    def assign(
        self,
        value: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Assign to the variable, after the change."""
        with self.graph.control_dependencies([self._parent_op]):
            return super().assign(value, use_locking, name, read_value)

    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Add to the variable, after the change."""
        with self.graph.control_dependencies([self._parent_op]):
            return super().assign_add(delta, use_locking, name, read_value)

    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool | None = None,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtract from the variable, after the change."""
        with self.graph.control_dependencies([self._parent_op]):
            return super().assign_sub(delta, use_locking, name, read_value)

    def _scatter(
        self,
        op_type: str,
        indices: TensorLike,
        updates: TensorLike,
        use_locking: bool,
        name: str | None,
    ) -> Any:
        with self.graph.control_dependencies([self._parent_op]):
            return super()._scatter(op_type, indices, updates, use_locking, name)
