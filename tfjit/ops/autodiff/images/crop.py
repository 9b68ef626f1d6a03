"""Define gradients of crops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of, like

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


@RegisterGradient("ImageProjectiveTransformV2")
@RegisterGradient("ImageProjectiveTransformV3")
def _image_projective_transform(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient carried back by the inverse transform.

    Transforms are matrices without their last element, which is 1. This is TensorFlow's gradient,
    an approximation: it takes samples where the adjoint would add them up.
    """
    images, transforms = op.inputs[:2]
    count = raw.Shape(input=transforms)[0]
    last = raw.Fill(dims=raw.Pack(values=[count, 1]), value=like(1.0, transforms))
    elements = raw.ConcatV2(values=[transforms, last], axis=1)
    matrices = raw.Reshape(tensor=elements, shape=raw.Pack(values=[count, 3, 3]))
    inverse = raw.Reshape(
        tensor=raw.MatrixInverse(input=matrices), shape=raw.Pack(values=[count, 9])
    )
    options = attrs_of(op, "interpolation", "fill_mode")
    if op.type == "ImageProjectiveTransformV3":
        options["fill_value"] = 0.0
    back = getattr(raw, op.type)(
        images=grad,
        transforms=inverse[:, :8] / inverse[:, 8:],
        output_shape=raw.Shape(input=images)[1:3],
        **options,
    )
    return back, *[None] * (len(op.inputs) - 1)
