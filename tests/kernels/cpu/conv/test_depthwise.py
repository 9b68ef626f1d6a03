"""Compiled depthwise convolutions: values against TensorFlow, epilogues, and how output positions
are grouped.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import native_nn, nn_cases
from tests.kernels.nn_cases import Case
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.conv import channelwise, depthwise
from tfjit.kernels.cpu.conv.window import Window, make_window
from tfjit.kernels.registry import TensorSpec


@pytest.mark.parametrize("constants", [(), (1,)], ids=["filter from a node", "constant filter"])
@pytest.mark.parametrize("case", nn_cases.depthwise_cases(), ids=str)
def test_depthwise_equals_tensorflow(case: Case, constants: tuple[int, ...]) -> None:
    native_nn.check(case, constants)


@pytest.mark.parametrize("name", native_nn.EPILOGUES)
@pytest.mark.parametrize("shape", [(1, 6, 7, 24), (2, 40, 33, 20), (3, 3, 3, 40)], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_with_epilogue(name: str, shape: tuple[int, ...], stride: int) -> None:
    rng = np.random.default_rng(3)
    epilogue = native_nn.EPILOGUES[name]
    x, w = (
        rng.standard_normal(shape).astype(np.float32),
        rng.standard_normal((3, 3, shape[3], 1)).astype(np.float32),
    )
    rows, cols = (make_window(n, 3, stride, 1, "SAME") for n in shape[1:3])
    padded = np.zeros((shape[0], rows.padded, cols.padded, shape[3]))
    padded[:, rows.before : rows.before + shape[1], cols.before : cols.before + shape[2]] = x
    product = sum(
        padded[
            :,
            i : i + (rows.out - 1) * stride + 1 : stride,
            j : j + (cols.out - 1) * stride + 1 : stride,
        ]
        * w[i, j, :, 0]
        for i in range(3)
        for j in range(3)
    )
    operands = native_nn.operands_of(epilogue, product.shape, rng)
    inputs = [x, w, *operands]
    call = depthwise.depthwise_call(
        native_nn.specs(*inputs), strides=(stride, stride), epilogue=epilogue
    )
    native_nn.check_epilogue(name, call, inputs, native_nn.expected(epilogue, product, operands))


@pytest.mark.parametrize(
    "window",
    [
        Window(9, 3, 1, 1, 1, 1),
        Window(9, 3, 2, 1, 0, 1),
        Window(4, 7, 1, 1, 3, 3),
        Window(11, 2, 3, 2, 1, 0),
    ],
    ids=str,
)
def test_axis_maps_name_every_read_once(window: Window) -> None:
    reads = {
        (o, t, o * window.stride + t * window.dilation - window.before)
        for o in range(window.out)
        for t in range(window.size)
        if 0 <= o * window.stride + t * window.dilation - window.before < window.length
    }
    forward = channelwise.forward_map(window)
    assert {
        (o, t, forward.starts[o] + d) for o in range(window.out) for d, t in forward.taps[o]
    } == reads
    backward = channelwise.backward_map(window)
    assert {
        (backward.starts[i] + d, t, i) for i in range(window.length) for d, t in backward.taps[i]
    } == reads
    for found in (forward, backward):
        covered = sorted(
            first + k * step for first, count, step, _, _ in found.runs() for k in range(count)
        )
        assert covered == list(range(len(found.starts)))
        for first, count, step, move, number in found.runs():
            for k in range(count):
                assert found.starts[first + k * step] == found.starts[first] + k * move
                assert found.taps[first + k * step] == found.classes[number]


def test_one_kernel_serves_all_sizes_strides_and_filters() -> None:
    def sources(shape: tuple[int, ...], k: int, stride: int) -> set[str]:
        specs = (TensorSpec(dtypes.float32, shape), TensorSpec(dtypes.float32, (k, k, shape[3], 1)))
        return {
            s.digest for s in depthwise.depthwise_call(specs, strides=(stride, stride)).sources()
        }

    assert sources((1, 9, 9, 3), 3, 1) == sources((4, 30, 20, 64), 5, 2)
