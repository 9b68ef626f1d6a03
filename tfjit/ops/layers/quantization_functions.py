"""Define public functions of quantised values: `quantize`, `fake_quant_with_min_max_vars`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def fake_quant_with_min_max_args(
    inputs: TensorLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Round values to the levels of a quantised range.

    inputs: float32. min, max: the range, which is moved so that 0 is a level. num_bits: 2 to 16,
    for 2^num_bits levels; one less with narrow_range.
    """
    return tensor(
        "FakeQuantWithMinMaxArgs",
        name,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )


def fake_quant_with_min_max_args_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return gradients where inputs are in the range, and 0 elsewhere."""
    return tensor(
        "FakeQuantWithMinMaxArgsGradient",
        name,
        gradients=gradients,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )


def fake_quant_with_min_max_vars(
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Round values as `fake_quant_with_min_max_args`; the range is of scalar tensors."""
    return tensor(
        "FakeQuantWithMinMaxVars",
        name,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )


def fake_quant_with_min_max_vars_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by inputs, min and max."""
    found: tuple[Tensor, Tensor, Tensor] = call(
        "FakeQuantWithMinMaxVarsGradient",
        name,
        gradients=gradients,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )
    return found


def fake_quant_with_min_max_vars_per_channel(
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Round values [..., c] with a range for each channel.

    min, max: [c].
    """
    return tensor(
        "FakeQuantWithMinMaxVarsPerChannel",
        name,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )


def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by inputs [..., c], min and max."""
    found: tuple[Tensor, Tensor, Tensor] = call(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        name,
        gradients=gradients,
        inputs=inputs,
        min=min,
        max=max,
        num_bits=num_bits,
        narrow_range=narrow_range,
    )
    return found


def _axis(input: TensorLike, axis: int | None) -> int:
    """Return an axis counted from the front; -1 for none.

    Raises ValueError for a negative axis of an unknown rank.
    """
    if axis is None:
        return -1
    if axis >= 0:
        return axis
    rank = convert_to_tensor(input).shape.rank
    if rank is None:
        raise ValueError("input should have known rank to use negative axis.")
    return axis % rank


def quantize(
    input: TensorLike,
    min_range: TensorLike,
    max_range: TensorLike,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (quantised values, their least, their largest value) of float32 values.

    T: qint8, quint8, qint32, qint16 or quint16. mode: "MIN_COMBINED", "MIN_FIRST" or "SCALED".
    axis: an axis along which each slice has its range, [size].
    """
    found: tuple[Tensor, Tensor, Tensor] = call(
        "QuantizeV2",
        name,
        input=input,
        min_range=min_range,
        max_range=max_range,
        T=T,
        mode=mode,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=_axis(input, axis),
        ensure_minimum_range=ensure_minimum_range,
    )
    return found


def quantize_v2(
    input: TensorLike,
    min_range: TensorLike,
    max_range: TensorLike,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise as `quantize`, with another order of arguments."""
    return quantize(
        input,
        min_range,
        max_range,
        T,
        mode,
        round_mode,
        name,
        narrow_range,
        axis,
        ensure_minimum_range,
    )


def dequantize(
    input: TensorLike,
    min_range: TensorLike,
    max_range: TensorLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: DTypeLike = dtypes.float32,
) -> Tensor:
    """Return the floats that quantised values stand for.

    The arguments are those of `quantize`. dtype: float32 or bfloat16.
    """
    return tensor(
        "Dequantize",
        name,
        input=input,
        min_range=min_range,
        max_range=max_range,
        mode=mode,
        narrow_range=narrow_range,
        axis=_axis(input, axis),
        dtype=dtype,
    )


def _both_ways(
    op_type: str,
    input: TensorLike,
    input_min: TensorLike,
    input_max: TensorLike,
    signed_input: bool,
    num_bits: int,
    range_given: bool,
    round_mode: str,
    name: str | None,
    narrow_range: bool,
    axis: int | None,
) -> Tensor:
    return tensor(
        op_type,
        name,
        input=input,
        input_min=input_min,
        input_max=input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=_axis(input, axis),
    )


def quantize_and_dequantize(
    input: TensorLike,
    input_min: TensorLike,
    input_max: TensorLike,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Round values to the levels of a quantised range; gradients pass.

    input_min, input_max: the range if range_given, else that of the values is taken. axis: an axis
    along which each slice has its range.
    """
    return _both_ways(
        "QuantizeAndDequantizeV2",
        input,
        input_min,
        input_max,
        signed_input,
        num_bits,
        range_given,
        round_mode,
        name,
        narrow_range,
        axis,
    )


def quantize_and_dequantize_v2(
    input: TensorLike,
    input_min: TensorLike,
    input_max: TensorLike,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Round as `quantize_and_dequantize`; gradients pass in the range alone."""
    return _both_ways(
        "QuantizeAndDequantizeV4",
        input,
        input_min,
        input_max,
        signed_input,
        num_bits,
        range_given,
        round_mode,
        name,
        narrow_range,
        axis,
    )


def quantized_concat(
    concat_dim: TensorLike,
    values: list[Tensor],
    input_mins: list[Tensor],
    input_maxes: list[Tensor],
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Concatenate quantised values; return them, their least, their largest value.

    A run raises an error: QuantizedConcat has no kernel yet.
    """
    found: tuple[Tensor, Tensor, Tensor] = call(
        "QuantizedConcat",
        name,
        concat_dim=concat_dim,
        values=values,
        input_mins=input_mins,
        input_maxes=input_maxes,
    )
    return found
