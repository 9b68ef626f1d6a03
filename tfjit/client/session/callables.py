"""Callables: a session's fetches as functions of its feeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tfjit.client.session.feeds import feed_slot, receiver
from tfjit.client.session.graph_sources import copy_into, to_callable_options
from tfjit.client.session.run_entries import entry_by_position
from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.client.session.base_session import BaseSession
    from tfjit.framework.graphs.typing import Fetches, Message, Structure


def make_callable(
    session: BaseSession, fetches: Fetches, keys: Sequence[object]
) -> Callable[..., Any]:
    """Return a function of the keys' values, and of options and run_metadata.

    Extra arguments are ignored, missing ones leave their placeholder unfed.
    """
    entries: dict[int, Callable[..., object]] = {}

    def make(count: int, args: Sequence[object]) -> Callable[..., object]:
        named = dict(zip(keys, args, strict=False))
        if len(named) < min(count, len(keys)):  # a key named twice takes its last value
            return lambda *values: session._make_entry(
                fetches, given := dict(zip(keys, values, strict=False))
            )[0](given)
        entry = entry_by_position(session._resolve(fetches, named), list(named))
        used = len(named)
        return entry if used == count else lambda *values: entry(*values[:used])

    def call(
        *args: object, options: Message | None = None, run_metadata: Message | None = None
    ) -> Any:
        if options is not None or run_metadata is not None:
            return session.run(fetches, dict(zip(keys, args, strict=False)), options, run_metadata)
        if session._closed:
            session._check_usable()
        entry = entries.get(len(args))
        if entry is None:
            entry = entries[len(args)] = make(len(args), args)
        try:
            return entry(*args)
        except errors.OpError as error:
            session._raise(error)

    return call


class OptionsCallable:
    """The result of `_make_callable_from_options`.

    It maps values in the order of the options' feeds to a list in the order of their fetches.
    Raises InvalidArgumentError when called with another number of values.
    """

    def __init__(self, session: BaseSession, options: object) -> None:
        self._session = session
        self._handle: int | None = None
        message = _with_slots(to_callable_options(options))
        backend = session._runtime_session
        assert backend is not None
        self._handle = backend.make_callable(message)
        graph = session.graph
        slots = [
            feed_slot(graph.as_graph_element(name, allow_tensor=True, allow_operation=False))
            for name in message.feed
        ]
        for slot in slots:
            slot.received = receiver(backend, slot)
        self._converts = [slot.convert for slot in slots]
        self._run = backend.run_callable

    def __call__(self, *args: Any, run_metadata: Message | None = None) -> list[Structure]:
        """Run once. run_metadata: a RunMetadata of tfjit or TensorFlow, filled in."""
        session = self._session
        if session._closed:
            session._check_usable()
        converts = self._converts
        values: Sequence[Any] = args
        if len(args) == len(converts):
            values = [convert(value) for convert, value in zip(converts, args, strict=True)]
        try:
            if run_metadata is None:
                return self._run(self._handle, values)  # type: ignore[arg-type]
            from tfjit.protos import RunMetadata

            metadata = RunMetadata()
            results = self._run(self._handle, values, metadata)  # type: ignore[arg-type]
        except errors.OpError as error:
            session._raise(error)
        copy_into(metadata, run_metadata)
        return results

    def __del__(self) -> None:
        session = self._session
        if (
            self._handle is not None
            and not session._closed
            and session._runtime_session is not None
        ):
            # a server that is gone has no callables left
            with suppress(errors.OpError):
                session._runtime_session.release_callable(self._handle)


def _with_slots(options: Message) -> Structure:
    """Return the options with names of tensors.

    An operation's name means its first output.
    """
    made = type(options)()
    made.CopyFrom(options)
    for names in (made.feed, made.fetch):
        names[:] = [name if ":" in name else f"{name}:0" for name in names]
    return made
