"""Let the kernel store refuse chosen kernels, for tests of refusals alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource


@contextmanager
def refusing(is_bad: Callable[[KernelSource], bool]) -> Iterator[list[KernelSource]]:
    """Refuse the kernels that are bad, loaded ones included; yield those that were asked for.

    The refusals are forgotten at the end.
    """
    refused: list[KernelSource] = []
    loaded, present = dict(store._loaded), store._load_from_disk
    load_or_queue, load_named = store._load_or_queue, store.load_named
    for source in filter(is_bad, loaded):
        del store._loaded[source]

    lock, over = threading.Lock(), threading.Event()

    def planted_load_or_queue(sources: list[KernelSource]) -> None:
        with lock:  # a thread of the background may come here at the end
            for source in () if over.is_set() else filter(is_bad, sources):
                refused.append(source)
                store.refuse(source, "planted")
        load_or_queue([source for source in sources if over.is_set() or not is_bad(source)])

    def planted_load_named(
        kernels: Iterable[tuple[KernelSource, str]], assembly_names: Mapping[str, str]
    ) -> None:
        load_named([one for one in kernels if not is_bad(one[0])], assembly_names)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_load_or_queue", planted_load_or_queue)
        patch.setattr(store, "load_named", planted_load_named)
        patch.setattr(
            store,
            "_load_from_disk",
            lambda source, key: not is_bad(source) and present(source, key),
        )
        try:
            yield refused
        finally:
            with lock:
                over.set()
                for source in refused:
                    store._refused.pop(source, None)
    store._loaded.update(loaded)
