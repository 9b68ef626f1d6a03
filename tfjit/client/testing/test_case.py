"""`TestCase`: unit tests with sessions."""

from __future__ import annotations

import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tfjit.client.session.default_session import get_default_session
from tfjit.client.session.session import Session
from tfjit.client.testing.array_assertions import ArrayAssertions
from tfjit.client.testing.checked_thread import CheckedThread
from tfjit.client.testing.container_assertions import ContainerAssertions
from tfjit.client.testing.environment import get_temp_dir, gpu_device_name
from tfjit.client.testing.message_assertions import MessageAssertions
from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.graphs.default_graph import leave_all_graphs, reset_default_graph
from tfjit.framework.graphs.random_seed import set_random_seed
from tfjit.framework.types.device_spec import canonical_name
from tfjit.protos import ConfigProto, RewriterConfig

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import DeviceLike, Message, Structure

_SEED = 87654321  # of TensorFlow's tests


class _Stream(Protocol):
    def fileno(self) -> int: ...

    def flush(self) -> None: ...


class CapturedWrites:
    """The bytes that went to a stream."""

    def __init__(self, path: str) -> None:
        self._path = path

    def contents(self) -> str:
        """Return the text up to now."""
        with open(self._path, encoding="utf-8") as file:
            return file.read()


