"""Callables whose feeds and fetches stay in the memory of a simulated GPU:0."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import CPU, GPU, simulated_gpu
from tests.waiting import wait_until
from tfjit.framework import errors
from tfjit.kernels.ir.backend import backend_for
from tfjit.protos import CallableOptions, ConfigProto
from tfjit.runtime.resources.device_tensor import DeviceTensor

X = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


class Counted:
    """Count the copies of the simulated GPU by direction."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: dict[str, int] = {}
        device = backend_for("GPU").accelerator(0)
        run = device._run  # type: ignore[attr-defined]

        def counted(command: Any) -> None:
            direction = getattr(command, "direction", "")
            if direction:
                self.counts[direction] = self.counts.get(direction, 0) + 1
            run(command)

        monkeypatch.setattr(device, "_run", counted)

    def of(self, call: Callable[[], object]) -> dict[str, int]:
        """Return the copies of one call."""
        self.counts.clear()
        call()
        return dict(self.counts)


def message(
    feeds: list[str], fetches: list[str], on_feed: str = GPU, on_fetch: str = GPU
) -> CallableOptions:
    made = CallableOptions(feed=feeds, fetch=fetches, fetch_skip_sync=True)
    for names, chosen, device in (
        (feeds, made.feed_devices, on_feed),
        (fetches, made.fetch_devices, on_fetch),
    ):
        for name in names if device else ():
            chosen[name] = device
    return made


def chain(shape: Any = (4, 5)) -> Any:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, shape, name="x")
        with tf.device("/device:GPU:0"):
            tf.tanh(x * 2.0, name="y")
        with tf.device("/device:CPU:0"):
            tf.negative(x, name="z")
        with tf.device("/device:GPU:0"):
            tf.get_variable("v", initializer=X, use_resource=False)
        tf.placeholder(tf.int32, [2], name="i")
        tf.placeholder(tf.string, [], name="s")
    return graph


