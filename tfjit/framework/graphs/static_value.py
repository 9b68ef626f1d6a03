"""Values of tensors that are known while the graph is built.

Values are known whole or (as a shape) in part. The search follows the small integer arithmetic of
shapes, and visits a bounded number of operations, so that building a long chain stays linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.types import shape as shapes
from tfjit.framework.types.shape import Shape

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Operation, Tensor

_MAX_VISITS: Final = 200
_MAX_DEPTH: Final = 50
_MAX_ELEMENTS: Final = 4096  # computed values; a Const of any size is known
_OF_SHAPES: Final = frozenset(
    {"StridedSlice", "Slice", "Pack", "Concat", "ConcatV2", "Identity", "StopGradient", "Cast"}
)


class _Search:
    __slots__ = ("visits",)

    def __init__(self) -> None:
        self.visits = 0

    def value(self, tensor: Tensor, depth: int = 0) -> np.ndarray | None:
        """Return the tensor's value, None where it is not known."""
        op = tensor.op
        if op._type == "Const":
            found = op._attrs["value"]
            return found if isinstance(found, np.ndarray) else None
        self.visits += 1
        if depth > _MAX_DEPTH or self.visits > _MAX_VISITS:
            return None
        result = self._folded(tensor, depth)
        if result is None and op._type in _OF_SHAPES and tensor._dtype.is_integer:
            # A part of a partly known shape may be known: x.shape[1:] where only the batch is not.
            if tensor._shape == ():
                result = self._element(tensor, depth + 1)
            else:
                sizes = self._partial(tensor, depth + 1)
                result = sizes if sizes is not None and None not in sizes else None
        if result is None:
            return None
        result = np.asarray(result, dtype=tensor._dtype.as_numpy_dtype)
        return result if result.size <= _MAX_ELEMENTS else None

    def _folded(self, tensor: Tensor, depth: int) -> Any:
        op = tensor.op
        by_shape = _FROM_SHAPES.get(op._type)
        if by_shape is not None:
            return by_shape(op, tensor._value_index)
        fold = _FOLDS.get(op._type)
        if fold is None or not op._inputs:
            return None
        arrays = []
        for operand in op._inputs:
            array = self.value(operand, depth + 1)
            if array is None or array.size > _MAX_ELEMENTS:
                return None
            arrays.append(array)
        try:
            with np.errstate(all="ignore"):
                result = fold(op, arrays)
            return result[tensor._value_index] if isinstance(result, (list, tuple)) else result
        except (ValueError, IndexError, TypeError, ZeroDivisionError):
            return None  # the kernel reports it when it runs

    def as_shape(self, tensor: Tensor, depth: int = 0) -> Shape:
        """Return an integer vector as a shape, None for unknown elements.

        None when its length is unknown.
        """
        whole = self.value(tensor, depth)
        if whole is not None:
            if whole.ndim != 1:
                return None
            return tuple(None if v < 0 else int(v) for v in whole.tolist())
        return self._partial(tensor, depth)

    def _partial(self, tensor: Tensor, depth: int) -> Shape:
        op = tensor.op
        self.visits += 1
        if depth > _MAX_DEPTH or self.visits > _MAX_VISITS:
            return _unknown_vector(tensor)
        kind = op._type
        if kind in ("Shape", "ShapeN"):
            return op._inputs[tensor._value_index]._shape
        if kind in ("Identity", "StopGradient", "Cast"):
            return self.as_shape(op._inputs[0], depth + 1)
        if (
            kind == "Pack"
            and op._attrs.get("axis", 0) == 0
            and all(t._shape == () for t in op._inputs)
        ):
            sizes: list[int | None] = []
            for element in op._inputs:
                value = self.value(element, depth + 1)
                size = None if value is None else int(value)
                sizes.append(None if size is None or size < 0 else size)
            return tuple(sizes)
        if kind in ("Concat", "ConcatV2"):
            parts = op._inputs[:-1] if kind == "ConcatV2" else op._inputs[1:]
            joined: Shape = ()
            for part in parts:
                piece = self.as_shape(part, depth + 1)
                if piece is None or joined is None:
                    return _unknown_vector(tensor)
                joined = joined + piece
            return joined
        if kind == "StridedSlice":
            found = self._slice(op, depth)
            if isinstance(found, tuple):
                return found
        if kind == "Slice":
            vector = self.as_shape(op._inputs[0], depth + 1)
            bounds = [self.value(t, depth + 1) for t in op._inputs[1:]]
            if vector is not None and all(b is not None and b.shape == (1,) for b in bounds):
                begin, size = (int(b[0]) for b in bounds)  # type: ignore[index]
                return vector[begin:] if size < 0 else vector[begin : begin + size]
        return _unknown_vector(tensor)

    def _element(self, tensor: Tensor, depth: int) -> int | None:
        """Return a scalar cut out of a partly known shape vector."""
        op = tensor.op
        if depth > _MAX_DEPTH or self.visits > _MAX_VISITS:
            return None
        if op._type in ("Identity", "Cast"):
            return self._element(op._inputs[0], depth + 1)
        if op._type == "StridedSlice":
            found = self._slice(op, depth)
            return found if isinstance(found, int) else None
        return None

    def _slice(self, op: Operation, depth: int) -> Shape | int:
        """Return a StridedSlice of a shape vector by one index or range."""
        source = op._inputs[0]
        if source._shape is None or len(source._shape) != 1:
            return None
        bounds = [self.value(t, depth + 1) for t in op._inputs[1:4]]
        attrs = op._attrs
        if (
            any(b is None or b.shape != (1,) for b in bounds)
            or attrs["new_axis_mask"]
            or attrs["ellipsis_mask"]
        ):
            return None
        vector = self.as_shape(source, depth + 1)
        if vector is None:
            return None
        begin, end, stride = (int(b[0]) for b in bounds)  # type: ignore[index]
        if attrs["shrink_axis_mask"] & 1:
            return vector[begin] if -len(vector) <= begin < len(vector) else None
        cut = slice(
            None if attrs["begin_mask"] & 1 else begin,
            None if attrs["end_mask"] & 1 else end,
            stride or 1,
        )
        return vector[cut]


