"""Closing, deleting and sharing sessions; blocked steps; default-session stacks; interpreter exit
and fork.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.forked_processes import Processes
from tests.waiting import is_blocked

tf1 = tf.compat.v1


class Blocked:
    """A step that waits for something, run in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "the step is still blocked"

    @property
    def waits(self) -> bool:
        return is_blocked(self._thread)


def queue_graph() -> tuple[Any, Any, Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(2, [tf.float32], shapes=[[]], name="q")
        value = tf1.placeholder(tf.float32, [], name="value")
        return graph, queue, queue.dequeue(name="take"), queue.enqueue(value, name="put")


def ready_session(graph: Any, take: Any, put: Any) -> tfjit.Session:
    """A session that has run both operations, so that the next run of one waits for the queue and
    not for a plan.
    """
    session = tfjit.Session(graph=graph)
    session.run(put, {"value:0": 7.0})
    assert session.run(take) == 7
    return session


@pytest.mark.parametrize("how", ["plain", "with options", "callable"])
def test_close_ends_a_blocked_dequeue(how: str) -> None:
    graph, _, take, put = queue_graph()
    session = ready_session(graph, take, put)
    calls = {
        "plain": lambda: session.run(take),
        "with options": lambda: session.run(take, options=tf1.RunOptions(timeout_in_ms=60_000)),
        "callable": session.make_callable(take),
    }
    blocked = Blocked(calls[how])
    assert blocked.waits
    session.close()
    blocked.join()
    assert isinstance(blocked.error, tfjit.errors.CancelledError)
    assert "Dequeue operation was cancelled\n\t [[{{node take}}]]" in str(blocked.error)
    assert blocked.error.op is take.op


def test_reset_ends_a_blocked_dequeue() -> None:
    graph, _, take, put = queue_graph()
    session = ready_session(graph, take, put)
    blocked = Blocked(lambda: session.run(take))
    assert blocked.waits
    tfjit.Session.reset("")
    blocked.join()
    assert isinstance(blocked.error, tfjit.errors.CancelledError)
    session.close()


def test_closing_one_session_leaves_another_over_the_same_graph_alone() -> None:
    graph, _, take, put = queue_graph()
    a, b = ready_session(graph, take, put), ready_session(graph, take, put)
    blocked = Blocked(lambda: b.run(take))
    assert blocked.waits
    a.run(put, {"value:0": 1.0})
    a.close()
    assert blocked.waits  # queues belong to a session
    b.run(put, {"value:0": 2.0})
    blocked.join()
    assert blocked.result == 2
    b.close()


def simple_graph() -> tuple[Any, Any, Any]:
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None], name="x")
        return graph, x, tfjit.tanh(x * 2.0, name="y")


def test_use_after_close() -> None:
    graph, x, y = simple_graph()
    session = tfjit.Session(graph=graph)
    session.run(y, {x: [1]})
    function = session.make_callable(y, [x])
    function([1])
    handle = session.partial_run_setup(y, [x])
    for _ in range(3):
        session.close()
    for call in (
        lambda: session.run(y, {x: [1]}),
        lambda: session.run([y], {x: [1]}),
        lambda: session.run(y, {x: [1]}, tfjit.RunOptions(), tfjit.RunMetadata()),
        lambda: function([1]),
        lambda: session.make_callable(y, [x]),
        lambda: session.partial_run_setup(y, [x]),
        lambda: session.partial_run(handle, y, {x: [1]}),
        lambda: session.explain(y),
    ):
        with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session\."):
            call()
    with pytest.raises(tfjit.errors.CancelledError, match=r"Session has been closed\."):
        session.list_devices()
    assert session.graph is graph
    assert len(session.graph_def.node) == len(graph.get_operations())


def test_a_deleted_session_frees_its_memory() -> None:
    graph, x, y = simple_graph()
    for close in (False, True):
        session = tfjit.Session(graph=graph)
        session.run(y, {x: np.ones(5)})
        backend = weakref.ref(session._runtime_session)
        session_ref = weakref.ref(session)
        if close:
            session.close()
        del session
        for _ in range(20):  # the compiling thread may hold a plan for a moment
            gc.collect()
            if backend() is None:
                break
            time.sleep(0.1)
        assert session_ref() is None
        assert backend() is None


def test_a_session_that_was_never_made_can_be_deleted() -> None:
    with pytest.raises(TypeError):
        tfjit.Session(target=3)  # type: ignore[arg-type]
    gc.collect()


