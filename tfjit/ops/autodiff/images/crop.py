"""Define gradients of crops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

_FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)


@RegisterGradient("CropAndResize")
def _crop_and_resize(op: Operation, grad: Tensor) -> Gradients:
    image, boxes, index, _ = op.inputs
    method = op.get_attr("method")
    for_image = None
    if image.dtype in _FLOATS:
        size = raw.Shape(input=image)
        for_image = raw.CropAndResizeGradImage(
            grads=grad, boxes=boxes, box_ind=index, image_size=size, T=image.dtype, method=method
        )
    # of the nearest pixel, too, boxes have the gradient of the bilinear method
    for_boxes = raw.CropAndResizeGradBoxes(grads=grad, image=image, boxes=boxes, box_ind=index)
    return for_image, for_boxes, None, None
