"""The benchmarks' graphs beside TensorFlow: fused on one and eight threads and unfused on two,
compiled before the first run; by references.

What a graph leaves open is fed smaller than a benchmark feeds it, but large enough for several
chunks. No time is judged here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tfjit
from benchmarks import __main__ as command
from benchmarks.candidates import Tfjit, TfjitUnfused
from benchmarks.harness import check, graph_bytes, outputs_of
from benchmarks.peers.tensorflow import Default
from benchmarks.workload import Feeds, Workload
from tfjit.lab.peers.tensorflow_graph import imported
from tfjit.runtime.schedule import kernel_selection

LEFT_OUT = {
    "MobileNetV2 224, batch 1": "Keras takes a minute to build it; MobileNetV2 at 96x96 is here",
    "ResNet50 224, batch 1": "Keras takes a minute to build it; its kinds of layers are here",
    "random elementwise DAG of 10k nodes": "the graph of 1k nodes is drawn by the same function",
    "random elementwise DAG of 100k nodes": "the graph of 1k nodes is drawn by the same function",
}
# its many groups of small tensors are beyond a plan's limit, which is lower here: on eight threads
FEW_KERNELS = ("random elementwise DAG of 1k nodes",)


class References(Tfjit):
    """No run is faster than the first one: nothing is to be warmed up."""

    def warm(self, bound: Any, feeds: Feeds) -> None:
        pass


# a pool of one thread never lets two functions meet
MEETING = "inter_op: two functions that meet"

KINDS = {"fused": Tfjit, "unfused": TfjitUnfused, "references": References}
THREADS = {"fused": (1, 8), "unfused": (2,), "references": (1,)}
# what an open dimension is cut to, where it is that long: of a vector, and of rows and columns
BIG, SMALL = 100_003, 509

WORKLOADS = {
    f"{script}: {w.name}": w
    for script, workloads in command.scripts().items()
    if script != "ops"  # single ops have tests of their kernels
    for w in workloads
    if w.name not in LEFT_OUT
}


@dataclass(frozen=True)
class Case:
    """A workload whose feeds are `sets`, its graph, and the outputs of TensorFlow's steps."""

    workload: Workload
    graph_def: bytes
    sets: list[Feeds]
    expected: list[list[Any]]

    def first(self, steps: int) -> Case:
        """The case with fewer steps."""
        workload = replace(self.workload, steps=steps)
        return replace(self, workload=workload, expected=self.expected[:steps])

    def assert_equal(self, outputs: list[list[Any]], mode: str) -> None:
        assert check(self.workload, {"tf": self.expected, mode: outputs}, "in a test") == {}
        for got, want in zip(outputs[0], self.expected[0], strict=True):
            assert np.asarray(got).dtype == np.asarray(want).dtype


def _cut(graph: Any, feeds: Feeds) -> Feeds:
    """Feeds with the long ones of the graph's open dimensions cut."""

    def size(known: int | None, fed: int) -> int:
        if known is not None or fed <= 2000:
            return fed
        return min(fed, BIG) if fed > 50_000 else SMALL

    found = {}
    for name, value in feeds.items():
        dims = graph.get_tensor_by_name(name).shape.as_list()
        found[name] = np.array(
            value[tuple(slice(size(k, n)) for k, n in zip(dims, np.shape(value), strict=True))],
            order="C",
        )
    return found


@functools.lru_cache(maxsize=2)  # the tests of a workload follow one another
def case_of(name: str) -> Case:
    """The workload and TensorFlow's answer."""
    workload = WORKLOADS[name]
    graph_def = graph_bytes(workload)
    rng, graph = np.random.default_rng(0), imported(graph_def)
    sets = [_cut(graph, workload.feeds(rng)) for _ in range(max(2, workload.steps))]
    workload = replace(workload, steps=len(sets))
    candidate = Default(replace(workload, keys="strings"), graph_def, sets[0], 2, {})
    try:
        return Case(workload, graph_def, sets, outputs_of(candidate, sets))
    finally:
        candidate.close()


UNCOMPILED = {"sparse sums of rows", "sparse sums of columns", "sparse softmax"}
"""Workloads of ops without a compiled form."""


def _modes() -> Iterator[Any]:
    for name, workload in WORKLOADS.items():
        for kind in KINDS:
            if kind == "references" and workload.callers > 1:
                continue
            for threads in THREADS[kind]:
                threads = max(threads, 2) if name == MEETING else threads
                yield pytest.param(name, kind, threads, id=f"{name}-{kind}-{threads}")


@pytest.mark.parametrize(("name", "kind", "threads"), list(_modes()))
def test_equal_tensorflow(
    name: str, kind: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is compiled, which a candidate notes where it is not; or the NumPy answers give the
    same.

    The modes of a workload follow one another, so that TensorFlow builds and runs it once.
    """
    references = kind == "references"
    monkeypatch.setenv("TFJIT_JIT", "off" if references else "eager")
    # else all sessions have the threads of the process's first one
    config = functools.partial(tfjit.ConfigProto, use_per_session_threads=True)
    monkeypatch.setattr(tfjit, "ConfigProto", config)
    case = case_of(name)
    if references:  # they show in two steps all that they do to variables, and are slow
        case = case.first(2)
    if case.workload.name in FEW_KERNELS and threads == 8:
        monkeypatch.setattr(kernel_selection, "MAX_SMALL_KERNELS", 8)
    candidate = KINDS[kind](case.workload, case.graph_def, case.sets[0], threads, {})
    try:
        assert references or (candidate.note == "") == (name.partition(": ")[2] not in UNCOMPILED)
        case.assert_equal(outputs_of(candidate, case.sets), kind)
        if case.workload.callers > 1:
            with ThreadPoolExecutor(case.workload.callers) as pool:
                for outputs in pool.map(
                    lambda _: outputs_of(candidate, case.sets), range(2 * case.workload.callers)
                ):
                    case.assert_equal(outputs, f"{kind}, one of {case.workload.callers} callers")
    finally:
        candidate.close()
