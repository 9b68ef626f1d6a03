"""What a session is given besides target and config: its surroundings, resources shared with
others, kernels of its user's own.
"""

from __future__ import annotations

import gc
import io
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tfjit.framework.env import Clock, Env, FileSystem
from tfjit.runtime.kernel_api.op_kernel import OpContext

tf1 = tf.compat.v1


# surroundings


class MemoryFiles(FileSystem):
    """Files in a dictionary."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.threads: set[str] = set()

    def open(self, path: str, mode: str) -> IO[Any]:
        self.threads.add(threading.current_thread().name)
        if mode == "rb":
            if path not in self.data:
                raise FileNotFoundError(2, "No such file or directory", path)
            return io.BytesIO(self.data[path])
        assert mode == "wb"
        files = self

        class Written(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    files.data[path] = self.getvalue()
                super().close()

        return Written()

    def replace(self, source: str, target: str) -> None:
        self.data[target] = self.data.pop(source)

    def remove(self, path: str) -> None:
        if self.data.pop(path, None) is None:
            raise FileNotFoundError(2, "No such file or directory", path)

    def make_folders(self, path: str) -> None:
        pass

    def glob(self, pattern: str) -> list[str]:
        return [path for path in self.data if path.startswith(pattern.rstrip("*"))]


def test_checkpoints_and_files_go_through_the_sessions_files() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.Variable(np.arange(6, dtype="f4").reshape(2, 3), name="v", use_resource=False)
        w = tf1.Variable(3, name="w", use_resource=True)
        saver = tf1.train.Saver([v, w])
        zero = tf.group(tf1.assign(v, tf.zeros([2, 3])), w.assign(0))
        written = tf1.write_file("/nowhere/a.txt", "text")
        read = tf1.read_file("/nowhere/a.txt")
        names = tf1.matching_files("/nowhere/*")
    files = MemoryFiles()
    options = tfjit.SessionOptions(env=Env(files=files))
    with tfjit.Session(graph=graph, options=options) as session:
        session.run([v.initializer, w.initializer])
        session.run(
            saver.saver_def.save_tensor_name, {saver.saver_def.filename_tensor_name: "/nowhere/ck"}
        )
        session.run(zero)
        session.run(
            saver.saver_def.restore_op_name, {saver.saver_def.filename_tensor_name: "/nowhere/ck"}
        )
        np.testing.assert_array_equal(session.run(v), np.arange(6).reshape(2, 3))
        assert session.run(w) == 3
        session.run(written)
        assert session.run(read) == b"text"
        assert (
            set(session.run(names))
            == {name.encode() for name in files.data}
            >= {b"/nowhere/a.txt", b"/nowhere/ck.index"}
        )
        del files.data["/nowhere/a.txt"]
        with pytest.raises(tfjit.errors.NotFoundError, match=r"/nowhere/a.txt; No such file"):
            session.run(read)
    assert all(name.startswith("tfjit-io") for name in files.threads)
    assert not Path("/nowhere").exists()
    # what TensorFlow reads of them
    with tf1.Session(graph=graph) as theirs, pytest.raises(tf.errors.NotFoundError):
        theirs.run(read)


class SteppedClock(Clock):
    """A clock that goes a millisecond further each time it is read, and on which
    nobody can wait.
    """

    def __init__(self) -> None:
        self.ticks = 0

    def time_ns(self) -> int:
        return 1_000_000_000_000 + self.monotonic_ns()

    def monotonic_ns(self) -> int:
        self.ticks += 1_000_000
        return self.ticks

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.asked = seconds
        return False


def test_time_limits_and_traces_take_the_sessions_clock() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        y = tf.sin(x, name="y")
        stuck = tf1.FIFOQueue(1, [tf.float32]).dequeue()
    clock = SteppedClock()
    with tfjit.Session(graph=graph, options=tfjit.SessionOptions(env=Env(clock=clock))) as session:
        metadata = tf1.RunMetadata()
        session.run(y, {x: [1, 2]}, tf1.RunOptions(trace_level=3), metadata)
        stats = {s.node_name: s for s in metadata.step_stats.dev_stats[0].node_stats}
        assert stats["y"].all_end_rel_nanos == 1_000_000
        assert 1_000_000_000 <= stats["y"].all_start_micros < 1_000_100_000
        with pytest.raises(tfjit.errors.DeadlineExceededError):
            session.run(stuck, options=tf1.RunOptions(timeout_in_ms=3_600_000))
        assert clock.asked == 3600.0


def test_settings_are_the_sessions_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(variables: Mapping[str, str]) -> Any:
        graph = tfjit.Graph()
        with graph.as_default():
            x = tfjit.placeholder(tfjit.float32, [4], name="x")
            y = tfjit.tanh(x * 2.0 + 1.0, name="y")
        session = tfjit.Session(
            graph=graph, options=tfjit.SessionOptions(env=Env(variables=variables))
        )
        np.testing.assert_allclose(
            session.run(y, {x: [0, 1, 2, 3]}), np.tanh(np.arange(4) * 2 + 1), rtol=1e-6
        )
        return session

    monkeypatch.setenv("TFJIT_JIT", "lazy")
    with run(
        {
            "TFJIT_JIT": "off",
            "TFJIT_THREADS": "3",
            "TFJIT_DUMP": str(tmp_path),
            "TFJIT_DISABLE": "fuse",
        }
    ) as session:
        assert (
            session._runtime_session.jit,
            session._runtime_session.environments.threads,
        ) == ("off", 3)
        assert "fuse" not in [entry.name for entry in session.explain("y:0").report.passes]
        assert list(tmp_path.rglob("*_fold_constants.txt"))
    with run({}) as session:
        assert session._runtime_session.jit == "lazy"  # the default, not the process's
        assert "fuse" in [entry.name for entry in session.explain("y:0").report.passes]
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tfjit.Session(graph=tfjit.Graph()) as session:
        assert session._runtime_session.jit == "off"
    with pytest.raises(ValueError, match="TFJIT_JIT='soon': expected one of off, lazy, eager"):
        run({"TFJIT_JIT": "soon"})


# shared resources


def counters() -> tuple[Any, Any, Any, Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.Variable(1.0, name="v", use_resource=True)
        r = tf1.Variable([1.0, 2.0], name="r", use_resource=False)
        queue = tf1.FIFOQueue(5, [tf.int32], shapes=[[]], shared_name="q")
        return graph, v, r, queue, tf.group(v.initializer, r.initializer)


def test_sessions_share_a_resource_and_keep_it_alive() -> None:
    graph, v, r, queue, initialize = counters()
    other, v2, r2, queue2, _ = counters()  # another graph whose resources have the same names
    with graph.as_default():
        more, put = tf.group(v.assign_add(1.0), tf1.assign_add(r, [1.0, 1.0])), queue.enqueue(7)
    with other.as_default():
        take = queue2.dequeue()
    shared = tfjit.SessionResource()
    gone = weakref.ref(shared)
    a = tfjit.Session(graph=graph, options=tfjit.SessionOptions(session_resource=shared))
    b = tfjit.Session(graph=other, options=tfjit.SessionOptions(session_resource=shared))
    alone = tfjit.Session(graph=graph)
    del shared
    a.run(initialize)
    for i in range(4):  # by reference kernels and by compiled code
        a.run(more)
        assert b.run(v2) == 2 + i
        np.testing.assert_array_equal(b.run(r2), [2 + i, 3 + i])
    with pytest.raises(tfjit.errors.FailedPreconditionError):
        alone.run(v)
    a.run(put)
    a.close()
    assert b.run(take) == 7
    assert b.run(v2) == 5
    with tfjit.Session(graph=graph, options=tfjit.SessionOptions(session_resource=gone())) as again:
        assert again.run(v) == 5
    assert gone() is not None
    b.close()
    alone.close()
    del a, b, again
    gc.collect()
    assert gone() is None


@covers("ConfigProto.isolate_session_state")
def test_an_isolated_session_shares_nothing() -> None:
    graph, v, _, _, initialize = counters()
    shared = tfjit.SessionResource()
    isolated = tfjit.ConfigProto(isolate_session_state=True)
    with (
        tfjit.Session(graph=graph, options=tfjit.SessionOptions(session_resource=shared)) as common,
        tfjit.Session(
            graph=graph, config=isolated, options=tfjit.SessionOptions(session_resource=shared)
        ) as alone,
    ):
        common.run(initialize)
        with pytest.raises(tfjit.errors.FailedPreconditionError):
            alone.run(v)
        alone.run(initialize)
        alone.run(v.assign(7.0))
        assert common.run(v) == 1
        assert alone.run(v) == 7
    assert shared.managers


def test_a_shared_variable_has_one_dtype() -> None:
    shared = tfjit.SessionResource()

    def session(dtype: Any) -> tuple[tfjit.Session, Any]:
        graph = tf1.Graph()
        with graph.as_default():
            v = tf1.Variable(tf.zeros([2], dtype), name="v", use_resource=True)
        return tfjit.Session(graph=graph, options=tfjit.SessionOptions(session_resource=shared)), v

    first, v = session(tf.float32)
    first.run(v.initializer)
    second, w = session(tf.int64)
    with pytest.raises(
        tfjit.errors.InvalidArgumentError,
        match="container localhost has dtype float32, and is wanted as int64",
    ):
        second.run(w.initializer)
    np.testing.assert_array_equal(first.run(v), [0, 0])
    first.close()
    second.close()


# custom kernels


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_custom_kernel_runs_in_place_of_the_built_in_one(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    asked: list[str] = []

    def create(node_def: Any) -> Any:
        asked.append(node_def.name)
        if node_def.op != "Tanh":
            return None
        assert node_def.device.endswith("/device:CPU:0")

        def kernel(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
            assert (ctx.name, ctx.op, ctx.session.resource) == ("h", "Tanh", None)
            return [inputs[0] * 100]

        return kernel

    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 3] if dynamic else [2, 3], name="x")
        h = tf.tanh(x + 1.0, name="h")
        y = tf.nn.relu(h * 2.0 + 1.0, name="y")
        fixed = tf.tanh(tf.constant([1.0, 2.0]), name="fixed")  # not h: declined
        tf1.disable_control_flow_v2()
        try:
            loop = tf.while_loop(
                lambda i, s: i < 3, lambda i, s: (i + 1, tf.identity(s + y)), [0, y]
            )[1]
        finally:
            tf1.enable_control_flow_v2()
    feed = np.arange(6, dtype="f4").reshape(2, 3)
    expected = np.maximum((feed + 1) * 200 + 1, 0)
    # "fixed" has the op as well
    only_h = lambda node_def: create(node_def) if node_def.name != "fixed" else None  # noqa: E731
    with tfjit.Session(
        graph=graph, options=tfjit.SessionOptions(custom_kernel_creator=only_h)
    ) as session:
        for _ in range(4):
            np.testing.assert_allclose(session.run(y, {x: feed}), expected)
        np.testing.assert_allclose(session.run([h, y], {x: feed})[0], (feed + 1) * 100)
        np.testing.assert_allclose(session.run(loop, {x: feed}), expected * 4)
        np.testing.assert_allclose(session.run(fixed), np.tanh([1, 2]), rtol=1e-6)
        metadata = tf1.RunMetadata()
        session.run(y, {x: feed}, tf1.RunOptions(output_partition_graphs=True), metadata)
        assert {n.name: n.op for n in metadata.partition_graphs[0].node}["h"] == "Tanh"
    assert asked.count("h") == 1
    with tfjit.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run(h, {x: feed}), np.tanh(feed + 1), rtol=1e-6)


def test_custom_kernels_that_fail() -> None:
    answers: dict[str, Any] = {}

    def create(node_def: Any) -> Any:
        return answers.get(node_def.op)

    def raises(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        raise tfjit.errors.DataLossError(None, None, "lost")

    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        y = tf.tanh(x, name="y")
        z = tf.exp(x, name="z")
    cases: list[tuple[Any, type[Exception], str]] = [
        (
            lambda ctx, inputs: [inputs[0].astype("f8")],
            tfjit.errors.InternalError,
            r"0 of the custom kernel of Tanh is float64\[2\]",
        ),
        (lambda ctx, inputs: [inputs[0][:1]], tfjit.errors.InternalError, r"expected float32\[2\]"),
        (
            lambda ctx, inputs: inputs[0],
            tfjit.errors.InternalError,
            "returned a ndarray, expected a list of 1",
        ),
        (lambda ctx, inputs: [], tfjit.errors.InternalError, "returned 0 outputs"),
        (raises, tfjit.errors.DataLossError, "lost"),
        (3, tfjit.errors.InvalidArgumentError, "returned a int for {{node y}}"),
    ]
    for kernel, kind, text in cases:
        answers["Tanh"] = kernel
        with tfjit.Session(
            graph=graph, options=tfjit.SessionOptions(custom_kernel_creator=create)
        ) as session:
            with pytest.raises(kind, match=text):
                session.run(y, {x: [1, 2]})
            np.testing.assert_allclose(session.run(z, {x: [0, 0]}), [1, 1])  # the session goes on


def test_options_of_another_kind_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"Argument `options` must be a tfjit\.SessionOptions, got dict"
    ):
        tfjit.Session(graph=tfjit.Graph(), options={})  # type: ignore[arg-type]
    made = tfjit.Session(
        graph=tfjit.Graph(),
        options=tfjit.SessionOptions(config=tfjit.ConfigProto(device_count={"CPU": 2})),
    )
    assert len(made.list_devices()) == 2
    made.close()
