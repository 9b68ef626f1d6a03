"""The session on a cluster.

It keeps a graph at a master, which plans and runs it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import numpy as np

from tfjit.distributed.channels.channels import SCHEME, Channel, address_of
from tfjit.distributed.channels.remote_worker import request_id
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.interfaces import MasterInterface, StepCall
from tfjit.distributed.session.remote_master import RemoteMaster
from tfjit.framework import errors
from tfjit.framework.env import DEFAULT_ENV
from tfjit.framework.types.dtypes import DType
from tfjit.runtime.factory import SessionFactory, SessionOptions
from tfjit.runtime.host import fork_safety
from tfjit.runtime.resources.device_tensor import DeviceTensor
from tfjit.runtime.session import rewriter_config
from tfjit.runtime.session_interface import PlanCounters, Runner, SessionInterface
from tfjit.runtime.step.memory_planner import OutputRecycler

_LARGE: Final = 1 << 18
"""The bytes of a fetched value from which on its memory is kept for later ones."""
_END_S: Final = 5.0
"""The seconds in which the steps of a closed session are to end, before their calls are cut."""


class GrpcSession(SessionInterface):
    """A session whose graph a master plans and runs.

    Its target is "grpc://host:port".

    A master of this process is called without gRPC. Raises InvalidArgumentError for a target that
    names no host and port, UnavailableError for one that cannot be reached, UnimplementedError
    without grpcio. Thread-safe.
    """

    def __init__(self, options: SessionOptions) -> None:
        _check_options(options)
        config = _with_passes(options)
        timeout_ms = config.operation_timeout_in_ms if config is not None else 0
        self._channel, self._master = _master_of(options.target, timeout_ms)
        self._default_options = _with_limit(None, timeout_ms)
        self._timeout_ms = timeout_ms
        self._graph_lock = threading.Lock()
        self._has_graph = False
        self._closed = False
        self._running = 0
        self._idle = threading.Condition()
        self._callable_feeds: dict[int, int] = {}
        self._recycler = OutputRecycler()
        self._process = os.getpid()
        fork_safety.watch(self)
        try:
            self.handle, self._version = self._master.create_session(
                _graph_def(), config, options.target
            )
        except BaseException:
            self._disconnect()
            raise

    # the graph

    def create(self, graph_def: Any) -> None:
        if self._has_graph:
            raise errors.AlreadyExistsError(
                None, None, "A Graph has already been created for this session."
            )
        self.extend(graph_def)

    def extend(self, graph_def: Any) -> None:
        self._check_open()
        with self._graph_lock:
            self._version = self._master.extend_session(
                self.handle, _graph_def(graph_def), self._version
            )
            self._has_graph = True

    # steps

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a step of this session, which `destroy` waits for."""
        with self._idle:
            self._check_open()
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                if self._closed:
                    self._idle.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.CancelledError(None, None, "Session has been closed.")
        if self._process != os.getpid():
            # gRPC's threads are the parent's, so a call would wait for ever
            raise errors.FailedPreconditionError(
                None,
                None,
                "A session on a cluster does not work in a child that was forked after it was "
                "made: start the process by 'spawn', and make a session there.",
            )

    def _step(self, call: StepCall, metadata: Any = None) -> list[Any]:
        with self._counted():
            values, found = self._master.run_step(call)
        if metadata is not None and found is not None:
            metadata.CopyFrom(found)
        return [self._owned(value) for value in values]

    def _owned(self, value: Any) -> Any:
        """Return a fetched value as the caller's own.

        It is a scalar, or an array that may be written.
        """
        if not isinstance(value, np.ndarray):
            return value
        if not value.ndim:
            return value[()]
        if value.flags.writeable and self._channel is not None:
            return value  # it came in memory of its own
        if value.nbytes < _LARGE or value.dtype.hasobject:
            return np.array(value)
        # the first writes to new memory take longer than the copy itself
        made = self._recycler.empty(value.shape, value.dtype)
        made[...] = value
        return made

    def _fed(self, value: Any) -> Any:
        """Return a feed's value; a master of this process gets a copy."""
        if isinstance(value, DeviceTensor):
            return value.numpy()
        if self._channel is None and isinstance(value, np.ndarray):
            return np.array(value, order="C")
        return value

    def run(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: Any = None,
        metadata: Any = None,
    ) -> list[Any]:
        unique = list(dict.fromkeys(fetches))
        call = StepCall(
            self.handle,
            [(name, self._fed(value)) for name, value in feeds],
            unique,
            targets,
            self._default_options if options is None else _with_limit(options, self._timeout_ms),
            request_id=request_id(),
        )
        return _repeated(self._step(call, metadata), unique, fetches)

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> Runner:
        self._check_open()
        names, wanted, ran = tuple(feeds), tuple(dict.fromkeys(fetches)), tuple(targets)
        every = list(fetches)

        def runner(values: Sequence[Any]) -> list[Any]:
            fed = [(name, self._fed(value)) for name, value in zip(names, values, strict=True)]
            call = StepCall(
                self.handle, fed, wanted, ran, self._default_options, request_id=request_id()
            )
            found = self._step(call)
            return found if len(found) == len(every) else _repeated(found, wanted, every)

        return runner

    def partial_run_setup(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> str:
        with self._counted():
            return self._master.partial_run_setup(
                self.handle, feeds, list(dict.fromkeys(fetches)), targets, request_id()
            )

    def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> list[Any]:
        unique = list(dict.fromkeys(fetches))
        call = StepCall(
            self.handle,
            [(name, self._fed(value)) for name, value in feeds],
            unique,
            (),
            self._default_options,
            partial_run=handle,
            request_id=request_id(),
        )
        return _repeated(self._step(call), unique, fetches)

    def make_callable(self, options: Any) -> int:
        with self._counted():
            handle = self._master.make_callable(self.handle, options, request_id())
        self._callable_feeds[handle] = len(options.feed)
        return handle

    def run_callable(self, handle: int, values: Sequence[Any], metadata: Any = None) -> list[Any]:
        expected = self._callable_feeds.get(handle)
        # TensorFlow's master does not survive a callable that gets fewer values than it has feeds
        if expected is not None and expected != len(values):
            raise errors.InvalidArgumentError(
                None, None, f"Expected {expected} feed tensors, but got {len(values)}"
            )
        with self._counted():
            found, about = self._master.run_callable(
                self.handle, handle, [self._fed(value) for value in values], request_id()
            )
        if metadata is not None and about is not None:
            metadata.CopyFrom(about)
        return [self._owned(value) for value in found]

    def release_callable(self, handle: int) -> None:
        self._callable_feeds.pop(handle, None)
        with self._counted():
            self._master.release_callable(self.handle, handle)

    # arrays in other memory

    def receive(self, value: object, dtype: DType, name: str) -> object:
        raise errors.UnimplementedError(
            None,
            None,
            f"Tensor {name} is fed an array in device memory, and a session on a cluster takes "
            "arrays of the host: copy it first, by its `numpy()` for example.",
        )

    def session_tensor(self, handle: str) -> tuple[DType, Any]:
        raise errors.UnimplementedError(
            None,
            None,
            "A session on a cluster takes no handle for the value of a feed: fetch the tensor "
            "itself, or keep it in a variable.",
        )

    def delete_session_tensors(self, handles: Sequence[str]) -> None:
        """Leave kept tensors to the master, which drops them with the session."""

    # plans, which are the master's

    def explain(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        measure: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> Any:
        _only_in_process("explain")

    def lower(
        self, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str], targets: Sequence[str]
    ) -> Any:
        _only_in_process("lower")

    def plan_counters(self) -> PlanCounters:
        _only_in_process("plan_counters")

    def wait_until_compiled(self, timeout: float | None = None) -> bool:
        _only_in_process("wait_until_compiled")

    # life

    def list_devices(self) -> list[Any]:
        with self._counted():
            local, remote = self._master.list_devices(self.handle)
        return [*local, *remote]

    def close(self) -> None:
        """End the session at the master, which cancels its steps.

        Closing twice is fine.

        Raises AbortedError where the master does not know the session any more, UnavailableError
        where it cannot be reached.
        """
        with self._idle:
            if self._closed:
                return
            self._closed = True
        if self._process == os.getpid():
            self._master.close_session(self.handle)

    def destroy(self) -> None:
        """Disconnect; steps that have not ended by now are given up."""
        with self._idle:
            if self._channel is not None and self._process == os.getpid():
                self._idle.wait_for(lambda: not self._running, _END_S)
        self._disconnect()
        self._recycler.clear()

    def after_fork(self) -> None:
        """Reset the locks in a forked child.

        It can only drop the session.
        """
        self._idle = threading.Condition()
        self._graph_lock = threading.Lock()
        self._recycler.after_fork()

    def _disconnect(self) -> None:
        if self._channel is not None and self._process == os.getpid():
            self._channel.close()


class GrpcSessionFactory(SessionFactory):
    """Make sessions for targets "grpc://host:port"."""

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith(SCHEME)

    def make_session(self, options: SessionOptions) -> SessionInterface:
        return GrpcSession(options)

    def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        config = options.config
        timeout_ms = config.operation_timeout_in_ms if config is not None else 0
        channel, master = _master_of(options.target, timeout_ms)
        try:
            master.reset(list(containers), list(config.device_filters) if config else [])
        finally:
            if channel is not None:
                channel.close()


def _master_of(target: str, timeout_ms: int) -> tuple[Channel | None, MasterInterface]:
    """Return (channel or None, master) of a target.

    A master of this process has no channel.
    """
    address = address_of(target)
    local = local_tasks.find_master(address)
    if local is not None:
        return None, local
    channel = Channel(address)
    return channel, RemoteMaster(channel, timeout_ms / 1000 if timeout_ms > 0 else None)


def _check_options(options: SessionOptions) -> None:
    """Raise UnimplementedError for options that a session in another process cannot have."""
    given = {
        "session_resource": options.session_resource is not None,
        "custom_kernel_creator": options.custom_kernel_creator is not None,
        "env (with files of its own, as a pack's)": options.env.files is not DEFAULT_ENV.files,
    }
    for name, is_given in given.items():
        if is_given:
            raise errors.UnimplementedError(
                None,
                None,
                f"SessionOptions.{name} is for sessions of this process, with the target ''; a "
                f"session at {options.target} runs in its servers.",
            )


def _with_passes(options: SessionOptions) -> Any:
    """Return the session's ConfigProto with the text of its pipeline.

    Master and workers read it.

    Raises InvalidArgumentError for a pass that is not registered by name.
    """
    config = options.config
    if options.passes is None:
        return config
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.protos import ConfigProto

    made = ConfigProto()
    if config is not None:
        made.CopyFrom(config)
    rewriter = made.graph_options.rewrite_options
    entry = rewriter.custom_optimizers.add(name=rewriter_config.PIPELINE)
    entry.parameter_map["text"].s = Pipeline.of(options.passes).to_text().encode()
    if config is None:
        rewriter.fail_on_optimizer_errors = True
    rewriter_config.check_names(rewriter)
    return made


def _graph_def(graph_def: Any = None) -> Any:
    """Return a GraphDef as tfjit's; an empty one for None."""
    from tfjit.protos import GraphDef

    if graph_def is None:
        return GraphDef()
    if isinstance(graph_def, GraphDef):
        return graph_def
    return GraphDef.FromString(graph_def.SerializeToString())


def _with_limit(options: Any, timeout_ms: int) -> Any:
    """Return RunOptions, with the session's time limit by default."""
    if timeout_ms <= 0 or (options is not None and options.timeout_in_ms):
        return options
    from tfjit.protos import RunOptions

    made = RunOptions()
    if options is not None:
        made.CopyFrom(options)
    made.timeout_in_ms = timeout_ms
    return made


def _repeated(values: list[Any], names: Sequence[str], fetches: Sequence[str]) -> list[Any]:
    """Return the values for fetches that may name one twice."""
    if len(names) == len(fetches):
        return values
    found = dict(zip(names, values, strict=True))
    return [found[name] for name in fetches]


def _only_in_process(method: str) -> NoReturn:
    raise errors.UnimplementedError(
        None,
        None,
        f"Session.{method} is for sessions of this process: the servers of a cluster plan their "
        "parts themselves. Make a Session without a target over the same graph.",
    )


__all__ = ["GrpcSession", "GrpcSessionFactory"]
