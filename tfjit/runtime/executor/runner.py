"""Define the interface of one node in the dataflow executor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.resources.variables_and_resources import SessionState
from tfjit.runtime.schedule.kernel_selection import CallMemo
from tfjit.runtime.step.step import StepEnvironment

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.runtime.executor.requested_kernels import RequestedKernels


@dataclass(frozen=True, slots=True)
class RunnerEnvironment:
    """The session as its runners see it.

    store: compiled code, or None when compilation is off. settings: a block with its TFJIT_*.
    memos: the calls that nodes alike share, by backend. compiled: the nodes that use compiled
    code, from the first run; None for all, as their shapes recur.
    """

    session: SessionState
    step_environment: Callable[[str], StepEnvironment]
    store: RequestedKernels | None
    settings: Callable[[], AbstractContextManager[None]] = nullcontext
    memos: dict[int, CallMemo] = field(default_factory=dict)
    compiled: Set[str] | None = None

    def memo(self, backend: Backend) -> CallMemo:
        """Return the calls of a backend's nodes so far."""
        return self.memos.setdefault(id(backend), CallMemo(backend))


class NodeRunner(ABC):
    """Compute one node.

    blocking: use `start`, which never waits, instead of `run`. expensive: `run` may take long, or
    wait for other nodes.
    """

    blocking = False
    expensive = False

    @abstractmethod
    def run(self, context: StepContext, inputs: Sequence[Any], frame: str) -> Sequence[Any]:
        """The node's outputs in order."""

    def start(
        self, context: StepContext, inputs: Sequence[Any], frame: str, done: Done, is_dead: bool
    ) -> None:
        """Begin; `done(outputs or exception)` is called once, from any thread."""
        raise NotImplementedError

    def after_fork(self) -> None:  # noqa: B027  most have nothing to put in order
        """Put things in order in a forked child."""
