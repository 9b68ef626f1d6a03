"""Define the interface of runtime sessions to the client.

The client knows no more of a session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

# values in the order the names were given -> fetched values in the order of the fetch names
Runner = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class PlanCounters:
    """The counts of a session's plan cache.

    The cache has a plan for each signature with its names in any order, a variant for each tuple of
    feed shapes.

    hits: a signature's plan was there when a new order of its names came (a `run` seen before asks
    for no plan). misses: plans made. evictions: plans beyond 256, those longest unused.
    variant_evictions: variants beyond TFJIT_PLAN_MEMORY.
    """

    plans: int
    variants: int
    hits: int
    misses: int
    evictions: int
    variant_evictions: int


class SessionInterface(ABC):
    """Plan and run the graph of one client session.

    A SessionFactory may return any implementation.

    Names are tensor names "x:0" for feeds and fetches, operation names for targets. Values are
    ndarrays (strings: object arrays of bytes). Messages are tfjit's protobuf messages (ConfigProto,
    RunOptions, RunMetadata, CallableOptions, GraphDef).
    """

    @abstractmethod
    def create(self, graph_def: Any) -> None:
        """Give the session its first graph. Raises AlreadyExistsError when it has one."""

    @abstractmethod
    def extend(self, graph_def: Any) -> None:
        """Add nodes; the first extend creates.

        Raises InvalidArgumentError for a faulty graph, and then keeps the old one.
        """

    def extend_from(self, graph: Any, version: int) -> None:
        """Add the operations of a tfjit Graph that are newer than `version`.

        A session in the same process may take them as they are.

        Raises InvalidArgumentError where an older operation was changed, which a message of new
        nodes does not tell.
        """
        changed = graph.operations_changed_after(version)
        if changed:
            raise errors.InvalidArgumentError(
                None,
                changed[0],
                f"Operation '{changed[0].name}' was changed after it was run by a session: "
                "gradients were asked for, for which it gives "
                "out more. Ask for gradients before the first run, or make a new session.",
            )
        self.extend(graph.as_graph_def(from_version=version or None))

    @abstractmethod
    def run(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: Any = None,
        metadata: Any = None,
    ) -> list[Any]:
        """Return one step. options: RunOptions; metadata: RunMetadata, filled in."""

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> Runner:
        """Return a function for many steps of one signature.

        An implementation overrides this to make it cheaper than `run`.
        """

        def runner(values: Sequence[Any]) -> list[Any]:
            return self.run(list(zip(feeds, values, strict=True)), fetches, targets)

        return runner

    def partial_run_setup(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> str:
        """Start a step that is fed and fetched in parts.

        Returns its handle.
        """
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support partial runs."
        )

    def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> list[Any]:
        """Feed and fetch a part of the step `handle`."""
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support partial runs."
        )

    def session_tensor(self, handle: str) -> tuple[DType, Any]:
        """Return (dtype, value) of the tensor that GetSessionHandle has kept.

        The value is not to be written. Raises InvalidArgumentError when there is none.
        """
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support session handles."
        )

    def receive(self, value: object, dtype: DType, name: str) -> object:
        """Return an array in device memory as the value of a feed.

        name: of the fed tensor. Raises TypeError or ValueError for an array that does not fit.
        """
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} takes no arrays in device memory."
        )

    def delete_session_tensors(self, handles: Sequence[str]) -> None:
        """Drop kept tensors; unknown handles are ignored."""
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support session handles."
        )

    def make_callable(self, options: Any) -> int:
        """Return a handle for `run_callable`. options: CallableOptions."""
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support callables."
        )

    def run_callable(self, handle: int, values: Sequence[Any], metadata: Any = None) -> list[Any]:
        """Run a callable with its feeds' values in order."""
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support callables."
        )

    def release_callable(self, handle: int) -> None:
        """Forget a callable."""
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not support callables."
        )

    def explain(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        measure: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the passes' changes and the kernel of each node.

        feeds: names with a shape (internal form) or None. measure: also time each kernel in place,
        with `values` of feeds, and made-up ones where there is none.
        """
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not explain its plans."
        )

    def lower(
        self, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str], targets: Sequence[str]
    ) -> Any:
        """Return the plan of a signature for feeds of known shapes, as stages to be looked at.

        feeds: names with their shapes (internal form).
        """
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not lower its plans."
        )

    def plan_counters(self) -> PlanCounters:
        """Return the counts of plans found, made and dropped."""
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not count its plans."
        )

    def wait_until_compiled(self, timeout: float | None = None) -> bool:
        """Wait until every plan that has run has its fastest form.

        timeout: seconds, None for no limit. Returns False when the time is over first. Raises
        CancelledError when the session is closed.
        """
        raise errors.UnimplementedError(
            None, None, f"{type(self).__name__} does not wait for its plans."
        )

    @abstractmethod
    def list_devices(self) -> list[Any]:
        """Return the DeviceAttributes of every device."""

    @abstractmethod
    def close(self) -> None:
        """Cancel running steps and refuse later runs."""

    @abstractmethod
    def destroy(self) -> None:
        """Free plans, kernels, resources and own threads; `close` has run."""
