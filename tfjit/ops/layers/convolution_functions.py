"""Define the public functions of the family `convolution`: `conv2d`, `separable_conv2d`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed
from tfjit.ops.layers.window_sizes import sizes_per_axis

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import IntsLike, PaddingLike, ShapeLike, TensorLike


def padding_attrs(padding: PaddingLike, channels_first: bool) -> tuple[str, list[int]]:
    """Return the attrs (padding, explicit_paddings).

    The argument is "SAME", "VALID" or a list of pairs an axis.
    """
    if isinstance(padding, str):
        return padding, []
    pairs = [list(pair) for pair in padding]
    if any(pairs[0]) or any(pairs[1 if channels_first else -1]):
        raise ValueError(
            "Nonzero explicit padding in the batch or depth dimensions is not supported"
        )
    return "EXPLICIT", [p for pair in pairs for p in pair]


def conv2d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: object = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: IntsLike = (1, 1, 1, 1),
    name: str | None = None,
    filters: TensorLike | None = None,
) -> Tensor:
    """Convolve images.

    input [batch, in_h, in_w, in_c], filter [k_h, k_w, in_c / groups, out_c] -> [batch, out_h,
    out_w, out_c].
    """
    first = data_format == "NCHW"
    padding, explicit = padding_attrs(padding, first)
    return tensor(
        "Conv2D",
        name,
        input=input,
        filter=filters if filter is None else filter,
        strides=sizes_per_axis(strides, 2, first, "strides"),
        padding=padding,
        explicit_paddings=explicit,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=sizes_per_axis(dilations, 2, first, "dilations"),
    )


def conv2d_backprop_filter(
    input: TensorLike,
    filter_sizes: TensorLike,
    out_backprop: TensorLike,
    strides: Any,
    padding: PaddingLike,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `conv2d` by its filter."""
    first = data_format == "NCHW"
    padding, explicit = padding_attrs(padding, first)
    return tensor(
        "Conv2DBackpropFilter",
        name,
        input=input,
        filter_sizes=filter_sizes,
        out_backprop=out_backprop,
        strides=list(strides),
        padding=padding,
        explicit_paddings=explicit,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=list(dilations),
    )


def conv2d_backprop_input(
    input_sizes: object,
    filter: TensorLike | None = None,
    out_backprop: object = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: TensorLike | None = None,
) -> Tensor:
    """Return the gradient of `conv2d` by its input."""
    filter = renamed(filters, filter, "filters", "filter")
    first = data_format == "NCHW"
    padding, explicit = padding_attrs(padding, first)
    return tensor(
        "Conv2DBackpropInput",
        name,
        input_sizes=input_sizes,
        filter=filter,
        out_backprop=out_backprop,
        strides=list(strides),
        padding=padding,
        explicit_paddings=explicit,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=data_format,
        dilations=list(dilations),
    )


def conv2d_transpose(
    value: TensorLike | None = None,
    filter: TensorLike | None = None,
    output_shape: ShapeLike | None = None,
    strides: IntsLike | None = None,
    padding: str = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
    filters: TensorLike | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Compute the transpose of `conv2d`.

    value [batch, h, w, in_c], filter [k_h, k_w, out_c, in_c] -> output_shape.
    """
    value, filter = (
        renamed(input, value, "input", "value"),
        renamed(filters, filter, "filters", "filter"),
    )
    with name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        first = data_format == "NCHW"
        spread = sizes_per_axis(1 if dilations is None else dilations, 2, first, "dilations")
        steps = sizes_per_axis(1 if strides is None else strides, 2, first, "strides")
        return conv2d_backprop_input(
            output_shape,
            filter,
            value,
            steps,
            padding,
            data_format=data_format,
            dilations=spread,
            name=scope,
        )


def conv1d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: ShapeLike,
    strides: IntsLike,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of `conv1d`.

    input [batch, w, in_c], filters [k_w, out_c, in_c] -> output_shape. Raises ValueError for
    another layout than NWC and NCW.
    """
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        if data_format not in ("NWC", "NHWC", "NCW", "NCHW"):
            raise ValueError(
                f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}"
            )
        first = data_format in ("NCW", "NCHW")
        axis = 2 if first else 1
        steps = sizes_per_axis(strides, 1, first, "strides")
        spread = sizes_per_axis(1 if dilations is None else dilations, 1, first, "dilations")
        sizes = convert_to_tensor(output_shape, name="output_shape")
        wide = tensor("ConcatV2", None, values=[sizes[:axis], [1], sizes[axis:]], axis=0)
        made = conv2d_backprop_input(
            wide,
            tensor("ExpandDims", None, input=filters, dim=0),
            tensor("ExpandDims", None, input=input, dim=axis),
            [*steps[:axis], 1, *steps[axis:]],
            padding,
            data_format="NCHW" if first else "NHWC",
            dilations=[*spread[:axis], 1, *spread[axis:]],
            name=scope,
        )
        return tensor("Squeeze", None, input=made, squeeze_dims=[axis])


