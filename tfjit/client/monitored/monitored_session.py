"""MonitoredSession: a session that calls hooks and survives lost servers."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tfjit.client.monitored.scaffold import Scaffold
from tfjit.client.monitored.session_creators import ChiefSessionCreator, SessionCreator
from tfjit.client.training.coordinator import Coordinator
from tfjit.client.training.queue_runner import start_queue_runners
from tfjit.client.training.session_run_hook import SessionRunHook, with_hooks
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import get_collection, get_default_graph
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tfjit.client.session.session import Session
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import FeedDict, Fetches, Message, Structure

_LOGGER = logging.getLogger("tensorflow")
_Result = TypeVar("_Result")

# A server is gone, or has come back without its state: a new session may help.
LOST: Final = (errors.AbortedError, errors.UnavailableError)

# Seconds before another session is tried, doubled up to the last.
_FIRST_PAUSE: Final = 0.05
_LAST_PAUSE: Final = 1.0


class StepContext:
    """The argument of the function of `run_step_fn`.

    session: the session below, without hooks.
    """

    def __init__(self, session: Session, run_with_hooks_fn: Callable[..., Structure]) -> None:
        self._session = session
        self._run_with_hooks = run_with_hooks_fn

    @property
    def session(self) -> Session:
        """The session below, without hooks."""
        return self._session

    def run_with_hooks(self, *args: object, **kwargs: object) -> Structure:
        """Run as `MonitoredSession.run` does, without recovery in the middle."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> None:
        """End the block of the monitored session: raise StopIteration."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _LiveSession:
    """One session with its coordinator and queue runners.

    A lost server ends it.
    """

    def __init__(
        self, creator: SessionCreator, hooks: list[SessionRunHook], stop_grace_period_secs: float
    ) -> None:
        self._hooks = hooks
        self._grace = stop_grace_period_secs
        self._stop_requested = False
        self.session = creator.create_session()
        self.coordinator = Coordinator(clean_stop_exception_types=[])
        try:
            if get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(sess=self.session, coord=self.coordinator)
            for hook in hooks:
                hook.after_create_session(self.session, self.coordinator)
        except BaseException:  # another session may be tried; this one must not keep threads
            try:
                self.close()
            except Exception as error:
                _LOGGER.error("A thread of the session failed too: %s", error)
            raise

    def should_stop(self) -> bool:
        """Return whether a hook or thread asked for the end.

        Raises the exception that a thread has ended with.
        """
        self.coordinator.raise_requested_exception()
        return self._stop_requested or self.coordinator.should_stop()

    def run(
        self,
        fetches: Fetches,
        feed_dict: FeedDict | None = None,
        options: Message = None,
        run_metadata: Message = None,
    ) -> Structure:
        """Run with the hooks.

        Raises the error of a lost server where a thread has met one.
        """
        if self._stop_requested:
            raise RuntimeError("Run called even after should_stop requested.")
        try:
            values, stop = with_hooks(
                self.session, self._hooks, fetches, feed_dict, options, run_metadata
            )
        except LOST:
            raise
        except Exception as error:
            # a queue that its runner closed for a lost server ends with an error of another class
            try:
                self.coordinator.raise_requested_exception()
            except LOST:
                raise
            except Exception:
                raise error from None
            raise
        self._stop_requested = stop
        return values

    def close(self) -> None:
        """Stop the threads and close the session.

        Raises the exception that a thread has ended with.
        """
        self.coordinator.request_stop()
        try:
            self.coordinator.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        except LOST as error:
            _LOGGER.error("A thread of the session met a lost server: %s", error)
        finally:
            try:
                self.session.close()
            except errors.OpError as error:
                _LOGGER.error("The session could not be closed in order: %s", error)


class _MonitoredSession:
    """The session of both classes below."""

    StepContext = StepContext

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Iterable[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float,
    ) -> None:
        self._default_graph = get_default_graph()
        self._graph_was_finalized = self._default_graph.finalized
        self._hooks = list(hooks or ())
        self._should_recover = should_recover
        self._grace = stop_grace_period_secs
        self._closed = False
        self._live: _LiveSession | None = None
        for hook in self._hooks:
            hook.begin()
        self._creator = session_creator if session_creator is not None else ChiefSessionCreator()
        self._live = self._new_session()

    @property
    def graph(self) -> Graph | None:
        """The graph of the session; None after `close`."""
        live = self._live
        return None if live is None else live.session.graph

    def run(
        self,
        fetches: Fetches,
        feed_dict: FeedDict | None = None,
        options: Message = None,
        run_metadata: Message = None,
    ) -> Structure:
        """Run fetches, with those of the hooks.

        The arguments are those of `Session.run`. Raises RuntimeError once a hook asked for the end.
        """
        return self._recovering(
            lambda live: live.run(fetches, feed_dict, options=options, run_metadata=run_metadata)
        )

    def run_step_fn(self, step_fn: Callable[..., _Result]) -> _Result:
        """Call a function with a StepContext; return its result.

        step_fn: its one argument is `step_context`. It is called again after a recovery. Raises
        ValueError for another signature.
        """
        names = tuple(inspect.signature(step_fn).parameters)
        if names not in (("step_context",), ("self", "step_context")):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and "
                "`step_context` arguments if it's an instance method. Got "
                f"{names} instead."
            )
        return self._recovering(lambda live: step_fn(StepContext(live.session, live.run)))

    def should_stop(self) -> bool:
        """Return whether the training should end.

        It should where a hook asked for it, a thread has failed, or the session is closed. The
        error of a thread is raised by `close`.
        """
        live = self._live
        if live is None:
            # a recovery under way has no session, and ends in `run`
            return self._closed or not self._should_recover
        if not self._should_recover:
            return live.should_stop()
        try:
            return live.should_stop()
        except LOST as error:
            self._abandon(live, error)
            self._live = self._new_session()
            return False
        except Exception:  # kept by the coordinator: `close` raises it
            return True

    def close(self) -> None:
        """Call `end` of each hook, stop the threads, close the session.

        Raises RuntimeError when it is closed.
        """
        self._close(call_end=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Close; the end of the input is no error."""
        ended = kind is not None and issubclass(kind, (errors.OutOfRangeError, StopIteration))
        self._close(call_end=kind is None or ended)
        return kind is None or ended

    def _close(self, call_end: bool) -> None:
        if self._closed:
            raise RuntimeError("Session is already closed.")
        live = self._live
        try:
            if call_end:
                for hook in self._hooks:
                    session: Any = None if live is None else live.session
                    hook.end(session)
        finally:
            try:
                if live is not None:
                    live.close()
            finally:
                self._closed, self._live = True, None
                if not self._graph_was_finalized:
                    self._default_graph._unsafe_unfinalize()

    def _new_session(self) -> _LiveSession:
        pause = _FIRST_PAUSE
        while True:
            try:
                return _LiveSession(self._creator, self._hooks, self._grace)
            except LOST as error:
                if not self._should_recover:
                    raise
                _LOGGER.info(
                    "A server was lost while a session was made; another one is made: %s", error
                )
                time.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)

    def _recovering(self, work: Callable[[_LiveSession], _Result]) -> _Result:
        """Call `work` until no server is lost in it."""
        while True:
            if self._closed:
                raise RuntimeError("Attempted to use a closed Session.")
            live = self._live
            if live is None:
                live = self._live = self._new_session()
            try:
                return work(live)
            except LOST as error:
                if not self._should_recover:
                    raise
                self._abandon(live, error)

    def _abandon(self, live: _LiveSession, error: BaseException) -> None:
        _LOGGER.info("A server was lost; the session is closed and another one is made: %s", error)
        self._live = None
        try:
            live.close()
        except errors.CancelledError as cancelled:  # a thread's step that died with the server
            _LOGGER.info("A thread was cancelled by the loss: %s", cancelled)


class MonitoredSession(_MonitoredSession):
    """A session that initializes, calls hooks, and recovers from lost servers.

    AbortedError and UnavailableError close the session below and make another one, from the last
    checkpoint for the chief; the run starts again. The end of a `with` block closes;
    OutOfRangeError and StopIteration only end it. The graph is finalized until then.
    session_creator: a ChiefSessionCreator by default. hooks: called in this order.
    stop_grace_period_secs: for threads after they are asked to stop.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Iterable[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_MonitoredSession):
    """A monitored session without recovery, which gives its session.

    Arguments are those of ChiefSessionCreator and MonitoredSession.
    """

    def __init__(
        self,
        hooks: Iterable[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Message | None = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        creator = ChiefSessionCreator(
            scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path
        )
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Session | None:
        """Return the session below; None after `close`."""
        live = self._live
        return None if live is None else live.session
