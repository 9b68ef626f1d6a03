"""Extract patches, crops and glimpses of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.apply import tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import IntsLike, TensorLike


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: TensorLike | None = None,
    crop_size: TensorLike | None = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: TensorLike | None = None,
) -> Tensor:
    """Crop boxes of images and resize the crops.

    image [batch, h, w, c], boxes [n, 4] (y1, x1, y2, x2 in 0..1), box_ind [n], crop_size [2] ->
    float32 [n, *crop_size, c].
    """
    return tensor(
        "CropAndResize",
        name,
        image=image,
        boxes=boxes,
        box_ind=box_ind if box_indices is None else box_indices,
        crop_size=crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
    )


def extract_image_patches(
    images: TensorLike,
    ksizes: IntsLike | None = None,
    strides: IntsLike | None = None,
    rates: IntsLike | None = None,
    padding: str | None = None,
    name: str | None = None,
    sizes: TensorLike | None = None,
) -> Tensor:
    """Extract the patch of each window.

    images [batch, h, w, c] -> [batch, out_h, out_w, k_h * k_w * c]: each window's pixels, side by
    side.
    """
    sizes = ksizes if sizes is None else sizes
    return tensor(
        "ExtractImagePatches",
        name,
        images=images,
        ksizes=sizes,
        strides=strides,
        rates=rates,
        padding=padding,
    )


def extract_patches(
    images: TensorLike,
    sizes: IntsLike,
    strides: IntsLike,
    rates: IntsLike,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """Extract the patch of each window.

    See `extract_image_patches`.
    """
    return extract_image_patches(images, sizes, strides, rates, padding, name)


def extract_volume_patches(
    input: TensorLike, ksizes: IntsLike, strides: IntsLike, padding: str, name: str | None = None
) -> Tensor:
    """Extract the patch of each window of volumes.

    input [batch, d, h, w, c] -> [batch, out_d, out_h, out_w, k_d * k_h * k_w * c]: each window's
    voxels, side by side.
    """
    return tensor(
        "ExtractVolumePatches", name, input=input, ksizes=ksizes, strides=strides, padding=padding
    )


def extract_glimpse(
    input: TensorLike,
    size: TensorLike,
    offsets: TensorLike,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Extract a window of each image around an offset.

    input float32 [batch, h, w, c], size int32 [2], offsets float32 [batch, 2] (y, x) -> [batch,
    *size, c]. centered: offsets count from the middle. normalized: offsets are in -1 .. 1, else in
    pixels. Places outside of the image are noise, uniform or Gaussian.
    """
    return tensor(
        "ExtractGlimpse",
        name,
        input=input,
        size=size,
        offsets=offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
    )