def conv3d_transpose(
    value: TensorLike | None = None,
    filter: TensorLike | None = None,
    output_shape: ShapeLike | None = None,
    strides: IntsLike | None = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: TensorLike | None = None,
    filters: TensorLike | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Compute the transpose of `conv3d`.

    value [batch, d, h, w, in_c], filter [k_d, k_h, k_w, out_c, in_c] -> output_shape.
    """
    value, filter = (
        renamed(input, value, "input", "value"),
        renamed(filters, filter, "filters", "filter"),
    )
    with name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        first = data_format == "NCDHW"
        return tensor(
            "Conv3DBackpropInputV2",
            scope,
            input_sizes=output_shape,
            filter=filter,
            out_backprop=value,
            strides=sizes_per_axis(1 if strides is None else strides, 3, first, "strides"),
            padding=padding,
            data_format=data_format,
            dilations=sizes_per_axis(1 if dilations is None else dilations, 3, first, "dilations"),
        )


def conv1d(
    value: TensorLike | None = None,
    filters: TensorLike | None = None,
    stride: IntsLike | None = None,
    padding: PaddingLike | None = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: TensorLike | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Convolve sequences.

    value [..., batch, in_w, in_c], filters [k_w, in_c, out_c] -> [..., batch, out_w, out_c].
    """
    value = renamed(input, value, "input", "value")
    with name_scope(name, "conv1d", [value, filters]) as scope:
        if data_format not in (None, "NWC", "NHWC", "NCW", "NCHW"):
            raise ValueError(
                f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}"
            )
        first = data_format in ("NCW", "NCHW")
        value = convert_to_tensor(value, name="value")
        batches: Tensor | None = None
        if value.shape.rank is not None and value.shape.rank > 3:
            value, batches = _rows_of_batches(value, 2)
        axis = -2 if first else -3
        strides = [1, *sizes_per_axis(1 if stride is None else stride, 1, first, "stride")]
        spread = [1, *sizes_per_axis(1 if dilations is None else dilations, 1, first, "dilations")]
        if first:
            strides, spread = ([v[0], v[2], v[1], v[3]] for v in (strides, spread))
        else:
            strides, spread = ([v[1], v[0], *v[2:]] for v in (strides, spread))
        wide = tensor("ExpandDims", None, input=value, dim=axis)
        out = tensor(
            "Conv2D",
            None,
            input=wide,
            filter=tensor("ExpandDims", None, input=filters, dim=0),
            strides=strides,
            padding=padding,
            use_cudnn_on_gpu=True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
            data_format="NCHW" if first else "NHWC",
            dilations=spread,
        )
        if batches is None:
            return tensor("Squeeze", scope, input=out, squeeze_dims=[axis])
        return _batches_of_rows(
            tensor("Squeeze", None, input=out, squeeze_dims=[axis]), batches, scope
        )


def _rows_of_batches(value: Tensor, inner_rank: int) -> tuple[Tensor, Tensor]:
    """Join the batch axes of value [..., batch, *inner] to one.

    Also returns the sizes of the joined axes.
    """
    sizes = tensor("Shape", None, input=value)
    outer = tensor(
        "StridedSlice", None, input=sizes, begin=[0], end=[-inner_rank], strides=[1], begin_mask=1
    )
    inner = tensor(
        "StridedSlice", None, input=sizes, begin=[-inner_rank], end=[0], strides=[1], end_mask=1
    )
    return tensor(
        "Reshape", None, tensor=value, shape=tensor("ConcatV2", None, values=[[-1], inner], axis=0)
    ), outer


def _batches_of_rows(value: Tensor, batches: Tensor, name: str) -> Tensor:
    """Undo `_rows_of_batches` for a result with its one batch axis."""
    inner = tensor(
        "StridedSlice",
        None,
        input=tensor("Shape", None, input=value),
        begin=[1],
        end=[0],
        strides=[1],
        end_mask=1,
    )
    return tensor(
        "Reshape",
        name,
        tensor=value,
        shape=tensor("ConcatV2", None, values=[batches, inner], axis=0),
    )


