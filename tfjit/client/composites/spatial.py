"""Pooling and convolution over any number of spatial axes, with dilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import nn
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import IntsLike, PaddingLike, ShapeLike, TensorLike

# A size: a number where it is known.
Size = int | Tensor

_POOLS: dict[tuple[str, int], Callable[..., Tensor]] = {
    ("MAX", 1): nn.max_pool,
    ("MAX", 2): nn.max_pool,
    ("MAX", 3): nn.max_pool3d,
    ("AVG", 1): nn.avg_pool,
    ("AVG", 2): nn.avg_pool,
    ("AVG", 3): nn.avg_pool3d,
}


def pool(
    input: TensorLike,
    window_shape: Sequence[int],
    pooling_type: str,
    padding: str,
    dilation_rate: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Sequence[int] | None = None,
) -> Tensor:
    """Pool windows over one to three spatial axes, with strides or dilation.

    input [batch, *sizes, channels] or [batch, channels, *sizes] (formats NC...). pooling_type:
    "MAX" or "AVG". Raises ValueError for strides together with dilation, strides above the window's
    size, and dilation with the padding "SAME".
    """
    rates = renamed(dilations, dilation_rate, "dilations", "dilation_rate")
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        value = convert_to_tensor(input, name="input")
        axes = len(window_shape)
        if not 1 <= axes <= 3:
            raise ValueError(
                "`len(window_shape)` must be 1, 2, or 3. Received: "
                f"window_shape={window_shape} of length {axes}"
            )
        value.shape.with_rank(axes + 2)
        steps, spread = _strides_and_rates(axes, strides, rates)
        if padding == "SAME" and (spread > 1).any():
            raise ValueError(
                "pooling with 'SAME' padding is not implemented for `dilation_rate` > 1. "
                f"Received: padding={padding} and dilation_rate={spread}"
            )
        if (steps > np.array(window_shape)).any():
            raise ValueError(
                "`strides` > `window_shape` not supported due to inconsistency between CPU and "
                f"GPU implementations. Received: strides={steps} and window_shape={window_shape}"
            )
        function = _POOLS.get((pooling_type, axes))
        if function is None:
            raise ValueError(f"{axes}-D {pooling_type} pooling is not supported.")
        first = data_format is not None and data_format.startswith("NC")
        places = range(2, axes + 2) if first else range(1, axes + 1)
        window, moves = (
            [1, 1, *sizes] if first else [1, *sizes, 1]
            for sizes in (list(window_shape), steps.tolist())
        )
        layout = _layout(axes, data_format)

        def pooled(x: Tensor, _: int, border: PaddingLike) -> Tensor:
            if axes > 1:
                return function(x, window, moves, border, name=scope, **layout)
            image = ops.expand_dims(x, places[0])
            made = function(image, [1, *window], [1, *moves], border, name=scope, **layout)
            return ops.squeeze(made, [places[0]])

        return with_space_to_batch(
            input=value,
            dilation_rate=spread,
            padding=padding,
            op=pooled,
            spatial_dims=places,
            filter_shape=window_shape,
        )


def _layout(axes: int, data_format: str | None) -> dict[str, str]:
    """Return the data_format argument of a pooling function."""
    if axes > 1:
        return {} if data_format is None else {"data_format": data_format}
    if data_format not in (None, "NWC", "NCW"):
        raise ValueError(
            f"data_format must be either 'NWC' or 'NCW'. Received: data_format={data_format}"
        )
    return {"data_format": "NCHW" if data_format == "NCW" else "NHWC"}


def _strides_and_rates(
    axes: int, strides: Sequence[int] | None, rates: Sequence[int] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return strides and dilation rates, int32 [axes].

    Raises ValueError for those that do not fit.
    """
    found = []
    for what, given in (("dilation_rate", rates), ("strides", strides)):
        values = [1] * axes if given is None else list(given)
        if len(values) != axes:
            raise ValueError(
                f"`len({what})` should be {axes}. Received: {what}={given} of length {len(values)}"
            )
        numbers = np.array(values, np.int32)
        if (numbers < 1).any():
            raise ValueError(f"all values of `{what}` must be positive. Received: {what}={numbers}")
        found.append(numbers)
    spread, steps = found
    if (steps > 1).any() and (spread > 1).any():
        raise ValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`. Received: "
            f"strides={steps} and dilation_rate={spread}"
        )
    return steps, spread


def with_space_to_batch(
    input: TensorLike,
    dilation_rate: TensorLike,
    padding: PaddingLike,
    op: Callable[[Tensor, int, PaddingLike], Tensor],
    filter_shape: TensorLike | None = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Apply `op` with dilation, by moves into the batch axis.

    op: called with the tensor, the number of spatial axes and the padding. dilation_rate: a rate
    for each of spatial_dims, of which the first ones behind the batch are the default.
    filter_shape: the window's sizes, needed for "SAME". Raises ValueError for arguments that do not
    fit.
    """
    value = convert_to_tensor(input, name="input")
    rate = convert_to_tensor(dilation_rate, dtype=dtypes.int32, name="dilation_rate")
    if rate.shape.rank not in (None, 1):
        raise ValueError(
            "`dilation_rate.shape.rank` must be 1. Received: "
            f"dilation_rate={rate} of rank {rate.shape.rank}"
        )
    if not rate.shape.is_fully_defined():
        raise ValueError(
            "`dilation_rate.shape` must be fully defined. Received: "
            f"dilation_rate={rate} with shape {rate.shape}"
        )
    count = rate.shape.as_list()[0] or 0
    first = data_format is not None and data_format.startswith("NC")
    start = 2 if first else 1
    given = list(range(start, count + start) if spatial_dims is None else spatial_dims)
    axes = sorted({int(axis) for axis in given})
    if axes != given or any(axis < 1 for axis in axes):
        raise ValueError(
            "`spatial_dims` must be a monotonically increasing sequence of positive integers. "
            f"Received: spatial_dims={given}"
        )
    least = axes[-1] if first else axes[-1] + 1
    if value.shape.rank is not None and value.shape.rank < least:
        raise ValueError(
            f"`input.shape.rank` must be at least {least}. Received: input.shape={value.shape} "
            f"with rank {value.shape.rank}"
        )
    known = constant_value(rate)
    if known is not None:
        if (known < 1).any():
            raise ValueError(f"`dilation_rate` must be positive. Received: dilation_rate={known}")
        if (known == 1).all():
            return op(value, count, padding)
    border = _border(padding, count, filter_shape, rate if known is None else known, first)
    sizes = value.shape_tuple
    known_sizes = None if sizes is None else [sizes[axis] for axis in axes]
    if known_sizes is None or None in known_sizes:
        dynamic = ops.shape(value)
        inner: object = ops.stack([dynamic[axis] for axis in axes])
    else:
        inner = known_sizes
    paddings, crops = ops.required_space_to_batch_paddings(
        input_shape=inner, base_paddings=border, block_shape=rate
    )
    blocks, pads, cuts = (
        _for_all_axes(t, fill, axes) for t, fill in ((rate, 1), (paddings, 0), (crops, 0))
    )
    moved = tensor("SpaceToBatchND", None, input=value, block_shape=blocks, paddings=pads)
    result = op(moved, count, "VALID")
    return tensor("BatchToSpaceND", None, input=result, block_shape=blocks, crops=cuts)


def _border(
    padding: PaddingLike,
    count: int,
    filter_shape: TensorLike | None,
    rate: Tensor | np.ndarray,
    first: bool,
) -> np.ndarray | Tensor:
    """Return the padding before and after each spatial axis, [count, 2]."""
    if not isinstance(padding, str):
        pairs = np.array(padding).reshape(count + 2, 2)
        return pairs[2:] if first else pairs[1:-1]
    if padding == "VALID":
        return np.zeros((count, 2), np.int32)
    if padding != "SAME":
        raise ValueError(f"`padding` must be one of 'SAME' or 'VALID'. Received: padding={padding}")
    if filter_shape is None:
        raise ValueError(
            "`filter_shape` must be specified for `padding='SAME'`. Received: "
            f"filter_shape={filter_shape} and padding={padding}"
        )
    window = convert_to_tensor(filter_shape, name="filter_shape")
    known = constant_value(window)
    reach = ((window if known is None else known)[:count] - 1) * rate
    before = [reach[i] // 2 for i in range(count)]
    return ops.stack([[before[i], reach[i] - before[i]] for i in range(count)])


def _for_all_axes(values: Tensor, fill: int, axes: list[int]) -> np.ndarray | Tensor:
    """Return rows for the axes from 1 to the last one.

    The axes between those of `axes` have `fill`.
    """
    known = constant_value(values)
    rows = values if known is None else known
    inner = values.shape.as_list()[1:]
    parts: list[np.ndarray | Tensor] = []
    before = 0
    for i, axis in enumerate(axes):
        if axis > before + 1:
            rest = [n or 0 for n in inner]
            parts.append(np.full([axis - before - 1, *rest], fill, values.dtype.as_numpy_dtype))
        parts.append(rows[i : i + 1])
        before = axis
    return ops.concat(parts, 0) if known is None else np.concatenate(parts)


def _rank(input: TensorLike, data_format: str | None) -> tuple[int, bool]:
    """Return (number of spatial axes, whether channels come first)."""
    rank = convert_to_tensor(input).shape.rank
    if rank is None and data_format is None:
        raise ValueError(
            "`input` must have a static shape or a data format must be given. Received: "
            f"input.shape={None} and data_format={data_format}"
        )
    axes = (len(data_format or "") if rank is None else rank) - 2
    if not 1 <= axes <= 3:
        raise ValueError(
            f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={rank} of rank "
            f"{axes + 2}."
        )
    return axes, data_format is not None and data_format.startswith("NC")


def _numbers(value: IntsLike, axes: int, first: bool) -> list[int]:
    """Return a number for each axis of the input."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) == axes + 2:
        return values
    values = values * axes if len(values) == 1 else values
    return [1, 1, *values] if first else [1, *values, 1]


def max_pool_v2(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: PaddingLike,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the largest value of each window.

    There are one to three spatial axes. Raises ValueError for an input of another rank, or of an
    unknown one without a data_format.
    """
    axes, first = _rank(input, data_format)
    sizes, steps = _numbers(ksize, axes, first), _numbers(strides, axes, first)
    functions: list[Callable[..., Tensor]] = [nn.max_pool1d, nn.max_pool2d, nn.max_pool3d]
    layout = data_format or ("NWC", "NHWC", "NDHWC")[axes - 1]
    if axes == 3 and not isinstance(padding, str):
        raise ValueError(
            "Explicit padding is not supported with an input tensor of rank 5. Received: "
            f"padding={padding}"
        )
    return functions[axes - 1](input, sizes, steps, padding, layout, name)


def avg_pool_v2(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window over one to three spatial axes.

    Raises ValueError for an input of another rank, or of an unknown one without a data_format.
    """
    axes, first = _rank(input, data_format)
    sizes, steps = _numbers(ksize, axes, first), _numbers(strides, axes, first)
    functions: list[Callable[..., Tensor]] = [nn.avg_pool1d, nn.avg_pool, nn.avg_pool3d]
    layout = data_format or ("NWC", "NHWC", "NDHWC")[axes - 1]
    return functions[axes - 1](input, sizes, steps, padding, layout, name)


def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: ShapeLike,
    strides: IntsLike,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of a convolution over one to three spatial axes.

    The length of output_shape decides on the number. Raises ValueError for another length.
    """
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        if isinstance(output_shape, Tensor):
            length = output_shape.shape.as_list()[0] or 0
        elif isinstance(output_shape, (Sequence, np.ndarray, TensorShape)):
            length = len(output_shape)
        else:
            raise ValueError(
                "`output_shape` must be a tensor or sized collection. Received: "
                f"output_shape={output_shape}"
            )
        axes = length - 2
        if not 1 <= axes <= 3:
            raise ValueError(
                "`output_shape` must be of length 3, 4 or 5. Received: "
                f"output_shape={output_shape} of length {length}."
            )
        functions: list[Callable[..., Tensor]] = [
            nn.conv1d_transpose,
            nn.conv2d_transpose,
            nn.conv3d_transpose,
        ]
        layout = data_format or ("NWC", "NHWC", "NDHWC")[axes - 1]
        return functions[axes - 1](
            input,
            filters,
            output_shape,
            strides,
            padding=padding,
            data_format=layout,
            dilations=dilations,
            name=scope,
        )


def atrous_conv2d_transpose(
    value: TensorLike,
    filters: TensorLike,
    output_shape: ShapeLike,
    rate: int,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of `atrous_conv2d`.

    value [batch, h, w, in_c], filters [k_h, k_w, out_c, in_c] -> output_shape. Raises ValueError
    for channels, a rate or a padding that do not fit.
    """
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]):
        x = convert_to_tensor(value, name="value")
        weights = convert_to_tensor(filters, name="filters")
        if not x.shape[3:4].is_compatible_with(weights.shape[3:4]):
            raise ValueError(
                "`value` channel count must be compatible with `filters` input channel count. "
                f"Received: value.shape={x.shape} with channel count {x.shape[3]} and "
                f"filters.shape={weights.shape} with input channel count {weights.shape[3]}."
            )
        if rate < 1:
            raise ValueError(f"`rate` cannot be less than one. Received: rate={rate}")
        if rate == 1:
            return nn.conv2d_transpose(x, weights, output_shape, [1, 1, 1, 1], padding)
        sizes = convert_to_tensor(output_shape, name="output_shape")
        if not sizes.shape.is_compatible_with([4]):
            raise ValueError(
                f"`output_shape` must have shape (4,). Received: output_shape={sizes.shape}"
            )
        given = list(output_shape) if isinstance(output_shape, (list, tuple, np.ndarray)) else sizes
        height, width = _reach(weights, rate, padding)
        rows, columns = given[1] + sum(height), given[2] + sum(width)
        below, right = (rate - rows % rate) % rate, (rate - columns % rate) % rate
        moved = ops.space_to_batch(input=x, paddings=[[0, below], [0, right]], block_size=rate)
        made = nn.conv2d_backprop_input(
            [rate * rate * given[0], (rows + below) // rate, (columns + right) // rate, given[3]],
            weights,
            moved,
            [1, 1, 1, 1],
            "VALID",
        )
        crops = [[height[0], height[1] + below], [width[0], width[1] + right]]
        return ops.batch_to_space(input=made, crops=crops, block_size=rate)


def _reach(filters: Tensor, rate: int, padding: str) -> list[tuple[Size, Size]]:
    """Return the (rows, columns) that dilated filters reach over.

    Each is a pair: before and after.
    """
    if padding == "VALID":
        return [(0, 0), (0, 0)]
    if padding != "SAME":
        raise ValueError(f"`padding` must be either 'VALID' or 'SAME'. Received: padding={padding}")
    if filters.shape.is_fully_defined():
        sizes: Sequence[Size] = [n or 0 for n in filters.shape.as_list()[:2]]
    else:
        dynamic = ops.shape(filters)
        sizes = [dynamic[0], dynamic[1]]
    reaches = [(size - 1) * rate for size in sizes]
    return [(reach // 2, reach - reach // 2) for reach in reaches]
