"""Queue runners: threads that keep a queue filled."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.client.data.queues import QueueBase
from tfjit.client.session.default_session import get_default_session
from tfjit.client.training.coordinator import Coordinator
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import add_to_collection, get_default_graph
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, SessionLike


class QueueRunner:
    """Runs enqueue operations of a queue, each in another thread.

    A thread runs until its operation raises that the input has ended.

    queue: a queue. enqueue_ops: one a thread; the same may be there several times. close_op,
    cancel_op: operations that close the queue (made by default); cancel_op also ends enqueues that
    wait. queue_closed_exception_types: errors that mean that the input has ended. queue_runner_def:
    a QueueRunnerDef to use nodes that the graph has already. Raises ValueError without queue or
    operations.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Any = None,
        queue_runner_def: object = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._from_names(queue_runner_def, import_scope)
        else:
            if not queue or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            closed = tuple(queue_closed_exception_types or (errors.OutOfRangeError,))
            if not all(
                isinstance(kind, type) and issubclass(kind, errors.OpError) for kind in closed
            ):
                raise TypeError(
                    "queue_closed_exception_types, when provided, must be a tuple of tf.error "
                    f"types, but saw: {closed}"
                )
            self._queue, self._enqueue_ops = queue, list(enqueue_ops)
            self._close_op = close_op if close_op is not None else queue.close()
            self._cancel_op = (
                cancel_op if cancel_op is not None else queue.close(cancel_pending_enqueues=True)
            )
            self._closed_types = closed
            self._queue_name = queue.name
        self._lock = threading.Lock()
        # session -> its threads that still run
        self._runs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._raised: list[BaseException] = []

    def _from_names(self, message: Message, scope: str | None) -> None:
        graph = get_default_graph()
        prefix = f"{scope}/" if scope else ""

        def element(name: str) -> Any:
            return graph.as_graph_element(prefix + name)

        self._queue = element(message.queue_name)
        self._queue_name = prefix + message.queue_name
        self._enqueue_ops = [element(name) for name in message.enqueue_op_name]
        self._close_op, self._cancel_op = (
            element(message.close_op_name),
            element(message.cancel_op_name),
        )
        kinds = [
            errors.exception_type_from_error_code(code)
            for code in message.queue_closed_exception_types
        ]
        self._closed_types = tuple(kinds) or (errors.OutOfRangeError,)

    @property
    def queue(self) -> Any:
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[object]:
        """One a thread."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """Closes the queue when the input has ended."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """Closes the queue at once when the coordinator stops."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[Any, ...]:
        """Errors that mean that the input has ended."""
        return self._closed_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Errors of threads without a coordinator."""
        return self._raised

    @property
    def name(self) -> str:
        """Name of the queue."""
        return self._queue_name

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        """Do one thread's work."""
        counted = True
        try:
            enqueue = sess.make_callable(enqueue_op)
            while coord is None or not coord.should_stop():
                try:
                    enqueue()
                except self._closed_types:
                    counted = False
                    if self._leave(sess):
                        self._close_quietly(sess)
                    return
        except Exception as error:
            if coord is not None:
                # closing the session is the end of a step that outlives the coordinator
                if not (coord.joined and isinstance(error, errors.CancelledError)):
                    coord.request_stop(error)
            else:
                with self._lock:
                    self._raised.append(error)
                raise
        finally:
            if counted:
                self._leave(sess)

    def _leave(self, sess: SessionLike) -> bool:
        """Count one thread less; return whether it was the last."""
        with self._lock:
            self._runs[sess] = self._runs.get(sess, 1) - 1
            return self._runs[sess] == 0

    def _close_quietly(self, sess: SessionLike) -> None:
        try:
            sess.run(self._close_op)
        # the queue or the session is closed already: no element will come any more
        except (errors.OpError, RuntimeError):
            return

    def _cancel_on_stop(self, sess: SessionLike, coord: Coordinator) -> None:
        coord.wait_for_stop()
        try:
            sess.run(self._cancel_op)
        except (errors.OpError, RuntimeError):  # closed already
            return

    def create_threads(
        self,
        sess: SessionLike,
        coord: Coordinator | None = None,
        daemon: bool = False,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Make the threads that fill the queue, one an operation.

        One more closes it when the coordinator stops. A second call for a session whose threads
        still run makes none.
        """
        with self._lock:
            if self._runs.get(sess, 0) > 0:
                return []
            self._runs[sess] = len(self._enqueue_ops)
            self._raised.clear()
        threads = [
            threading.Thread(
                target=self._run,
                args=(sess, op, coord),
                name=f"QueueRunnerThread-{self.name}-{op.name}",
                daemon=daemon,
            )
            for op in self._enqueue_ops
        ]
        if coord is not None:
            threads.append(
                threading.Thread(
                    target=self._cancel_on_stop,
                    args=(sess, coord),
                    name=f"QueueRunnerThread-{self.name}-close_on_stop",
                    daemon=daemon,
                )
            )
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return the names of its nodes, a QueueRunnerDef.

        None when they are not in `export_scope`.
        """
        from tfjit.protos import QueueRunnerDef

        queue_name = (
            self._queue.queue_ref.name if isinstance(self._queue, QueueBase) else self._queue.name
        )
        if export_scope and not queue_name.startswith(f"{export_scope}/"):
            return None
        cut = len(export_scope) + 1 if export_scope else 0
        # numbers of an enum
        codes: Any = [errors.error_code_from_exception_type(kind) for kind in self._closed_types]
        return QueueRunnerDef(
            queue_name=queue_name.partition(":")[0][cut:],
            enqueue_op_name=[op.name[cut:] for op in self._enqueue_ops],
            close_op_name=self._close_op.name[cut:],
            cancel_op_name=self._cancel_op.name[cut:],
            queue_closed_exception_types=codes,
        )

    @staticmethod
    def from_proto(queue_runner_def: Message, import_scope: str | None = None) -> QueueRunner:
        """Return a runner over nodes that the default graph has."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """List a runner for `start_queue_runners`."""
    add_to_collection(collection, qr)


def start_queue_runners(
    sess: SessionLike | None = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all the graph's runners, and return them.

    The graph is the session's. Raises ValueError without a session, TypeError for an object that is
    none.
    """
    if sess is None:
        sess = get_default_session()
        if not sess:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with "
                "sess.as_default()` or pass an explicit session to "
                "tf.start_queue_runners(sess=sess)"
            )
    if not hasattr(sess, "run") or not hasattr(sess, "graph"):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    threads = []
    for runner in sess.graph.get_collection(collection):
        threads += runner.create_threads(sess, coord=coord, daemon=daemon, start=start)
    return threads
