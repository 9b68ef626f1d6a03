"""The client graphs of a session by signature, each built once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from tfjit.distributed.master.client_graph import ClientGraph, Signature
from tfjit.distributed.master.concurrent_calls import GivenUp
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager


class _Build:
    """A client graph that a thread is building."""

    def __init__(self) -> None:
        self.over = CancellationManager()  # "cancelled" when the build has ended
        self.error: BaseException | None = None


class GraphCache:
    """At most `limit` client graphs; the longest unused ones are dropped.

    A graph is built outside of the lock; other threads that need it wait for that build.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._graphs: OrderedDict[Signature, ClientGraph] = OrderedDict()
        self._builds: dict[Signature, _Build] = {}
        self._closed = False
        self.evictions = 0

    def find(self, signature: Signature) -> ClientGraph | None:
        """Return the graph of a signature, held for a step, or None."""
        with self._lock:
            return self._held(signature)

    def _held(self, signature: Signature) -> ClientGraph | None:
        found = self._graphs.get(signature)
        if found is None or not found.hold():
            return None
        self._graphs.move_to_end(signature)
        return found

    def hold(
        self,
        signature: Signature,
        build: Callable[[], ClientGraph],
        cancellation: CancellationManager,
    ) -> ClientGraph | None:
        """Return the graph of a signature, held for a step.

        Returns None if the wait was cancelled.

        Raises the errors of `build`, also where another thread has called it.
        """
        while not cancellation.cancelled:
            with self._lock:
                found = self._held(signature)
                if found is not None:
                    return found
                under_way = self._builds.get(signature)
                if under_way is None:
                    mine = self._builds[signature] = _Build()
                    break
            if not _wait(under_way, cancellation):
                return None
            if isinstance(under_way.error, errors.OpError) and not isinstance(
                under_way.error, errors.CancelledError
            ):
                raise under_way.error.restated(under_way.error.message)
        else:
            return None
        try:
            made = build()
            made.hold()
        except BaseException as error:
            mine.error = error
            with self._lock:
                del self._builds[signature]
            mine.over.cancel()
            raise
        self._keep(signature, made)
        mine.over.cancel()
        return made

    def _keep(self, signature: Signature, made: ClientGraph) -> None:
        dropped = []
        with self._lock:
            del self._builds[signature]
            if self._closed:
                dropped.append(made)
            else:
                self._graphs[signature] = made
            while len(self._graphs) > self._limit:
                dropped.append(self._graphs.popitem(last=False)[1])
                self.evictions += 1
        for graph in dropped:
            graph.retire()

    def clear(self) -> None:
        """Forget all graphs, without telling the workers; later ones are not kept."""
        with self._lock:
            self._closed = True
            self._graphs.clear()

    def __len__(self) -> int:
        return len(self._graphs)


def _wait(build: _Build, cancellation: CancellationManager) -> bool:
    """Return whether a build has ended before the cancellation."""
    over = GivenUp(cancellation)
    token = build.over.register(over.set)
    try:
        if token is not None:
            over.wait()
    finally:
        over.release()
        build.over.deregister(token)
    return not cancellation.cancelled


__all__ = ["GraphCache"]
