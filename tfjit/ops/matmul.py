"""Matrix products."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import WIDE_SIGNED

register_op(
    "BatchMatMul",
    inputs=("x: T", "y: T"),
    outputs=("output: T",),
    attrs=(f"T: {WIDE_SIGNED}", "adj_x: bool = false", "adj_y: bool = false", "grad_x: bool = false", "grad_y: bool = false"),
)
register_op(
    "BatchMatMulV2",
    inputs=("x: T", "y: T"),
    outputs=("output: T",),
    attrs=(
        "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
)
register_op(
    "BatchMatMulV3",
    inputs=("x: Ta", "y: Tb"),
    outputs=("output: Tout",),
    attrs=(
        "Ta: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
        "Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
        "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
)
register_op("Cross", inputs=("a: T", "b: T"), outputs=("product: T",), attrs=("T: realnumbertype",))
register_op("Einsum", inputs=("inputs: N * T",), outputs=("output: T",), attrs=("equation: string", "N: int >= 1", "T: type"))
register_op(
    "_FusedMatMul",
    inputs=("a: T", "b: T", "args: num_args * T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float}",
        "num_args: int >= 0",
        "fused_ops: list(string) = []",
        "epsilon: float = 1e-04",
        "leakyrelu_alpha: float = 0.2",
    ),
)
register_op(
    "MatMul",
    inputs=("a: T", "b: T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}",
        "grad_a: bool = false",
        "grad_b: bool = false",
    ),
)
