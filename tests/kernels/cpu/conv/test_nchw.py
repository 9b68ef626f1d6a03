"""NCHW by the kernels for NHWC, against TensorFlow in NHWC: its CPU kernels refuse most of NCHW."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case, assert_near, node_spec, run_tensorflow
from tfjit.kernels.registry import find_native, find_reference

TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
CASES = (
    *(
        case
        for case in nn_cases.conv_cases() + nn_cases.depthwise_cases()
        if case.dtype == "float32"
    ),
    *(case for case in nn_cases.pool_cases() if case.dtype == "float32"),
    nn_cases.conv_cases()[1],
    nn_cases.pool_cases()[5],
)


def channels_first(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attrs of the same node in NCHW."""
    found = {**attrs, "data_format": "NCHW"}
    for name in {"strides", "dilations", "ksize"} & attrs.keys():
        found[name] = [attrs[name][axis] for axis in TO_FIRST]
    if attrs.get("explicit_paddings"):
        pairs = np.reshape(attrs["explicit_paddings"], (4, 2))
        found["explicit_paddings"] = [int(v) for v in pairs[list(TO_FIRST)].reshape(-1)]
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equals_tensorflow(case: Case) -> None:
    arrays = case.arrays()
    wanted = run_tensorflow(case.op, arrays, case.attrs).transpose(TO_FIRST)
    arrays[0] = arrays[0].transpose(TO_FIRST)
    attrs = channels_first(case.attrs)
    spec = node_spec(case.op, arrays, attrs, wanted, range(1, len(arrays)))
    runner = NativeRunner(find_native(case.op)(spec), arrays, native_nn.specs(wanted))  # type: ignore[misc]
    for chunks, threads in ((1, False), (3, False), (None, True)):
        runner.outputs[0].view(np.uint8)[...] = 0xFF
        (found,) = runner.run(chunks, threads)
        assert_near(found, wanted, case.terms)


def test_window_sizes_that_are_inputs() -> None:
    x = np.random.default_rng(2).standard_normal((2, 9, 7, 6)).astype(np.float32)
    arrays = [x, np.array([1, 1, 3, 2], np.int32), np.array([1, 1, 2, 1], np.int32)]
    attrs = {"padding": "SAME", "data_format": "NCHW"}
    (wanted,) = find_reference("MaxPoolV2")(node_spec("MaxPoolV2", arrays, attrs, x), arrays)  # type: ignore[misc]
    wanted = np.asarray(wanted)
    call = find_native("MaxPoolV2")(node_spec("MaxPoolV2", arrays, attrs, wanted, (1, 2)))  # type: ignore[misc]
    (found,) = NativeRunner(call, arrays, native_nn.specs(wanted)).run()
    np.testing.assert_array_equal(found, wanted)
