"""Decoders and encoders of images against TensorFlow, errors included."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels import image_files as files
from tests.kernels.image_files import GifFrame, chunk
from tests.kernels.kernel_cases import Case, differences, ours
from tfjit.framework.errors import UnimplementedError

pytest.importorskip("tensorflow")

JPEG_OPS = ("DecodeJpeg", "DecodePng", "DecodeImage")
ALL_OPS = (*JPEG_OPS, "DecodeGif", "DecodeBmp", "DecodeAndCropJpeg")
DTYPES = ("uint8", "uint16")


def text(value: bytes) -> np.ndarray:
    """Return a scalar of a string."""
    out = np.empty((), object)
    out[()] = value
    return out


def decode(op: str, content: bytes, **attrs: Any) -> Case:
    inputs = [text(content)]
    if op == "DecodeAndCropJpeg":
        inputs.append(np.array([0, 0, 1, 1], np.int32))
    return Case(op, inputs, attrs)


def pngs() -> Iterator[Case]:
    transparent = {0: struct.pack(">H", 1), 2: struct.pack(">HHH", 3, 4, 5), 3: b"\x07\x80"}
    for color_type, depths in files.PNG_DEPTHS.items():
        for depth in depths:
            entries = (1 << depth) - (depth > 1) if color_type == 3 else 0
            palette = chunk(b"PLTE", files.RNG.bytes(3 * entries)) if entries else b""
            for interlaced in (False, True):
                for alpha in (False, True):
                    extra = palette
                    if alpha and color_type in transparent:
                        extra += chunk(b"tRNS", transparent[color_type])
                    if alpha:
                        extra = chunk(b"gAMA", struct.pack(">I", 45455)) + extra
                    content = files.png((11, 9), depth, color_type, interlaced, extra, entries)
                    for channels in (0, 1, 3, 4):
                        dtype = DTYPES[(channels + depth) % 2]
                        yield decode("DecodePng", content, channels=channels, dtype=dtype)
    for size in ((1, 1), (1, 600), (600, 1)):
        yield decode("DecodePng", files.png(size, 8, 6))
    srgb = files.png((3, 3), 8, 2, extra=chunk(b"sRGB", b"\0"))
    yield decode("DecodePng", srgb, channels=1)
    yield decode("DecodeImage", srgb, dtype="float32")


def broken_pngs() -> Iterator[Case]:
    good = files.png((5, 4), 8, 2)
    for length in (8, 20, 33, 40, len(good) - 30, len(good) - 12, len(good) - 1):
        yield decode("DecodePng", good[:length])
    for place in (9, 13, 16, 20, 24, 25, 26, 27, 28, 30, 38, 50, len(good) - 20):
        changed = bytearray(good)
        changed[place] ^= 0x41
        yield decode("DecodePng", bytes(changed))
    for color_type, depth in ((3, 8), (1, 8), (2, 4), (0, 3)):
        header = struct.pack(">IIBBBBB", 4, 5, depth, color_type, 0, 0, 0)
        yield decode("DecodePng", good[:8] + chunk(b"IHDR", header) + good[33:])
    for kind in (b"abCd", b"ABCD"):
        yield decode("DecodePng", good[:33] + chunk(kind, b"123") + good[33:])


def bmps() -> Iterator[Case]:
    for size in ((3, 2), (4, 3), (3, -2), (1, 1)):
        for bits in (8, 24, 32):
            content = files.bmp(*size, bits)
            for channels in (0, 3, 4):
                yield decode("DecodeBmp", content, channels=channels)
            yield decode("DecodeImage", content)  # of other dtypes, TensorFlow itself crashes
    good = files.bmp(3, 2, 24)
    for channels in (1, 2):
        yield decode("DecodeBmp", good, channels=channels)
    for content in (
        *(b"BM", b"BM" + b"\0" * 40, good[:31], good[:-1], good + b"\0"),
        *(files.bmp(3, 2, bits) for bits in (0, 1, 16)),
        *(files.bmp(*size, 24) for size in ((0, 2), (3, 0), (-3, 2))),
        *(files.bmp(3, 2, 24, start) for start in (-5, 1000)),
        files.bmp(1 << 30, 2, 24, size=5),
    ):
        yield decode("DecodeBmp", content)


def gifs() -> Iterator[Case]:
    whole = (0, 0, 7, 5)
    for frames in (
        [GifFrame(whole)],
        [GifFrame((0, 0, 7, 21), interlaced=True)],
        [GifFrame(whole), GifFrame((2, 1, 3, 3)), GifFrame((1, 1, 4, 4), transparent=3)],
        [
            GifFrame(whole, 9, 2),
            GifFrame((2, 1, 3, 3), 2, 2),
            GifFrame((1, 1, 4, 4), 3, 3),
            GifFrame((0, 0, 2, 2)),
        ],
        [GifFrame((2, 2, 3, 3)), GifFrame((0, 0, 5, 4))],
        [GifFrame((5, 4, 7, 5)), GifFrame((50, 40, 7, 5)), GifFrame(whole)],
        [GifFrame(whole, own_bits=2, used=4), GifFrame(whole, own_bits=4)],
        [GifFrame(whole, own_bits=2)],
    ):
        content = files.gif(frames)
        for op in ("DecodeGif", "DecodeImage", "DecodePng"):
            yield decode(op, content)
        yield decode("DecodeImage", content, expand_animations=False, dtype="float32")
    for bits in (1, 2, 8):
        yield decode("DecodeGif", files.gif([GifFrame((0, 0, 90, 70), used=256)], bits))
    yield decode("DecodeGif", files.gif([GifFrame(whole)], palette=False))
    yield decode("DecodeGif", files.gif([]))
    good = files.gif([GifFrame(whole), GifFrame(whole)])
    for length in (4, 6, 13, 40, 61, 62, 70, 90, len(good) - 1, len(good) - 2):
        yield decode("DecodeGif", good[:length])
    yield decode("DecodeGif", good[:-1] + b"junk")


def jpegs() -> Iterator[Case]:
    """With the accurate transform, Pillow's pixels are TensorFlow's."""
    accurate = {"dct_method": "INTEGER_ACCURATE"}
    for size in ((40, 53, 3), (33, 17, 1), (16, 16, 3), (16, 9, 4)):
        for subsampling in (0, 1, 2) if size[2] == 3 else (0,):
            for progressive in (False, True):
                content = files.saved(
                    files.photo(*size),
                    "JPEG",
                    quality=60,
                    subsampling=subsampling,
                    progressive=progressive,
                )
                for channels in (0, 1, 3, 4):
                    yield decode("DecodeJpeg", content, channels=channels, **accurate)
        yield decode("ExtractJpegShape", content)
        yield decode("ExtractJpegShape", content, output_type="int64")
        # of subsampled colors, TensorFlow interpolates the edges of a part without the rest
        whole = files.saved(files.photo(*size), "JPEG", subsampling=0)
        window = np.array([2, 1, 5, 7], np.int32)
        yield Case("DecodeAndCropJpeg", [text(whole), window], accurate)
    for ratio in (2, 4, 8):
        plain = files.saved(files.photo(33, 50, 3), "JPEG", subsampling=0)
        yield decode("DecodeJpeg", plain, ratio=ratio, **accurate)
    yield decode("DecodeJpeg", plain, fancy_upscaling=False, **accurate)
    cut = content[: len(content) * 2 // 3]
    for recover in (False, True):
        yield decode("DecodeJpeg", cut, try_recover_truncated=recover, **accurate)
    for wrong in (b"\xff\xd8\xff", content[:30], content[:200]):
        yield decode("DecodeJpeg", wrong)
        yield decode("ExtractJpegShape", wrong)
    yield decode("ExtractJpegShape", b"hello")
    for bad in ([0, 0, 50, 3], [-1, 0, 3, 3], [0, 0, 0, 3], [0, 0, 3], [[0, 0, 3, 3]]):
        yield Case(
            "DecodeAndCropJpeg", [text(content), np.array(bad, np.int32)], accurate, own_words=True
        )


def webps() -> Iterator[Case]:
    for channels in (3, 4):
        image = files.photo(20, 31, channels)
        for lossless in (False, True):
            content = files.saved(image, "WEBP", lossless=lossless)
            for wanted in (0, 1, 3, 4):
                yield decode("DecodeWebP", content, channels=wanted)
            yield decode("DecodeImage", content)
            yield decode("DecodeImage", content, expand_animations=False)
            yield decode("DecodeImage", content, dtype="uint16")
    for wrong in (b"RIFF1234WEBPxxxx", content[:100], b"abc"):
        yield decode("DecodeWebP", wrong)


def other_formats() -> Iterator[Case]:
    image = files.photo(4, 5, 3)
    contents = [
        files.png((4, 4), 8, 2),
        files.saved(image, "JPEG"),
        files.gif([GifFrame((0, 0, 7, 5))]),
        files.bmp(3, 2, 24),
        *(b"hello", b"", b"\x89PN", b"GIF8", b"\x89PNG\r\n\x1a\nabcdefgh", b"\xff\xd8\xff\xe0ab"),
    ]
    for op in ALL_OPS:
        for content in contents:
            # the pixels of the fast transform are others
            pixels = content == contents[1] and op != "DecodeBmp"
            for channels in (0, 1, 2, 4) if op != "DecodeGif" else (None,):
                if pixels and channels not in (2, 4):
                    continue
                yield decode(op, content, **({} if channels is None else {"channels": channels}))
    for op in ("DecodePng", "ExtractJpegShape"):
        yield Case(op, [text(contents[0])[None]], own_words=True)


def encoded() -> Iterator[Case]:
    for channels in (1, 3):
        image = files.photo(21, 33, channels)
        for attrs in (
            *({}, {"quality": 50}, {"quality": 1}, {"quality": 100}, {"quality": 0}),
            *({"progressive": True}, {"optimize_size": True}, {"chroma_downsampling": False}),
            {"density_unit": "cm", "x_density": 0, "y_density": 72},
            {"xmp_metadata": "<x>text</x>"},
            *({"format": "rgb"}, {"format": "grayscale"}, {"quality": 101}, {"quality": -1}),
        ):
            yield Case("EncodeJpeg", [image], attrs)
        for quality in (30, 101):
            yield Case("EncodeJpegVariableQuality", [image, np.array(quality, np.int32)])
    yield Case("EncodeJpegVariableQuality", [image, np.array([30], np.int32)])
    for wrong in (image[:0], image[..., :2], image[..., 0]):
        yield Case("EncodeJpeg", [wrong], own_words=wrong.ndim == 2)
        if wrong.ndim == 3:
            yield Case("EncodePng", [wrong[:, :0]])
            yield Case("EncodePng", [np.stack([wrong[:, :0]] * 2)])
            yield Case("EncodePng", [wrong[None, :, :0][:0]])
    yield Case("EncodePng", [image], {"compression": 10})
    yield Case("EncodePng", [np.zeros((3, 3, 5), np.uint8)])


@pytest.mark.parametrize(
    "cases",
    [pngs, broken_pngs, bmps, gifs, jpegs, webps, other_formats, encoded],
    ids=lambda cases: cases.__name__,
)
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))


def test_pngs_that_are_written_are_read_back() -> None:
    """By TensorFlow; the bytes are others than TensorFlow's."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        contents = tf.compat.v1.placeholder(tf.string, [])
        read = {
            dtype: tf.image.decode_png(contents, dtype=dtype) for dtype in (tf.uint8, tf.uint16)
        }
        for channels in (1, 2, 3, 4):
            for dtype, compression in ((np.uint8, -1), (np.uint16, 0), (np.uint8, 9)):
                images = files.RNG.integers(0, 1 << 16, (2, 5, 9, channels)).astype(dtype)
                images[1] = np.cumsum(images[1] >> 4, 0)
                written, _ = ours(Case("EncodePng", [images], {"compression": compression}))
                assert written is not None and written[0].shape == (2,)
                for image, content in zip(images, written[0]):
                    found = session.run(read[tf.as_dtype(dtype)], {contents: content})
                    np.testing.assert_array_equal(found, image)


