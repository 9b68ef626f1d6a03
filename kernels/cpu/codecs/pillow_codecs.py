"""Read JPEG and WebP files, and write JPEG files, by Pillow.

Pillow decodes JPEG with libjpeg's accurate integer transform. The pixels are TensorFlow's for its
dct_method "INTEGER_ACCURATE". TensorFlow's default is the fast transform, which differs by a few
of 255, and by more at qualities above 90.
"""

from __future__ import annotations

import io
from types import ModuleType
from typing import NamedTuple

import numpy as np

from tfjit.framework.errors import UnimplementedError
from tfjit.kernels.cpu.codecs.corrupt_image import CorruptImage
from tfjit.kernels.cpu.codecs.jpeg_header import read_header


class JpegOptions(NamedTuple):
    """The attributes of DecodeJpeg that change its result."""

    ratio: int = 1
    fancy_upscaling: bool = True
    try_recover_truncated: bool = False
    acceptable_fraction: float = 1.0


def _pillow(format_name: str) -> ModuleType:
    """Return Pillow's module of images.

    Raises UnimplementedError, with the extra that installs it.
    """
    try:
        from PIL import Image
    except ImportError:
        raise UnimplementedError(
            None,
            None,
            f"{format_name} images need Pillow, which is not installed: pip install 'tfjit[image]'",
        ) from None
    return Image


def _unimplemented(message: str) -> UnimplementedError:
    return UnimplementedError(None, None, f"Pillow cannot decode JPEG with {message}")


def decode_jpeg(content: bytes, channels: int, options: JpegOptions) -> np.ndarray:
    """Return an image [h, w, channels], uint8.

    channels: 1 gray, 3 RGB, 0 for those of the file. Raises CorruptImage, and UnimplementedError
    for options that Pillow has not.
    """
    height, width, sampling = read_header(content)
    if channels == 1 and len(sampling) == 4:
        raise CorruptImage("CMYK has no gray")
    if not options.fancy_upscaling and len(set(sampling)) > 1 and channels != 1:
        raise _unimplemented("fancy_upscaling=False")
    ratio = options.ratio
    if min(height, width) < ratio:
        raise _unimplemented(f"a ratio of {ratio}, which is more than its height or width")
    image_module = _pillow("JPEG")
    if options.try_recover_truncated and not content.rstrip(b"\0").endswith(b"\xff\xd9"):
        content += b"\xff\xd9"  # libjpeg fills the rest with gray
    try:
        with image_module.open(io.BytesIO(content), formats=("JPEG",)) as image:
            mode = "L" if channels == 1 and image.mode == "RGB" else None
            if ratio > 1 or mode:
                image.draft(mode, (width // ratio, height // ratio))
            pixels = np.array(image)
    except (OSError, SyntaxError, ValueError, image_module.DecompressionBombError) as error:
        if options.acceptable_fraction < 1 and "truncated" in str(error):
            raise _unimplemented("an acceptable_fraction below 1, where it is truncated") from None
        raise CorruptImage(str(error)) from None
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.shape[2] == 4:
        # Pillow has undone the inversion that Adobe's files have
        light = 255 - pixels.astype(np.int32)
        pixels = (light[..., 3:] * light[..., :3] // 255).astype(np.uint8)
    if channels == 3 and pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    return np.ascontiguousarray(pixels)


class JpegForm(NamedTuple):
    """The attributes of EncodeJpeg."""

    quality: int
    progressive: bool = False
    optimize_size: bool = False
    chroma_downsampling: bool = True
    density_unit: str = "in"
    x_density: int = 300
    y_density: int = 300
    xmp_metadata: bytes = b""


def encode_jpeg(image: np.ndarray, form: JpegForm) -> bytes:
    """Return the JPEG file of an image.

    image uint8 [h, w, 1 or 3]. The bytes are TensorFlow's.
    """
    image_module = _pillow("JPEG")
    gray = image.shape[2] == 1
    file = io.BytesIO()
    image_module.fromarray(image[..., 0] if gray else image).save(
        file,
        "JPEG",
        qtables=None,
        quality=form.quality,
        progressive=form.progressive,
        optimize=form.optimize_size,
        subsampling=2 if form.chroma_downsampling and not gray else 0,
        dpi=(300, 300),
        xmp=form.xmp_metadata,
    )
    written = bytearray(file.getvalue())
    # Pillow knows inches alone: the unit and the densities stand behind the name JFIF
    written[13] = 1 if form.density_unit == "in" else 2
    written[14:16] = (form.x_density & 0xFFFF).to_bytes(2, "big")
    written[16:18] = (form.y_density & 0xFFFF).to_bytes(2, "big")
    return bytes(written)


def decode_webp(content: bytes) -> np.ndarray:
    """Return the frames of a WebP file.

    The result is uint8 [frames, h, w, 3 or 4]. Raises CorruptImage.
    """
    image_module = _pillow("WebP")
    try:
        with image_module.open(io.BytesIO(content), formats=("WEBP",)) as image:
            frames = []
            for index in range(getattr(image, "n_frames", 1)):
                image.seek(index)
                frames.append(np.array(image))
    except image_module.UnidentifiedImageError:
        raise CorruptImage("Failed to decode WebP header.") from None
    except (OSError, SyntaxError, ValueError, image_module.DecompressionBombError):
        raise CorruptImage("Failed to decode WebP image.") from None
    return np.stack(frames)
