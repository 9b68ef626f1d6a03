"""Define gradients of resizing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def _corners(op: Operation) -> dict[str, object]:
    return {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}


@RegisterGradient("ResizeNearestNeighbor")
def _resize_nearest(op: Operation, grad: Tensor) -> Gradients:
    size = raw.Slice(input=raw.Shape(input=op.inputs[0]), begin=[1], size=[2])
    return raw.ResizeNearestNeighborGrad(grads=grad, size=size, **_corners(op)), None


@RegisterGradient("ResizeBilinear")
def _resize_bilinear(op: Operation, grad: Tensor) -> Gradients:
    return raw.ResizeBilinearGrad(grads=grad, original_image=op.inputs[0], **_corners(op)), None


@RegisterGradient("ResizeBicubic")
def _resize_bicubic(op: Operation, grad: Tensor) -> Gradients:
    images = op.inputs[0]
    if images.dtype not in (dtypes.float32, dtypes.float64):
        return None, None
    return raw.ResizeBicubicGrad(grads=grad, original_image=images, **_corners(op)), None


@RegisterGradient("ScaleAndTranslate")
def _scale_and_translate(op: Operation, grad: Tensor) -> Gradients:
    images, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    found = raw.ScaleAndTranslateGrad(
        grads=grad, original_image=images, scale=scale, translation=translation, **options
    )
    return found, None, None, None
