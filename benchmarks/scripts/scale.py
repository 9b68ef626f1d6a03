"""Measure big graphs: random elementwise DAGs on vectors of 16.

Their steady time and the time to their first result.
"""

from __future__ import annotations

import functools

import numpy as np

from benchmarks.workload import Workload, feeds_of, uniform

_UNARY = ("Tanh", "Sigmoid", "Neg", "Abs", "Relu")
_BINARY = ("AddV2", "Sub", "Mul", "Maximum", "Minimum")
# a node with values that could leave [-4, 4] is a tanh instead, so that nothing grows with depth
_BOUND = 4.0
_INPUTS = 4


def random_dag(size: int) -> bytes:
    """Return a GraphDef of `size` elementwise nodes.

    Its inputs are four placeholders of [16]; the output "y" depends on all nodes.
    """
    from tfjit.protos import GraphDef

    rng = np.random.default_rng(size)
    graph = GraphDef()
    names = [f"x{i}" for i in range(_INPUTS)]
    bounds = [1.0] * _INPUTS
    for name in names:
        node = graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = 1
        node.attr["shape"].shape.dim.add(size=16)
    unused = list(range(_INPUTS))  # nodes without a user yet
    width = max(16, size // 50)

    def add(op: str, bound: float, *inputs: int) -> None:
        node = graph.node.add(name=f"n{len(names)}", op=op, input=[names[i] for i in inputs])
        node.attr["T"].type = 1
        unused.append(len(names))
        names.append(node.name)
        bounds.append(bound)

    while len(names) - _INPUTS + len(unused) - 1 < size:
        narrow = len(unused) >= width
        if narrow or rng.random() < 0.7:
            op = _BINARY[rng.integers(len(_BINARY))]
            # one input of the oldest unused nodes, one of them at random, or while the graph widens
            # any of the newest
            first = unused.pop(0)
            second = (
                unused.pop(rng.integers(len(unused)))
                if narrow
                else int(rng.integers(max(0, len(names) - 4 * width), len(names)))
            )
            if second in unused:
                unused.remove(second)
            a, b = bounds[first], bounds[second]
            bound = {"AddV2": a + b, "Sub": a + b, "Mul": a * b}.get(op, max(a, b))
            if bound > _BOUND:
                add("Tanh", 1.0, first)
                unused.append(second)
            else:
                add(op, bound, first, second)
        else:
            source = int(rng.integers(max(0, len(names) - 4 * width), len(names)))
            if source in unused:
                unused.remove(source)
            op = _UNARY[rng.integers(len(_UNARY))]
            add(op, 1.0 if op in ("Tanh", "Sigmoid") else bounds[source], source)
    while len(unused) > 1:
        add("Maximum", _BOUND, unused.pop(0), unused.pop(0))
    graph.node.add(name="y", op="Identity", input=[names[-1]]).attr["T"].type = 1
    data: bytes = graph.SerializeToString()
    return data


def workloads() -> list[Workload]:
    """1,000, 10,000 and 100,000 nodes."""
    found = []
    for size, label, wanted, wanted_first, sessions in (
        (1000, "1k", 0.1, 0.9, 5),
        (10_000, "10k", 0.08, 0.25, 3),
        (100_000, "100k", 0.15, 0.2, 0),
    ):
        slow = (
            dict.fromkeys(("jax", "xla"), "compiles for half a minute and more")
            if size > 1000
            else {}
        )
        if size > 10_000:
            slow |= {
                "unfused": "would double the minutes of this row",
                "ort": "not asked: its optimiser's passes over so many nodes take long",
            }
        found.append(
            Workload(
                f"random elementwise DAG of {label} nodes",
                ["y:0"],
                feeds_of(**{f"x{i}": uniform([16]) for i in range(_INPUTS)}),
                graph_def=functools.partial(random_dag, size),
                wanted=wanted,
                wanted_first=wanted_first,
                fresh_sessions=sessions,
                leave_out=slow,
            )
        )
    return found
