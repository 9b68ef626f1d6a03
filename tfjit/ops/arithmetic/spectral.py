"""Fourier transforms."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op

register_op(
    "BatchFFT",
    inputs=("input: complex64",),
    outputs=("output: complex64",),
    deprecated=(15, "Use FFT"),
)
register_op(
    "BatchFFT2D",
    inputs=("input: complex64",),
    outputs=("output: complex64",),
    deprecated=(15, "Use FFT2D"),
)
register_op(
    "BatchFFT3D",
    inputs=("input: complex64",),
    outputs=("output: complex64",),
    deprecated=(15, "Use FFT3D"),
)
register_op(
    "BatchIFFT",
    inputs=("input: complex64",),
    outputs=("output: complex64",),
    deprecated=(15, "Use IFFT"),
)
register_op(
    "BatchIFFT2D",
    inputs=("input: complex64",),
    outputs=("output: complex64",),
    deprecated=(15, "Use IFFT2D"),
)
register_op(
    "BatchIFFT3D",
    inputs=("input: complex64",),
    outputs=("output: complex64",),
    deprecated=(15, "Use IFFT3D"),
)
register_op(
    "FFT",
    inputs=("input: Tcomplex",),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "FFT2D",
    inputs=("input: Tcomplex",),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "FFT3D",
    inputs=("input: Tcomplex",),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "FFTND",
    inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "IFFT",
    inputs=("input: Tcomplex",),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "IFFT2D",
    inputs=("input: Tcomplex",),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "IFFT3D",
    inputs=("input: Tcomplex",),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "IFFTND",
    inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
)
register_op(
    "IRFFT",
    inputs=("input: Tcomplex", "fft_length: int32"),
    outputs=("output: Treal",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "IRFFT2D",
    inputs=("input: Tcomplex", "fft_length: int32"),
    outputs=("output: Treal",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "IRFFT3D",
    inputs=("input: Tcomplex", "fft_length: int32"),
    outputs=("output: Treal",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "IRFFTND",
    inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
    outputs=("output: Treal",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "RFFT",
    inputs=("input: Treal", "fft_length: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "RFFT2D",
    inputs=("input: Treal", "fft_length: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "RFFT3D",
    inputs=("input: Treal", "fft_length: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "RFFTND",
    inputs=("input: Treal", "fft_length: int32", "axes: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