@pytest.mark.simulator
@pytest.mark.parametrize("jit", ["lazy", "off", "quick"])
def test_values_stay_on_the_device(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch is fed back without a copy from or to the host."""
    if jit == "off":
        monkeypatch.setenv("TFJIT_JIT", "off")
    if jit == "quick":
        from tfjit.runtime.plan import variant

        monkeypatch.setattr(variant, "QUICK_NODES", 1)
    with tf.Session(graph=chain()) as session:
        counted = Counted(monkeypatch)
        step = session._make_callable_from_options(message(["x:0"], ["y:0"]))
        expected = value = X
        for turn in range(8):
            (value,) = step(value)
            expected = np.tanh(expected * 2)
            assert isinstance(value, DeviceTensor)
            assert (value.shape, value.dtype, value.nbytes) == ((4, 5), tf.float32, 80)
            np.testing.assert_allclose(value.numpy(), expected, rtol=1e-5)
            np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-5)
            if turn == 1:
                assert session.wait_until_compiled(300)
        if jit == "lazy":
            assert "out" not in counted.of(lambda: step(value)) and "in" not in counted.counts


@pytest.mark.simulator
def test_recurring_addresses_are_used_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that reads and writes the same tensors' places again copies nothing at all."""
    with tf.Session(graph=chain()) as session:
        step = session._make_callable_from_options(message(["x:0"], ["y:0"]))
        step(X)
        assert session.wait_until_compiled(300)
        (fed,) = step(X)
        device = fed.accelerator
        places = [device.allocate(80) for _ in range(2)]
        monkeypatch.setattr(device, "allocate", lambda nbytes: places[1])
        monkeypatch.setattr(device, "free", lambda address: None)
        counted = Counted(monkeypatch)
        copies = [counted.of(lambda: step(fed)) for _ in range(4)]
        assert copies == [{"within": 2}, {}, {}, {}]
        np.testing.assert_allclose(step(fed)[0].numpy(), np.tanh(2 * np.tanh(2 * X)), rtol=1e-5)
        monkeypatch.undo()


def test_ends_that_the_host_makes_and_uses() -> None:
    """A node of the host between device tensors gets and gives host arrays."""
    with tf.Session(graph=chain()) as session:
        both = session._make_callable_from_options(message(["x:0"], ["y:0", "z:0"]))
        mixed = message(["x:0"], ["y:0", "z:0"], on_fetch="")
        mixed.fetch_devices["z:0"] = GPU
        some = session._make_callable_from_options(mixed)
        for _ in range(3):
            y, z = both(X)
            np.testing.assert_allclose(y.numpy(), np.tanh(2 * X), rtol=1e-5)
            np.testing.assert_array_equal(z.numpy(), -X)
            y, z = some(z)
            assert isinstance(y, np.ndarray) and isinstance(z, DeviceTensor)
            np.testing.assert_allclose(y, np.tanh(-2 * X), rtol=1e-5)
            np.testing.assert_array_equal(z, X)
            assert session.wait_until_compiled(300)


def test_new_shapes_and_empty_tensors() -> None:
    with tf.Session(graph=chain([None, 5])) as session:
        step = session._make_callable_from_options(message(["x:0"], ["y:0", "z:0"]))
        for rows in (4, 0, 1, 4, 0, 1, 0):
            y, z = step(X[:rows])
            assert y.shape == z.shape == (rows, 5)
            np.testing.assert_allclose(y.numpy(), np.tanh(2 * X[:rows]), rtol=1e-5)
            y, z = step(z)
            np.testing.assert_array_equal(z.numpy(), X[:rows])
            assert session.wait_until_compiled(300)


def test_a_tensor_is_fed_to_any_run() -> None:
    """Runs, callables and runs with options take device tensors, also beside host arrays."""
    with tf.Graph().as_default() as graph:
        a, b = (tf.placeholder(tf.float32, [4, 5], name=n) for n in "ab")
        with tf.device("/device:GPU:0"):
            c = tf.add(a, 3.0 * b, name="c")
    with tf.Session(graph=graph) as session:
        make = session._make_callable_from_options(message(["a:0", "b:0"], ["c:0"], on_feed=""))
        (tensor,) = make(X, X)
        call = session.make_callable(c, [a, b])
        for _ in range(3):
            np.testing.assert_allclose(session.run(c, {a: tensor, b: X}), 7 * X, rtol=1e-5)
            np.testing.assert_allclose(session.run(c, {a: X, b: tensor}), 13 * X, rtol=1e-5)
            np.testing.assert_allclose(call(tensor, tensor), 16 * X, rtol=1e-5)
            np.testing.assert_allclose(make(tensor, X)[0].numpy(), 7 * X, rtol=1e-5)
            options = tf.RunOptions(trace_level=3)
            found = session.run(c, {a: tensor, b: X}, options, tf.RunMetadata())
            np.testing.assert_allclose(found, 7 * X, rtol=1e-5)
            fed, other = session.run([a, c], {a: tensor, b: X})
            np.testing.assert_allclose(fed, 4 * X, rtol=1e-5)
            np.testing.assert_allclose(other, 7 * X, rtol=1e-5)
            assert session.wait_until_compiled(300)


def test_training_keeps_its_loss_on_the_device() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5], name="x")
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=np.ones(5, np.float32))
            loss = tf.reduce_sum(tf.square(x * v), name="loss")
            tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        init = tf.global_variables_initializer()
    found = []
    for on in (GPU, ""):
        with tf.Session(graph=graph) as session:
            session.run(init)
            options = message(["x:0"], ["loss:0"], on, on)
            options.target.append("train")
            step = session._make_callable_from_options(options)
            found.append([])
            for _ in range(5):
                found[-1].append(np.asarray(step(X)[0]))
                assert session.wait_until_compiled(300)
            found[-1].append(session.run(v))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("disabled", ["", "offload"])
