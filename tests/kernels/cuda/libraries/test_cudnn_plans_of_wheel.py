"""Plans of the installed cuDNN, for GPUs that are only described."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.kernels.cuda.libraries import described_device
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.libraries.convolution_problem import ConvolutionProblem
from tfjit.kernels.cuda.libraries.cudnn import checked_problems

pytestmark = pytest.mark.skipif(
    bool(described_device.missing()), reason=described_device.missing() or "is there"
)
LAYER = ConvolutionProblem(
    "forward", dtypes.float32, 32, 128, 64, size=(28, 29), out=(28, 29), taps=(3, 3),
    before=(1, 1), after=(1, 1),
)  # fmt: skip
# SAME with strides over an even size, more padding than the filter, pixels that no window reads
STRIDED = replace(LAYER, strides=(2, 2), out=(14, 15), before=(0, 1))
FORMS = (
    LAYER,
    STRIDED,
    replace(LAYER, channels_last=False),
    replace(LAYER, before=(4, 3), after=(1, 6), out=(31, 36)),
    replace(LAYER, dilations=(2, 3), before=(2, 3), after=(2, 3)),
    replace(LAYER, taps=(1, 2), strides=(3, 3), before=(0, 0), after=(0, 0), out=(10, 10)),
    replace(LAYER, in_channels=3, size=(224, 224), out=(112, 112), taps=(7, 7), strides=(2, 2),
            before=(2, 2), after=(3, 3)),
    replace(LAYER, in_channels=5, out_channels=7),
)  # fmt: skip
KINDS = ("forward", "input gradient", "filter gradient")
DTYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64)


@pytest.mark.parametrize("device", [described_device.H100, described_device.A100])
def test_every_form_has_a_plan(device: dict[str, Any]) -> None:
    asked = [
        replace(form, kind=kind, dtype=dtype, tf32=tf32, repeats=repeats)
        for form in FORMS
        for kind in KINDS
        for dtype in DTYPES
        for tf32, repeats in ((True, False), (False, True))
    ]
    found = described_device.ask(device, asked)
    lacking = [(one.title, reason) for one, reason in zip(asked, found) if isinstance(reason, str)]
    assert not lacking


@pytest.mark.parametrize("device", [described_device.H100, described_device.A100])
def test_the_check_computes_all_its_problems(device: dict[str, Any]) -> None:
    found = described_device.ask(device, list(checked_problems()))
    assert len(found) == 13 and all(isinstance(one, tuple) for one in found), found


def test_epilogues_have_plans() -> None:
    asked = [
        replace(form, dtype=dtype, epilogue=epilogue, tf32=True)
        for form in (LAYER, STRIDED)
        for dtype in DTYPES[:3]
        for epilogue in (("bias",), ("bias", "relu"), ("add", "bias", "relu"))
    ]
    found = described_device.ask(described_device.H100, asked)
    assert all(isinstance(one, tuple) for one in found), found


def test_rules_change_the_engine() -> None:
    rounded, exact = described_device.ask(described_device.H100, [replace(LAYER, tf32=True), LAYER])
    assert isinstance(rounded, tuple) and isinstance(exact, tuple)
    assert rounded[0] != exact[0]


def test_refused_sizes() -> None:
    (reason,) = described_device.ask(described_device.H100, [replace(LAYER, out=(27, 29))])
    assert isinstance(reason, str) and "CUDNN_STATUS_BAD_PARAM" in reason
