"""One call of a registered graph."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tfjit.distributed.protocol.interfaces import GraphCall, GraphDone, GraphResult
from tfjit.distributed.protocol.status import of_exception
from tfjit.distributed.worker.registered_graph import RegisteredGraph
from tfjit.distributed.worker.step_rendezvous import StepRendezvous
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.kernel_api.op_kernel import DEAD, StepContext
from tfjit.runtime.plan.pipelined_plan import as_array

Submit = Callable[[Callable[[], None]], None]


class GraphRun(ABC):
    """A run of a graph in a step.

    call: of the master. step: the rendezvous, which an error aborts. parent: cancels the run.
    done: called once, with the result or the first error. submit: runs a job on another thread.
    """

    def __init__(
        self,
        graph: RegisteredGraph,
        call: GraphCall,
        step: StepRendezvous,
        parent: CancellationManager,
        done: GraphDone,
        submit: Submit,
    ) -> None:
        self.graph, self.call, self.step, self.submit = graph, call, step, submit
        self.cancellation = CancellationManager(parent)
        self.context = StepContext(step.step_id, self.cancellation, step, host=graph.session)
        self.error: BaseException | None = None
        self._done: GraphDone | None = done
        self._lock = threading.Lock()
        graph.begin_collectives(step.step_id)

    @property
    def is_short(self) -> bool:
        """Return whether its work is short and never waits."""
        return False

    @property
    def has_checks(self) -> bool:
        """Return whether `check` may find an error."""
        return False

    def check(self) -> None:  # noqa: B027  # other runs start each node as soon as they can
        """Look for errors of nodes that wait for others' tensors; never waits."""

    @abstractmethod
    def start(self) -> None:
        """Prepare the run. Raises the errors of faulty feeds and fetches."""

    @abstractmethod
    def work(self) -> None:
        """Run on this thread as long as there is work; never raises."""

    def cancel(self, error: errors.OpError) -> None:
        """Stop the run; it ends with this error unless it has one."""
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Keep the first error, and stop all other work of the step."""
        with self._lock:
            if self.error is not None or self._done is None:
                return
            self.error = error = of_exception(error).with_traceback(None)
        self.step.abort(error)
        self.graph.fail_collectives(self.step.step_id, error)
        self.cancellation.cancel()

    def finish(self, result: GraphResult | None) -> None:
        """Report the end once; the error comes first."""
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return
        self.cancellation.release()
        self.graph.release()
        error, self.error = self.error, None
        if error is not None:
            done(error, None)
        else:
            done(None, result)


def given_up() -> errors.CancelledError:
    """Return the error of a run that its caller stopped."""
    return errors.CancelledError(None, None, "RunGraph was cancelled.")


def fetched(value: Any, key: str) -> Any:
    """Return a value for the client. Raises InvalidArgumentError for a dead one."""
    if value is DEAD:
        raise errors.InvalidArgumentError(
            None, None, f"The tensor returned for {key} was not valid."
        )
    return value


def sent(value: Any, copies: bool) -> Any:
    """Return a value in the form for other tasks.

    copies: the array may change.
    """
    array = as_array(value)
    return array.copy() if copies else array


__all__ = ["GraphRun", "Submit", "fetched", "given_up", "sent"]
