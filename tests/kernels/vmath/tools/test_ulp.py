"""The ULP table on samples: every function within its bound, and the command itself."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit
from tfjit.kernels.vmath.tools import ulp

pytest.importorskip("numba")


@pytest.mark.parametrize("name", ulp.FLOAT32_BOUNDS)
def test_float32_stays_within_its_bound(name: str):
    result = ulp.measure_float32(name, 20011)
    assert result.elements > 200_000
    assert result.passed, str(result)


@pytest.mark.parametrize("name", ulp.FLOAT64_BOUNDS)
def test_float64_stays_within_its_bound(name: str):
    result = ulp.measure_float64(name, 60_000)
    assert result.passed, str(result)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_pow_stays_within_its_bound(kind: str):
    result = ulp.measure_pow(kind, 60_000)
    assert result.passed, str(result)


def test_an_exceeded_bound_is_said():
    result = ulp.Result("exp f32", 1.0)
    result.merge(1.5, 2.0, 0, 0, 10)
    assert not result.passed
    assert "EXCEEDED" in str(result)
    mismatch = ulp.Result("exp f32", 1.0)
    mismatch.merge(0.5, 2.0, 1, 0, 10)
    assert not mismatch.passed


def test_command_prints_a_row_a_function(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ulp, "STRIDE_QUICK", 200003)
    monkeypatch.setattr(ulp, "SAMPLES_QUICK", 3000)
    assert ulp.main(["--quick", "sqrt", "pow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["sqrt", "f32"],
        ["pow", "f32"],
        ["pow", "f64"],
        ["sqrt", "f64"],
    ]
    with pytest.raises(SystemExit):
        ulp.main(["nosuch"])


def test_spacing_of_float32():
    import tfjit.kernels.vmath as vm

    numba = pytest.importorskip("numba")

    @numba.njit
    def spacing(x: float) -> float:
        return vm.float32_ulp_f64(x)

    for x in (1.0, 1.9999, 2.0, 3.0e-39, 1e30, -7.5):
        assert spacing(x) == np.spacing(np.float32(max(abs(x), 1.1754944e-38)))


def test_tanh_of_large_numbers_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly: 1 - tanh(x)^2 is 0 there, as in TensorFlow."""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    x = np.array([9.3, 12.0, 1e30, np.inf] * 5 + [20.0], np.float32)
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        given = tfjit.placeholder(tfjit.float32, [None])
        found = session.run([tfjit.tanh(given), tfjit.tanh(-given)], {given: x})
    assert (found[0] == 1.0).all()
    assert (found[1] == -1.0).all()