def _unknown_vector(tensor: Tensor) -> Shape:
    shape = tensor._shape
    if shape is not None and len(shape) == 1 and shape[0] is not None and shape[0] <= _MAX_ELEMENTS:
        return (None,) * shape[0]
    return None


def constant_value(tensor: Tensor) -> np.ndarray | None:
    """Return a tensor's value if known and constant over runs.

    None where the value can't be told cheaply. The array is not to be written to.
    """
    return _Search().value(tensor)


def get_static_value(tensor: Tensor, partial: bool = False) -> np.ndarray | None:
    """Return a tensor's value if known and constant over runs.

    None where the value can't be told cheaply. partial: of scalars or vectors packed together, give
    an object array with None for those that are not known.
    """
    known = constant_value(tensor)
    if known is not None or not partial or tensor.op.type != "Pack" or not tensor.op.inputs:
        return known
    values = [constant_value(part) for part in tensor.op.inputs]
    return np.array(values, dtype=object) if any(value is not None for value in values) else None


def constant_value_as_shape(tensor: Tensor) -> Shape:
    """Return an integer vector tensor as a shape.

    Unknown elements are None; None when even its length is unknown.
    """
    return _Search().as_shape(tensor)


def _shape_value(op: Operation, index: int) -> np.ndarray | None:
    shape = op._inputs[index]._shape
    return np.array(shape, np.int64) if shapes.is_fully_defined(shape) else None


def _size_value(op: Operation, index: int) -> np.ndarray | None:
    size = shapes.num_elements(op._inputs[0]._shape)
    return None if size is None else np.array(size)


def _rank_value(op: Operation, index: int) -> np.ndarray | None:
    shape = op._inputs[0]._shape
    return None if shape is None else np.array(len(shape))


_FROM_SHAPES: Final[dict[str, Callable[[Operation, int], np.ndarray | None]]] = {
    "Shape": _shape_value,
    "ShapeN": _shape_value,
    "Size": _size_value,
    "Rank": _rank_value,
}


