"""Define spectra of frames (STFT, MDCT) and their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites.cosine_transforms import dct
from tfjit.client.composites.framing import Size, frame, overlap_and_add, scalar_or_tensor
from tfjit.client.composites.spectra import irfft, rfft
from tfjit.client.composites.windows import hann_window, vorbis_window
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

# Called with a length and `dtype=`.
Window = Callable[..., Tensor]


def _power_of_two(length: Size) -> Size:
    """Return the next power of two from a length on."""
    if isinstance(length, int):
        return int(2 ** math.ceil(math.log(length) / math.log(2.0)))
    digits = ops.ceil(ops.log(ops.cast(length, dtypes.float32)) / ops.log(2.0))
    return ops.cast(ops.pow(2.0, digits), length.dtype)


def _fft_length(given: TensorLike | None, length: Size) -> Tensor:
    """Return the length of a transform, int32 [1]."""
    if given is None:
        return ops.stack([_power_of_two(length)])
    return ops.stack([scalar_or_tensor(given, "fft_length")[1]])


def stft(
    signals: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    fft_length: TensorLike | None = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the short-time Fourier transform of signals.

    [..., samples] -> [..., frames, bins]. frame_length, frame_step: the samples of a frame, and the
    distance of frames. fft_length: the next power of two by default; there are fft_length / 2 + 1
    bins. window_fn: called with the length and `dtype`, or None. pad_end: see `frame`.
    """
    with name_scope(name, "stft", [signals, frame_length, frame_step]):
        value = convert_to_tensor(signals, name="signals")
        _, length = scalar_or_tensor(frame_length, "frame_length")
        _, step = scalar_or_tensor(frame_step, "frame_step")
        frames = frame(value, length, step, pad_end=pad_end)
        if window_fn is not None:
            frames *= window_fn(length, dtype=frames.dtype)
        return rfft(frames, _fft_length(fft_length, length))


def inverse_stft_window_fn(
    frame_step: TensorLike, forward_window_fn: Window = hann_window, name: str | None = None
) -> Callable[[TensorLike, DType], Tensor]:
    """Return the window function with which `inverse_stft` undoes `stft`.

    forward_window_fn: the window of `stft`. frame_step: the distance of frames.
    Source: Griffin and Lim 1984, "Signal estimation from modified short-time Fourier transform".
    """

    def window(frame_length: TensorLike, dtype: DType) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
            _, step = scalar_or_tensor(frame_step, "frame_step")
            _, length = scalar_or_tensor(frame_length, "frame_length")
            forward = forward_window_fn(length, dtype=dtype)
            parts = -(-length // step)
            squares = ops.pad(ops.square(forward), [[0, parts * step - length]])
            summed = ops.reduce_sum(
                ops.reshape(squares, ops.stack([parts, step])), 0, keepdims=True
            )
            every = ops.reshape(ops.tile(summed, ops.stack([parts, 1])), [-1])[:length]
            return ops.where(ops.equal(every, 0.0), ops.zeros_like(forward), forward / every)

    return window


def inverse_stft(
    stfts: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    fft_length: TensorLike | None = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Return signals of spectra of frames.

    [..., frames, bins] -> [..., samples]. The arguments are those of `stft`. window_fn:
    `inverse_stft_window_fn(frame_step)` gives back the signal of which `stft` made the spectra.
    """
    with name_scope(name, "inverse_stft", [stfts]):
        value = convert_to_tensor(stfts, name="stfts")
        _, length = scalar_or_tensor(frame_length, "frame_length")
        _, step = scalar_or_tensor(frame_step, "frame_step")
        frames = irfft(value, _fft_length(fft_length, length))
        frames = _of_length(frames, length)
        if window_fn is not None:
            frames *= window_fn(length, dtype=value.dtype.real_dtype)
        return overlap_and_add(frames, step)


def _of_length(frames: Tensor, length: Size) -> Tensor:
    """Cut or pad frames to a length."""
    rank, sizes = frames.shape.rank, frames.shape_tuple
    size = sizes[-1] if sizes else None
    if size is not None and isinstance(length, int) and rank is not None:
        if size < length:
            return ops.pad(frames, [[0, 0]] * (rank - 1) + [[0, length - size]])
        return frames[..., :length] if size > length else frames
    frames = frames[..., :length]
    more = ops.stack([0, ops.maximum(0, length - ops.shape(frames)[-1])])
    outer = ops.zeros(ops.stack([ops.rank(frames) - 1, 2]), more.dtype)
    frames = ops.pad(frames, ops.concat([outer, ops.expand_dims(more, 0)], 0))
    if rank is not None and isinstance(length, int):
        frames.set_shape([None] * (rank - 1) + [length])
    return frames


def mdct(
    signals: TensorLike,
    frame_length: TensorLike,
    window_fn: Window | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the modified discrete cosine transform of frames.

    signals [..., samples] -> [..., frames, frame_length / 2]. Frames overlap by half. norm: "ortho"
    or None, of the cosine transform of type 4. Raises ValueError for a length that is no multiple
    of 4.
    """
    with name_scope(name, "mdct", [signals, frame_length]):
        value = convert_to_tensor(signals, name="signals")
        _, length = scalar_or_tensor(frame_length, "frame_length")
        if isinstance(length, int) and length % 4:
            raise ValueError("The frame length must be a multiple of 4.")
        frames = frame(value, length, length // 2, pad_end=pad_end)
        if window_fn is None:
            frames *= 1.0 / math.sqrt(2)
        else:
            frames *= window_fn(length, dtype=frames.dtype)
        a, b, c, d = ops.split(frames, 4, axis=-1)
        folded = ops.concat([-ops.reverse(c, [-1]) - d, a - ops.reverse(b, [-1])], axis=-1)
        return dct(folded, type=4, norm=norm)


def inverse_mdct(
    mdcts: TensorLike,
    window_fn: Window | None = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return signals of the results of `mdct`, whose other arguments it takes."""
    with name_scope(name, "inverse_mdct", [mdcts]):
        value = convert_to_tensor(mdcts, name="mdcts")
        half = value.shape.as_list()[-1] or ops.shape(value)[-1]
        frames = dct(value, type=4, norm=norm)
        if norm is None:
            frames *= 0.5 / ops.cast(half, value.dtype)
        first, second = ops.split(frames, 2, axis=-1)
        unfolded = ops.concat(
            [second, -ops.reverse(second, [-1]), -ops.reverse(first, [-1]), -first], axis=-1
        )
        if window_fn is None:
            unfolded *= 1.0 / math.sqrt(2)
        else:
            unfolded *= window_fn(2 * half, dtype=value.dtype)
        return overlap_and_add(unfolded, half)
