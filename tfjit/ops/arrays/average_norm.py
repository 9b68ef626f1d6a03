"""`tf.clip_by_average_norm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.arithmetic.reduction import reduce_sum
from tfjit.ops.arrays.array import rank, size
from tfjit.ops.arrays.creation import range as range_of
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def clip_by_average_norm(t: TensorLike, clip_norm: TensorLike, name: str | None = None) -> Tensor:
    """Scale `t` down to an average L2 norm of at most clip_norm.

    The average norm is the L2 norm divided by the number of elements.
    """
    with name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        values = convert_to_tensor(t, name="t")
        count = cast(size(values), dtypes.float32)
        squares = reduce_sum(values * values, range_of(rank(values)))
        inverse = tensor("Rsqrt", None, x=squares)
        scaled = values * clip_norm
        factor = tensor("Minimum", None, x=inverse * count, y=constant(1.0) / clip_norm)
        scaled = scaled * factor
        return tensor("Identity", scope, input=scaled)
