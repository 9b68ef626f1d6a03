"""Compiled Fourier transforms give the reference's answers, which are compared with TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.launching import run_native, tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.linear_algebra.spectral import radices
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

RNG = np.random.default_rng(3)


def transform(op: str, *inputs: np.ndarray, chunks: int = 0, **attrs: Any) -> None:
    known = dict(enumerate(inputs[1:], 1))
    specs = tuple(map(tensor, inputs))
    reference, builder = find_reference(op), find_native(op)
    assert reference is not None and builder is not None
    (wanted,) = reference(NodeSpec("n", op, attrs, specs, (), known), inputs)
    spec = NodeSpec("n", op, attrs, specs, (tensor(wanted),), known)
    (found,) = run_native(builder(spec), inputs, spec.outputs, chunks)
    scale = np.abs(wanted).max(initial=1e-30)
    np.testing.assert_allclose(found / scale, wanted / scale, atol=2e-6, err_msg=str(spec))


@pytest.mark.parametrize(
    "shape",
    [(5, 8), (20, 2), (9, 2), (3, 4, 60), (17, 225), (2, 3, 16, 12), (2, 128, 32), (6, 6, 3)],
)
def test_transforms(shape: tuple[int, ...]) -> None:
    """Sizes of all radices; lines beside each other and apart, in full and partly empty vectors."""
    z = (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)
    for rank in range(1, min(len(shape), 4)):
        suffix = "" if rank == 1 else f"{rank}D"
        size = np.array(shape[len(shape) - rank :], np.int32)
        half = z[..., : shape[-1] // 2 + 1]
        for chunks in (0, 3):
            transform(f"FFT{suffix}", z, chunks=chunks)
            transform(f"IFFT{suffix}", z, chunks=chunks)
            transform(f"RFFT{suffix}", z.real.copy(), size, chunks=chunks, Tcomplex=d.complex64)
            # the imaginary parts that a real array's spectrum has not are ignored
            transform(f"IRFFT{suffix}", half.copy(), size, chunks=chunks, Treal=d.float32)


def test_sizes_that_the_reference_serves() -> None:
    assert radices(360) == [4, 2, 3, 3, 5] and radices(1) == [] and radices(14) is None
    builder = find_native("FFT")
    assert builder is not None
    for shape in ((8, 7), (8, 1), (2, 16), (0, 8)):
        spec = tensor(np.zeros(shape, np.complex64))
        with pytest.raises(Unsupported):
            builder(NodeSpec("n", "FFT", {}, (spec,), (spec,)))
