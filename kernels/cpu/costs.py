"""Predicted times, for cutting work into chunks and for `explain`; nanoseconds on one thread of a current server core."""

from __future__ import annotations

from typing import Final

from tfjit.framework import elementwise
from tfjit.kernels.program import Program

CHUNK_NS: Final = 8000.0
"""A chunk shorter than this costs more to hand over than it saves."""
MAX_CHUNKS: Final = 64
FIXED_NS: Final = 40.0
"""A launch with nothing to do."""
LONG_CHAIN_NS: Final = 0.3
LONG_LOOP: Final = 256
INTERLEAVE: Final = 4
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
    """How many vector blocks a loop over `length` elements should work on at a time: several where a block's own chain of operations is
    long, and where the loop is long enough to have so many; else 0, what LLVM takes."""
    return INTERLEAVE if program_ns(program) >= LONG_CHAIN_NS and length >= LONG_LOOP else 0


def traffic_ns(nbytes: int) -> float:
    """Time to move bytes to and from where they should lie: caches when few, memory when many."""
    return nbytes * next(ns for limit, ns in _TRAFFIC if nbytes <= limit)


def chunks_for(cost_ns: float, limit: int) -> int:
    """Into how many parts work of that length is usefully cut, at most `limit`."""
    return max(1, min(int(cost_ns // CHUNK_NS), limit, MAX_CHUNKS))
