"""Record the kernels that runs need, and check finished packs.

Both are done in fresh processes. A recording process opens a session over the pack's model, as its
users do, and makes texts for one level of x86-64. It runs no compiled code of that level, which its
CPU may lack: a run that is one step is only lowered, and any other runs on reference kernels.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from tfjit.client.session.session import Session
    from tfjit.kernels.source import KernelSource

_SHAPES: Final = (
    "Inputs of unknown shape need one: --feed NAME=SIZES (`tfjit inspect MODEL` lists the inputs)."
)
_VALUES: Final = "Shapes are fed with zeros; a run that needs others: --feed NAME=FILE.npy."
_REPEATS: Final = 3  # the dataflow executor asks for kernels when shapes recur


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to be packed.

    feeds: by tensor name, a shape or a value. fetches: names of tensors and operations.
    """

    feeds: Mapping[str, tuple[int, ...] | np.ndarray]
    fetches: tuple[str, ...]

    def __str__(self) -> str:
        shapes = {name: getattr(given, "shape", given) for name, given in self.feeds.items()}
        feeds = ", ".join(f"{name}={list(shape)}" for name, shape in shapes.items())
        return f"{', '.join(self.fetches)}{f' for {feeds}' if feeds else ''}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The needs of runs.

    runs: (shape by feed, reason why it is no single step) of each. sources: kernels. texts: (LLVM
    assembly, its functions). plans: splits by fingerprint. stored: contents of the plans by name.
    """

    runs: tuple[tuple[dict[str, tuple[int, ...]], str], ...]
    sources: tuple[KernelSource, ...]
    texts: tuple[tuple[str, tuple[str, ...]], ...]
    plans: Mapping[str, tuple[tuple[str, ...], ...]]
    stored: Mapping[str, bytes] = field(default_factory=dict)


class RunFailed(Exception):
    """A requested run does not work; the message says why."""


def record(
    path: Path, level: str, requests: Sequence[RunRequest], refused: Collection[str] = ()
) -> Recorded:
    """Return the needs of the requested runs of a pack without kernels.

    To be called in a fresh process. refused: digests of kernels that do not compile. Raises
    RunFailed.
    """
    from tfjit.kernels.jit import target
    from tfjit.kernels.jit.store import store
    from tfjit.runtime.stored_plans import plan_warm_start

    os.environ |= {"TFJIT_JIT": "lazy", "TFJIT_STORED_PLANS": "1"}
    target.describe_as(level)
    store.record(refused)
    with _session(path) as session:
        plan_warm_start.record()
        runs = tuple(_record_run(session, request) for request in requests)
        plans = plan_warm_start.recorded()
        stored = _stored_plans(session, level)
    sources, texts = store.recorded()
    return Recorded(runs, tuple(sources), tuple(texts), plans, stored)


def _stored_plans(session: Session, level: str) -> dict[str, bytes]:
    """Return the plans that a session has made, by name."""
    from tfjit.kernels.jit.cache_key import precompiled_key
    from tfjit.runtime.session.direct_session import DirectSession

    def name_of(source: KernelSource) -> str:
        return precompiled_key(source, level)

    runtime = session._runtime_session
    assert isinstance(runtime, DirectSession)
    with runtime.settings():
        found = [variant.packed(name_of) for variant in runtime.variants()]
    return dict(sorted(plan for plan in found if plan is not None))


def _record_run(session: Session, request: RunRequest) -> tuple[dict[str, tuple[int, ...]], str]:
    """Let one run ask for its kernels.

    Returns the shapes of its feeds, and the reason why it is no single step.
    """
    with _named(request, _SHAPES):
        lowered = session.lower(list(request.fetches), _shapes(request))
    with _named(request, _VALUES):
        if not lowered.dynamic_reason:
            lowered.compile()
            return lowered.feed_shapes, ""
        values = feed_values(session, request, lowered.feed_shapes)
        for _ in range(_REPEATS):
            session.run(list(request.fetches), values)
            session.wait_until_compiled()
        return lowered.feed_shapes, lowered.dynamic_reason


@dataclass(frozen=True, slots=True)
class Checked:
    """The numbers of loaded and missing kernels in a fresh process."""

    loaded: int
    missing: int


def check(path: Path, requests: Sequence[RunRequest]) -> Checked:
    """Run a finished pack and count its kernels.

    To be called in a fresh process. Raises RunFailed.
    """
    from tfjit.kernels.jit.store import store

    os.environ |= {"TFJIT_JIT": "lazy", "TFJIT_PRECOMPILED": "0", "TFJIT_STORED_PLANS": "1"}
    with _session(path) as session:
        for request in requests:
            with _named(request, _VALUES):
                lowered = session.lower(list(request.fetches), _shapes(request))
                values = feed_values(session, request, lowered.feed_shapes)
                for _ in range(_REPEATS if lowered.dynamic_reason else 1):
                    session.run(list(request.fetches), values)
                    session.wait_until_compiled()
    counters = store.snapshot()
    return Checked(counters.hits, counters.misses)


def feed_values(
    session: Session, request: RunRequest, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return the requested values of a run's feeds, and zeros for shapes."""
    values = {}
    for name, shape in shapes.items():
        given = request.feeds.get(name)
        if isinstance(given, np.ndarray):
            values[name] = given
            continue
        dtype = session.graph.get_tensor_by_name(name).dtype
        if dtype.name == "string":
            values[name] = np.full(shape, b"", object)
        else:
            values[name] = np.zeros(shape, dtype.as_numpy_dtype)
    return values


def _shapes(request: RunRequest) -> dict[object, object]:
    from tfjit.framework.types.shape import TensorShape

    return {
        name: TensorShape(given) if isinstance(given, tuple) else given
        for name, given in request.feeds.items()
    }


def _session(path: Path) -> Session:
    from tfjit.client.session.session import Session

    return Session(graph=path)


@contextmanager
def _named(request: RunRequest, advice: str) -> Iterator[None]:
    """Raise any failure as RunFailed, which travels between processes."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".rstrip(". \n")
        raise RunFailed(f"{request}: {reason}. {advice}") from None
