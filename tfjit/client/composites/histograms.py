"""Sort values into bins, and hash rows of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: TensorLike,
    nbins: TensorLike = 100,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return the bin of each value, int32 of the values' shape.

    value_range: the ends of the range that has `nbins` bins of equal width. Values outside are in
    the first and the last bin. dtype has no effect, as in TensorFlow. A run raises
    InvalidArgumentError for no bins.
    """
    del dtype
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        given = convert_to_tensor(values, name="values")
        shape = ops.shape(given)
        flat = ops.reshape(given, [-1])
        ends = convert_to_tensor(value_range, name="value_range")
        count = convert_to_tensor(nbins, dtype=dtypes.int32, name="nbins")
        check = ops.Assert(ops.greater(count, 0), [f"nbins {count} must > 0"])
        with control_dependencies([check]):
            count = ops.identity(count, name="control_dependency")
        bins = ops.cast(count, flat.dtype)
        scaled = ops.truediv(flat - ends[0], ends[1] - ends[0], name="scaled_values")
        found = ops.floor(bins * scaled, name="indices")
        numbers = ops.cast(ops.clip_by_value(found, 0, bins - 1), dtypes.int32)
        return ops.reshape(numbers, shape)


def fingerprint(data: TensorLike, method: str = "farmhash64", name: str | None = None) -> Tensor:
    """Return the fingerprint of each row's bytes, uint8 [rows, 8].

    method: the hash function; "farmhash64" is the only one.
    """
    return tensor("Fingerprint", name, data=data, method=method)
