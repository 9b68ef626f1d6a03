"""Decode and encode images.

A decoder of one format decodes most others as well: the first bytes tell the format, as in
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tfjit.framework.errors import UnimplementedError
from tfjit.kernels.cpu.codecs import bmp, gif, pillow_codecs, png_colors, png_writer
from tfjit.kernels.cpu.codecs.corrupt_image import CorruptImage
from tfjit.kernels.cpu.codecs.jpeg_header import read_header
from tfjit.kernels.cpu.codecs.pillow_codecs import JpegForm, JpegOptions
from tfjit.kernels.cpu.codecs.png_reader import read_chunks
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray
_PNG_PIXELS: Final = 1 << 29
_STARTS: Final = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"\xff\x0a": "JPEG XL",
    b"\x00\x00\x00\x0cJXL \r\n\x87\n": "JPEG XL",
}


def _format(content: bytes) -> str:
    for start, name in _STARTS.items():
        if content.startswith(start):
            return name
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "WebP"
    invalid("Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required.")


def _content(value: Array) -> bytes:
    if value.ndim:
        invalid(f"`contents` must be scalar but got shape{shape_text(value)}")
    content: bytes = value.item()
    if not content:
        invalid("Input is empty.")
    return content


def _dtype(node: NodeSpec) -> np.dtype[np.generic]:
    dtype = node.attrs.get("dtype")
    return np.dtype(np.uint8) if dtype is None else np.dtype(dtype.as_numpy_dtype)


def _scaled(image: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return an image of uint8 in the range of another dtype."""
    if dtype == np.uint16:
        return image.astype(np.uint16) << 8
    if dtype == np.float32:
        return image.astype(np.float32) * np.float32(1 / 255)
    return image


def _refuse(node: NodeSpec, name: str) -> None:
    """Raise InvalidArgumentError where an op does not decode a format."""
    if node.op == "DecodeBmp" and name != "BMP":
        invalid(
            f"Trying to decode {name} format using DecodeBmp op. Use `decode_{name.lower()}` or "
            "`decode_image` instead."
        )
    if node.op == "DecodeAndCropJpeg" and name != "JPEG":
        invalid(f"DecodeAndCropJpeg operation can run on JPEG only, but detected {name}.")
    if name == "BMP" and node.op not in ("DecodeBmp", "DecodeImage"):
        invalid(
            "Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` "
            f"instead. Op used: {node.op}"
        )


def _jpeg(node: NodeSpec, content: bytes, channels: int) -> Array:
    if channels == 4:
        invalid("JPEG does not support 4 channels")
    _refuse(node, "JPEG")
    attrs = node.attrs
    options = JpegOptions()
    if node.op in ("DecodeJpeg", "DecodeAndCropJpeg"):
        if attrs["ratio"] not in (1, 2, 4, 8):
            invalid(f"ratio must be 1, 2, 4, or 8, got {attrs['ratio']}")
        if attrs["dct_method"] not in (b"", b"INTEGER_FAST", b"INTEGER_ACCURATE"):
            invalid("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}")
        options = JpegOptions(
            int(attrs["ratio"]),
            bool(attrs["fancy_upscaling"]),
            bool(attrs["try_recover_truncated"]),
            float(attrs["acceptable_fraction"]),
        )
    try:
        image = pillow_codecs.decode_jpeg(content, channels, options)
    except CorruptImage:
        invalid("jpeg::Uncompress failed. Invalid JPEG data or crop window.")
    return _scaled(image, _dtype(node))


def _png(node: NodeSpec, content: bytes, channels: int) -> Array:
    dtype = _dtype(node)
    try:
        file = read_chunks(content)
        height, width, count = png_colors.shape_of(file, channels)
        if height * width * count >= _PNG_PIXELS:
            invalid(f"PNG size too large for int: {height} by {width}")
        check_fits_in_memory((height, width, count), dtype, 1)
        _refuse(node, "PNG")
        image = png_colors.decode(file, channels, dtype != np.uint8)
    except CorruptImage as error:
        if error.in_header:
            invalid("Invalid PNG. Failed to initialize decoder.")
        invalid(f"Invalid PNG data, size {len(content)}")
    if dtype == np.float32:
        return image.astype(np.float32) * np.float32(1 / 65535)
    return image