def conv3d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: IntsLike | None = None,
    padding: str | None = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: TensorLike | None = None,
) -> Tensor:
    """Convolve volumes.

    input [batch, in_d, in_h, in_w, in_c], filter [k_d, k_h, k_w, in_c, out_c] -> [batch, out_d,
    out_h, out_w, out_c].
    """
    return tensor(
        "Conv3D",
        name,
        input=input,
        filter=filters if filter is None else filter,
        strides=strides,
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
    )


def depthwise_conv2d_native(
    input: TensorLike,
    filter: TensorLike,
    strides: Sequence[int],
    padding: PaddingLike,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Convolve each channel of images alone.

    input [batch, in_h, in_w, in_c], filter [k_h, k_w, in_c, multiplier] -> [batch, out_h, out_w,
    in_c * multiplier].
    """
    padding, explicit = padding_attrs(padding, data_format == "NCHW")
    return tensor(
        "DepthwiseConv2dNative",
        name,
        input=input,
        filter=filter,
        strides=list(strides),
        padding=padding,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=list(dilations),
    )


def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Sequence[int],
    padding: PaddingLike,
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Compute `depthwise_conv2d_native` with `rate`.

    `rate` is the dilation of the two spatial axes.
    """
    with name_scope(name, "depthwise", [input, filter]) as scope:
        layout = data_format or "NHWC"
        rate = dilations if rate is None else rate
        dilated = (
            sizes_per_axis(rate, 2, layout == "NCHW", "rate") if rate is not None else [1, 1, 1, 1]
        )
        return depthwise_conv2d_native(input, filter, strides, padding, layout, dilated, name=scope)


def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: Sequence[int],
    padding: PaddingLike,
    rate: TensorLike | None = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Apply a depthwise convolution, then one of size 1 that mixes channels."""
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        depthwise = depthwise_conv2d(
            input, depthwise_filter, strides, padding, rate, "depthwise", data_format, dilations
        )
        return conv2d(
            depthwise,
            pointwise_filter,
            [1, 1, 1, 1],
            "VALID",
            data_format=data_format or "NHWC",
            name=scope,
        )


def atrous_conv2d(
    value: TensorLike, filters: TensorLike, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """Compute `conv2d` with dilation `rate` in both directions."""
    return conv2d(value, filters, [1, 1, 1, 1], padding, dilations=[1, rate, rate, 1], name=name)


def convolution(
    input: TensorLike,
    filter: TensorLike,
    padding: str,
    strides: IntsLike | None = None,
    dilation_rate: object = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: TensorLike | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Convolve over one, two or three spatial axes.

    The rank of the filter, or else of the input, decides. Raises ValueError when neither rank is
    known.
    """
    filter = convert_to_tensor(renamed(filters, filter, "filters", "filter"), name="filter")
    dilation_rate = renamed(dilations, dilation_rate, "dilations", "dilation_rate")
    value = convert_to_tensor(input)
    rank = value.shape.rank if filter.shape.rank is None else filter.shape.rank
    if rank not in (3, 4, 5):
        raise ValueError(
            "convolution needs an input and a filter of rank 3, 4 or 5, one of them known. "
            f"Received: input.shape={value.shape} and filter.shape={filter.shape}"
        )
    first = data_format is not None and data_format.startswith("NC")
    n = rank - 2
    strides = sizes_per_axis(1 if strides is None else strides, n, first, "strides")
    dilations = sizes_per_axis(
        1 if dilation_rate is None else dilation_rate, n, first, "dilation_rate"
    )
    if n == 1:
        return conv1d(
            value,
            filter,
            strides,
            padding,
            data_format=data_format,
            name=name or "convolution",
            dilations=dilations,
        )
    if value.shape.rank is not None and value.shape.rank > rank:
        rows, batches = _rows_of_batches(value, n + 1)
        made = convolution(rows, filter, padding, strides, dilations, None, data_format)
        return _batches_of_rows(made, batches, name or "convolution")
    if n == 2:
        return conv2d(
            value,
            filter,
            strides,
            padding,
            data_format=data_format or "NHWC",
            dilations=dilations,
            name=name or "convolution",
        )
    return conv3d(
        value,
        filter,
        strides,
        padding,
        data_format or "NDHWC",
        dilations,
        name=name or "convolution",
    )