def test_jpegs_of_the_fast_transform_are_near() -> None:
    """TensorFlow's default transform is one that Pillow has not."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for shape in ((40, 53, 3), (33, 17, 1)):
            content = files.saved(files.photo(*shape), "JPEG", quality=80)
            theirs = session.run(tf.image.decode_jpeg(content))
            found, _ = ours(decode("DecodeJpeg", content))
            assert found is not None and found[0].shape == theirs.shape
            assert np.abs(found[0].astype(int) - theirs).max() <= 4


def test_without_pillow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    content = files.saved(files.photo(8, 8, 3), "JPEG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    for case in (
        decode("DecodeJpeg", content),
        decode("DecodeWebP", b"RIFF1234WEBPxxxx"),
        Case("EncodeJpeg", [files.photo(8, 8, 3)]),
    ):
        found, message = ours(case)
        assert found is None and "pip install 'tfjit[image]'" in message
    shape, _ = ours(decode("ExtractJpegShape", content))
    assert shape is not None and shape[0].tolist() == [8, 8, 3]


def test_what_is_not_decoded_says_so() -> None:
    subsampled = files.saved(files.photo(16, 16, 3), "JPEG", subsampling=2)
    for case, reason in (
        (decode("DecodeJpeg", subsampled, fancy_upscaling=False), "fancy_upscaling"),
        (decode("DecodeImage", b"\xff\x0aabc"), "JPEG XL"),
        (decode("DecodeJxl", b"\xff\x0aabc"), "JPEG XL"),
    ):
        found, message = ours(case)
        assert found is None and reason in message
    assert UnimplementedError(None, None, "").error_code == 12
