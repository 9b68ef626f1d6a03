"""Convolutions by cuDNN over host memory: values, the check of a library, a whole session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.kernels.cuda.harness import aligned
from tests.kernels.cuda.libraries.fake_cudnn import Engine, FakeCudnn
from tests.simulated_gpu import simulated_gpu
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.conv import library_forms
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries.convolution_problem import (
    ADDED,
    BIAS,
    FILTER,
    IMAGES,
    RESULTS,
    ConvolutionProblem,
)
from tfjit.kernels.cuda.libraries.cudnn import Cudnn
from tfjit.kernels.cuda.libraries.device_libraries import LibraryFailure

pytestmark = pytest.mark.simulator
PLAIN = ConvolutionProblem(
    "forward", dtypes.float32, 2, 3, 5, size=(6, 7), out=(3, 6), taps=(3, 2), strides=(2, 1),
    before=(0, 0), after=(1, 0), tf32=True,
)  # fmt: skip
FORMS = (
    PLAIN,
    replace(PLAIN, channels_last=False),
    replace(PLAIN, dtype=dtypes.float64),
    replace(PLAIN, dtype=dtypes.bfloat16),
    replace(PLAIN, strides=(1, 3), dilations=(2, 1), before=(1, 2), after=(3, 0), out=(6, 3)),
    replace(PLAIN, in_channels=4, out_channels=6, groups=2),
)


def opened(fake: FakeCudnn) -> Cudnn:
    return Cudnn(fake)  # type: ignore[arg-type]


def computed(
    problem: ConvolutionProblem, arrays: Mapping[int, np.ndarray], fake: FakeCudnn | None = None
) -> np.ndarray:
    """The result of a routine, in the order of `sizes`."""
    routine = opened(fake or FakeCudnn()).routine(problem)
    assert routine is not None
    dtype, order = np.dtype(problem.dtype.as_numpy_dtype), problem.order
    places = []
    for tensor in problem.tensors:
        sizes = problem.sizes(tensor)
        places.append(aligned(int(np.prod(sizes)) * dtype.itemsize))
        if tensor != problem.tensors[-1]:
            assert arrays[tensor].shape == sizes
            places[-1].view(dtype)[:] = arrays[tensor].transpose(order).reshape(-1).astype(dtype)
    places.append(aligned(routine.workspace_bytes))
    routine.queue(7, [place.ctypes.data for place in places])
    whole = problem.sizes(problem.tensors[-1])
    flat = places[-2].view(dtype)
    found = flat.reshape([whole[axis] for axis in order]).transpose(np.argsort(order))
    return found.astype(np.float64)


def whole_numbers(problem: ConvolutionProblem, tensor: int) -> np.ndarray:
    drawn = np.random.default_rng(tensor).integers(-4, 5, problem.sizes(tensor))
    return drawn.astype(np.float64)


def direct(p: ConvolutionProblem, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Each result as the sum that defines it."""
    y = np.zeros(p.sizes(RESULTS))
    for n, k, i, j in np.ndindex(*y.shape):
        for channel, r, s in np.ndindex(*w.shape[1:]):
            row = i * p.strides[0] + r * p.dilations[0] - p.before[0]
            column = j * p.strides[1] + s * p.dilations[1] - p.before[1]
            if 0 <= row < p.size[0] and 0 <= column < p.size[1]:
                source = channel + k // (p.out_channels // p.groups) * w.shape[1]
                y[n, k, i, j] += x[n, source, row, column] * w[k, channel, r, s]
    return y


@pytest.mark.parametrize("form", FORMS)
def test_convolution_and_gradients(form: ConvolutionProblem) -> None:
    x, w, dy = (whole_numbers(form, tensor) for tensor in (IMAGES, FILTER, RESULTS))
    y = direct(form, x, w)
    np.testing.assert_array_equal(computed(form, {IMAGES: x, FILTER: w}), y)
    # a convolution is linear in each operand: <dy, f(x)> = <gradient, x>
    form = replace(form, dtype=dtypes.float64)
    dx = computed(replace(form, kind="input gradient"), {FILTER: w, RESULTS: dy})
    dw = computed(replace(form, kind="filter gradient"), {IMAGES: x, RESULTS: dy})
    assert np.vdot(dx, x) == np.vdot(dy, y) == np.vdot(dw, w)


@pytest.mark.parametrize("epilogue", [("bias",), ("bias", "relu"), ("add", "bias", "relu")])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.float64])
def test_epilogues(epilogue: tuple[Any, ...], dtype: Any) -> None:
    form = replace(PLAIN, epilogue=epilogue, dtype=dtype)
    arrays = {t: whole_numbers(form, t) for t in (IMAGES, FILTER, BIAS, ADDED)}
    wanted = direct(form, arrays[IMAGES], arrays[FILTER]) + arrays[BIAS]
    if "add" in epilogue:
        wanted += arrays[ADDED]
    if "relu" in epilogue:
        wanted = np.maximum(wanted, 0)
    np.testing.assert_array_equal(computed(form, arrays), wanted)