def test_many_sessions_over_one_graph_keep_their_own_variables() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=0.0, use_resource=True)
        w = tf1.get_variable("w", initializer=0.0, use_resource=False)
        bump = tf.group(v.assign_add(1.0).op, tf1.assign_add(w, 2.0))
        init = tf1.global_variables_initializer()
        both = [v.read_value(), w.read_value()]
    sessions = [tfjit.Session(graph=graph) for _ in range(4)]
    for i, session in enumerate(sessions):
        session.run(init)
        for _ in range(i):
            session.run(bump)
    for i, session in enumerate(sessions):
        assert session.run(both) == [i, 2 * i]
        session.close()


# default sessions


def test_default_sessions_are_per_thread_and_nest() -> None:
    graph, x, y = simple_graph()
    a, b = tfjit.Session(graph=graph), tfjit.Session(graph=graph)
    seen = []
    with a.as_default() as entered:
        assert entered is a is tfjit.get_default_session()
        with b.as_default():
            assert tfjit.get_default_session() is b
            with a.as_default():  # as_default is re-entrant
                assert tfjit.get_default_session() is a
            thread = threading.Thread(target=lambda: seen.append(tfjit.get_default_session()))
            thread.start()
            thread.join()
        assert tfjit.get_default_session() is a
    assert tfjit.get_default_session() is None
    assert seen == [None]
    np.testing.assert_array_equal(a.run(y, {x: [0]}), [0])  # leaving as_default does not close
    a.close()
    b.close()


def test_eval_and_run_take_the_default_session() -> None:
    graph, x, y = simple_graph()
    with pytest.raises(
        ValueError, match="Cannot evaluate tensor using `eval\\(\\)`: No default session"
    ):
        y.eval({x: [0]})
    with tfjit.Session(graph=graph):
        np.testing.assert_array_equal(y.eval({x: [0]}), [0])
        assert y.op.run({x: [0]}) is None


def test_with_closes_also_after_an_error() -> None:
    graph, x, y = simple_graph()
    with pytest.raises(ZeroDivisionError), tfjit.Session(graph=graph) as session:
        raise ZeroDivisionError
    assert tfjit.get_default_session() is None
    with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session\."):
        session.run(y, {x: [0]})


def test_nesting_violations() -> None:
    graph, _, _ = simple_graph()
    a, b = tfjit.Session(graph=graph), tfjit.Session(graph=graph)
    context_a, context_b = a.as_default(), b.as_default()
    context_a.__enter__()
    context_b.__enter__()
    with pytest.raises(AssertionError, match="Nesting violated for default stack of"):
        context_a.__exit__(None, None, None)
    context_b.__exit__(None, None, None)
    assert tfjit.get_default_session() is None
    a.close()
    b.close()


def test_with_twice() -> None:
    graph, _, _ = simple_graph()
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(
            RuntimeError,
            match=r"Session context managers are not re-entrant\. Use `Session\.as_default\(\)` if "
            r"you want to",
        ),
        session,
    ):
        pass
    assert tfjit.get_default_session() is None


def test_interactive_sessions_stack() -> None:
    graph, x, y = simple_graph()
    first = tfjit.InteractiveSession(graph=graph)
    assert tfjit.get_default_session() is first
    assert tfjit.get_default_graph() is graph
    second = tfjit.InteractiveSession(graph=graph)
    np.testing.assert_array_equal(y.eval({x: [0]}), [0])
    with pytest.raises(AssertionError, match="Nesting violated"):
        first.close()
    second.close()
    second.close()
    assert tfjit.get_default_session() is None
    assert tfjit.get_default_graph() is not graph


# processes


GRAPH = """
import os, threading
import numpy as np
import tfjit
graph = tfjit.Graph()
with graph.as_default():
    x = tfjit.placeholder(tfjit.float32, [None], name="x")
    y = tfjit.tanh(x * 2.0) + tfjit.exp(-x)
session = tfjit.Session(graph=graph)
"""


@pytest.mark.parametrize(
    "end",
    [
        "print(session.run(y, {x: np.zeros(3)}).tolist())",  # the compiler may still be at work
        "print(session.run(y, {x: np.zeros(3)}).tolist()); session.close()",
        "session.explain(y, {x: (3,)}); print(session.run(y, {x: np.zeros(3)}).tolist())",
        "kept = session.run(y, {x: np.zeros(1 << 20)}); print(kept[:3].tolist()); del session",
        "globals()['__keep'] = session; print(session.run(y, {x: np.zeros(3)}).tolist()); del tfjit",
    ],
)
def test_the_interpreter_exits_without_noise(end: str, library: Processes) -> None:
    done = library.run("-c", GRAPH + end)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1.0, 1.0, 1.0]\n", "")


