"""The order of tensors, sizes and titles of problems."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.libraries import convolution_problem
from tfjit.kernels.cuda.libraries.convolution_problem import (
    ADDED,
    BIAS,
    FILTER,
    IMAGES,
    RESULTS,
    ConvolutionProblem,
)

PLAIN = ConvolutionProblem(
    "forward", dtypes.float32, 2, 6, 10, size=(7, 8), out=(5, 7), taps=(3, 2), groups=2
)


def test_tensors_and_their_places() -> None:
    whole = replace(PLAIN, epilogue=("add", "bias", "relu"))
    assert whole.tensors == (IMAGES, FILTER, ADDED, BIAS, RESULTS)
    assert replace(PLAIN, kind="input gradient").tensors == (FILTER, RESULTS, IMAGES)
    assert replace(PLAIN, kind="filter gradient").tensors == (IMAGES, RESULTS, FILTER)
    assert whole.sizes(FILTER) == (10, 3, 3, 2) and whole.sizes(ADDED) == (2, 10, 5, 7)
    assert whole.strides_of(IMAGES) == (7 * 8 * 6, 1, 8 * 6, 6)
    assert replace(whole, channels_last=False).strides_of(IMAGES) == (6 * 7 * 8, 7 * 8, 8, 1)
    assert whole.strides_of(BIAS) == (10, 1, 10, 10)


def test_work_and_size() -> None:
    assert PLAIN.work == (2 * 10 * 5 * 7) * (3 * 2) * 3
    assert PLAIN.fits and not replace(PLAIN, batch=1 << 25).fits


def test_titles() -> None:
    assert PLAIN.title == "cuDNN convolution 3x2 of 2x7x8x6 to 10 float32"
    other = replace(PLAIN, kind="input gradient", dtype=dtypes.float16)
    assert other.title == "cuDNN input gradient of a convolution 3x2 of 2x7x8x6 to 10 float16"
    other = replace(PLAIN, tf32=True, epilogue=("bias", "relu"))
    assert other.title.endswith("float32 (TF32)+bias+relu")


@pytest.mark.parametrize("name", ["TF_CUDNN_DETERMINISTIC", "TF_DETERMINISTIC_OPS"])
def test_variables_of_tensorflow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = convolution_problem.has_to_repeat.__wrapped__
    for text, answer in (("1", True), ("true", True), ("0", False), ("", False)):
        monkeypatch.setenv(name, text)
        assert ask() is answer
