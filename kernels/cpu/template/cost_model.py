"""Predicted times, for cutting work into chunks and for `explain`; nanoseconds on one thread of a
current server core.
"""

from __future__ import annotations

from typing import Final

from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.scalar_program import Program

CHUNK_NS: Final = 8000.0
"""A chunk shorter than this costs more to hand over than it saves."""
MAX_CHUNKS: Final = 64
FIXED_NS: Final = 40.0
"""A launch with nothing to do."""
LONG_CHAIN_NS: Final = 0.3
LONG_LOOP: Final = 256
INTERLEAVE: Final = 4
DEEP_CHAIN_NS: Final = 0.8
DEEP_INTERLEAVE: Final = 8
DEEP_VALUES: Final = 3
_DEFAULT_NS: Final = 0.05

# (up to so many bytes, ns a byte): the second-level cache, the last-level cache, memory
_TRAFFIC: Final = ((1 << 20, 0.010), (1 << 25, 0.016), (1 << 62, 0.06))


def op_ns(op: str, item_size: int = 4) -> float:
    """Time of one scalar op in a vectorised loop, per element."""
    row = elementwise.lookup(op)
    return (row.cost_ns if row is not None else _DEFAULT_NS) * max(item_size, 1) / 4


def is_cheap(op: str) -> bool:
    """Whether computing an op again costs less than writing its result and reading it back."""
    row = elementwise.lookup(op)
    return row is None or row.cost_ns <= 0.1


def program_ns(program: Program) -> float:
    """Time per element of a program in registers."""
    return sum(op_ns(op.op, op.dtype.size) for op in program.ops)


def interleave_for(program: Program, length: int) -> int:
    """How many vector blocks a loop over `length` elements should work on at a time: several where
    a block's own chain of operations is long, and where the loop is long enough to have so many;
    else 0, what LLVM takes.

    Most for a very long chain that hands on few values: with more, so many blocks no longer fit the
    registers.
    """
    cost = program_ns(program)
    if cost < LONG_CHAIN_NS or length < LONG_LOOP:
        return 0
    return (
        DEEP_INTERLEAVE
        if cost >= DEEP_CHAIN_NS and length >= 4 * LONG_LOOP and live_values(program) <= DEEP_VALUES
        else INTERLEAVE
    )


def live_values(program: Program) -> int:
    """The most values that wait between two operations of a program for later ones."""
    count = len(program.inputs)
    last = {value: len(program.ops) for value in program.outputs}
    first = dict.fromkeys(range(count), -1)
    for k, op in enumerate(program.ops):
        first[count + k] = k
        for value in op.args:
            last[value] = max(last.get(value, k), k)
            if value < count and first[value] < 0:
                first[value] = k
    # an input is loaded for its first use
    alive = [
        sum(1 for value, start in first.items() if start <= k < last.get(value, -1))
        for k in range(len(program.ops))
    ]
    return max(alive, default=0)


def traffic_ns(nbytes: int) -> float:
    """Time to move bytes to and from where they should lie: caches when few, memory when many."""
    return nbytes * next(ns for limit, ns in _TRAFFIC if nbytes <= limit)


def chunks_for(cost_ns: float, limit: int) -> int:
    """Into how many parts work of that length is usefully cut, at most `limit`."""
    return max(1, min(int(cost_ns // CHUNK_NS), limit, MAX_CHUNKS))
