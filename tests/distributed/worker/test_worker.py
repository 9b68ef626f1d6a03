"""Sessions, graphs and runs of one worker: results, and TensorFlow's errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.distributed.worker.partitions import OTHER, OneWorker
from tfjit import protos
from tfjit.distributed.protocol.interfaces import WorkerSessionCall
from tfjit.distributed.worker.worker import Worker
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.runtime.host.cancellation import CancellationManager

F = np.float32


@pytest.fixture
def one() -> Iterator[OneWorker]:
    with OneWorker() as made:
        yield made


class Outcome:
    """Waits for the end of a call."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.calls: list[Any] = []

    def __call__(self, *answer: Any) -> None:
        self.calls.append(answer)
        self.over.set()

    def wait(self) -> Any:
        assert self.over.wait(60)
        assert len(self.calls) == 1
        return self.calls[0]


def test_status_names_the_devices_of_the_task(one: OneWorker) -> None:
    (device,) = one.worker.get_status()
    assert device.name == "/job:worker/replica:0/task:0/device:CPU:0"
    assert device.incarnation and device.memory_limit
    with OneWorker() as again:
        assert again.incarnation != one.incarnation


def test_a_partition_runs_again_and_again(one: OneWorker) -> None:
    graph = one.square()
    assert one.run(graph, 1, {"x:0": F(3)}, ["y:0"]) == [9]
    assert one.run(graph, 1, {"x:0": F(4)}, ["y:0"]) == [16]  # of one step, too
    np.testing.assert_array_equal(one.run(graph, 2, {"x:0": F([1, 2])}, ["y:0"])[0], [1, 4])
    assert one.run(graph, 3, {"x:0": F(3), "z:0": F(0)}, []) == []


def test_an_empty_partition_runs(one: OneWorker) -> None:
    assert one.run(one.register(), 1, {}, []) == []


@pytest.mark.parametrize(
    ("feeds", "fetches", "error", "text"),
    [
        ({}, ["y:0"], errors.InvalidArgumentError, "no value for .*x:0"),
        ({"x:0": np.float64(3)}, ["y:0"], errors.InternalError, "Output 0 of type float64 does"),
        ({"x:0": F(3)}, ["q:0"], errors.InvalidArgumentError, "sends no value for"),
    ],
)
def test_faulty_feeds_and_fetches(
    one: OneWorker, feeds: Any, fetches: Any, error: type[Exception], text: str
) -> None:
    graph = one.square()
    with pytest.raises(error, match=text):
        one.run(graph, 1, feeds, fetches)
    assert one.run(graph, 2, {"x:0": F(3)}, ["y:0"]) == [9]


def test_malformed_keys(one: OneWorker) -> None:
    graph = one.square()
    call = one.call(graph, 1, {}, [])
    call.feeds = {"x:0": F(3)}
    with pytest.raises(errors.InvalidArgumentError, match="Invalid  rendezvous key: x:0"):
        one.worker.run_graph(call)
    call = one.call(graph, 15, {"x:0": F(3)}, [])
    call.fetches = ["y:0"]
    text = "Failed to fetch outputs for step 15. .Original error message: Invalid  rendezvous key"
    with pytest.raises(errors.InternalError, match=text):
        one.worker.run_graph(call)


def test_the_error_of_a_node_names_the_node(one: OneWorker) -> None:
    graph = one.register(
        one.receive("x"), one.receive("z"), one.node("y", "AddV2", "x", "z"), one.send("out", "y")
    )
    with pytest.raises(errors.InvalidArgumentError) as caught:
        one.run(graph, 1, {"x:0": F([1, 2, 3]), "z:0": F([1, 2])}, ["y:0"])
    assert caught.value.message == "Incompatible shapes: [3] vs. [2]\n\t [[{{node y}}]]"


def test_unknown_handles(one: OneWorker) -> None:
    lost = 'Session handle is not found: no. Possibly this worker \\("/job:worker/replica:0/task:0'
    with pytest.raises(errors.AbortedError, match=lost):
        one.worker.register_graph("no", protos.GraphDef())
    with pytest.raises(errors.AbortedError, match=lost):
        one.run("g", 1, {}, [], session="no")
    with pytest.raises(errors.AbortedError, match="Graph handle is not found: g$"):
        one.run("g", 1, {}, [])
    with pytest.raises(errors.AbortedError, match="g. Possibly, this worker just restarted"):
        one.worker.deregister_graph("s", "g")
    one.worker.delete_worker_session("no")
    with pytest.raises(errors.InvalidArgumentError, match="Session must be non-empty"):
        one.worker.create_worker_session(WorkerSessionCall(""))


