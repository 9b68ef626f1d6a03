"""A step that is fed and fetched in parts.

Its executors start at once, feeds and fetches pass through its rendezvous.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.host.rendezvous import create_key
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.session.partial_run_names import PartialRunNames

if TYPE_CHECKING:
    from tfjit.runtime.session.direct_session import DirectSession

_COUNTER = itertools.count(1)


class PartialRun:
    """One partial run.

    `step` feeds and fetches a part; the run is over when all is fed and fetched, or when a kernel
    fails.
    """

    def __init__(
        self,
        session: DirectSession,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
    ) -> None:
        from tfjit.passes.ir.run_spec import RunSpec
        from tfjit.passes.manager.pass_context import ClientRendezvous
        from tfjit.passes.pipeline import build

        self._session = session
        self.handle = (
            f"{','.join(feeds)}->{','.join(fetches)}/{','.join(targets)}/1/;{next(_COUNTER)}"
        )
        client = session.devices.default
        options = replace(
            session.pass_options(), client=ClientRendezvous(client.name, client.incarnation)
        )
        self._client = client
        with session.settings(), session.graph_lock:
            graph = session.placed.existing()
            spec = RunSpec(tuple(feeds), tuple(fetches), tuple(targets))
            session.placed.place_for(spec)
            self.names = PartialRunNames(graph, feeds, fetches)
            self._partitions, _ = build(graph, spec, options)
        self._stack = ExitStack()
        self._context = self._stack.enter_context(session.step_context())
        self._run = session.dataflow_plan(self._partitions).start(self._context, session.pool())

    def _key(self, name: str) -> str:
        return create_key(self._client.name, self._client.incarnation, self._client.name, name)

    def step(
        self, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> tuple[list[Any], bool]:
        """Return (fetched values, True if the run is over).

        Needs: `names.check` has passed for the same names.
        """
        try:
            results = self._step(feeds, fetches)
        except BaseException:
            self.end()
            raise
        if self.names.over:
            self._run.finished.wait()
            self.end()
            if self._run.error is not None:
                raise self._run.error.with_traceback(None)
        return results, self.names.over

    def _step(self, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]) -> list[Any]:
        self.names.mark([name for name, _ in feeds], fetches)
        for name, value in feeds:
            self._context.rendezvous.send(self._key(name), value)
        return [self._receive(name) for name in fetches]

    def _receive(self, name: str) -> Any:
        arrived = threading.Event()
        outcome: list[Any] = [None, None, False]

        def received(error: BaseException | None, value: Any, is_dead: bool) -> None:
            outcome[:] = [error, value, is_dead]
            arrived.set()

        self._context.rendezvous.receive(self._key(name), received)
        arrived.wait()
        error, value, is_dead = outcome
        if error is not None:
            raise error
        if is_dead:
            raise errors.InvalidArgumentError(
                None, None, f"The tensor returned for {name} was not valid."
            )
        if isinstance(value, Variable):
            value = value.initialized_value()
        if isinstance(value, np.ndarray):
            return value[()] if value.shape == () else value.copy()
        return value

    def end(self) -> None:
        """Cancel running kernels and release the step."""
        if not self._run.finished.is_set():
            self._context.cancellation.cancel()
            self._run.finished.wait()
        self._stack.close()
        for partition in self._partitions:
            partition.graph.dissolve()