def _gif(node: NodeSpec, content: bytes, channels: int) -> Array:
    if channels not in (0, 3):
        invalid(f"channels must be 0 or 3 for GIF, got {channels}")
    _refuse(node, "GIF")
    try:
        frames = gif.read_frames(content)
        one = node.op == "DecodeImage" and not node.attrs["expand_animations"]
        if len(frames) > 1 and node.op in ("DecodePng", "DecodeJpeg"):
            invalid(
                f"Got {len(frames)} frames, but animated gifs can only be decoded by "
                "tf.io.decode_gif or tf.io.decode_image"
            )
        pictures = _scaled(gif.composed(frames, 1 if one else None), _dtype(node))
    except CorruptImage as error:
        invalid(f"Invalid GIF data (size {len(content)}), {error}")
    return pictures[0] if one or node.op in ("DecodePng", "DecodeJpeg") else pictures


def _bmp(node: NodeSpec, content: bytes, channels: int) -> Array:
    if channels == 1:
        invalid("`channels` must be 0, 3 or 4 for BMP, but got 1")
    _refuse(node, "BMP")
    try:
        return _scaled(bmp.decode(content, channels), _dtype(node))
    except CorruptImage as error:
        invalid(str(error))


def _webp(node: NodeSpec, content: bytes, channels: int) -> Array:
    if channels == 1:
        invalid("WebP only supports 3 or 4 channels")
    _refuse(node, "WebP")
    if _dtype(node) != np.uint8:
        invalid("WebP only supports uint8 for dtype")
    try:
        frames = pillow_codecs.decode_webp(content)
    except CorruptImage as error:
        invalid(str(error))
    if channels and channels != frames.shape[-1]:
        invalid("Number of channels requested does not match input")
    one = node.op == "DecodeImage" and not node.attrs["expand_animations"]
    return frames[0] if one else frames


_DECODERS: Final[dict[str, Callable[[NodeSpec, bytes, int], Array]]] = {
    "JPEG": _jpeg,
    "PNG": _png,
    "GIF": _gif,
    "BMP": _bmp,
    "WebP": _webp,
}