def test_a_variables_value_is_a_copy(
    resource: bool, disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later updates leave a fetched tensor as it is."""
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5], name="x")
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=X, use_resource=resource)
            tf.multiply(tf.assign_add(v, x), 1.0, name="u")
            tf.identity(v, name="r")
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        read = session._make_callable_from_options(message([], ["r:0"]))
        update = session._make_callable_from_options(message(["x:0"], ["u:0"]))
        kept = []
        for turn in range(4):
            (updated,), (value,) = update(X), read()
            kept.append(value)
            np.testing.assert_allclose(updated.numpy(), (turn + 2) * X, rtol=1e-6)
            assert session.wait_until_compiled(300)
        for turn, value in enumerate(kept):
            np.testing.assert_allclose(value.numpy(), (turn + 2) * X, rtol=1e-6)


@pytest.mark.simulator  # NumPy takes capsules of host memory alone
def test_a_tensor_outlives_its_session() -> None:
    """Memory is freed with the last view, whatever becomes of the session."""
    device: Any = backend_for("GPU").accelerator
    session = tf.Session(graph=chain())
    step = session._make_callable_from_options(message(["x:0"], ["y:0"]))
    (y,) = step(X)
    memory = device(0).memory
    session.close()
    del step, session
    gc.collect()
    np.testing.assert_allclose(y.numpy(), np.tanh(2 * X), rtol=1e-5)
    view = np.from_dlpack(y)
    wait_until(lambda: memory.used == 256)  # background work may hold the plan for a moment
    del y
    np.testing.assert_allclose(view, np.tanh(2 * X), rtol=1e-5)
    del view
    assert memory.used == 0


def test_two_devices() -> None:
    """A tensor of one virtual GPU is copied for nodes of the other, by any way to feed it."""
    config = ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[64, 64])
    second = GPU.replace("GPU:0", "GPU:1")
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5], name="x")
        with tf.device("/device:GPU:0"):
            tf.tanh(x, name="y")
        with tf.device("/device:GPU:1"):
            z = tf.multiply(x, 3.0, name="z")
            handle = tf.get_session_handle(z)
    with tf.Session(graph=graph, config=config) as session:
        far = session._make_callable_from_options(message(["x:0"], ["z:0"], second, second))
        near = session._make_callable_from_options(message(["x:0"], ["y:0", "z:0"]))
        for turn in range(3):
            (there,) = far(X)
            np.testing.assert_allclose(there.numpy(), 3 * X, rtol=1e-6)
            np.testing.assert_allclose(
                session.run("y:0", {"x:0": there}), np.tanh(3 * X), rtol=1e-5
            )
            y, here = near(there)
            np.testing.assert_allclose(y.numpy(), np.tanh(3 * X), rtol=1e-5)
            np.testing.assert_allclose(here.numpy(), 9 * X, rtol=1e-6)
            assert y.accelerator is here.accelerator is not there.accelerator
            kept = session.run(handle, {"x:0": here})
            assert kept.handle.endswith(second)
            if not turn:
                with graph.as_default():
                    holder, value = tf.get_session_tensor(kept.handle, tf.float32)
                    with tf.device("/device:GPU:0"):
                        square = tf.square(value)
            found = session.run(square, {holder: kept.handle})
            np.testing.assert_allclose(found, np.square(27 * X), rtol=1e-5)
            assert session.wait_until_compiled(300)


class Foreign:
    """An array of another library on the simulated GPU."""

    def __init__(self, array: np.ndarray, strides: tuple[int, ...] | None = None) -> None:
        self._device: Any = backend_for("GPU").accelerator(0)
        self._tensor = DeviceTensor.of_array(self._device, array)
        self._strides = strides

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._tensor.__cuda_array_interface__, "strides": self._strides, "stream": 1}


def test_arrays_of_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are used where they are, after what their stream has queued."""
    with tf.Session(graph=chain()) as session:
        step = session._make_callable_from_options(message(["x:0"], ["y:0"]))
        waits: list[int] = []
        device = backend_for("GPU").accelerator(0)
        monkeypatch.setattr(device, "wait_for", waits.append)
        for given in (Foreign(X), Foreign(X, (20, 4))):
            np.testing.assert_allclose(step(given)[0].numpy(), np.tanh(2 * X), rtol=1e-5)
            np.testing.assert_allclose(
                session.run("y:0", {"x:0": given}), np.tanh(2 * X), rtol=1e-5
            )
        assert waits == [1] * 4
        with pytest.raises(ValueError, match=r"strides \[10, 1\] for Tensor x:0: its \[4, 5\]"):
            step(Foreign(X, (40, 4)))
        with pytest.raises(ValueError, match=r"shape \(20,\) for Tensor x:0"):
            step(Foreign(X.reshape(20)))
        with pytest.raises(
            TypeError, match=r"dtype float64 for Tensor x:0, which has dtype float32"
        ):
            step(Foreign(X.astype(np.float64)))


def test_a_tensor_of_an_unknown_device() -> None:
    with tf.Session(graph=chain()) as session:
        (y,) = session._make_callable_from_options(message(["x:0"], ["y:0"]))(X)
        with (
            tf.Session(graph=chain(), config=ConfigProto(device_count={"GPU": 0})) as other,
            pytest.raises(ValueError, match="computes on the host alone"),
        ):
            other.run("z:0", {"x:0": y})


def test_tensorflows_rules() -> None:
    """Unknown devices, types that are the host's, and results before they are computed."""
    cases: list[tuple[CallableOptions, type[Exception], str]] = [
        (message(["i:0"], []), errors.UnimplementedError, "not yet supported for int32 tensors"),
        (message(["s:0"], []), errors.UnimplementedError, "not yet supported for string tensors"),
        (
            message(["x:0"], ["y:0"], on_fetch=GPU.replace("GPU:0", "GPU:3")),
            errors.InvalidArgumentError,
            "GPU:3' specified for tensor 'y:0' in CallableOptions does not exist",
        ),
        (message(["q:0"], ["y:0"]), errors.InvalidArgumentError, "was not found in the Graph"),
        (message([], ["v:0"]), errors.UnimplementedError, "not yet supported for float_ref"),
    ]
    late = message(["x:0"], ["y:0"])
    late.fetch_skip_sync = False
    cases.append((late, errors.UnimplementedError, "fetch_skip_sync = false is not yet"))
    with tf.Session(graph=chain()) as session:
        for options, kind, text in cases:
            options.target.append("z")
            with pytest.raises(kind, match=text):
                session._make_callable_from_options(options)
        # a device of the host changes nothing
        plain = session._make_callable_from_options(message(["x:0"], ["y:0"], CPU, CPU))
        assert isinstance(plain(X)[0], np.ndarray)


@pytest.mark.simulator
@pytest.mark.parametrize("trips", [0, 3])
def test_a_loop_leaves_the_rows_of_a_fed_tensor_as_they_are(trips: int) -> None:
    """Rows are written into an array of the program, and the results stay on the device."""
    fed, weights = X.reshape(4, 1, 5), np.linspace(-1, 1, 25, dtype=np.float32).reshape(5, 5)
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        x = tf.placeholder(tf.float32, [4, 1, 5], name="x")
        ops, shape = tf.raw_ops, tf.constant([1, 5])
        rows = ops.TensorListFromTensor(tensor=x, element_shape=shape)

        def body(i: Any, state: Any, rows: Any) -> Any:
            row = ops.TensorListGetItem(
                input_handle=rows, index=i + 1, element_shape=shape, element_dtype=tf.float32
            )
            state = tf.tanh(tf.matmul(state, weights) + row)
            written = ops.TensorListSetItem(input_handle=rows, index=i, item=state * 2.0)
            return i + 1, state, written

        _, state, rows = tf.while_loop(lambda i, *_: i < trips, body, (0, x[0] * 0.5, rows))
        tf.identity(state, name="state")
        stacked = ops.TensorListStack(
            input_handle=rows, element_shape=shape, element_dtype=tf.float32, num_elements=4
        )
        tf.identity(stacked, name="rows")
    with tf.Session(graph=graph, config=ConfigProto(allow_soft_placement=True)) as session:
        expected = session.run(["state:0", "rows:0"], {"x:0": fed})
        step = session._make_callable_from_options(message(["x:0"], ["state:0", "rows:0"]))
        kept = DeviceTensor.of_array(backend_for("GPU").accelerator(0), fed)
        for _ in range(5):  # recurring addresses are bound in place
            found = step(kept)
            assert session.wait_until_compiled(300)
            for value, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(value.numpy(), other, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(kept.numpy(), fed)
        explained = session.explain(["state:0", "rows:0"], {"x:0": (4, 1, 5)}).nodes
        assert {node.op for node in explained} & {"While", "StatelessWhile", "_Loop"} == set()
    wanted = [fed[0] * 0.5, fed.copy()]
    for i in range(trips):
        wanted[0] = np.tanh(wanted[0] @ weights + wanted[1][i + 1])
        wanted[1][i] = wanted[0] * 2
    for value, other in zip(expected, wanted, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6)
