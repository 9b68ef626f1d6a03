"""Hooks into the runs of a monitored session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tfjit.client.training.coordinator import Coordinator
    from tfjit.framework.graphs.typing import Fetches, Message, SessionLike


class SessionRunArgs(NamedTuple):
    """The fetches, feeds and options of a run."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """The results of the fetches of a hook, the options, the metadata."""

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """A run as its hooks see it.

    original_args: the arguments of the caller of `run`. session: for further runs, without hooks.
    """

    def __init__(self, original_args: SessionRunArgs, session: SessionLike) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """The arguments of the caller of `run`."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session below the monitored one."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """True once a hook asked for the end of the training."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Make `should_stop` of the monitored session true after this run."""
        self._stop_requested = True


class SessionRunHook:
    """Base of all hooks; each method does nothing.

    The order of calls: `begin` once, while the graph may still grow; `after_create_session` for
    each session, also after a recovery; `before_run` and `after_run` around each run; `end` once,
    unless the block ended by an exception.
    """

    def begin(self) -> None:
        """Prepare, before the graph is finalized."""

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Use a new session; its variables have values."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Return fetches and feeds to add to the run, or None."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Use the results; not called for a run that raised an exception."""

    def end(self, session: SessionLike) -> None:
        """Finish, before the session is closed."""


def merge_run_options(options: Message, added: Message) -> None:
    """Raise options of a run to those that a hook asks for."""
    for field in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
        setattr(options, field, max(getattr(options, field), getattr(added, field)))
    for field in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
        setattr(options, field, getattr(options, field) or getattr(added, field))
    debug = added.debug_options
    for watch in debug.debug_tensor_watch_opts:
        options.debug_options.debug_tensor_watch_opts.add().MergeFromString(
            watch.SerializeToString()
        )
    if debug.reset_disk_byte_usage:
        options.debug_options.reset_disk_byte_usage = True


def with_hooks(
    session: Any,
    hooks: list[SessionRunHook],
    fetches: Fetches,
    feed_dict: Any,
    options: Any,
    run_metadata: Any,
) -> tuple[Any, bool]:
    """Run once, with the fetches and feeds of the hooks.

    Returns the values, and whether a hook asked for the end. Raises RuntimeError for a tensor that
    is fed twice.
    """
    from tfjit.protos import RunMetadata, RunOptions

    context = SessionRunContext(SessionRunArgs(fetches, feed_dict), session)
    options = options if options is not None else RunOptions()
    asked: list[Any] = [fetches]
    places: dict[int, int] = {}  # number of a hook -> place of its fetches
    fed: dict[Any, Any] = {}
    for number, hook in enumerate(hooks):
        request = hook.before_run(context)
        if request is None:
            continue
        if request.fetches is not None:
            places[number] = len(asked)
            asked.append(request.fetches)
        if request.feed_dict:
            _check_apart(fed, request.feed_dict, "Same tensor is fed by two hooks.")
            fed.update(request.feed_dict)
        if request.options:
            merge_run_options(options, request.options)
    if fed and feed_dict:
        _check_apart(feed_dict, fed, "Same tensor is fed by a SessionRunHook and user.")
        fed.update(feed_dict)
    # A run without options takes the session's shortest way, and would leave empty metadata.
    plain = options.ByteSize() == 0 and run_metadata is None
    metadata = run_metadata if run_metadata is not None else RunMetadata()
    values = session.run(
        asked,
        feed_dict=fed or feed_dict,
        options=None if plain else options,
        run_metadata=None if plain else metadata,
    )
    for number, hook in enumerate(hooks):
        place = places.get(number)
        result = None if place is None else values[place]
        hook.after_run(context, SessionRunValues(result, options, metadata))
    return values[0], context.stop_requested


def _check_apart(one: Any, other: Any, message: str) -> None:
    both = {key for key in one if key in other}
    if both:
        raise RuntimeError(f"{message} Conflict(s): {list(both)}")
