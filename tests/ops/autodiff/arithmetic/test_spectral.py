"""Test gradients of Fourier transforms against TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import compare, signed


@pytest.mark.parametrize("name", ["FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"])
def test_complex_transforms(name: str) -> None:
    def program(m: Any, x: Any, y: Any) -> Any:
        spectrum = getattr(m.raw_ops, name)(input=m.complex(x, y))
        return m.math.real(spectrum) * 0.5 + m.math.imag(spectrum) * m.math.real(spectrum)

    compare(program, [signed(2, 3, 4), signed(2, 3, 4)])


@pytest.mark.parametrize("name", ["RFFT", "RFFT2D"])
@pytest.mark.parametrize("length", [5, 6])
def test_transforms_of_real_signals(name: str, length: int) -> None:
    def program(m: Any, x: Any) -> Any:
        sizes = [length] if name == "RFFT" else [3, length]
        spectrum = getattr(m.raw_ops, name)(input=x, fft_length=sizes)
        return m.math.real(spectrum) * 0.5 + m.math.imag(spectrum) * m.math.real(spectrum)

    compare(program, [signed(2, 3, length)])


@pytest.mark.parametrize("name", ["IRFFT", "IRFFT2D"])
@pytest.mark.parametrize("length", [5, 6])
def test_transforms_to_real_signals(name: str, length: int) -> None:
    sizes = [length] if name == "IRFFT" else [3, length]

    def program(m: Any, x: Any, y: Any) -> Any:
        return getattr(m.raw_ops, name)(input=m.complex(x, y), fft_length=sizes) ** 2

    compare(program, [signed(2, 3, length // 2 + 1), signed(2, 3, length // 2 + 1)])


@pytest.mark.parametrize("name", ["RFFT", "RFFT2D", "IRFFT", "IRFFT2D"])
@pytest.mark.parametrize("length", [4, 5])
def test_crops(name: str, length: int) -> None:
    """Test inputs longer than the transform by differences: TensorFlow's gradient has no answer."""
    import tfjit

    sizes = [length] if name.endswith("FFT") else [2, length]
    value = signed(3, 6).astype("f8")
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float64, [3, 6])
        inverse = name.startswith("I")
        options = {"Treal": tfjit.float64} if inverse else {"Tcomplex": tfjit.complex128}
        y = getattr(tfjit.raw_ops, name)(
            input=tfjit.complex(x, x * x) if inverse else x, fft_length=sizes, **options
        )
        loss = tfjit.reduce_sum(y**3 if inverse else tfjit.abs(y) ** 2 + tfjit.math.imag(y))
        (found,) = tfjit.gradients(loss, [x])
        with tfjit.Session() as session:
            got = session.run(found, {x: value})
            expected = np.empty_like(value)
            for at in np.ndindex(value.shape):
                step = np.zeros_like(value)
                step[at] = 1e-5
                above, below = (session.run(loss, {x: value + s}) for s in (step, -step))
                expected[at] = (above - below) / 2e-5
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)
