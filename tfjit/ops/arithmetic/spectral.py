"""Define Fourier transforms."""

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
for _op_type in ("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"):
    register_op(
        _op_type,
        inputs=("input: Tcomplex",),
        outputs=("output: Tcomplex",),
        attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
    )
for _op_type in ("FFTND", "IFFTND"):
    register_op(
        _op_type,
        inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
        outputs=("output: Tcomplex",),
        attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
    )
for _op_type in ("IRFFT", "IRFFT2D", "IRFFT3D"):
    register_op(
        _op_type,
        inputs=("input: Tcomplex", "fft_length: int32"),
        outputs=("output: Treal",),
        attrs=(
            "Treal: {float, double} = DT_FLOAT",
            "Tcomplex: {complex64, complex128} = DT_COMPLEX64",
        ),
    )
register_op(
    "IRFFTND",
    inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
    outputs=("output: Treal",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
for _op_type in ("RFFT", "RFFT2D", "RFFT3D"):
    register_op(
        _op_type,
        inputs=("input: Treal", "fft_length: int32"),
        outputs=("output: Tcomplex",),
        attrs=(
            "Treal: {float, double} = DT_FLOAT",
            "Tcomplex: {complex64, complex128} = DT_COMPLEX64",
        ),
    )
register_op(
    "RFFTND",
    inputs=("input: Treal", "fft_length: int32", "axes: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
