"""Define gradients of color spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import like

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def _both(first: Tensor, second: Tensor) -> Tensor:
    return raw.LogicalAnd(x=first, y=second)


@RegisterGradient("RGBToHSV")
def _rgb_to_hsv(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient by red, green, blue, as TensorFlow has it.

    Of equal channels the first is the greatest and the last the least. A channel of 0 has no
    gradient by the saturation.
    """
    red, green, blue = (op.inputs[0][..., i] for i in range(3))
    at_least, above = raw.GreaterEqual, raw.Greater
    greatest = (
        _both(at_least(x=red, y=green), at_least(x=red, y=blue)),
        _both(above(x=green, y=red), at_least(x=green, y=blue)),
        _both(above(x=blue, y=red), above(x=blue, y=green)),
    )
    least = (
        _both(above(x=green, y=red), above(x=blue, y=red)),
        _both(at_least(x=red, y=green), above(x=blue, y=green)),
        _both(at_least(x=red, y=blue), at_least(x=green, y=blue)),
    )
    dtype = red.dtype.base_dtype
    is_greatest, is_least = (
        [raw.Cast(x=mask, DstT=dtype) for mask in masks] for masks in (greatest, least)
    )
    channels = (red, green, blue)
    high = op.outputs[0][..., 2]
    low = raw.Minimum(x=red, y=raw.Minimum(x=green, y=blue))
    by_hue, by_saturation, by_value = (grad[..., i] for i in range(3))
    span = high - low
    zero = like(0.0, red)
    # The hue is a constant plus a difference over six spans: of the next channel after the
    # greatest, red after blue, and the one after that.
    differences = [
        is_greatest[i] * (channels[(i + 1) % 3] - channels[(i + 2) % 3]) for i in range(3)
    ]
    difference = differences[0] + differences[1] + differences[2]
    parts = []
    for i, channel in enumerate(channels):
        after, before = (i + 1) % 3, (i + 2) % 3
        # the saturation is 1 - low / high
        ratio = raw.DivNoNan(x=raw.DivNoNan(x=low, y=high), y=high)
        saturation = is_greatest[i] * ratio - raw.DivNoNan(x=is_least[i], y=high)
        positive = raw.Cast(x=raw.Greater(x=channel, y=zero), DstT=dtype)
        rises = is_greatest[before] - is_greatest[after]
        spread = raw.DivNoNan(x=difference, y=span) * (is_greatest[i] - is_least[i])
        hue = raw.DivNoNan(x=rises - spread, y=like(6.0, red) * span)
        parts.append(
            by_value * is_greatest[i] + by_saturation * positive * saturation + by_hue * hue
        )
    return raw.Pack(values=parts, axis=-1)
