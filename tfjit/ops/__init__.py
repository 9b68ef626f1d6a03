"""Present op types and the functions that build them, by family.

The functions are fetched from their families when they are first used.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

from tfjit.framework.graphs.operation import Tensor

_FAMILIES: Final = {
    "layers.activation": ("log_sigmoid sigmoid tanh"),
    "arrays.array": (
        "bitcast broadcast_dynamic_shape broadcast_static_shape broadcast_to check_numerics "
        "ensure_shape expand_dims guarantee_const identity identity_n invert_permutation "
        "placeholder placeholder_with_default prevent_gradient rank reshape shape shape_n size "
        "squeeze stop_gradient"
    ),
    "arrays.creation": (
        "diag diag_part eye fill lin_space linspace meshgrid ones ones_like range "
        "sequence_mask zeros zeros_like"
    ),
    "checks.comparisons": (
        "assert_equal assert_greater assert_greater_equal assert_less assert_less_equal "
        "assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal "
        "assert_positive"
    ),
    "arithmetic.special_functions": ("lbeta"),
    "random_values.stateless_distributions": ("random_index_shuffle"),
    "layers.quantization_functions": (
        "dequantize fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient "
        "fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient "
        "fake_quant_with_min_max_vars_per_channel "
        "fake_quant_with_min_max_vars_per_channel_gradient quantize quantize_v2 quantized_concat"
    ),
    "checks.confusion": ("confusion_matrix"),
    "checks.kinds": (
        "assert_integer assert_proper_iterable assert_same_float_dtype assert_type "
        "is_numeric_tensor verify_tensor_all_finite"
    ),
    "checks.orders": ("is_non_decreasing is_strictly_increasing"),
    "checks.ranks": ("assert_rank assert_rank_at_least assert_rank_in assert_scalar"),
    "checks.numerics": ("add_check_numerics_ops"),
    "arrays.average_norm": ("clip_by_average_norm"),
    "arrays.batch_gather": ("batch_gather"),
    "arrays.sorting": ("argsort sort"),
    "arithmetic.clipping": ("clip_by_global_norm clip_by_norm global_norm"),
    "control_flow.conditionals": ("Assert case cond switch_case"),
    "control_flow.control_flow": ("Print group no_op timestamp tuple"),
    "control_flow.control_flow_form": (
        "control_flow_v2_enabled disable_control_flow_v2 enable_control_flow_v2"
    ),
    "core.convert": (
        "ConversionFunction constant convert_n_to_tensor convert_to_tensor "
        "register_tensor_conversion_function"
    ),
    "arithmetic.elementwise_functions": (
        "abs accumulate_n acos acosh add add_n angle asin asinh atan atan2 atanh betainc cast ceil "
        "clip_by_value "
        "complex conj cos cosh digamma div div_no_nan divide equal erf erfc exp expm1 floor "
        "floor_div floordiv floormod "
        "greater greater_equal igamma igammac imag is_finite is_inf is_nan less less_equal lgamma "
        "log log1p logical_and "
        "logical_not logical_or logical_xor maximum minimum mod multiply negative not_equal "
        "polygamma pow real realdiv "
        "reciprocal rint round rsqrt saturate_cast scalar_mul sign sin sinh sqrt square "
        "squared_difference subtract tan "
        "to_bfloat16 to_complex128 to_complex64 to_double to_float to_int32 to_int64 truediv "
        "truncatediv truncatemod "
        "zeta"
    ),
    "autodiff.backprop": ("AggregationMethod UnconnectedGradients gradients"),
    "autodiff.custom_gradient": ("custom_gradient grad_pass_through"),
    "autodiff.hessians": ("hessians"),
    "control_flow.folds": ("foldl foldr map_fn scan"),
    "control_flow.py_func": ("numpy_function py_func"),
    "control_flow.functions": ("function"),
    "arrays.indexing_functions": (
        "dynamic_partition dynamic_stitch gather gather_nd one_hot scatter_nd searchsorted "
        "setdiff1d tensor_scatter_add "
        "tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub "
        "tensor_scatter_nd_update tensor_scatter_sub tensor_scatter_update unique "
        "unique_with_counts unravel_index "
        "where where_v2"
    ),
    "linalg": (
        "cholesky cholesky_solve matrix_band_part=band_part matrix_determinant=det "
        "matrix_diag=diag matrix_diag_part=diag_part "
        "matrix_inverse=inv matrix_set_diag=set_diag matrix_solve=solve matrix_solve_ls=lstsq "
        "matrix_square_root=sqrtm "
        "matrix_triangular_solve=triangular_solve norm qr self_adjoint_eig=eigh "
        "self_adjoint_eigvals=eigvalsh svd trace"
    ),
    "control_flow.loops": ("while_loop"),
    "arithmetic.matrix_product": ("cross einsum matmul tensordot"),
    "arrays.movement_functions": (
        "concat matrix_transpose pad parallel_stack repeat reverse reverse_sequence reverse_v2 "
        "roll split stack tile transpose unstack"
    ),
    "random_values.stateful_random": (
        "multinomial random_gamma random_normal random_poisson random_shuffle "
        "random_uniform truncated_normal"
    ),
    "arithmetic.reduction": (
        "arg_max arg_min argmax argmin count_nonzero cumprod cumsum reduce_all reduce_any "
        "reduce_logsumexp reduce_max "
        "reduce_mean reduce_min reduce_prod reduce_sum"
    ),
    "arithmetic.segment": (
        "bincount histogram_fixed_width segment_max segment_mean segment_min segment_prod "
        "segment_sum "
        "sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum unsorted_segment_max "
        "unsorted_segment_mean "
        "unsorted_segment_min unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum"
    ),
    "arrays.slicing": ("boolean_mask slice strided_slice"),
    "arrays.space": (
        "batch_to_space batch_to_space_nd depth_to_space required_space_to_batch_paddings "
        "space_to_batch space_to_batch_nd space_to_depth"
    ),
    "control_flow.flow_tensor_array": ("TensorArray"),
}
# public name -> (module, its name there)
_NAMES: Final = {
    name.partition("=")[0]: (family, name.rpartition("=")[2])
    for family, names in _FAMILIES.items()
    for name in names.split()
}
_NAMESPACES: Final = (
    "bitwise",
    "debugging",
    "linalg",
    "manip",
    "math",
    "nn",
    "quantization",
    "random",
    "raw_ops",
)
newaxis = None


def __getattr__(name: str) -> Any:
    if name in _NAMESPACES:
        return importlib.import_module(f"tfjit.ops.{name}")
    if name in _NAMES:
        family, attribute = _NAMES[name]
        value = getattr(importlib.import_module(f"tfjit.ops.{family}"), attribute)
    else:
        raise AttributeError(f"module 'tfjit.ops' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_NAMESPACES})


def _late(operator: str) -> Callable[..., Any]:
    """Return a stand-in for an operator until its first use.

    The first use loads the module that replaces all stand-ins.
    """

    def apply(*operands: object) -> Any:
        importlib.import_module("tfjit.ops.operators")
        return getattr(Tensor, operator)(*operands)

    return apply


for _operator in Tensor.OVERLOADABLE_OPERATORS - {"__eq__", "__ne__"}:
    Tensor._override_operator(_operator, _late(_operator))