class TestCase(ArrayAssertions, MessageAssertions, ContainerAssertions):
    """A unit test with sessions and assertions on tensors.

    Each test starts with an empty default graph and the same random seeds.
    """

    __test__ = True

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[CheckedThread] = []
        self._tempdir: str | None = None
        self._cached_session: Session | None = None
        self._cached_arguments: tuple[object, object, bool] | None = None

    def setUp(self) -> None:
        """Empty the default graph and set the random seeds."""
        super().setUp()
        self._close_cached_session()
        random.seed(_SEED)
        np.random.seed(_SEED)
        leave_all_graphs()  # an error in a test may have left one
        reset_default_graph()
        set_random_seed(_SEED)
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")

    def tearDown(self) -> None:
        """Check the threads and close the cached session."""
        for thread in self._threads:
            thread.check_termination()
        self._close_cached_session()
        super().tearDown()

    def _close_cached_session(self) -> None:
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None

    def get_temp_dir(self) -> str:
        """Return a folder of this test, the same each time.

        It is deleted at the end of the process.
        """
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(dir=get_temp_dir())
        return self._tempdir

    # sessions

    @contextmanager
    def session(
        self,
        graph: Graph | None = None,
        config: Message = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """Give a new session as the default one, with its graph.

        use_gpu: False places operations on the CPU. force_gpu: place them on the first GPU, or
        fail.
        """
        made = Session(graph=graph, config=_configured(config, force_gpu))
        with made, _placed(made, use_gpu, force_gpu):
            yield made

    @contextmanager
    def cached_session(
        self,
        graph: Graph | None = None,
        config: Message = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """Give the session of this test, made at the first call.

        It is closed at the end of the test.

        Arguments are as of `session`. Raises ValueError for others than at the first call.
        """
        made = self._cached(graph, config, force_gpu, True)
        with _placed(made, use_gpu, force_gpu):
            yield made

    @contextmanager
    def test_session(
        self,
        graph: Graph | None = None,
        config: Message = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """Give `session` for a graph, else `cached_session` whatever the arguments are."""
        if graph is not None:
            with self.session(graph, config, use_gpu, force_gpu) as made:
                yield made
        else:
            made = self._cached(graph, config, force_gpu, False)
            with _placed(made, use_gpu, force_gpu):
                yield made

    def _cached(
        self, graph: Graph | None, config: Message, force_gpu: bool, strict: bool
    ) -> Session:
        if self._cached_session is None or self._cached_arguments is None:
            self._cached_session = Session(graph=graph, config=_configured(config, force_gpu))
            self._cached_arguments = (graph, config, force_gpu)
            return self._cached_session
        names = ("graph", "config", "force_gpu value")
        for name, value, first in zip(
            names, (graph, config, force_gpu), self._cached_arguments, strict=True
        ):
            if strict and value is not first:
                raise ValueError(
                    f"The {name} used to get the cached session is different than the one that "
                    "was used to create the session. Maybe create a new session with "
                    "self.session()"
                )
        return self._cached_session

    def evaluate(self, tensors: Structure) -> Structure:
        """Return the values of tensors in the default or cached session."""
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.test_session() as cached:
            return cached.run(tensors)

    # errors, devices, threads, streams

    @contextmanager
    def assertRaisesWithPredicateMatch(
        self,
        exception_type: type[Exception],
        expected_err_re_or_predicate: str | Callable[[Exception], object],
    ) -> Iterator[None]:
        """Assert that the block raises an error that fits.

        expected_err_re_or_predicate: a function of the error, or a pattern that its message has.
        """
        expected = expected_err_re_or_predicate
        try:
            yield
        except Exception as error:
            text = error.message if isinstance(error, OpError) else str(error)
            fits = expected(error) if callable(expected) else re.search(expected, text)
            if not isinstance(error, exception_type) or not fits:
                raise AssertionError(f"Exception of type {type(error)}: {error}") from error
        else:
            self.fail(f"{exception_type.__name__} not raised")

    def assertRaisesOpError(
        self, expected_err_re_or_predicate: str | Callable[[Exception], object]
    ) -> Structure:
        """Assert that the block raises an OpError that fits."""
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(
        self, exception_type: type[Exception] = InvalidArgumentError
    ) -> Structure:
        """Assert that the block raises an error about shapes."""
        pattern = "Incompatible shapes|Dimensions must be equal|required broadcastable shapes"
        return self.assertRaisesWithPredicateMatch(exception_type, pattern)

    def assertDeviceEqual(
        self, device1: DeviceLike, device2: DeviceLike, msg: object = None
    ) -> None:
        """Assert that two names stand for the same device."""
        first, second = canonical_name(device1), canonical_name(device2)
        self.assertEqual(first, second, f"Devices {first} and {second} are not equal. {msg}")

    def checkedThread(
        self,
        target: Callable[..., object],
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> CheckedThread:
        """Return a thread that has to be joined.

        Its errors fail this test then.
        """
        thread = CheckedThread(self, target, args or (), kwargs or {})
        self._threads.append(thread)
        return thread

    @contextmanager
    def captureWritesToStream(self, stream: _Stream) -> Iterator[CapturedWrites]:
        """Collect the writes to a stream's file, those of native code too."""
        stream.flush()
        number = stream.fileno()
        handle, path = tempfile.mkstemp(dir=self.get_temp_dir())
        original = os.dup(number)
        os.dup2(handle, number)
        try:
            yield CapturedWrites(path)
        finally:
            stream.flush()
            os.dup2(original, number)
            os.close(handle)
            os.close(original)


def _configured(config: Message, force_gpu: bool) -> Message:
    """Return a ConfigProto for tests: graphs run as they were built."""
    made = ConfigProto()
    if config is not None:
        made.MergeFromString(config.SerializeToString())
        made.allow_soft_placement = made.allow_soft_placement and not force_gpu
    else:
        made.allow_soft_placement = not force_gpu
    options: Structure = made.graph_options
    options.optimizer_options.opt_level = -1
    options.rewrite_options.constant_folding = RewriterConfig.OFF
    options.rewrite_options.pin_to_host_optimization = RewriterConfig.OFF
    return made


@contextmanager
def _placed(session: Session, use_gpu: bool, force_gpu: bool) -> Iterator[None]:
    device = None if use_gpu else "/device:CPU:0"
    if force_gpu:
        device = gpu_device_name() or "/device:GPU:0"
    graph: Graph = session.graph
    with graph.as_default(), session.as_default():
        if device is None:
            yield
        else:
            with graph.device(device):
                yield
