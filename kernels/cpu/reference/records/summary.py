"""Make summary messages for event files.

Scalars, histograms, tensors, images and sounds.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.files.wav import pack_wav
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]
_LARGEST: Final = float(np.finfo(np.float64).max)
_NEARLY_ZERO: Final = 1e-6
_BLOCK: Final = 1 << 15
"""Values of a histogram that are counted at a time.

They stay in the cache.
"""
_PNG_COLORS: Final = {1: 0, 3: 2, 4: 6}  # channels -> colour type of the PNG header


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _message(summary: Any) -> Arrays:
    return (np.array(summary.SerializeToString(), object),)


def _text(value: Any) -> str:
    item: bytes = np.asarray(value, object).item()
    return item.decode(errors="replace")


@reference("ScalarSummary")
def _scalars(node: NodeSpec, inputs: Arrays) -> Arrays:
    from tfjit.protos import Summary

    tags, values = np.asarray(inputs[0], object), np.asarray(inputs[1])
    if tags.shape != values.shape and not (tags.ndim == 0 and values.size == 1):
        tag = f" (tag '{_text(tags)}')" if tags.size == 1 else ""
        raise _fail(
            f"tags and values are not the same shape: {format_shape(tags.shape)} != "
            f"{format_shape(values.shape)}{tag}"
        )
    summary = Summary()
    for tag, value in zip(tags.reshape(-1), values.reshape(-1), strict=True):
        summary.value.add(tag=tag.decode(errors="replace"), simple_value=float(np.float32(value)))
    return _message(summary)


@cache
def _limits() -> np.ndarray:
    """Return the upper ends of a histogram's buckets, ascending.

    Powers of 1.1 from 1e-12 to 1e20 on both sides of zero.
    """
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(_LARGEST)
    return np.array([*(-limit for limit in reversed(positive)), 0.0, *positive])


@cache
def _first_buckets() -> np.ndarray:
    """Return the least bucket of each upper 16 bits, int16 [65536].

    These bits of a float64 hold 4 of the mantissa. So numbers that share them differ by at most a
    sixteenth, less than two limits do, and are in this bucket or in the next one.
    """
    patterns = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    patterns[1 << 15 :] |= np.uint64((1 << 48) - 1)  # of negative numbers, the largest magnitude
    # Negative subnormal numbers are in the bucket below 0, also where the thread that asks first
    # takes them for 0.
    patterns[1 << 15 :] = np.maximum(patterns[1 << 15 :], np.uint64(0x8010 << 48))
    return np.searchsorted(_limits(), patterns.view(np.float64), "right").astype(np.int16)


def _bucket_counts(values: np.ndarray) -> np.ndarray:
    """Return the number of finite values in each bucket, values float64 [n]."""
    limits, first = _limits(), _first_buckets()
    upper = np.append(limits, np.inf)
    counts = np.zeros(len(limits) + 1, np.int64)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        places = first[block.view(np.uint64) >> np.uint64(48)]
        places += block >= upper[places]
        counts += np.bincount(places, minlength=len(counts))
    counts[-2] += counts[-1]  # the last bucket has the largest number too
    return counts[:-1]


@reference("HistogramSummary")
def _histogram(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Make a histogram summary.

    Source: TensorFlow 2.21, HistogramSummary and its default buckets, observed by running it.
    """
    from tfjit.protos import Summary

    if np.shape(inputs[0]) != ():
        raise _fail("tags must be scalar")
    tag = _text(inputs[0])
    values = np.asarray(inputs[1]).reshape(-1).astype(np.float64)
    if not np.isfinite(values).all():
        found = "Nan in summary histogram" if np.isnan(values).any() else "Infinity in Histogram"
        raise _fail(f"{found} for: {tag}")
    summary = Summary()
    histo = summary.value.add(tag=tag).histo
    histo.min, histo.max = (
        (float(values.min()), float(values.max())) if values.size else (_LARGEST, -_LARGEST)
    )
    histo.num, histo.sum, histo.sum_squares = (
        float(values.size),
        float(values.sum()),
        float((values * values).sum()),
    )
    counts = _bucket_counts(values)
    full = counts > 0
    last = np.append(full[:-1] | full[1:], True)  # a run of empty buckets is one bucket
    histo.bucket_limit.extend(_limits()[last].tolist())
    histo.bucket.extend(counts[last].tolist())
    return _message(summary)