def test_a_deregistered_graph_is_gone(one: OneWorker) -> None:
    graph = one.square()
    one.worker.deregister_graph("s", graph)
    with pytest.raises(errors.AbortedError, match="Graph handle is not found"):
        one.run(graph, 1, {"x:0": F(3)}, ["y:0"])


def test_faulty_graphs(one: OneWorker) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="2 nodes in a cycle"):
        one.register(one.node("a", "Neg", "b"), one.node("b", "Neg", "a"))
    with pytest.raises(errors.NotFoundError, match="Op type not registered 'Nonsense'"):
        one.register(one.node("a", "Nonsense"))
    with pytest.raises(errors.InvalidArgumentError, match="missing attrs"):
        one.register(one.receive("x"), one.node("a", "Cast", "x", dtype=None))
    with pytest.raises(errors.InvalidArgumentError, match="Unknown input node 'z'"):
        one.register(one.node("a", "Neg", "z"))
    with pytest.raises(errors.InvalidArgumentError, match="'x' is not unique"):
        one.register(one.receive("x"), one.receive("x"))
    strange = one.node("a", "Neg", "x")
    strange.device = OTHER
    with pytest.raises(errors.InvalidArgumentError, match="task:1/device:CPU:0"):
        one.register(one.receive("x"), strange)


def test_a_request_runs_once(one: OneWorker) -> None:
    graph = one.square()
    assert one.run(graph, 1, {"x:0": F(3)}, ["y:0"], request_id=5) == [9]
    with pytest.raises(errors.AbortedError, match=r"The same RunGraph \(Worker\) request was"):
        one.run(graph, 2, {"x:0": F(3)}, ["y:0"], request_id=5)


def _counter(one: OneWorker, session: str) -> tuple[str, str]:
    """Register (an initializer, an increment that fetches) of one variable."""

    def variable() -> list[Any]:
        made = one.node("v", "VarHandleOp", dtype=None)
        made.attr["dtype"].type = 1
        made.attr["shape"].shape.SetInParent()
        made.attr["shared_name"].s = b"v"
        value = one.node("one", "Const", dtype=None)
        value.attr["dtype"].type = 1
        value.attr["value"].tensor.dtype = 1  # type: ignore[assignment]
        value.attr["value"].tensor.tensor_shape.SetInParent()
        value.attr["value"].tensor.float_val.append(1)
        return [made, value]

    def update(op: str) -> Any:
        made = one.node("up", op, "v", "one", dtype=None)
        made.attr["dtype"].type = 1
        return made

    read = one.node("r", "ReadVariableOp", "v", "^up", dtype=None)
    read.attr["dtype"].type = 1
    return (
        one.register(*variable(), update("AssignVariableOp"), session=session),
        one.register(
            *variable(), update("AssignAddVariableOp"), read, one.send("o", "r"), session=session
        ),
    )


def test_sessions_share_variables_unless_isolated(one: OneWorker) -> None:
    one.worker.create_worker_session(WorkerSessionCall("t"))
    one.worker.create_worker_session(WorkerSessionCall("alone", isolated=True))
    init, up = _counter(one, "s")
    one.run(init, 1, {}, [])
    assert one.run(up, 2, {}, ["r:0"]) == [2]
    _, others = _counter(one, "t")
    assert one.run(others, 3, {}, ["r:0"], session="t") == [3]
    _, alone = _counter(one, "alone")
    with pytest.raises(errors.FailedPreconditionError, match="v"):
        one.run(alone, 4, {}, ["r:0"], session="alone")
    one.worker.delete_worker_session("t")
    assert one.run(up, 5, {}, ["r:0"]) == [4]


def test_cleared_containers_leave_sessions_usable(one: OneWorker) -> None:
    init, up = _counter(one, "s")
    one.run(init, 1, {}, [])
    assert one.run(up, 2, {}, ["r:0"]) == [2]
    one.worker.cleanup_all(["another"])
    assert one.run(up, 3, {}, ["r:0"]) == [3]
    one.worker.cleanup_all([])
    with pytest.raises(errors.FailedPreconditionError, match="v"):
        one.run(up, 4, {}, ["r:0"])
    one.worker.create_worker_session(WorkerSessionCall("t"))
    again, others = _counter(one, "t")
    one.run(again, 5, {}, [], session="t")
    assert one.run(others, 6, {}, ["r:0"], session="t") == [2]
    assert one.run(up, 7, {}, ["r:0"]) == [3]  # the old session sees the new variable


