"""Decode and encode images in files' formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.images.adjustments import convert_image_dtype
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def is_jpeg(contents: TensorLike, name: str | None = None) -> Tensor:
    """Return whether contents begin as a JPEG does.

    contents: strings -> bool of the same shape.
    """
    with name_scope(name, "is_jpeg"):
        start = tensor("Substr", input=contents, pos=0, len=3)
        return ops.equal(start, b"\xff\xd8\xff", name=name)


def decode_image(
    contents: TensorLike,
    channels: int | None = None,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decode a JPEG, PNG, GIF or BMP image.

    contents: scalar string; channels: 0, as in the file, or 1, 3 or 4 -> [h, w, channels], of a GIF
    with expand_animations [frames, h, w, 3]. Values of floats are 0 .. 1, values of integers 0 ..
    the largest one. A run raises InvalidArgumentError for contents that are no image.
    """
    with name_scope(name, "decode_image"):
        channels = channels or 0
        wanted = as_dtype(dtype)
        decoded = wanted in (dtypes.float32, dtypes.uint8, dtypes.uint16)
        image = tensor(
            "DecodeImage",
            contents=contents,
            channels=channels,
            expand_animations=expand_animations,
            dtype=wanted if decoded else dtypes.uint16,
        )
        if not decoded:
            image = convert_image_dtype(image, wanted)
        if not expand_animations:
            image.set_shape([None, None, channels or None])
        return image


def decode_png(
    contents: TensorLike,
    channels: int = 0,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
) -> Tensor:
    """Decode a PNG image.

    contents: scalar string; channels: 0, as in the file, 1 gray, 3 RGB, 4 RGB and alpha -> uint8 or
    uint16 [h, w, channels]. A run raises InvalidArgumentError for contents that are no PNG; other
    formats that DecodeImage knows are decoded, too.
    """
    return tensor("DecodePng", name, contents=contents, channels=channels, dtype=dtype)


def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Tensor:
    """Encode images as PNG.

    image uint8 or uint16 [..., h, w, 1 to 4] -> strings [...]. compression: -1, or 0 .. 9 from fast
    to small. A run raises InvalidArgumentError for images without pixels.
    """
    return tensor("EncodePng", name, image=convert_to_tensor(image), compression=compression)


def decode_bmp(contents: TensorLike, channels: int = 0, name: str | None = None) -> Tensor:
    """Decode a BMP image.

    contents: scalar string; channels: 0, as in the file, or the file's 1, 3 or 4 -> uint8 [h, w,
    channels]. A run raises InvalidArgumentError for contents that are no BMP.
    """
    return tensor("DecodeBmp", name, contents=contents, channels=channels)


def decode_gif(contents: TensorLike, name: str | None = None) -> Tensor:
    """Decode the frames of a GIF image.

    contents: scalar string -> uint8 [frames, h, w, 3]. A run raises InvalidArgumentError for
    contents that are no GIF.
    """
    return tensor("DecodeGif", name, contents=contents)


def decode_jpeg(
    contents: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode a JPEG image, by Pillow: `pip install 'tfjit[image]'`.

    contents: scalar string; channels: 0, as in the file, 1 gray, 3 RGB; ratio: 1, 2, 4 or 8, by
    which the image gets smaller -> uint8 [h, w, channels]. A run raises InvalidArgumentError for
    contents that are no JPEG, and UnimplementedError without Pillow and for options that Pillow has
    not: fancy_upscaling=False and dct_method "INTEGER_FAST".
    """
    return tensor(
        "DecodeJpeg",
        name,
        contents=contents,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
    )


def decode_and_crop_jpeg(
    contents: TensorLike,
    crop_window: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode a part of a JPEG image.

    crop_window: int32 [4]: y, x, height, width, in pixels of the result of `decode_jpeg`, which has
    the other arguments and errors.
    """
    return tensor(
        "DecodeAndCropJpeg",
        name,
        contents=contents,
        crop_window=crop_window,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
    )


def encode_jpeg(
    image: TensorLike,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Encode an image as JPEG, by Pillow: `pip install 'tfjit[image]'`.

    image uint8 [h, w, 1 or 3] -> scalar string. format: "", by the channels, "grayscale" or "rgb".
    quality: 0 .. 100. A run raises InvalidArgumentError for other images, and UnimplementedError
    without Pillow.
    """
    return tensor(
        "EncodeJpeg",
        name,
        image=image,
        format=format,
        quality=quality,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        x_density=x_density,
        y_density=y_density,
        xmp_metadata=xmp_metadata,
    )


def extract_jpeg_shape(
    contents: TensorLike, output_type: DTypeLike = dtypes.int32, name: str | None = None
) -> Tensor:
    """Return the shape of a JPEG image from its header.

    contents: scalar string -> int32 or int64 [3]: height, width, channels. A run raises
    InvalidArgumentError for contents that are no JPEG.
    """
    return tensor("ExtractJpegShape", name, contents=contents, output_type=output_type)


def decode_webp(
    contents: TensorLike,
    channels: int = 0,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
) -> Tensor:
    """Decode the frames of a WebP image, by Pillow: `pip install 'tfjit[image]'`.

    contents: scalar string; channels: 0, as in the file, 3 RGB, 4 RGB and alpha -> uint8 [frames,
    h, w, channels]. A run raises InvalidArgumentError for contents that are no WebP, and
    UnimplementedError without Pillow.
    """
    return tensor("DecodeWebP", name, contents=contents, channels=channels, dtype=dtype)


def decode_jxl(
    contents: TensorLike,
    channels: int = 0,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
) -> Tensor:
    """Add a node that decodes JPEG XL, which no kernel runs."""
    return tensor("DecodeJxl", name, contents=contents, channels=channels, dtype=dtype)
