"""Sparse tensors: indices, values and dense shape as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tfjit import ops
from tfjit.client.session.fetches import register_session_run_conversion_functions
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor, _session_for
from tfjit.framework.graphs.static_value import constant_value_as_shape
from tfjit.framework.types.dtypes import DType, as_dtype, int64
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arithmetic.elementwise_functions import AS_FLOAT
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        DenseOrSparse,
        DTypeLike,
        FeedDict,
        SessionLike,
        ShapeLike,
        TensorLike,
    )


class SparseTensorValue(NamedTuple):
    """The value of a SparseTensor in fetches and feeds: arrays.

    indices [n, rank], values [n], dense_shape [rank].
    """

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """A sparse tensor: indices, values and a dense shape.

    indices int64 [n, rank], values [n], dense_shape int64 [rank]. Raises ValueError where ranks and
    sizes do not fit. Most functions want indices in the order of rows; `sparse.reorder` puts them
    into it.
    """

    def __init__(self, indices: object, values: object, dense_shape: object) -> None:
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, dtype=int64, name="indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, dtype=int64, name="dense_shape")
        self._known_shape: TensorShape | None = None
        rows, count = self._indices.shape.with_rank(2), self._values.shape.with_rank(1)
        rank = self._dense_shape.shape.with_rank(1)
        rows[:1].assert_is_compatible_with(count[:1])
        rows[1:].assert_is_compatible_with(rank[:1])

    @property
    def indices(self) -> Tensor:
        """int64 [n, rank]"""
        return self._indices

    @property
    def values(self) -> Tensor:
        """[n]"""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """int64 [rank]"""
        return self._dense_shape

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self._values.dtype

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        return self._values.op

    @property
    def graph(self) -> Any:
        """The graph of all three."""
        return self._indices.graph

    @property
    def shape(self) -> TensorShape:
        """The part of the dense shape known at graph construction."""
        return self.get_shape()

    def get_shape(self) -> TensorShape:
        """Return the part of the dense shape known at graph construction."""
        if self._known_shape is not None:
            return self._known_shape
        return TensorShape(constant_value_as_shape(self._dense_shape))

    def with_values(self, new_values: TensorLike) -> SparseTensor:
        """Return a sparse tensor with the same places and other values."""
        made = SparseTensor(self._indices, new_values, self._dense_shape)
        made._known_shape = self._known_shape
        return made

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """Return a constant of a SparseTensorValue; a SparseTensor stays.

        Raises TypeError for anything else.
        """
        if isinstance(sparse_tensor_value, SparseTensor):
            return sparse_tensor_value
        if not all(hasattr(sparse_tensor_value, name) for name in SparseTensorValue._fields):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value}.")
        return cls(
            sparse_tensor_value.indices, sparse_tensor_value.values, sparse_tensor_value.dense_shape
        )

    def eval(
        self, feed_dict: FeedDict | None = None, session: SessionLike | None = None
    ) -> SparseTensorValue:
        """Return the value in a session, by default the default one.

        Raises ValueError where there is none.
        """
        value: SparseTensorValue = _session_for(self.graph, session, "evaluate tensor", "eval").run(
            self, feed_dict
        )
        return value

    def __mul__(self, other: TensorLike) -> SparseTensor:
        """Multiply each value by the dense element at its place.

        A number or tensor is broadcast to this shape.
        """
        return self._with_dense("SparseDenseCwiseMul", "mul", self._values, other)

    def __rmul__(self, other: TensorLike) -> SparseTensor:
        """Multiply a dense tensor by this one."""
        return self * other if isinstance(other, Tensor) else NotImplemented

    def __truediv__(self, other: TensorLike) -> SparseTensor:
        """Divide each value by the dense element at its place.

        Integers are divided as floats.
        """
        divisor = convert_to_tensor(other, dtype=self.dtype.base_dtype)
        wide = AS_FLOAT.get(self.dtype.base_dtype)
        if wide is None:
            return self._with_dense("SparseDenseCwiseDiv", "truediv", self._values, divisor)
        return self._with_dense(
            "SparseDenseCwiseDiv", "truediv", ops.cast(self._values, wide), ops.cast(divisor, wide)
        )

    __div__ = __truediv__

    def _with_dense(
        self, op_type: str, name: str, values: Tensor, other: TensorLike
    ) -> SparseTensor:
        with name_scope(None, name, [self._indices, values, self._dense_shape, other]) as scope:
            dense = convert_to_tensor(other, dtype=values.dtype.base_dtype, name="y")
            places = {"sp_indices": self._indices, "sp_shape": self._dense_shape}
            return self.with_values(tensor(op_type, scope, **places, sp_values=values, dense=dense))

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self._indices}, values={self._values}, "
            f"dense_shape={self._dense_shape})"
        )


def sparse_placeholder(
    dtype: DTypeLike, shape: ShapeLike | None = None, name: str | None = None
) -> SparseTensor:
    """Return a sparse tensor to be fed.

    Feeds are a SparseTensorValue or a tuple of its parts. shape: None, a shape of known rank, or a
    tensor of sizes. Raises ValueError for a shape of unknown rank.
    """
    kind = as_dtype(dtype)
    base = f"{name}/" if name is not None else ""
    rank: int | None
    if shape is None:
        known, rank = TensorShape(None), None
        dense = ops.placeholder(int64, [None], name=base + "shape")
    elif isinstance(shape, Tensor):
        rank = shape.shape.num_elements()
        dense = ops.placeholder_with_default(shape, shape.shape, name=base + "shape")
        known = TensorShape(constant_value_as_shape(shape))
    else:
        known = TensorShape(shape)
        sizes = [-1 if size is None else size for size in known.as_list()]
        rank = len(sizes)
        default = ops.constant(sizes, dtype=int64, shape=[rank], name=base + "shape_default")
        dense = ops.placeholder_with_default(default, [rank], name=base + "shape")
    values = ops.placeholder(kind, [None], name=base + "values")
    indices = ops.placeholder(int64, [None, rank], name=base + "indices")
    made = SparseTensor(indices, values, dense)
    made._known_shape = known
    return made


def _parts(value: SparseTensor) -> list[Tensor]:
    return [value.indices, value.values, value.dense_shape]


def _fed(sparse: SparseTensor, value: Any) -> list[tuple[Any, Any]]:
    # the shape of a placeholder of known shape is a constant, which runs may feed too
    return list(zip(_parts(sparse), value, strict=True))


register_session_run_conversion_functions(
    SparseTensor, lambda x: (_parts(x), lambda v: SparseTensorValue(*v)), _fed, _parts
)


def convert_to_tensor_or_sparse_tensor(
    value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> DenseOrSparse:
    """Return a SparseTensor of a sparse value, a Tensor of any other.

    Raises RuntimeError for a sparse value of another dtype; see `convert_to_tensor` for others.
    """
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value, dtype=dtype, name=name)
    if dtype is not None and not as_dtype(dtype).is_compatible_with(value.dtype):
        raise RuntimeError(
            f"Sparse dtype mismatch. Requested: {as_dtype(dtype).name},  Actual: {value.dtype.name}"
        )
    return value