def _cast(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    target = op._attrs["DstT"]
    source = arrays[0]
    return (
        source.astype(target.as_numpy_dtype)
        if source.dtype.kind in "biuf" and target.is_numpy_compatible
        else None
    )


def _pack(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    return np.stack(arrays, axis=op._attrs["axis"])


def _unpack(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    return [np.take(arrays[0], i, axis=op._attrs["axis"]) for i in range(op._attrs["num"])]


def _strided_slice(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    source, begin, end, strides = arrays
    attrs = op._attrs
    key: list[Any] = []
    for i in range(begin.size):
        bit = 1 << i
        if attrs["ellipsis_mask"] & bit:
            key.append(Ellipsis)
        elif attrs["new_axis_mask"] & bit:
            key.append(None)
        elif attrs["shrink_axis_mask"] & bit:
            key.append(int(begin[i]))
        else:
            key.append(
                slice(
                    None if attrs["begin_mask"] & bit else int(begin[i]),
                    None if attrs["end_mask"] & bit else int(end[i]),
                    int(strides[i]),
                )
            )
    return source[tuple(key)]


def _slice(op: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    value, begins, sizes = arrays
    cut = []
    for begin, size, whole in zip(begins.tolist(), sizes.tolist(), value.shape):
        end = whole if size == -1 else begin + size
        if not 0 <= begin <= end <= whole:
            return None
        cut.append(slice(begin, end))
    return value[tuple(cut)]


def _squeeze(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    axes = op._attrs["squeeze_dims"]
    return np.squeeze(arrays[0], axis=tuple(axes) if axes else None)


def _floor_div(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    return (
        None if arrays[1].dtype.kind in "iu" and not arrays[1].all() else np.floor_divide(*arrays)
    )


def _floor_mod(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    return None if arrays[1].dtype.kind in "iu" and not arrays[1].all() else np.mod(*arrays)


def _gather(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    if op._attrs.get("batch_dims", 0):
        return None
    params, indices = arrays[0], arrays[1]
    axis = int(arrays[2]) if len(arrays) > 2 else 0
    if indices.size and not (indices.min() >= 0 and indices.max() < params.shape[axis]):
        return None
    return np.take(params, indices, axis=axis)


def _fill(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    total = int(np.prod(arrays[0], dtype=np.int64))
    return np.full(tuple(arrays[0].tolist()), arrays[1]) if 0 <= total <= _MAX_ELEMENTS else None


def _range(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    start, limit, delta = (a.item() for a in arrays)
    return (
        np.arange(start, limit, delta)
        if delta and abs((limit - start) / delta) <= _MAX_ELEMENTS
        else None
    )


def _prod(op: Operation, arrays: Sequence[np.ndarray]) -> Any:
    axes = tuple(int(a) for a in arrays[1].reshape(-1))
    return np.prod(arrays[0], axis=axes, keepdims=op._attrs["keep_dims"], dtype=arrays[0].dtype)


_FOLDS: Final[dict[str, Callable[[Operation, Sequence[np.ndarray]], Any]]] = {
    "Identity": lambda op, a: a[0],
    "StopGradient": lambda op, a: a[0],
    "GuaranteeConst": lambda op, a: a[0],
    "Cast": _cast,
    "Pack": _pack,
    "Unpack": _unpack,
    "Concat": lambda op, a: np.concatenate(a[1:], axis=int(a[0])),
    "ConcatV2": lambda op, a: np.concatenate(a[:-1], axis=int(a[-1])),
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "Squeeze": _squeeze,
    "ExpandDims": lambda op, a: np.expand_dims(a[0], int(a[1])),
    "Reshape": lambda op, a: np.reshape(a[0], a[1].tolist()),
    "Gather": _gather,
    "GatherV2": _gather,
    "Fill": _fill,
    "Range": _range,
    "Prod": _prod,
    "Add": lambda op, a: np.add(*a),
    "AddV2": lambda op, a: np.add(*a),
    "Sub": lambda op, a: np.subtract(*a),
    "Mul": lambda op, a: np.multiply(*a),
    "Neg": lambda op, a: np.negative(*a),
    "FloorDiv": _floor_div,
    "FloorMod": _floor_mod,
    "Maximum": lambda op, a: np.maximum(*a),
    "Minimum": lambda op, a: np.minimum(*a),
    "Equal": lambda op, a: np.equal(*a),
    "NotEqual": lambda op, a: np.not_equal(*a),
    "Greater": lambda op, a: np.greater(*a),
    "Less": lambda op, a: np.less(*a),
    "BroadcastArgs": lambda op, a: np.array(
        np.broadcast_shapes(tuple(a[0].tolist()), tuple(a[1].tolist())), a[0].dtype
    ),
}
