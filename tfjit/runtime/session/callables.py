"""Keep the callables of a session."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors
from tfjit.framework.types.device_ends import ON_HOST

if TYPE_CHECKING:
    from tfjit.runtime.session.direct_session import DirectSession
    from tfjit.runtime.session_interface import Runner


class Callables:
    """Hold callables by handle.

    An entry is the number of feeds, the runner (None once released) and the signature.
    The session is an argument, not a field: a reference cycle would outlive it.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[int, Runner | None, tuple[Any, ...]]] = {}
        self._ids = itertools.count()

    def make(self, session: DirectSession, options: Any) -> int:
        """Keep a callable of CallableOptions and return its handle.

        Raises the errors of `check_run_options`, `check_devices` and `check_tensors`.
        """
        from tfjit.runtime.session.callable_checks import (
            check_devices,
            check_tensors,
            device_ends,
        )
        from tfjit.runtime.session.run_options import check_run_options

        run_options = options.run_options if options.HasField("run_options") else None
        feeds, fetches, targets = tuple(options.feed), tuple(options.fetch), tuple(options.target)
        connections = tuple((c.from_tensor, c.to_tensor) for c in options.tensor_connection)
        check_run_options(session.config, run_options)
        check_devices(options, session.devices)
        ends = ON_HOST
        with session.graph_lock:
            if session.graph is not None:
                check_tensors(session.graph, (*feeds, *fetches))
                ends = device_ends(options, session.graph, session.devices)
                if connections:
                    from tfjit.passes.legalize.tensor_connections import check_connections

                    check_connections(session.graph, connections, feeds, fetches)
        if run_options is None:
            runner = session.prepare(feeds, fetches, targets, 0, connections, ends)
        elif run_options == type(run_options)(
            inter_op_thread_pool=run_options.inter_op_thread_pool
        ):
            runner = session.prepare(
                feeds, fetches, targets, run_options.inter_op_thread_pool, connections, ends
            )
        else:
            runner = session.runner_with_options(
                feeds, fetches, targets, run_options, connections, ends=ends
            )

        handle = next(self._ids)
        self._entries[handle] = (
            len(feeds),
            runner,
            (feeds, fetches, targets, run_options, connections, ends),
        )
        return handle

    def run(
        self, session: DirectSession, handle: int, values: Sequence[Any], metadata: Any
    ) -> list[Any]:
        """Run a callable on the values of its feeds.

        Raises InvalidArgumentError for an unknown or released handle, or another number of values.
        """
        entry = self._entries.get(handle)
        if entry is None:
            raise errors.InvalidArgumentError(None, None, f"No such callable handle: {handle}")
        count, runner, signature = entry
        if runner is None:
            raise errors.InvalidArgumentError(
                None, None, f"Attempted to run callable after handle was released: {handle}"
            )
        if len(values) != count:
            raise errors.InvalidArgumentError(
                None, None, f"Expected {count} feed tensors, but got {len(values)}"
            )
        if metadata is not None:
            feeds, fetches, targets, run_options, connections, ends = signature
            return session.runner_with_options(
                feeds, fetches, targets, run_options, connections, metadata, ends
            )(values)
        return runner(values)

    def release(self, handle: int) -> None:
        """Forget the runner of a callable.

        Raises InvalidArgumentError for an unknown handle.
        """
        entry = self._entries.get(handle)
        if entry is None:
            raise errors.InvalidArgumentError(None, None, f"No such callable handle: {handle}")
        self._entries[handle] = (entry[0], None, entry[2])

    def clear(self) -> None:
        """Forget all callables."""
        self._entries.clear()
