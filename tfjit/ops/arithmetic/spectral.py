"""Define Fourier transforms."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Rule, Shapes, fail, unchanged_of_rank_at_least


def _transformed(rank: int, forward: bool) -> Rule:
    """Return the rule of a real transform, or of its inverse."""

    def rule(c: ShapeContext) -> Shapes:
        shape = c.with_rank_at_least(0, rank)
        count = c.with_rank(1, 1)[0]
        if count is not None and count != rank:
            raise fail(f"Dimension must be {rank} but is {count}")
        if shape is None:
            return [None]
        sizes = list(c.constant_as_shape(1) or (None,) * rank)
        last = sizes[-1]
        if forward and last:
            sizes[-1] = last // 2 + 1
        return [(*shape[: len(shape) - rank], *sizes)]

    return rule


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
        shape=unchanged_of_rank_at_least(int(_op_type[-2]) if _op_type.endswith("D") else 1),
    )
for _op_type in ("FFTND", "IFFTND"):
    register_op(
        _op_type,
        inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
        outputs=("output: Tcomplex",),
        attrs=("Tcomplex: {complex64, complex128} = DT_COMPLEX64",),
    )
for _rank, _op_type in enumerate(("IRFFT", "IRFFT2D", "IRFFT3D"), 1):
    register_op(
        _op_type,
        inputs=("input: Tcomplex", "fft_length: int32"),
        outputs=("output: Treal",),
        attrs=(
            "Treal: {float, double} = DT_FLOAT",
            "Tcomplex: {complex64, complex128} = DT_COMPLEX64",
        ),
        shape=_transformed(_rank, False),
    )
register_op(
    "IRFFTND",
    inputs=("input: Tcomplex", "fft_length: int32", "axes: int32"),
    outputs=("output: Treal",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
for _rank, _op_type in enumerate(("RFFT", "RFFT2D", "RFFT3D"), 1):
    register_op(
        _op_type,
        inputs=("input: Treal", "fft_length: int32"),
        outputs=("output: Tcomplex",),
        attrs=(
            "Treal: {float, double} = DT_FLOAT",
            "Tcomplex: {complex64, complex128} = DT_COMPLEX64",
        ),
        shape=_transformed(_rank, True),
    )
register_op(
    "RFFTND",
    inputs=("input: Treal", "fft_length: int32", "axes: int32"),
    outputs=("output: Tcomplex",),
    attrs=("Treal: {float, double} = DT_FLOAT", "Tcomplex: {complex64, complex128} = DT_COMPLEX64"),
)
