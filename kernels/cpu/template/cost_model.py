"""Predict times, to cut work into chunks and for `explain`.

They are nanoseconds on one thread of a current server core.
"""

from __future__ import annotations

from typing import Final

from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.ir.symbolic_size import at_least, predicted

CHUNK_NS: Final = 8000.0
"""Least time of a chunk.

Handing a shorter one over costs more than it saves.
"""
MAX_CHUNKS: Final = 64
FIXED_NS: Final = 40.0
"""Time of a launch without work."""
LONG_CHAIN_NS: Final = 0.3
LONG_LOOP: Final = 256
INTERLEAVE: Final = 4
DEEP_CHAIN_NS: Final = 0.8
DEEP_INTERLEAVE: Final = 8
DEEP_VALUES: Final = 3
_DEFAULT_NS: Final = 0.05

# (largest number of bytes, ns a byte): second-level cache, last-level cache, memory
_TRAFFIC: Final = ((1 << 20, 0.010), (1 << 25, 0.016), (1 << 62, 0.06))


def op_ns(op: str, item_size: int = 4) -> float:
    """Return the time of one scalar op, per element.

    The op is in a vectorised loop.
    """
    row = elementwise.lookup(op)
    return (row.cost_ns if row is not None else _DEFAULT_NS) * max(item_size, 1) / 4


def is_cheap(op: str) -> bool:
    """Return whether computing an op again beats storing its result.

    Storing means to write the result and to read it back.
    """
    row = elementwise.lookup(op)
    return row is None or row.cost_ns <= 0.1


def program_ns(program: Program) -> float:
    """Return the time per element of a program in registers."""
    return sum(op_ns(op.op, op.dtype.size) for op in program.ops)


def interleave_for(program: Program, length: int) -> int:
    """Return the number of vector blocks to interleave in a loop.

    length: elements of the loop. Several blocks pay where a block's own chain of operations is long
    and the loop is long enough to have that many; else the answer is 0, LLVM's choice. A very long
    chain with few live values gets the most: with more values that many blocks no longer fit the
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
    """Return the largest number of live values between two operations."""
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
    """Return the time to move bytes.

    Small amounts are assumed in caches, large ones in memory.
    """
    nbytes = predicted(nbytes)
    return nbytes * next(ns for limit, ns in _TRAFFIC if nbytes <= limit)


def chunks_for(cost_ns: float, limit: int) -> int:
    """Return the useful number of chunks of some work, at most `limit`.

    cost_ns: predicted time of the work.
    """
    return max(1, min(int(cost_ns // CHUNK_NS), at_least(limit), MAX_CHUNKS))
