"""Loops that a simulated GPU runs whole: values, launches, effects, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.framework import errors
from tfjit.protos import ConfigProto
from tfjit.runtime.offload import graph_form, loop_unrolling

W = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32) / 2
X = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)

Feeds = Mapping[str, Any]


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def results(build: Callable[[], Any], device: str, feeds: list[Feeds]) -> tuple[list[Any], str]:
    """Return what runs give, one after the other, and the programs' paragraphs.

    build: returns the fetches. feeds: of each run; kernels are loaded behind the first.
    """
    with tf.Graph().as_default() as graph:
        with tf.device(device):
            fetches = build()
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph, config=ConfigProto(allow_soft_placement=True)) as session:
        session.run(init)
        found = []
        for step, feed in enumerate(feeds):
            found.append(session.run(fetches, feed))
            if step < 2:
                assert session.wait_until_compiled(300)
        shapes = {key: np.shape(value) for key, value in feeds[0].items()}
        nodes = session.explain(fetches, shapes).nodes
        return found, "\n".join(node.group for node in nodes if node.op == "_Offload")


def check(build: Callable[[], Any], feeds: list[Feeds]) -> str:
    """Compare runs on both devices; return the programs' paragraphs."""
    expected, nothing = results(build, "/device:CPU:0", feeds)
    found, text = results(build, "/device:GPU:0", feeds)
    assert nothing == ""
    for one, other in zip(found, expected, strict=True):
        ours, theirs = (v if isinstance(v, list | tuple) else [v] for v in (one, other))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return text


def cell(x: Any) -> Any:
    return tf.tanh(tf.matmul(x, tf.constant(W)))


def x_fed() -> Any:
    return tf.placeholder(tf.float32, [2, 3], name="x")


def n_fed() -> Any:
    return tf.placeholder(tf.int32, [], name="n")


def repeated(n: Any, body: Callable[[Any, Any], Any], x: Any) -> Any:
    """Return the state of a loop over n iterations."""
    return tf.while_loop(lambda i, _: i < n, lambda i, x: (i + 1, body(i, x)), (0, x))


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_recurrent_cell_is_one_program(trips: int) -> None:
    text = check(lambda: repeated(trips, lambda _, x: cell(x), x_fed()), [{"x:0": X}] * 3)
    assert text.count("launches") == 1 and f"{trips} launches" in text


def test_trip_counts_change_between_runs() -> None:
    """The first counts have programs, and those that come again."""
    counts = [3, 0, 1, 7, 5, 9, 3, 5]
    feeds = [{"x:0": X, "n:0": n} for n in counts]
    text = check(lambda: repeated(n_fed(), lambda _, x: cell(x), x_fed())[1], feeds)
    for count in sorted({*counts}):
        assert (f"= {count}: {count} launches" in text) == (count != 9)


def test_nested_loops() -> None:
    def outer(i: Any, x: Any) -> Any:
        return repeated(i + 1, lambda _, y: cell(y), x)[1] * 0.5

    text = check(lambda: repeated(3, outer, x_fed())[1], [{"x:0": X}] * 3)
    assert text.count("launches") == 1 and "9 launches" in text


def test_gradients_of_a_loop() -> None:
    def build() -> Any:
        x = x_fed()
        w = tf.get_variable("w", initializer=W)
        _, y = repeated(4, lambda _, x: tf.tanh(tf.matmul(x, w)), x)
        return [y, *tf.gradients(tf.reduce_sum(y * y), [x, w])]

    text = check(build, [{"x:0": X}] * 3)
    assert text.count("launches") == 1


def test_variables_are_updated_in_order() -> None:
    def build() -> Any:
        v = tf.get_variable("v", initializer=W, use_resource=True)

        def body(_: Any, x: Any) -> Any:
            y = tf.matmul(x, v)
            with tf.control_dependencies([v.assign_add(tf.matmul(y, y, transpose_a=True) * 0.1)]):
                return tf.tanh(tf.matmul(y, v))

        _, y = repeated(n_fed(), body, x_fed())
        with tf.control_dependencies([y]):
            return [y, v.read_value()]

    counts = [2, 2, 0, 3, 0, 3, 2, 0]
    text = check(build, [{"x:0": X, "n:0": n} for n in counts])
    assert "of the host" not in text


def test_random_numbers_are_the_hosts() -> None:
    def build() -> Any:
        def body(_: Any, x: Any) -> Any:
            return cell(x) + tf.random_uniform([2, 3], seed=3)

        return repeated(n_fed(), body, x_fed())[1]

    text = check(build, [{"x:0": X, "n:0": n} for n in (2, 2, 0, 0, 3, 3, 2)])
    assert "RandomUniform" in text and "of the host" not in text


