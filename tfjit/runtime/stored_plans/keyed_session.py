"""Define the interface of a session for the keys of its plans."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import threading

    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassOptions
    from tfjit.runtime.host.device import DeviceManager
    from tfjit.runtime.resources.variables_and_resources import Variable
    from tfjit.runtime.step.step import StepEnvironment


JitMode = Literal["off", "lazy", "eager"]
"""When plans are compiled.

off: never. lazy: in the background of the first runs. eager: before the first result.
"""


class KeyedSession(Protocol):
    """Describe all of a session that decides its plans.

    config: the session's ConfigProto, or None. graph: the whole placed graph, None before it is
    created and after the session is destroyed; hold `graph_lock` while reading or changing it.
    straight_line: static partitions run as steps. stages: runs may be split into stages. observer:
    measures steps, None when nothing is left to measure.
    """

    config: Any
    devices: DeviceManager
    closed: bool
    jit: JitMode
    straight_line: bool
    stages: bool
    observer: Any

    @property
    def graph(self) -> DataflowGraph | None:
        """Return the whole placed graph, or None."""

    @property
    def graph_lock(self) -> threading.RLock:
        """Return the lock of the graph."""

    @property
    def split_threads(self) -> int:
        """Return the number of threads that may divide a loop's batch."""

    def settings(self) -> AbstractContextManager[None]:
        """Return a block in which TFJIT_* settings are the session's."""

    def pass_options(self) -> PassOptions:
        """Return the pass options of the session's plans."""

    def find_variable(self, node: Node) -> Variable:
        """Return the Variable of a variable node."""

    def step_environment(self, device: str) -> StepEnvironment:
        """Return the environment of static steps on a device."""


__all__ = ["JitMode", "KeyedSession"]