def test_a_restarted_master_loses_its_sessions(one: OneWorker) -> None:
    def create(name: str, task: str, incarnation: int) -> None:
        one.worker.create_worker_session(
            WorkerSessionCall(name, master_task=task, master_incarnation=incarnation)
        )

    create("a", "/job:m/task:0", 1)
    create("b", "/job:m/task:0", 1)
    create("c", "/job:m/task:1", 7)
    create("d", "/job:m/task:0", 2)
    graph = one.register(session="c")
    assert one.run(graph, 1, {}, [], session="c") == []
    for gone in "ab":
        with pytest.raises(errors.AbortedError, match="Session handle is not found"):
            one.register(session=gone)
    one.register(session="d")
    create("d", "/job:m/task:0", 3)  # the same handle again
    with pytest.raises(errors.AbortedError, match="Graph handle is not found"):
        one.run("0000000000000001", 1, {}, [], session="d")
    assert sorted(one.worker._sessions) == ["", "c", "d", "s"]


def _waiting(one: OneWorker) -> str:
    """Return a partition that waits for a tensor that no run sends."""
    dequeue = one.node("d", "QueueDequeueV2", "q", dtype=None)
    dequeue.attr["component_types"].list.type.append(1)  # type: ignore[arg-type]
    queue = one.node("q", "FIFOQueueV2", dtype=None)
    queue.attr["component_types"].list.type.append(1)  # type: ignore[arg-type]
    return one.register(queue, dequeue, one.send("o", "d"))


@pytest.mark.parametrize("of_queue", [True, False])
@pytest.mark.parametrize("how", ["cancel", "deadline", "session", "worker", "cleanup"])
def test_a_waiting_run_ends(one: OneWorker, how: str, of_queue: bool) -> None:
    if of_queue:
        graph, fetches = _waiting(one), ["d:0"]
        if how == "cleanup":
            return  # of the step's tensors; a queue stays
    else:
        local = one.device.replace("CPU:0", "CPU:1")  # a send of this task that no graph has
        graph = one.register(
            one.receive("x", "e", local), one.node("y", "Neg", "x"), one.send("o", "y")
        )
        fetches = ["y:0"]
    done = Outcome()
    deadline = 0.1 if how == "deadline" else None
    cancel = one.worker.start_graph(one.call(graph, 1, {}, fetches, deadline_s=deadline), done)
    assert how == "deadline" or not done.over.wait(0.05)
    expected: type[Exception] = errors.CancelledError
    if how == "cancel":
        cancel()
    elif how == "deadline":
        expected = errors.DeadlineExceededError
    elif how == "session":
        one.worker.delete_worker_session("s")
    elif how == "worker":
        one.worker.close()
    else:
        one.worker.cleanup_graph(1)
        expected = errors.AbortedError
    error, result = done.wait()
    assert isinstance(error, expected) and result is None
    cancel()
    if how in ("cancel", "deadline"):
        assert one.run(one.square(), 2, {"x:0": F(3)}, ["y:0"]) == [9]


def test_tensors_are_served_before_and_behind_the_run(one: OneWorker) -> None:
    graph = one.register(
        one.receive("x"), one.node("y", "Square", "x"), one.send("o", "y", "e", OTHER)
    )
    key = one.key("e", target=OTHER)
    early, late = Outcome(), Outcome()
    one.worker.receive_tensor(1, key, early)
    one.run(graph, 1, {"x:0": F(3)}, [])
    assert early.wait() == (None, F(9), False)
    one.run(graph, 2, {"x:0": F(4)}, [])
    one.worker.receive_tensor(2, key, late)
    assert late.wait() == (None, F(16), False)
    one.worker.cleanup_graph(1)
    one.worker.cleanup_graph(2)
    assert not len(one.worker.steps)


def test_a_waiting_peer_gets_the_error_of_the_step(one: OneWorker) -> None:
    graph = one.register(
        one.receive("x"),
        one.receive("z"),
        one.node("y", "AddV2", "x", "z"),
        one.send("o", "y", "e", OTHER),
    )
    key = one.key("e", target=OTHER)
    early, late, cleaned = Outcome(), Outcome(), Outcome()
    one.worker.receive_tensor(1, key, early)
    with pytest.raises(errors.InvalidArgumentError):
        one.run(graph, 1, {"x:0": F([1, 2, 3]), "z:0": F([1, 2])}, [])
    one.worker.receive_tensor(1, key, late)
    for outcome in early, late:
        assert outcome.wait()[0].message == "Incompatible shapes: [3] vs. [2]\n\t [[{{node y}}]]"
    one.worker.receive_tensor(3, key, cleaned)
    one.worker.cleanup_graph(3)
    assert isinstance(cleaned.wait()[0], errors.AbortedError)


