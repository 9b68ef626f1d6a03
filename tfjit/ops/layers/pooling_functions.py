"""Define the public functions of the family `pooling`: `max_pool`, `avg_pool1d`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.renamed import renamed
from tfjit.ops.layers.window_sizes import sizes_per_axis

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, IntsLike, PaddingLike, TensorLike


def max_pool(
    value: TensorLike | None = None,
    ksize: object = None,
    strides: object = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return the largest value of each window.

    value [batch, h, w, c] -> [batch, out_h, out_w, c].
    """
    first = data_format == "NCHW"
    with name_scope(name, "MaxPool", [value]) as scope:
        explicit: list[int] = []
        if not isinstance(padding, str):
            explicit, padding = [p for pair in padding for p in pair], "EXPLICIT"
        return tensor(
            "MaxPool",
            scope,
            input=input if value is None else value,
            ksize=sizes_per_axis(ksize, 2, first, "ksize"),
            strides=sizes_per_axis(strides, 2, first, "strides"),
            padding=padding,
            explicit_paddings=explicit,
            data_format=data_format,
        )


def max_pool2d(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: PaddingLike,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Pool as `max_pool`; the name says the number of axes."""
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return max_pool(input, ksize, strides, padding, data_format, scope)


def avg_pool(
    value: TensorLike | None = None,
    ksize: object = None,
    strides: object = None,
    padding: str | None = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return the mean of each window; padding is left out.

    value [batch, h, w, c] -> [batch, out_h, out_w, c].
    """
    first = data_format == "NCHW"
    with name_scope(name, "AvgPool", [value]) as scope:
        return tensor(
            "AvgPool",
            scope,
            value=input if value is None else value,
            ksize=sizes_per_axis(ksize, 2, first, "ksize"),
            strides=sizes_per_axis(strides, 2, first, "strides"),
            padding=padding,
            data_format=data_format,
        )


avg_pool2d = avg_pool


def _pool1d(
    function: Callable[..., Tensor],
    value: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: str,
    data_format: str,
    scope: str,
) -> Tensor:
    """Pool sequences as images of height 1."""
    if data_format not in ("NWC", "NCW"):
        raise ValueError(
            f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}"
        )
    first = data_format == "NCW"
    axis = 2 if first else 1
    sizes, steps = (
        sizes_per_axis(ksize, 1, first, "ksize"),
        sizes_per_axis(strides, 1, first, "strides"),
    )
    made = function(
        tensor("ExpandDims", None, input=value, dim=axis),
        [*sizes[:axis], 1, *sizes[axis:]],
        [*steps[:axis], 1, *steps[axis:]],
        padding,
        "NCHW" if first else "NHWC",
        scope,
    )
    return tensor("Squeeze", None, input=made, squeeze_dims=[axis])


def max_pool1d(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: str,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """Return the largest value of each window of sequences.

    input [batch, w, c]. Raises ValueError for another layout than NWC and NCW.
    """
    with name_scope(name, "MaxPool1d", [input]) as scope:
        return _pool1d(max_pool, input, ksize, strides, padding, data_format, scope)


def avg_pool1d(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: str,
    data_format: str = "NWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of sequences; padding is left out.

    input [batch, w, c]. Raises ValueError for another layout than NWC and NCW.
    """
    with name_scope(name, "AvgPool1D", [input]) as scope:
        return _pool1d(avg_pool, input, ksize, strides, padding, data_format, scope)


def max_pool3d(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the largest value of each window of volumes.

    input [batch, d, h, w, c].
    """
    first = data_format == "NCDHW"
    return tensor(
        "MaxPool3D",
        name,
        input=input,
        ksize=sizes_per_axis(ksize, 3, first, "ksize"),
        strides=sizes_per_axis(strides, 3, first, "strides"),
        padding=padding,
        data_format=data_format,
    )


def avg_pool3d(
    input: TensorLike,
    ksize: IntsLike,
    strides: IntsLike,
    padding: str,
    data_format: str = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of volumes.

    input [batch, d, h, w, c].
    """
    first = data_format == "NCDHW"
    return tensor(
        "AvgPool3D",
        name,
        input=input,
        ksize=sizes_per_axis(ksize, 3, first, "ksize"),
        strides=sizes_per_axis(strides, 3, first, "strides"),
        padding=padding,
        data_format=data_format,
    )


def max_pool_with_argmax(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: object = None,
    name: str | None = None,
    output_dtype: DTypeLike | None = None,
    include_batch_in_index: bool = False,
) -> Any:
    """Return (output, argmax) of each window.

    The largest value, and its place in the flattened input. Raises ValueError for another layout
    than NHWC.
    """
    if data_format != "NHWC":
        raise ValueError(
            "`data_format` values other than 'NHWC' are not supported. Received: "
            f"data_format={data_format}"
        )
    Targmax = renamed(output_dtype, Targmax, "output_dtype", "Targmax")
    return call(
        "MaxPoolWithArgmax",
        name,
        input=input,
        ksize=list(ksize),
        strides=list(strides),
        padding=padding,
        Targmax=Targmax,
        include_batch_in_index=include_batch_in_index,
    )