def test_executions_are_queued_in_the_stream() -> None:
    fake = FakeCudnn()
    computed(
        PLAIN, {IMAGES: whole_numbers(PLAIN, IMAGES), FILTER: whole_numbers(PLAIN, FILTER)}, fake
    )
    routine = opened(fake).routine(PLAIN)
    assert routine is not None and routine.workspace_bytes == 131
    assert routine.reach_bytes == 4 * 2 * 6 * 7 * 3  # of the images
    ((_, stream, kinds, workspace),) = fake.executed
    assert (stream, kinds) == (7, (10,)) and workspace % 256 == 0


def test_check_of_a_library() -> None:
    fake, device = FakeCudnn(), SimulatedAccelerator()
    library = opened(fake)
    assert library.version == "9.28.1"
    assert len(list(library.check(device))) >= 13
    # the engine rounds float32, so the problem without TF32 is served by the fallback ranking
    assert [kinds[0] for _, _, kinds, _ in fake.executed] == [10, 12, 11] * 4 + [10]
    assert fake.executed[-1][2] == (10, 13, 13, 13)
    assert device.memory.used == 0


def test_wrong_results_fail_the_check() -> None:
    fake = FakeCudnn()
    fake.wrong = True
    with pytest.raises(LibraryFailure, match=r"cuDNN convolution 3x2 of .* has wrong results"):
        list(opened(fake).check(SimulatedAccelerator()))


def test_a_device_without_handles_in_descriptors() -> None:
    """Newer versions may know a device by its descriptor alone."""
    fake = FakeCudnn()
    fake.knows_handles = False
    library = opened(fake)
    assert library.routine(PLAIN) is None
    list(library.check(SimulatedAccelerator()))
    assert library.routine(PLAIN) is not None and len(fake.executed) == 13
    fake.rankings = {3: [], 2: []}
    with pytest.raises(LibraryFailure, match="a plan for none of the problems"):
        list(library.check(SimulatedAccelerator()))


def test_failed_calls_name_function_status_and_reason() -> None:
    fake = FakeCudnn()
    fake.failing["cudnnCreate"] = 1001
    with pytest.raises(LibraryFailure, match=r"cudnnCreate: CUDNN_STATUS_OF_FAKE \(1001\)"):
        opened(fake)
    fake = FakeCudnn()
    fake.failing["cudnnBackendExecute"] = 5001
    with pytest.raises(errors.InternalError, match=r"engine 67: cudnnBackendExecute: .*5001"):
        computed(
            PLAIN,
            dict.fromkeys((IMAGES, FILTER), np.zeros(1))
            | {t: whole_numbers(PLAIN, t) for t in (IMAGES, FILTER)},
            fake,
        )


def trained(device: str) -> list[np.ndarray]:
    """The loss of two steps and the filters after them, of two layers with strides."""
    numbers = np.random.default_rng(3)
    with tf.Graph().as_default() as graph, tf.device(device):
        x = tf.placeholder(tf.float32, [2, 9, 8, 3])
        filters = [
            tf.get_variable(f"w{k}", initializer=numbers.standard_normal(shape).astype(np.float32))
            for k, shape in enumerate([(3, 3, 3, 8), (3, 2, 8, 4)])
        ]
        y = tf.nn.relu(tf.nn.conv2d(x, filters[0], [1, 2, 2, 1], "SAME") + np.float32(0.5))
        loss = tf.reduce_mean(tf.square(tf.nn.conv2d(y, filters[1], [1, 1, 1, 1], "VALID")))
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        init = tf.global_variables_initializer()
    value = numbers.standard_normal((2, 9, 8, 3)).astype(np.float32)
    with tf.Session(graph=graph) as session:
        session.run(init)
        session.run(step, {x: value})
        if device.endswith("GPU:0"):  # the host's references are as good
            assert session.wait_until_compiled(300)
        session.run(step, {x: value})
        return [session.run(loss, {x: value}), *session.run(filters)]


def test_a_session_trains_by_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCudnn()
    fake.rankings = {3: [Engine(notes=())], 2: []}
    library = opened(fake)
    monkeypatch.setattr(
        SimulatedAccelerator, "routine", lambda _, problem: library.routine(problem), raising=False
    )
    monkeypatch.setattr(library_forms, "_LEAST_WORK", 0)
    monkeypatch.setattr(library_forms, "pays", lambda *_: True)
    monkeypatch.setattr(library_forms, "is_installed", lambda _: True)
    wanted = trained("/device:CPU:0")
    with simulated_gpu():
        found = trained("/device:GPU:0")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    # forward convolutions, gradients of filters, the gradient of the layer between
    assert {kinds[0] for _, _, kinds, _ in fake.executed} == {10, 11, 12}
