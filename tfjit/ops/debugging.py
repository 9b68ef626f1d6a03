"""Present tf.debugging: checks of tensors."""

from tfjit.ops.arithmetic.elementwise_functions import is_finite, is_inf, is_nan
from tfjit.ops.arrays.array import check_numerics
from tfjit.ops.checks.comparisons import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
)
from tfjit.ops.checks.kinds import (
    assert_integer,
    assert_proper_iterable,
    assert_same_float_dtype,
    assert_type,
    is_numeric_tensor,
)
from tfjit.ops.checks.kinds import verify_tensor_all_finite as assert_all_finite
from tfjit.ops.checks.orders import is_non_decreasing, is_strictly_increasing
from tfjit.ops.checks.ranks import (
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_scalar,
)
from tfjit.ops.checks.sizes import assert_shapes
from tfjit.ops.control_flow.conditionals import Assert

__all__ = [
    "Assert",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_shapes",
    "assert_type",
    "check_numerics",
    "is_finite",
    "is_inf",
    "is_nan",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
]