def test_parts_by_induction_variables() -> None:
    """Rows that are no multiple of the alignment are copied, others are views."""

    def build() -> Any:
        x = tf.placeholder(tf.float32, [4, 2, 3], name="x")
        big = tf.placeholder(tf.float32, [4, 16], name="big")

        def body(i: Any, state: Any, rows: Any) -> Any:
            state = tf.tanh(tf.matmul(state, tf.constant(W)) + x[i])
            return i + 1, state, rows.write(i, state + tf.reduce_max(big[3 - i]))

        rows = tf.TensorArray(tf.float32, 4)
        start = (0, tf.zeros([2, 3]), rows)
        _, state, rows = tf.while_loop(lambda i, *_: i < 4, body, start)
        return [state, rows.stack()]

    rng = np.random.default_rng(2)
    feeds = {
        "x:0": rng.normal(size=(4, 2, 3)).astype(np.float32),
        "big:0": rng.normal(size=(4, 16)).astype(np.float32),
    }
    text = check(build, [feeds] * 3)
    assert text.count("launches") == 1


def test_rows_of_a_variable_that_the_loop_changes() -> None:
    """The rows are those from before the loop."""
    start = np.random.default_rng(3).normal(size=(3, 4, 4)).astype(np.float32)

    def build() -> Any:
        v = tf.get_variable("v", initializer=start, use_resource=True)
        array = tf.TensorArray(tf.float32, 3).unstack(v.read_value())

        def body(i: Any, y: Any) -> Any:
            row = array.read(i)
            with tf.control_dependencies([v.assign(v.read_value() * 2.0 + 1.0)]):
                return tf.tanh(tf.matmul(y, tf.identity(row)))

        _, y = repeated(3, body, tf.eye(4))
        with tf.control_dependencies([y]):
            return [y, v.read_value()]

    assert "of the host" not in check(build, [{}] * 3)


def test_loops_of_functions() -> None:
    """A While of control flow v2, with an int64 counter and a float that changes with it."""

    def build() -> Any:
        @tf.function
        def call(x: Any, n: Any) -> Any:
            with tf.device("/device:GPU:0" if on_gpu else "/device:CPU:0"):

                def body(i: Any, scale: Any, x: Any) -> Any:
                    return i + 2, scale * 0.5, tf.matmul(x, tf.constant(W)) * scale

                start = (tf.constant(1, tf.int64), tf.constant(1.0), x)
                return tf.while_loop(lambda i, *_: i <= n, body, start)

        return call(x_fed(), tf.placeholder(tf.int64, [], name="n"))

    feeds = [{"x:0": X, "n:0": n} for n in (5, 5, 0, 0, 2, 2, 5)]
    found = []
    for on_gpu in (False, True):
        found.append(results(build, "/device:GPU:0" if on_gpu else "/device:CPU:0", feeds))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    assert "= 5: 3 launches" in found[1][1]


def test_numbers_beyond_the_limit_are_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_form, "MAX_UNROLLED", 2)
    feeds = [{"x:0": X, "n:0": n} for n in (1, 1, 2, 2, 3, 3, 3, 2, 1)]
    text = check(lambda: repeated(n_fed(), lambda _, x: cell(x), x_fed())[1], feeds)
    assert text.count("launches") == 2


def test_an_index_out_of_range() -> None:
    def build() -> Any:
        shift = tf.placeholder(tf.int32, [], name="shift")
        x = tf.placeholder(tf.float32, [3, 2, 3], name="x")
        array = tf.TensorArray(tf.float32, 3).unstack(x)
        return repeated(2, lambda i, y: cell(y) + array.read(i + shift), tf.zeros([2, 3]))[1]

    value = np.random.default_rng(2).normal(size=(3, 2, 3)).astype(np.float32)
    runs = [{"x:0": value, "shift:0": shift} for shift in (1, 1, 0, 0, 1)]
    assert "of the host" not in check(build, runs)
    for device in ("/device:CPU:0", "/device:GPU:0"):
        for bad in ([2, 2, 2], [1, 1, 2], [1, 1, -1]):
            with pytest.raises(errors.InvalidArgumentError, match="Tried to read from index"):
                results(build, device, [{"x:0": value, "shift:0": shift} for shift in bad])


def test_a_condition_of_the_device_is_the_hosts() -> None:
    def build() -> Any:
        x = x_fed()
        return tf.while_loop(
            lambda x: tf.reduce_sum(x * x) > 0.01, lambda x: (tf.matmul(x, 0.3 * W),), (x,)
        )

    text = check(build, [{"x:0": X}] * 3)
    assert "While" not in text


def test_too_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_unrolling, "MAX_INSTRUCTIONS", 5)
    feeds = [{"x:0": X, "n:0": n} for n in (3, 3, 9, 9, 9, 3)]
    text = check(lambda: repeated(n_fed(), lambda _, x: cell(x), x_fed())[1], feeds)
    assert (
        "with loops of the host: its loops make more than 5 instructions" in text
        and "3 launches" in text
    )
