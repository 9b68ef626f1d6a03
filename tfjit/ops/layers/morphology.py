"""Declare dilation and erosion in grayscale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.shape_rules import Shapes, fail, same_as_input, unchanged, window_size

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import IntsLike, PaddingLike, TensorLike

_ATTRS: Final = (
    "T: realnumbertype",
    "strides: list(int) >= 4",
    "rates: list(int) >= 4",
    "padding: {'SAME', 'VALID'}",
)


def dilated(c: ShapeContext) -> Shapes:
    """Infer the shape of a dilation.

    input [batch, h, w, c], filter [k_h, k_w, c] -> [batch, out_h, out_w, c].
    """
    shape, kernel = c.with_rank(0, 4), c.with_rank(1, 3)
    strides, rates = c.attr("strides"), c.attr("rates")
    for name, values in (("stride", strides), ("rates", rates)):
        if len(values) != 4:
            raise fail(
                f"Dilation2D requires the {name} attribute to contain 4 values, but got: "
                f"{len(values)}"
            )
    c.merge_dim(shape[3], kernel[2])
    if None in (shape[1], shape[2], kernel[0], kernel[1]):
        return [(shape[0], None, None, kernel[2])]
    padding = c.attr("padding").decode()
    sizes = [
        window_size(c, shape[axis], kernel[axis - 1], rates[axis], strides[axis], padding)
        for axis in (1, 2)
    ]
    return [(shape[0], *sizes, kernel[2])]


register_op(
    "Dilation2D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=_ATTRS,
    shape=dilated,
)
register_op(
    "Dilation2DBackpropFilter",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("filter_backprop: T",),
    attrs=_ATTRS,
    shape=same_as_input(1),
)
register_op(
    "Dilation2DBackpropInput",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("in_backprop: T",),
    attrs=_ATTRS,
    shape=unchanged,
)


def dilation2d(
    input: TensorLike,
    filter: TensorLike | None = None,
    strides: Any = None,
    rates: Any = None,
    padding: PaddingLike | None = None,
    name: str | None = None,
    filters: TensorLike | None = None,
    dilations: IntsLike | None = None,
) -> Tensor:
    """Dilate in greyscale: the largest of input + filter in each window."""
    filter = renamed(filters, filter, "filters", "filter")
    rates = renamed(dilations, rates, "dilations", "rates")
    return tensor(
        "Dilation2D",
        name,
        input=input,
        filter=filter,
        strides=list(strides),
        rates=list(rates),
        padding=padding,
    )


def erosion2d(
    value: TensorLike,
    kernel: TensorLike,
    strides: IntsLike,
    rates: IntsLike,
    padding: PaddingLike,
    name: str | None = None,
) -> Tensor:
    """Erode in greyscale: the smallest of value - kernel in each window.

    value [batch, h, w, c], kernel [k_h, k_w, c] -> [batch, out_h, out_w, c]. Erosion of a value is
    dilation of its negative by the reflected kernel.
    """
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        negative = tensor("Neg", x=value)
        reflected = tensor("ReverseV2", tensor=kernel, axis=[0, 1])
        dilation = tensor(
            "Dilation2D",
            scope,
            input=negative,
            filter=reflected,
            strides=strides,
            rates=rates,
            padding=padding,
        )
        return tensor("Neg", x=dilation)
