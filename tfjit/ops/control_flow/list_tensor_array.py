"""The TensorArray of control flow v2: a tensor list.

A list is a value, so that bodies and gradients need no handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape, TensorShape, as_shape
from tfjit.ops.control_flow.flow_tensor_array import TensorArray
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def shape_input(shape: Any) -> Any:
    """Return a shape as list ops take it.

    Sizes have -1 where unknown, -1 alone is an unknown rank; other values become tensors there.
    """
    if isinstance(shape, Tensor):
        return shape
    sizes: Shape = shape.dims_tuple if isinstance(shape, TensorShape) else as_shape(shape)
    if sizes is None:
        return -1
    return (
        [-1 if size is None else size for size in sizes]
        if sizes
        else constant([], dtype=dtypes.int32)
    )


class ListTensorArray(TensorArray):
    """A TensorArray with a tensor list, a variant, as its flow.

    It has no handle; elements may be read any number of times.

    Arguments as TensorArray's; clear_after_read, tensor_array_name and
    colocate_with_first_write_call mean nothing here. Raises ValueError where arguments contradict
    each other, TypeError for a flow that is no variant.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if flow is not None and flow.dtype is not dtypes.variant:
            raise TypeError(
                f"Expected `flow` to be a variant tensor, but received `{flow.dtype}` instead."
            )
        if flow is None and size is None:
            raise ValueError("Argument `size` must be provided if argument `flow` is not provided.")
        if flow is not None and size is not None:
            raise ValueError("Cannot provide both `flow` and `size` arguments at the same time.")
        if flow is not None and element_shape is not None:
            raise ValueError(
                "Cannot provide both `flow` and `element_shape` argumentsat the same time."
            )
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._size = size
        self._infer_shape = infer_shape
        self._shape = [as_shape(element_shape)]
        self._beside = None
        with name_scope(name, "TensorArrayV2", [size, flow]) as scope:
            if flow is None:
                flow = tensor(
                    "TensorListReserve",
                    scope,
                    element_shape=shape_input(self._shape[0]),
                    num_elements=size,
                    element_dtype=self._dtype,
                )
            self._flow = flow

    @property
    def handle(self) -> Any:
        """None: a tensor list is a value."""
        return None

    def with_flow(self, flow: Tensor) -> ListTensorArray:
        """Return the array of another list."""
        made: ListTensorArray = object.__new__(ListTensorArray)
        made.__dict__.update(self.__dict__)
        made._flow = flow
        return made

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Raise NotImplementedError: a list's gradient is a list too."""
        raise NotImplementedError(
            "a TensorArray of control flow v2 has no gradient array; ask `gradients` for the "
            "gradient"
        )

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Return one element."""
        with name_scope(name, "TensorArrayV2Read", [self._flow, index]):
            return tensor(
                "TensorListGetItem",
                name,
                input_handle=self._flow,
                index=index,
                element_shape=shape_input(self._shape[0]),
                element_dtype=self._dtype,
            )

    def _element(self, value: TensorLike) -> Tensor:
        made = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
        if made.dtype.base_dtype is not self._dtype:
            raise ValueError(
                f"Input value {made} has dtype {made.dtype}, but expected dtype {self._dtype}. "
            )
        return made

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """Write one element and return the changed array.

        Raises ValueError for another shape or dtype.
        """
        with name_scope(name, "TensorArrayV2Write", [self._flow, index, value]):
            element = self._element(value)
            self._learn(element.shape_tuple)
            return self.with_flow(
                tensor(
                    "TensorListSetItem",
                    name,
                    input_handle=self._flow,
                    index=index,
                    item=element,
                    resize_if_index_out_of_bounds=self._dynamic_size,
                )
            )

    def stack(self, name: str | None = None) -> Tensor:
        """Stack all elements along a new first dimension: [size, *element_shape]."""
        with name_scope(name, "TensorArrayV2Stack", [self._flow]):
            count = None
            if not self._dynamic_size and self._size is not None:
                count = (
                    constant_value(convert_to_tensor(self._size))
                    if isinstance(self._size, Tensor)
                    else self._size
                )
            return tensor(
                "TensorListStack",
                input_handle=self._flow,
                element_shape=shape_input(self._shape[0]),
                element_dtype=self._dtype,
                num_elements=-1 if count is None else int(count),
            )

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the elements at `indices` (int32 [n]) along a new first dimension."""
        return tensor(
            "TensorListGather",
            name,
            input_handle=self._flow,
            indices=indices,
            element_shape=shape_input(self._shape[0]),
            element_dtype=self._dtype,
        )

    def concat(self, name: str | None = None) -> Tensor:
        """Concatenate all elements along their first dimension."""
        shape = self._shape[0]
        found = call(
            "TensorListConcatV2",
            name,
            input_handle=self._flow,
            element_shape=shape_input((None, *shape[1:]) if shape else None),
            leading_dims=constant([], dtype=dtypes.int64),
            element_dtype=self._dtype,
        )
        value: Tensor = found[0]
        if shape:
            value.set_shape((None, *shape[1:]))
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Return an array of the rows of `value`."""
        with name_scope(name, "TensorArrayUnstack", [self._flow, value]):
            rows = self._element(value)
            shape = rows.shape_tuple
            self._learn(None if shape is None else shape[1:])
            element = shape_input(None if shape is None else shape[1:])
            return self.with_flow(
                tensor("TensorListFromTensor", tensor=rows, element_shape=element)
            )

    def scatter(
        self, indices: TensorLike, value: TensorLike, name: str | None = None
    ) -> TensorArray:
        """Write the rows of `value` to the elements at `indices` (int32 [n])."""
        with name_scope(name, "TensorArrayScatter", [self._flow, value, indices]):
            rows = self._element(value)
            shape = rows.shape_tuple
            self._learn(None if shape is None else shape[1:])
            return self.with_flow(
                tensor(
                    "TensorListScatterIntoExistingList",
                    input_handle=self._flow,
                    tensor=rows,
                    indices=indices,
                )
            )

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Return an array of the pieces of `value`.

        It is cut along its first dimension into pieces of `lengths` [size].
        """
        from tfjit.ops.arithmetic.elementwise_functions import cast

        with name_scope(name, "TensorArraySplit", [self._flow, value, lengths]):
            whole = self._element(value)
            sizes = cast(lengths, dtypes.int64)
            known = constant_value(sizes)
            shape = whole.shape_tuple
            if (
                known is not None
                and shape is not None
                and known.shape
                and known.min() == known.max()
            ):
                self._learn((int(known[0]), *shape[1:]))
            return self.with_flow(
                tensor(
                    "TensorListSplit",
                    name,
                    tensor=whole,
                    element_shape=shape_input(self._shape[0]),
                    lengths=sizes,
                )
            )

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements, an int32 scalar."""
        if not self._dynamic_size and self._size is not None:
            return convert_to_tensor(self._size, dtype=dtypes.int32)
        return tensor("TensorListLength", name, input_handle=self._flow)

    def close(self, name: str | None = None) -> Operation:
        """Return a no-op: a list is freed with its last reference."""
        return create("NoOp", name)