@reference(
    "DecodeBmp", "DecodeGif", "DecodeImage", "DecodeJpeg", "DecodeJxl", "DecodePng", "DecodeWebP"
)
def _decode(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode an image of any format that the op allows.

    contents [] -> [h, w, channels], or [frames, h, w, channels].
    """
    return (_decoded(node, inputs[0]),)


def _decoded(node: NodeSpec, contents: Array) -> Array:
    channels = int(node.attrs.get("channels", 3 if node.op == "DecodeGif" else 0))
    if channels not in (0, 1, 3, 4):
        invalid(f"`channels` must be 0, 1, 3 or 4 but got {channels}")
    content = _content(contents)
    name = _format(content)
    if name not in _DECODERS:
        raise UnimplementedError(None, None, f"tfjit does not decode {name} images")
    image = _DECODERS[name](node, content, channels)
    return image[None] if node.op == "DecodeGif" and image.ndim == 3 else image


@reference("DecodeAndCropJpeg")
def _decode_and_crop(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode a part of a JPEG image.

    contents [], crop_window [4]: y, x, height, width -> [height, width, channels].
    """
    image, window = _decoded(node, inputs[0]), inputs[1]
    if window.ndim != 1:
        invalid(f"crop_window must be 1-D, got shape {shape_text(window)}")
    if len(window) != 4:
        invalid(f"crop_size must have four elements {shape_text(window)}")
    top, left, height, width = (int(v) for v in window)
    inside = (
        top >= 0
        and left >= 0
        and height > 0
        and width > 0
        and top + height <= image.shape[0]
        and left + width <= image.shape[1]
    )
    if not inside:
        invalid("jpeg::Uncompress failed. Invalid JPEG data or crop window.")
    return (np.ascontiguousarray(image[top : top + height, left : left + width]),)


@reference("ExtractJpegShape")
def _jpeg_shape(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Read the shape of a JPEG image.

    contents [] -> [3]: height, width, channels.
    """
    if inputs[0].ndim:
        invalid(f"contents must be scalar, got shape {shape_text(inputs[0])}")
    content: bytes = inputs[0].item()
    try:
        height, width, sampling = read_header(content)
    except CorruptImage:
        invalid(f"Invalid JPEG data, size {len(content)}")
    dtype = node.attrs["output_type"].as_numpy_dtype
    return (np.array([height, width, len(sampling)], dtype),)


def _text(value: bytes) -> Array:
    out = np.empty((), object)
    out[()] = value
    return out


def _encoded(image: Array, form: JpegForm) -> Arrays:
    if image.ndim != 3:
        invalid(f"image must be 3-dimensional{shape_text(image)}")
    if not 0 <= form.quality <= 100:
        invalid(f"quality must be in [0,100], got {form.quality}")
    if image.shape[2] not in (1, 3):
        invalid(f"image must have 1 or 3 channels, got {shape_text(image)}")
    if not image.size or max(image.shape[:2]) > 65500:
        invalid("JPEG encoding failed")
    return (_text(pillow_codecs.encode_jpeg(image, form)),)


@reference("EncodeJpeg")
def _encode_jpeg(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Encode an image as JPEG.

    image [h, w, 1 or 3] -> contents [].
    """
    image, attrs = inputs[0], node.attrs
    if image.ndim == 3:
        for name, count in ((b"grayscale", 1), (b"rgb", 3)):
            if attrs["format"] == name and image.shape[2] != count:
                invalid(f"format {name.decode()} expects {count} channels, got {shape_text(image)}")
    return _encoded(
        image,
        JpegForm(
            quality=int(attrs["quality"]),
            progressive=bool(attrs["progressive"]),
            optimize_size=bool(attrs["optimize_size"]),
            chroma_downsampling=bool(attrs["chroma_downsampling"]),
            density_unit=attrs["density_unit"].decode(),
            x_density=int(attrs["x_density"]),
            y_density=int(attrs["y_density"]),
            xmp_metadata=attrs["xmp_metadata"],
        ),
    )


@reference("EncodeJpegVariableQuality")
def _encode_jpeg_of_quality(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Encode an image as JPEG of a quality.

    images [h, w, 1 or 3], quality [] -> contents [].
    """
    image, quality = inputs
    if quality.ndim:
        invalid(f"quality must be scalar: {shape_text(quality)}")
    return _encoded(image, JpegForm(quality=int(quality)))


@reference("EncodePng")
def _encode_png(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Encode images as PNG.

    image [..., h, w, 1 to 4] -> contents [...].
    """
    images, compression = inputs[0], int(node.attrs["compression"])
    if not -1 <= compression <= 9:
        invalid(f"compression should be in [-1,9], got {compression}")
    if images.ndim < 3:
        invalid(f"image must be 3-dimensional{shape_text(images)}")
    if not 1 <= images.shape[-1] <= 4:
        invalid(f"image must have 1, 2, 3, or 4 channels, got {images.shape[-1]}")
    out = np.empty(images.shape[:-3], object)
    if out.size and not images.size:
        failed = ", ".join(map(str, range(out.size)))
        invalid(f"PNG encoding failed at the following flattened batch indices: {failed}")
    for place in np.ndindex(*out.shape):
        out[place] = png_writer.encode(images[place], compression)
    return (out,)