@reference("MergeSummary")
def _merge(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Merge several summaries.

    Raises InvalidArgumentError for a tag that comes twice, or for bytes that are not a summary.
    """
    from google.protobuf.message import DecodeError

    from tfjit.protos import Summary

    merged, tags = Summary(), set()
    for value in inputs:
        for item in np.asarray(value, object).reshape(-1):
            try:
                summary = Summary.FromString(item)
            except DecodeError:
                raise _fail("Could not parse one of the summary inputs") from None
            for part in summary.value:
                if part.tag:
                    if part.tag in tags:
                        raise _fail(f"Duplicate tag {part.tag} found in summary inputs ")
                    tags.add(part.tag)
                merged.value.add().CopyFrom(part)
    return _message(merged)


@reference("TensorSummary")
def _tensor(node: NodeSpec, inputs: Arrays) -> Arrays:
    from tfjit.framework.types.constants import make_tensor_proto
    from tfjit.protos import Summary

    summary = Summary()
    summary.value.add(node_name=node.name).tensor.CopyFrom(make_tensor_proto(np.asarray(inputs[0])))
    return _message(summary)


@reference("TensorSummaryV2")
def _tensor_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    from tfjit.framework.types.constants import make_tensor_proto
    from tfjit.protos import Summary

    if np.shape(inputs[0]) != ():
        raise _fail("tag must be scalar")
    if np.shape(inputs[2]) != ():
        raise _fail("serialized_summary_metadata must be scalar")
    summary = Summary()
    value = summary.value.add(tag=_text(inputs[0]))
    value.tensor.CopyFrom(make_tensor_proto(np.asarray(inputs[1])))
    value.metadata.ParseFromString(np.asarray(inputs[2], object).item())
    return _message(summary)


@reference("ImageSummary")
def _image(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Make PNG images of the first pictures of a batch.

    Shape [batch, height, width, channels].
    """
    from tfjit.protos import Summary

    if np.shape(inputs[0]) != ():
        raise _fail("Tags must be a scalar")
    tag, tensor = _text(inputs[0]), np.asarray(inputs[1])
    if tensor.ndim != 4 or tensor.shape[3] not in _PNG_COLORS:
        raise _fail(
            f"Tensor must be 4-D with last dim 1, 3, or 4, not {format_shape(tensor.shape)}"
        )
    batch, height, width, depth = tensor.shape
    bad = np.asarray(node.attrs["bad_color"]).reshape(-1)
    if bad.size < depth:
        raise _fail(
            f"expected depth <= bad_color.size, got depth = {depth}, bad_color.size = {bad.size}"
        )
    limit = min(batch, int(node.attrs["max_images"]))
    summary = Summary()
    for k in range(limit):
        pixels = tensor[k] if tensor.dtype == np.uint8 else _as_bytes(tensor[k], bad[:depth])
        value = summary.value.add(
            tag=f"{tag}/image/{k}" if node.attrs["max_images"] > 1 else f"{tag}/image"
        )
        value.image.height, value.image.width, value.image.colorspace = height, width, depth
        value.image.encoded_image_string = encode_png(pixels)
    return _message(summary)


@reference("AudioSummary", "AudioSummaryV2")
def _audio(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Make WAV files of the first sounds of a batch.

    Shape [batch, frames], or [batch, frames, channels].
    """
    from tfjit.protos import Summary

    if np.shape(inputs[0]) != ():
        raise _fail("Tag must be a scalar")
    tag, tensor = _text(inputs[0]), np.asarray(inputs[1])
    if tensor.ndim not in (2, 3):
        raise _fail(f"Tensor must be 3-D or 2-D, got: {format_shape(tensor.shape)}")
    if node.op == "AudioSummary":
        rate = float(node.attrs["sample_rate"])
    elif np.shape(inputs[2]) != ():
        raise _fail(f"sample_rate must be a scalar, got: {format_shape(np.shape(inputs[2]))}")
    else:
        rate = float(inputs[2])
    if not np.isfinite(rate) or rate < 1:
        raise _fail(f"sample_rate must be in (0, 2^32), got: {rate:g}")
    batch, frames = tensor.shape[:2]
    channels = tensor.shape[2] if tensor.ndim == 3 else 1
    most = int(node.attrs["max_outputs"])
    summary = Summary()
    for k in range(min(batch, most)):
        audio = summary.value.add(tag=f"{tag}/audio/{k}" if most > 1 else f"{tag}/audio").audio
        audio.sample_rate, audio.num_channels, audio.length_frames = rate, channels, frames
        audio.content_type = "audio/wav"
        audio.encoded_audio_string = pack_wav(tensor[k].reshape(frames, channels), int(rate))
    return _message(summary)


def _as_bytes(image: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Scale a picture of floats to 0..255.

    Zero is in the middle when there are negative values. Pixels that are not finite become `bad`.
    """
    values = image.astype(np.float32)
    finite: np.ndarray = np.asarray(np.isfinite(values).all(-1))
    known = values[finite]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    if low < 0:
        largest = max(abs(low), abs(high))
        scale, offset = (
            np.float32(0.0 if largest < _NEARLY_ZERO else 127.0 / largest),
            np.float32(128.0),
        )
    else:
        scale, offset = np.float32(0.0 if high < _NEARLY_ZERO else 255.0 / high), np.float32(0.0)
    with np.errstate(invalid="ignore"):
        scaled = (np.where(finite[..., None], values, 0) * scale + offset).astype(np.uint8)
    return np.where(finite[..., None], scaled, bad.astype(np.uint8))


def encode_png(pixels: np.ndarray) -> bytes:
    """Return a PNG file of pixels uint8 [height, width, channels].

    channels: 1, 3 or 4.
    """
    height, width, depth = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLORS[depth], 0, 0, 0)
    rows = b"".join(b"\0" + np.ascontiguousarray(row).tobytes() for row in pixels)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
