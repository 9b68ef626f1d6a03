"""Define the session: `run` and its fast path, callables, partial runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tfjit.client.session import cluster_targets
from tfjit.client.session.callables import OptionsCallable, make_callable
from tfjit.client.session.dead_handles import DeadHandles
from tfjit.client.session.default_session import DefaultSession
from tfjit.client.session.device_attributes import DeviceAttributes
from tfjit.client.session.feeds import (
    ResolvedFeeds,
    feed_slot,
    is_nested,
    partial_feeds,
    placeholders_behind,
    resolve_feeds,
)
from tfjit.client.session.fetches import (
    FetchMapper,
    is_converted,
    is_flat,
    is_leaf,
    is_sparse_tensor,
)
from tfjit.client.session.graph_sources import (
    graph_from,
    soft_config,
    to_config,
)
from tfjit.client.session.pack_file import pack_path
from tfjit.client.session.run_entries import (
    Entry,
    Resolved,
    entry_by_dict,
    is_quantized,
    leaf_values,
)
from tfjit.client.session.run_errors import explained
from tfjit.client.session.sent_graph import SentGraph
from tfjit.client.session.tensor_handles import feed_handles, fetch_handles, makes_handle
from tfjit.client.session.tensorflow_interop import (
    SessionBase,
    graph_hint,
    join_tensorflow,
    places_softly,
)
from tfjit.framework import errors, settings
from tfjit.runtime.factory import SessionOptions, new_session
from tfjit.runtime.factory import reset as factory_reset
from tfjit.runtime.session_interface import PlanCounters, SessionInterface

if TYPE_CHECKING:
    from tfjit.client.session.stages import Lowered
    from tfjit.framework.graphs.typing import FeedDict, Fetches, Message, Structure
    from tfjit.passes.manager.pipeline_spec import Pipeline

    Passes = Pipeline | str | os.PathLike[str] | None

_MAX_ENTRIES = 4096


class BaseSession(SessionBase):
    """A session over one graph.

    target: '' runs in this process, "grpc://host:port" on a cluster. graph: a tfjit Graph, a
    `tf.Graph`, a GraphDef or MetaGraphDef message, its bytes, a path to one, or a path to a pack
    (`tfjit pack`), which brings kernels, variables and tables; None takes the default graph:
    tfjit's own, or TensorFlow's if that has operations, tfjit's has none and no `as_default` block
    of a tfjit graph is open.
    config: a ConfigProto of tfjit or TensorFlow, or its bytes. options: a SessionOptions for
    settings that a config lacks (env, session_resource, custom_kernel_creator); `target` and
    `config` win over its own where they are given. passes: the pipeline of the passes
    (`tfjit.passes.Pipeline`), its text as in "default without cse", or the path of its file. A
    pass of the user's that fails, fails the run, unless a config is given and does not set
    `fail_on_optimizer_errors`. Raises NotFoundError when no session factory
    serves the target, TypeError for a graph or config of another type.
    """

    def __init__(
        self,
        target: str | bytes | None = "",
        graph: object = None,
        config: object = None,
        *,
        options: SessionOptions | None = None,
        passes: Passes = None,
    ) -> None:
        # until the runtime session stands: a failed constructor leaves nothing to close
        self._closed = True
        self._runtime_session: SessionInterface | None = None
        self._destroyed = False
        if target is not None and not isinstance(target, (str, bytes)):
            swapped = type(target).__name__ == "ConfigProto"
            raise TypeError(
                f'Argument `target` must be a string, but got "{type(target).__name__}"'
                + (
                    '. Did you do "Session(config)" instead of "Session(config=config)"?'
                    if swapped
                    else ""
                )
            )
        if options is None:
            options = SessionOptions()
        elif not isinstance(options, SessionOptions):
            raise TypeError(
                f"Argument `options` must be a tfjit.SessionOptions, got {type(options).__name__}"
            )
        self._target = (
            None if target is None else target.encode() if isinstance(target, str) else target
        )
        packed = pack_path(graph)
        if packed is not None:
            from tfjit.client.session import packed_session

            pack = packed_session.opened(packed)
            options = packed_session.with_files(options, pack)
            graph = packed_session.graph_def_of(pack)
        if passes is not None:
            options = replace(options, passes=passes)
        self._graph = graph_from(graph)
        join_tensorflow(BaseSession)
        self._config = to_config(config if config is not None else options.config)
        if self._config is None and places_softly(self._graph):
            self._config = soft_config()
        self._entries: dict[Any, tuple[Entry, Any]] = {}
        runtime_session = new_session(
            replace(
                options,
                target=(self._target or b"").decode() or options.target,
                config=self._config,
            )
        )
        add_shapes = self._config is not None and self._config.graph_options.infer_shapes
        self._sent = SentGraph(self._graph, runtime_session, add_shapes)
        self._dead_handles = DeadHandles(runtime_session)
        self._runtime_session = runtime_session
        self._closed = False
        self._variables = options.env.variables
        if packed is not None:
            packed_session.start(self, pack)

    @property
    def graph(self) -> Any:
        """The graph this session runs."""
        return self._graph

    @property
    def graph_def(self) -> Message:
        """A serialisable version of the graph (GraphDef)."""
        return self._graph.as_graph_def()

    @property
    def sess_str(self) -> bytes | None:
        """The target in bytes, as TensorFlow keeps it, or None."""
        return self._target

    def list_devices(self) -> list[Message]:
        """Return the devices of the session.

        They have name, device_type, memory_limit_bytes and incarnation.
        """
        assert self._runtime_session is not None
        return [
            DeviceAttributes.of_message(device) for device in self._runtime_session.list_devices()
        ]

    def run(
        self,
        fetches: Any,
        feed_dict: FeedDict | None = None,
        options: Message = None,
        run_metadata: Message = None,
    ) -> Any:
        """Run the nodes that `fetches` need and return the fetched values.

        Values come in the structure of `fetches`.

        fetches: a Tensor, Operation, name, or any nesting of lists, tuples, dicts, namedtuples,
        attrs classes of them. feed_dict: tensor (or its name) -> value. options: RunOptions.
        run_metadata: RunMetadata, filled in. Scalars come back as NumPy scalars, strings as bytes,
        operations as None. Raises RuntimeError after `close`, TypeError and ValueError for fetches
        or feeds that do not fit, OpError for failures in the step.
        """
        if options is None and run_metadata is None:
            kind = type(fetches)
            fetch_key: Any = (
                (kind, *map(id, fetches)) if kind is list or kind is tuple else id(fetches)
            )
            key = (fetch_key, *map(id, feed_dict)) if feed_dict else fetch_key
            cached = self._entries.get(key)
            if cached is not None:
                try:
                    return cached[0](feed_dict)
                except errors.OpError as error:
                    self._raise(error)
                except AttributeError:
                    resolve_feeds(self._graph, feed_dict)  # a set of the same keys, for example
                    raise
            return self._run_new(key, fetches, feed_dict)
        return self._run_with_options(fetches, feed_dict, options, run_metadata)

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self._graph.version == 0:
            hint = graph_hint(self._graph)
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling "
                f"run().{hint}"
            )

    def _extend(self) -> None:
        """Send each new node of the graph to the runtime session once.

        Several threads may call this.
        """
        try:
            self._sent.extend()
        except errors.InvalidGraphError as error:
            raise explained(error, self._graph, self._closed) from None

    def _run_new(self, key: object, fetches: Fetches, feed_dict: FeedDict | None) -> Structure:
        self._check_usable()
        entry, keep = self._make_entry(fetches, feed_dict)
        if keep is not None:
            if len(self._entries) >= _MAX_ENTRIES:
                self._entries.clear()
            self._entries[key] = (entry, keep)
        try:
            return entry(feed_dict)
        except errors.OpError as error:
            self._raise(error)

    def _make_entry(self, fetches: Any, feed_dict: FeedDict | None) -> tuple[Entry, object]:
        """Return the entry of `run` for these fetches and feed keys.

        The second result must be kept alive for the ids in its cache key to stay valid (None: not
        cacheable, since the structure could change under the same ids).
        """
        stable = is_flat(fetches) and all(
            is_leaf(k) or is_sparse_tensor(k) for k in feed_dict or ()
        )
        keep = (
            (
                fetches if type(fetches) not in (list, tuple) else tuple(fetches),
                tuple(feed_dict or ()),
            )
            if stable
            else None
        )
        return entry_by_dict(self._resolve(fetches, feed_dict)), keep

    def _feeds_and_fetches(
        self, feed_dict: FeedDict | None, fetches: Fetches
    ) -> tuple[ResolvedFeeds, FetchMapper]:
        """Return the fed slots and the fetched elements of a run.

        Of two faults, the feed's is raised, as in TensorFlow.
        """
        feeds = feed_handles(self, resolve_feeds(self._graph, feed_dict))
        mapper = FetchMapper(self._graph, fetches)
        fetch_handles(self, mapper)
        return feeds, mapper

    def _resolve(self, fetches: Fetches, feed_dict: FeedDict | None) -> Resolved:
        """Resolve fetches and feed keys; send new nodes to the runtime session."""
        backend = self._runtime_session
        assert backend is not None
        feeds, mapper = self._feeds_and_fetches(feed_dict, fetches)
        self._extend()
        fed = {slot.name: i for i, (slot, _, _) in enumerate(feeds)}
        leaves = mapper.leaves
        tensors, targets = mapper.tensors(fed), mapper.targets()
        runner = backend.prepare(list(fed), tensors, targets) if tensors or targets else None
        form: Literal["one", "list", "any"] = "any"
        direct = len(feeds) == len(feed_dict or ()) and not any(
            is_nested(key) or is_converted(key) for key in feed_dict or ()
        )
        plain = not any(is_quantized(leaf) or makes_handle(leaf) for leaf in leaves)
        if direct and plain and len(tensors) == len(leaves) and is_flat(fetches):
            if len(leaves) == 1 and type(fetches) not in (list, tuple):
                form = "one"
            elif type(fetches) is list and len(leaves) == len(fetches):
                form = "list"
        return Resolved(
            leaves,
            mapper.rebuild,
            [slot for slot, _, _ in feeds],
            [get for _, get, _ in feeds],
            fed,
            runner,
            form,
        )

    def _run_with_options(
        self, fetches: Fetches, feed_dict: FeedDict | None, options: Message, run_metadata: Message
    ) -> Structure:
        from tfjit.client.session.graph_sources import copy_into, to_run_options
        from tfjit.protos import RunMetadata

        self._check_usable()
        assert self._runtime_session is not None
        feeds, mapper = self._feeds_and_fetches(feed_dict, fetches)
        self._extend()
        metadata = RunMetadata() if run_metadata is not None else None
        try:
            arrays = {slot.name: slot.convert(get(feed_dict or {})) for slot, get, _ in feeds}
            tensors, targets = mapper.tensors(arrays), mapper.targets()
            results: list[Any] = []
            if tensors or targets:
                results = self._runtime_session.run(
                    list(arrays.items()), tensors, targets, to_run_options(options), metadata
                )
        except errors.OpError as error:
            self._raise(error)
        if run_metadata is not None:
            copy_into(metadata, run_metadata)
        return mapper.rebuild(leaf_values(mapper.leaves, arrays, results))

    def make_callable(
        self,
        fetches: Fetches,
        feed_list: Sequence[object] | None = None,
        accept_options: bool = False,
    ) -> Callable[..., Any]:
        """Return a function of the values of `feed_list` that runs `fetches`.

        It takes the values in order, and options= and run_metadata=. Extra arguments are ignored,
        missing ones leave their placeholder unfed. accept_options: every function accepts them.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError(
                f"Argument `feed_list` must be a list or tuple. Received: feed_list={feed_list}"
            )
        self._check_usable()
        if feed_list is None:
            # raises for unfetchable values now; with feeds, the first call does
            FetchMapper(self._graph, fetches)
        return make_callable(self, fetches, list(feed_list or ()))

    def _make_callable_from_options(self, callable_options: Message) -> OptionsCallable:
        """Return a function of the options' feeds.

        callable_options: CallableOptions of tfjit or TensorFlow.
        """
        self._check_usable()
        self._extend()
        return OptionsCallable(self, callable_options)

    def partial_run_setup(self, fetches: Fetches, feeds: object = None) -> str:
        """Start a step to be fed and fetched in parts by `partial_run`.

        Returns its handle. feeds: a tensor (or name) or a list of them.
        """
        self._check_usable()
        assert self._runtime_session is not None
        slots = partial_feeds(self._graph, feeds)
        mapper = FetchMapper(self._graph, fetches)
        self._extend()
        try:
            return self._runtime_session.partial_run_setup(
                [slot.name for slot in slots],
                mapper.tensors(),
                mapper.targets(),
            )
        except errors.OpError as error:
            self._raise(error)

    def partial_run(
        self, handle: str, fetches: Fetches, feed_dict: FeedDict | None = None
    ) -> Structure:
        """Continue the step `handle` with more feeds and fetches."""
        self._check_usable()
        assert self._runtime_session is not None
        feeds, mapper = self._feeds_and_fetches(feed_dict, fetches)
        targets = [leaf.element for leaf in mapper.leaves if leaf.is_operation]
        if targets:
            raise RuntimeError(
                f"partial_run() requires empty `target_list`. Received: target_list={targets} "
                "(non-empty)"
            )
        try:
            arrays = {slot.name: slot.convert(get(feed_dict or {})) for slot, get, _ in feeds}
            tensors = mapper.tensors(arrays)
            results = (
                self._runtime_session.partial_run(handle, list(arrays.items()), tensors)
                if arrays or tensors
                else []
            )
        except errors.OpError as error:
            self._raise(error)
        return mapper.rebuild(leaf_values(mapper.leaves, arrays, results))

    def explain(
        self,
        fetches: Fetches,
        feed_shapes: Mapping[Any, Any] | None = None,
        measure: bool = False,
        feed_dict: FeedDict | None = None,
    ) -> Any:
        """Explain the plan: passes, fused groups and each node's kernel.

        feed_shapes: tensor or name -> the shape of its value, or a value. A tuple or list of ints
        and None, a TensorShape and a TensorSpec are shapes, with 1 for an unknown size; any other
        is a value, as `run` takes it. A placeholder not named has its own shape. measure: run
        the step to time each kernel in place, beside its prediction and this machine's limits;
        variables keep their values. feed_dict: values to run with, whose shapes count too; other
        feeds are made up. Raises TypeError or
        ValueError for a feed that is neither a shape nor a value of its tensor.
        """
        self._check_usable()
        assert self._runtime_session is not None
        mapper = FetchMapper(self._graph, fetches)
        self._extend()
        from tfjit.client.session.stages import explained_feeds

        feeds, values = explained_feeds(self, feed_shapes, feed_dict)
        for tensor in placeholders_behind([leaf.element for leaf in mapper.leaves], set(feeds)):
            feeds[tensor.name] = tuple(d or 1 for d in feed_slot(tensor).shape or ())
        return self._runtime_session.explain(
            list(feeds.items()), mapper.tensors(), mapper.targets(), measure, values
        )

    def lower(self, fetches: Fetches, feeds: Mapping[object, object] | None = None) -> Lowered:
        """Lower a run for feeds of known shapes.

        Nothing is run or compiled. fetches: as `run` takes them. feeds: tensor (or its name) -> a
        value, whose shape counts, or a TensorSpec or TensorShape whose sizes are all known; a
        placeholder not named takes its own shape. Returns a Lowered: its `as_text` shows the graph,
        instructions, step and kernels, its `cost_analysis` what they should take, and its `compile`
        gives a function of a feed_dict. Raises ValueError for shapes that are not known, else what
        `run` raises before a step.
        """
        self._check_usable()
        from tfjit.client.session.stages import lower

        return lower(self, fetches, feeds)

    def wait_until_compiled(self, timeout: float | None = None) -> bool:
        """Wait until every plan that has run has its fastest form.

        timeout: seconds, None for no limit. Returns True then, and False when the time is over
        first. Plans that stay on reference kernels count as done: `tfjit.compile_status` names
        them. Raises RuntimeError for a closed session, CancelledError when it is closed meanwhile.
        """
        self._check_usable()
        assert self._runtime_session is not None
        return self._runtime_session.wait_until_compiled(timeout)

    def plan_counters(self) -> PlanCounters:
        """Return the counts of the plan cache.

        They are plans and variants held, hits, misses, evictions.
        """
        self._check_usable()
        assert self._runtime_session is not None
        return self._runtime_session.plan_counters()

    def _raise(self, error: errors.OpError) -> NoReturn:
        """Raise the error as the client does.

        That is without the runtime's frames, or from the error that has them
        (TFJIT_FULL_TRACEBACK).
        """
        made = explained(error, self._graph, self._closed)
        with settings.using(self._variables):
            full = settings.flag("TFJIT_FULL_TRACEBACK")
        try:
            if made is not error:
                raise made from (error if full else None)
            raise error if full else error.with_traceback(None) from None
        finally:
            # this frame is part of the error's traceback: the error would hold itself
            del made, error

    def _register_dead_handle(self, handle: str) -> None:
        """Delete the tensor of an unreferenced handle, together with others."""
        self._dead_handles.add(handle)

    # life

    def close(self) -> None:
        """Cancel running steps and free resources.

        The session cannot be used afterwards. Closing twice is fine.
        """
        if self._destroyed or self._runtime_session is None:
            return
        self._closed = True
        self._dead_handles.close()
        self._entries.clear()
        try:
            self._runtime_session.close()
        except errors.OpError:  # a server that is gone: the rest is freed all the same
            self._destroy()
            raise
        self._destroy()

    def _destroy(self) -> None:
        assert self._runtime_session is not None
        self._runtime_session.destroy()
        self._destroyed = True  # an interrupted close can be called again

    def as_default(self) -> DefaultSession:
        """Return a context manager that makes this the default session.

        The default is the thread's; leaving it does not close the session.
        """
        return DefaultSession(self)

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():
            # daemon threads, which a close would wait for, no longer run; the process frees all its
            # memory
            return
        try:  # noqa: SIM105  what goes wrong here nobody could handle
            self.close()
        except Exception:
            pass

    @staticmethod
    def reset(
        target: str, containers: Sequence[str] | None = None, config: Message | None = None
    ) -> None:
        """Clear resource containers on `target` and close its sessions."""
        factory_reset(
            SessionOptions(target=target or "", config=to_config(config)), list(containers or ())
        )


cluster_targets.register()
