"""TensorArray: a handle, and a flow that orders its operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape, TensorShape, as_shape, is_compatible, merge
from tfjit.ops.control_flow.control_flow_form import uses_functions
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


class TensorArray:
    """An array of tensors for loops.

    Each element is written once and, unless `clear_after_read` is False, read once.

    Methods that write give another TensorArray, which has to be used in place of this one: its flow
    makes later operations wait. dtype: of the elements. size: their number, an int32 scalar;
    `dynamic_size` lets it grow. handle, flow: of an array that exists already. infer_shape: all
    elements have one shape, which the first write tells. element_shape: the known part of the
    shape. In control flow v2, and in functions, it is a `ListTensorArray`. Raises ValueError where
    arguments contradict each other.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TensorArray:
        if (
            cls is TensorArray
            and uses_functions()
            and len(args) < 6
            and kwargs.get("handle") is None
        ):
            from tfjit.ops.control_flow.list_tensor_array import ListTensorArray

            return object.__new__(ListTensorArray)
        return object.__new__(cls)

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
        if handle is not None:
            for argument, value in (
                ("tensor_array_name", tensor_array_name),
                ("size", size),
                ("dynamic_size", dynamic_size),
                ("clear_after_read", clear_after_read),
            ):
                if value is not None:
                    article = "a " if argument == "size" else ""
                    raise ValueError(
                        f"Cannot provide both {article}`handle` and `{argument}` arguments at the "
                        "same time."
                    )
            if flow is None:
                raise ValueError("flow must not be None if handle is not None.")
        elif size is None:
            raise ValueError("Argument `size` must be provided if handle is not provided.")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._size = size
        self._infer_shape = infer_shape
        # one cell for all arrays of one handle
        self._shape: list[Shape] = [as_shape(element_shape)]
        # the first write decides where the array is; one cell for all arrays of one handle
        self._beside: list[Tensor] | None = [] if colocate_with_first_write_call else None
        graph = get_default_graph()
        with name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            if handle is not None:
                self._handle = handle
                assert flow is not None
                self._flow = flow
                return

            def make() -> Any:
                return call(
                    "TensorArrayV3",
                    scope,
                    size=size,
                    dtype=self._dtype,
                    element_shape=TensorShape(element_shape),
                    identical_element_shapes=infer_shape,
                    dynamic_size=self._dynamic_size,
                    clear_after_read=clear_after_read is None or clear_after_read,
                    tensor_array_name=tensor_array_name or "",
                )

            if colocate_with_first_write_call:
                with graph.device(None):
                    self._handle, self._flow = make()
            else:
                self._handle, self._flow = make()

    @property
    def flow(self) -> Tensor:
        """Return a float32 scalar, available after all earlier operations."""
        return self._flow

    @property
    def handle(self) -> Tensor:
        """The resource."""
        return self._handle

    @property
    def dtype(self) -> Any:
        """Dtype of the elements."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Return whether it may grow."""
        return self._dynamic_size

    @property
    def element_shape(self) -> TensorShape:
        """Known part of the elements' shape."""
        return TensorShape(self._shape[0])

    def with_flow(self, flow: Tensor) -> TensorArray:
        """Return the same array behind another flow."""
        made: TensorArray = object.__new__(TensorArray)
        made.__dict__.update(self.__dict__)
        made._flow = flow
        return made

    def identity(self) -> TensorArray:
        """Pass the flow through an operation and return the array.

        Control dependencies apply to the operation.
        """
        return self.with_flow(tensor("Identity", input=self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Return the array of the elements' gradients for `source`.

        source: a name for one call of `gradients`. Writes to the array add up.
        """
        before = self._flow if flow is None else flow
        with (
            name_scope(name, "TensorArrayGrad", [self._handle]),
            get_default_graph().colocate_with(self._handle),
        ):
            handle, _ = call(
                "TensorArrayGradV3", name, handle=self._handle, flow_in=before, source=source
            )
            with control_dependencies([handle]):
                after = tensor("Identity", "gradient_flow", input=before)
        made = TensorArray(
            self._dtype,
            handle=handle,
            flow=after,
            infer_shape=self._infer_shape,
            colocate_with_first_write_call=False,
        )
        made._shape = self._shape
        return made

    def read(self, index: TensorLike, name: str | None = None) -> Tensor:
        """Return one element."""
        value = tensor(
            "TensorArrayReadV3",
            name,
            handle=self._handle,
            index=index,
            flow_in=self._flow,
            dtype=self._dtype,
        )
        value.set_shape(self._shape[0])
        return value

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """Write one element and return the changed array.

        Raises ValueError for another shape; another dtype fails when it runs.
        """
        with name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            self._learn(value.shape_tuple)
            with self._placed(value):
                return self.with_flow(
                    tensor(
                        "TensorArrayWriteV3",
                        name,
                        handle=self._handle,
                        index=index,
                        value=value,
                        flow_in=self._flow,
                    )
                )

    def stack(self, name: str | None = None) -> Tensor:
        """Stack all elements along a new first dimension: [size, *element_shape]."""
        from tfjit.ops.arrays.creation import range as range_

        with (
            get_default_graph().colocate_with(self._handle),
            name_scope(name, "TensorArrayStack", [self._handle]),
        ):
            value = self.gather(range_(0, self.size()), name=name)
            shape = self._shape[0]
            if shape is not None and not self._dynamic_size and self._size is not None:
                size = (
                    constant_value(convert_to_tensor(self._size))
                    if isinstance(self._size, Tensor)
                    else self._size
                )
                value.set_shape((None if size is None else int(size), *shape))
            return value

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the elements at `indices` (int32 [n]) along a new first dimension."""
        shape = self._shape[0]
        value = tensor(
            "TensorArrayGatherV3",
            name,
            handle=self._handle,
            indices=indices,
            flow_in=self._flow,
            dtype=self._dtype,
            element_shape=TensorShape(shape),
        )
        if shape is not None:
            value.set_shape((None, *shape))
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """Concatenate all elements along their first dimension."""
        shape = self._shape[0]
        rest = None if shape is None else shape[1:]
        value, _ = call(
            "TensorArrayConcatV3",
            name,
            handle=self._handle,
            flow_in=self._flow,
            dtype=self._dtype,
            element_shape_except0=TensorShape(rest),
        )
        made: Tensor = value
        if shape:
            size = constant_value(self.size())
            made.set_shape(
                (None if size is None or shape[0] is None else int(size) * shape[0], *shape[1:])
            )
        return made

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """Return the array with the rows of `value` written to its elements."""
        from tfjit.ops.arrays.array import shape as shape_
        from tfjit.ops.arrays.creation import range as range_

        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            return self.scatter(range_(0, shape_(value)[0]), value, name=name)

    def scatter(
        self, indices: TensorLike, value: TensorLike, name: str | None = None
    ) -> TensorArray:
        """Write the rows of `value` to the elements at `indices` (int32 [n])."""
        with name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            shape = value.shape_tuple
            self._learn(None if shape is None else shape[1:])
            with self._placed(value):
                flow = tensor(
                    "TensorArrayScatterV3",
                    name,
                    handle=self._handle,
                    indices=indices,
                    value=value,
                    flow_in=self._flow,
                )
                return self.with_flow(flow)

    def split(self, value: TensorLike, lengths: TensorLike, name: str | None = None) -> TensorArray:
        """Write pieces of `value`, cut along its first dimension.

        The pieces have `lengths` [size], one an element.
        """
        from tfjit.ops.arithmetic.elementwise_functions import cast

        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            with self._placed(value):
                sizes = cast(lengths, dtypes.int64)
                known = constant_value(sizes)
                shape = value.shape_tuple
                if (
                    known is not None
                    and shape is not None
                    and known.shape
                    and known.min() == known.max()
                ):
                    self._learn((int(known[0]), *shape[1:]))
                flow = tensor(
                    "TensorArraySplitV3",
                    name,
                    handle=self._handle,
                    value=value,
                    lengths=sizes,
                    flow_in=self._flow,
                )
                return self.with_flow(flow)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements, an int32 scalar."""
        if not self._dynamic_size and self._size is not None:
            return convert_to_tensor(self._size, dtype=dtypes.int32)
        return tensor("TensorArraySizeV3", name, handle=self._handle, flow_in=self._flow)

    def close(self, name: str | None = None) -> Operation:
        """Return an operation that frees the elements."""
        return create("TensorArrayCloseV3", name, handle=self._handle)

    def _learn(self, shape: Shape) -> None:
        if not self._infer_shape and self._shape[0] is None:
            return
        if not is_compatible(self._shape[0], shape):
            raise ValueError(
                f"Inconsistent shapes: saw {TensorShape(shape)} but expected "
                f"{TensorShape(self._shape[0])} "
            )
        if self._infer_shape:
            self._shape[0] = merge(self._shape[0], shape)

    @contextmanager
    def _placed(self, value: Tensor) -> Iterator[None]:
        if self._beside is None:
            yield
            return
        if not self._beside:
            self._beside.append(value)
        with get_default_graph().colocate_with(self._beside[0]):
            yield


def to_flow(value: TensorLike) -> Structure:
    """Return the value that control flow carries: of a TensorArray its flow."""
    return value.flow if isinstance(value, TensorArray) else value


def from_flow(like: Any, value: Any) -> Any:
    """Return a carried value in the form of `like`."""
    return like.with_flow(value) if isinstance(like, TensorArray) else value