def test_the_interpreter_exits_while_a_step_waits(library: Processes) -> None:
    done = library.run(
        "-c",
        """
import threading, time
import tfjit
from tfjit.protos import GraphDef, AttrValue, DataType
graph = GraphDef()
q = graph.node.add(name="q", op="FIFOQueueV2")
q.attr["component_types"].list.type.append(1)
take = graph.node.add(name="take", op="QueueDequeueV2", input=["q"])
take.attr["component_types"].list.type.append(1)
session = tfjit.Session(graph=graph)
threading.Thread(target=lambda: session.run("take"), daemon=True).start()
time.sleep(0.5)
print("end")
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.host  # a child of a process that has used CUDA cannot use it
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.parametrize("jit", ["off", "lazy", "eager"])
def test_a_forked_child_runs(jit: str, library: Processes) -> None:
    """With what the parent had, and with what it makes itself; compiled code, pools and the
    compiling thread included.
    """
    done = library.run(
        "-c",
        GRAPH
        + """
big = np.zeros(1 << 20, "f4")
first = session.run(y, {x: big})
other = tfjit.Session(graph=graph)
pid = os.fork()
if pid == 0:
    try:
        assert session.run(y, {x: big})[:1] == [1]
        assert session.run(y, {x: np.zeros(7, "f4")}).tolist() == [1] * 7
        assert other.run(y, {x: np.zeros(5, "f4")}).tolist() == [1] * 5
        with graph.as_default():
            z = y * 3.0
        with tfjit.Session(graph=graph) as fresh:
            assert fresh.run(z, {x: np.zeros(2, "f4")}).tolist() == [3, 3]
            fresh.explain(z, {x: (2,)})
            assert fresh.run(z, {x: big})[:1] == [3]
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
import signal, time
for _ in range(600):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    status = -1
print("child", status, session.run(y, {x: np.zeros(2)}).tolist())
""",
        env={"TFJIT_JIT": jit, "TFJIT_THREADS": "2"},
    )
    assert done.stderr == ""
    assert done.stdout == "child 0 [1.0, 1.0]\n"


@pytest.mark.host  # as above
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_child_forked_from_among_running_steps(library: Processes) -> None:
    """Other threads run steps, build plans, extend graphs, wait for queues: all that stays the
    parent's.
    """
    done = library.run(
        "-c",
        GRAPH
        + """
import random, time
with graph.as_default():
    queue = tfjit.FIFOQueue(10, [tfjit.float32], shapes=[[]])
    put, take = queue.enqueue(5.0), queue.dequeue()
    v = tfjit.Variable(0, name="v")
    bump = v.assign_add(1, use_locking=True)
    init = tfjit.global_variables_initializer()
own = tfjit.Session(graph=graph, config=tfjit.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2))
own.run(init)
own.run(put); own.run(take)
stop = []
def loop(work):
    def run():
        while not stop:
            try:
                work()
            except (tfjit.errors.CancelledError, RuntimeError) as error:
                assert "losed" in str(error) or "was cancelled" in str(error), error
                return
    threading.Thread(target=run, daemon=True).start()
def grow():
    with graph.as_default():
        z = y * random.random()
    own.run(z, {x: np.zeros(3, "f4")})
loop(lambda: own.run([bump, y], {x: np.zeros(random.randrange(1, 50), "f4")}))
loop(lambda: own.run(take))
loop(grow)
own.partial_run_setup([y], [x])
def child():
    assert own.run(y, {x: np.zeros(3, "f4")}).tolist() == [1] * 3
    assert own.run(y, {x: np.zeros(77, "f4")}).tolist() == [1] * 77
    assert own.run(bump) >= 1
    own.run(put)
    assert own.run(take) == 5
    with graph.as_default():
        z = y * 3.0
    assert own.run(z, {x: np.zeros(2, "f4")}).tolist() == [3, 3]
    handle = own.partial_run_setup([y], [x])
    assert own.partial_run(handle, y, {x: np.zeros(2, "f4")}).tolist() == [1, 1]
    own.close()
    with tfjit.Session(graph=graph) as fresh:
        assert fresh.run(z, {x: np.zeros(2, "f4")}).tolist() == [3, 3]
for _ in range(4):
    time.sleep(random.uniform(0, 0.1))
    pid = os.fork()
    if pid == 0:
        import faulthandler
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            child()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
stop.append(True)
own.close()
print("end")
""",
    )
    assert done.stderr == ""
    assert done.stdout == "end\n"