def test_faulty_receives(one: OneWorker) -> None:
    def error(key: str, request: int = 0) -> Any:
        outcome = Outcome()
        one.worker.receive_tensor(1, key, outcome, request)
        return outcome.wait()[0]

    malformed = error("foo")
    assert isinstance(malformed, errors.InvalidArgumentError)
    assert malformed.message == "Invalid  rendezvous key: foo"
    assert isinstance(error(one.key("e", source=OTHER)), errors.InvalidArgumentError)
    one.incarnation += 1
    stale = error(one.key("e", target=OTHER))
    one.incarnation -= 1
    assert isinstance(stale, errors.AbortedError)
    assert "RecvTensor expects a different device incarnation" in stale.message
    key = one.key("e", target=OTHER)
    one.worker.receive_tensor(1, key, Outcome(), 77)
    twice = error(key, 77)
    assert isinstance(twice, errors.AbortedError)
    assert "The same RecvTensor (GrpcWorker) request was received twice." in twice.message


def test_a_receive_that_is_given_up_leaves_nothing(one: OneWorker) -> None:
    outcome = Outcome()
    cancel = one.worker.receive_tensor(9, one.key("e", target=OTHER), outcome)
    assert len(one.worker.steps) == 1
    cancel()
    cancel()
    assert isinstance(outcome.wait()[0], errors.CancelledError)
    assert not len(one.worker.steps)


def test_measurements(one: OneWorker) -> None:
    graph = one.square()
    options = protos.ExecutorOpts(
        record_timeline=True, record_costs=True, record_partition_graphs=True
    )
    result = one.worker.run_graph(one.call(graph, 1, {"x:0": F(3)}, ["y:0"], options=options))
    assert list(result.fetches.values()) == [9]
    (device,) = result.step_stats.dev_stats
    assert device.device == one.device
    assert {"x", "y", "out"} <= {node.node_name for node in device.node_stats}
    assert {"x", "y", "out"} <= {node.name for node in result.cost_graph.node}
    (part,) = result.partition_graphs
    assert {node.op for node in part.node} >= {"_Recv", "Square", "_Send"}


def test_what_a_worker_does_not_do(one: OneWorker) -> None:
    with pytest.raises(errors.UnimplementedError, match="Tracing"):
        one.worker.tracing(protos.TracingRequest())


def test_graph_options_of_the_master(one: OneWorker) -> None:
    config = protos.ConfigProto(isolate_session_state=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.build_cost_model = 1
    graph = protos.GraphDef(
        node=[one.receive("x"), one.node("y", "Square", "x"), one.send("out", "y")]
    )
    handle = one.worker.register_graph("s", graph, config, config.graph_options)
    assert one.run(handle, 1, {"x:0": F(3)}, ["y:0"]) == [9]


def test_threads_end_with_the_worker() -> None:
    worker = Worker("/job:w/replica:0/task:0", protos.ConfigProto(device_count={"CPU": 2}), {})
    assert len(worker.get_status()) == 2
    worker.close()
    with pytest.raises(errors.AbortedError, match="Session handle is not found"):
        worker.register_graph("", protos.GraphDef())


def test_strings(one: OneWorker) -> None:
    graph = one.register(
        one.receive("x", dtype=dtypes.string),
        one.node("y", "Identity", "x", dtype=dtypes.string),
        one.node("z", "StringLength", "y", dtype=None),
        _int32(one.send("o", "z")),
    )
    value = np.array([b"a", b"bcd"], object)
    np.testing.assert_array_equal(one.run(graph, 1, {"x:0": value}, ["z:0"])[0], [1, 3])


def _int32(node: Any) -> Any:
    node.attr["T"].type = dtypes.int32.as_datatype_enum
    return node


def test_a_run_on_the_callers_thread_is_cancelled(one: OneWorker) -> None:
    """As a step of a master in this process, whose client has closed the session."""
    graph = one.register(one.receive("x"), one.node("y", "Square", "x"), one.send("out", "y"))
    cancellation = CancellationManager()
    cancellation.cancel()
    call = one.call(graph, 1, {"x:0": F(3)}, ["y:0"])
    call.cancellation = cancellation
    with pytest.raises(errors.CancelledError, match="RunGraph was cancelled"):
        one.worker.run_graph(call)
    call = one.call(graph, 2, {"x:0": F(3)}, ["y:0"])
    call.cancellation = CancellationManager()
    assert list(one.worker.run_graph(call).fetches.values()) == [9]
    assert not call.cancellation._callbacks
