"""Functions of tf.signal against TensorFlow: static shapes, values, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.client.composites.side_by_side import Program, differences

X = np.random.default_rng(5).standard_normal((3, 6, 20)).astype(np.float32)


def spectrum(t: Any, x: Any) -> Any:
    return t.complex(x, x[:, :, ::-1] * 0.5)


def cut(t: Any, x: Any, k: int) -> Any:
    """Return x, or a constant for a cut: TensorFlow has no gradient of that."""
    return t.constant(X) if k == 1 else x


def unknown(t: Any, x: Any) -> Any:
    return t.placeholder_with_default(x, [None, None, None])


def length(t: Any, n: int) -> Any:
    return t.placeholder_with_default(n, [])


WINDOWS = ("hann_window", "hamming_window", "kaiser_window", "kaiser_bessel_derived_window")
PROGRAMS: dict[str, Program] = {
    **{
        f"{name}": lambda t, x, name=name: getattr(t.signal, name)(spectrum(t, x))
        for name in ("fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d")
    },
    **{
        f"{name}_{k}": lambda t, x, name=name, n=n, k=k: getattr(t.signal, name)(cut(t, x, k), n)
        for name in ("rfft", "rfft2d")
        for k, n in enumerate((None, [5, 14][name == "rfft" :], [8, 25][name == "rfft" :]))
    },
    **{
        f"i{name}_{k}": lambda t, x, name=name, n=n, k=k: getattr(t.signal, "i" + name)(
            spectrum(t, cut(t, x, k)), n
        )
        for name in ("rfft", "rfft2d")
        for k, n in enumerate((None, [5, 15][name == "rfft" :], [8, 50][name == "rfft" :]))
    },
    "rfft3d": lambda t, x: t.abs(t.signal.rfft3d(t.constant(X))),
    "irfft3d": lambda t, x: t.signal.irfft3d(t.constant(X + 1j)),
    "rfft_unknown": lambda t, x: t.signal.rfft(unknown(t, x), [24]),
    "irfft_unknown": lambda t, x: t.signal.irfft(spectrum(t, unknown(t, x))),
    "float64": lambda t, x: t.signal.rfft(t.cast(x, t.float64)),
    "fftshift": lambda t, x: t.signal.fftshift(x),
    "ifftshift": lambda t, x: t.signal.ifftshift(x, [0, -1]),
    "fftshift_axis": lambda t, x: t.signal.fftshift(x, 1),
    **{
        f"{name}_{n}": lambda t, x, name=name, n=n: getattr(t.signal, name)(n)
        for name in (*WINDOWS, "vorbis_window")
        for n in (1, 7, 12)
        if name != "kaiser_bessel_derived_window" or n > 1
    },
    "symmetric": lambda t, x: t.signal.hann_window(12, periodic=False, dtype=t.float64),
    "unknown_window": lambda t, x: t.signal.hamming_window(length(t, 8)),
    "frame": lambda t, x: t.signal.frame(x, 6, 4),
    "frame_too_long": lambda t, x: t.signal.frame(x, 30, 4),
    "frame_pad": lambda t, x: t.signal.frame(x, 7, 3, pad_end=True, pad_value=2.0),
    "frame_axis": lambda t, x: t.signal.frame(x, 3, 2, axis=1),
    "frame_axis_pad": lambda t, x: t.signal.frame(x, 4, 5, axis=-2, pad_end=True),
    "frame_unknown": lambda t, x: t.signal.frame(unknown(t, x), length(t, 6), 4, pad_end=True),
    "overlap": lambda t, x: t.signal.overlap_and_add(x, 7),
    "overlap_whole": lambda t, x: t.signal.overlap_and_add(x, 20),
    "overlap_apart": lambda t, x: t.signal.overlap_and_add(x, 23),
    "overlap_unknown": lambda t, x: t.signal.overlap_and_add(unknown(t, x), length(t, 4)),
    "stft": lambda t, x: t.signal.stft(x, 12, 5),
    "stft_pad": lambda t, x: t.signal.stft(x, 12, 5, 15, None, True),
    "stft_unknown": lambda t, x: t.signal.stft(unknown(t, x), 8, 4),
    "inverse_stft": lambda t, x: t.signal.inverse_stft(spectrum(t, x), 32, 12, 38),
    "inverse_stft_long": lambda t, x: t.signal.inverse_stft(
        spectrum(t, x), 50, 12, 38, t.signal.inverse_stft_window_fn(12)
    ),
    "round_trip": lambda t, x: t.signal.inverse_stft(
        t.signal.stft(x, 8, 4), 8, 4, window_fn=t.signal.inverse_stft_window_fn(4)
    ),
    "inverse_unknown": lambda t, x: t.signal.inverse_stft(spectrum(t, unknown(t, x)), 32, 12, 38),
    **{
        f"{name}_{kind}_{n}_{norm}": lambda t, x, name=name, k=kind, n=n, norm=norm: getattr(
            t.signal, name
        )(x, k, n, norm=norm)
        for name, n in (("dct", None), ("dct", 9), ("idct", 25))
        for kind in (1, 2, 3, 4)
        for norm in (None, "ortho")
        if kind > 1 or norm is None
    },
    "mdct": lambda t, x: t.signal.mdct(x, 8),
    "mdct_ortho": lambda t, x: t.signal.mdct(x, 8, None, True, "ortho"),
    "inverse_mdct": lambda t, x: t.signal.inverse_mdct(x),
    "inverse_mdct_ortho": lambda t, x: t.signal.inverse_mdct(x, norm="ortho"),
    "mel": lambda t, x: t.signal.linear_to_mel_weight_matrix(8, 20, 16000, 80.0, 7600.0),
    "mel_64": lambda t, x: t.signal.linear_to_mel_weight_matrix(dtype=t.float64),
    "mfcc": lambda t, x: t.signal.mfccs_from_log_mel_spectrograms(x),
}


def test_equal_tensorflow() -> None:
    assert not differences(PROGRAMS, X, frozenset(PROGRAMS))
