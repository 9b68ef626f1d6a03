"""Compute the Philox 4x32-10 stream of TensorFlow's random ops.

It works on arrays. A stream's position is three uint64 words (`kernels/random_stream.py`). `initial_state` of the
stateful random ops makes exactly these 24 bytes, and compiled kernels share the layout. One *block*
is one counter value: four uint32 draws, then the 128-bit counter steps by one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tfjit.kernels.cpu.random import libm
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT, MASK64, blocks, blocks_at

_32: Final = np.uint64(32)
_SMALLEST_UNIFORM: Final = 1.0e-7  # keeps the logarithm of Box-Muller finite


def seeded(seed: int, seed2: int) -> np.ndarray:
    """Return the position of a stream's first block, uint64[3].

    Seeds (0, 0) mean a random stream.
    """
    if seed == 0 and seed2 == 0:
        seed, seed2 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
    return np.array([0, seed2 & MASK64, seed & MASK64], np.uint64)


def scrambled(seed: int, seed2: int) -> np.ndarray:
    """Return the position that stateless ops derive from their two seeds."""
    start = np.array([seed & MASK64, seed2 & MASK64, 0x02461E293EC8F720], np.uint64)
    mix = blocks(start, 0, 1)[0].astype(np.uint64)
    return np.array([0, mix[2] | mix[3] << _32, mix[0] | mix[1] << _32], np.uint64)


def _unit32(bits: np.ndarray) -> np.ndarray:
    return ((bits & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def _unit64(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    mantissa = (high.astype(np.uint64) & np.uint64(0xFFFFF)) << _32 | low
    return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1.0


def _words(state: np.ndarray, n: int, per_block: int) -> np.ndarray:
    """Return the draws behind n outputs, flat, `per_block` outputs a block."""
    return blocks(state, 0, -(-n // per_block)).reshape(-1)


def uniform(state: np.ndarray, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return n values of [0, 1): float16, bfloat16, float32 or float64."""
    if dtype == np.float32:
        return _unit32(_words(state, n, 4)[:n])
    if dtype == np.float64:
        words = _words(state, n, 2)
        return _unit64(words[0::2], words[1::2])[:n]
    words = _words(state, n, 4)[:n]
    if dtype == np.float16:
        return ((words & 0x3FF) | 15 << 10).astype(np.uint16).view(np.float16) - np.float16(1)
    if dtype.name == "bfloat16":
        one = np.ones((), dtype)
        return ((words & 0x7F) | 127 << 7).astype(np.uint16).view(dtype) - one
    raise TypeError(f"no uniform stream of {dtype}")


def full_range(state: np.ndarray, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return n integers with all bits random.

    dtype: int32, uint32, int64 or uint64.
    """
    if dtype.itemsize == 4:
        return _words(state, n, 4)[:n].view(dtype)
    words = _words(state, n, 2).astype(np.uint64)
    return (words[0::2] | words[1::2] << _32)[:n].view(dtype)


def integers(state: np.ndarray, n: int, low: int, high: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return n integers of [low, high).

    They are low + draw % (high - low).
    """
    unsigned = np.dtype(f"u{dtype.itemsize}")
    span = unsigned.type((high - low) & ((1 << 8 * dtype.itemsize) - 1))
    draws = full_range(state, n, unsigned) % span
    return (draws + np.array(low, dtype).view(unsigned)).view(dtype)


def _pairs32(x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Box-Muller pairs in float32.

    The C library's own float functions compute them.
    """
    u1 = np.maximum(_unit32(x0), np.float32(_SMALLEST_UNIFORM))
    angle = (2.0 * math.pi * _unit32(x1).astype(np.float64)).astype(np.float32)
    radius = np.sqrt(np.float32(-2) * libm.logf(u1))
    sine, cosine = libm.sincosf(angle)
    return sine * radius, cosine * radius


def _each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    # the C library's double functions: NumPy's own vector forms differ in the last bit
    return np.fromiter(map(function, x.tolist()), np.float64, x.size)


def _pairs64(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Box-Muller pairs in float64 of words [n, 4]."""
    u1 = np.maximum(_unit64(words[:, 0], words[:, 1]), _SMALLEST_UNIFORM)
    angle = 2.0 * math.pi * _unit64(words[:, 2], words[:, 3])
    radius = np.sqrt(-2.0 * _each(math.log, u1))
    return _each(math.sin, angle) * radius, _each(math.cos, angle) * radius


def normal(state: np.ndarray, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return n values of the standard normal distribution."""
    if dtype == np.float64:
        pair = _pairs64(blocks(state, 0, -(-n // 2)))
        return np.stack(pair, axis=1).reshape(-1)[:n]
    words = blocks(state, 0, -(-n // 4)).reshape(-1, 2)
    pair = _pairs32(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]))
    return np.stack(pair, axis=1).reshape(-1)[:n].astype(dtype, copy=False)


def truncated_normal(state: np.ndarray, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return n normal values within two standard deviations.

    Every group of outputs (4, or 2 of float64) has a separate stream, BLOCKS_PER_OUTPUT blocks an
    output apart, and takes the first values within the limit from it.
    """
    wide = dtype == np.float64
    group = 2 if wide else 4
    count = -(-n // group)
    found = np.empty((count, group), np.float64 if wide else np.float32)
    filled = np.zeros(count, np.intp)
    todo = np.arange(count)
    step = np.uint64(group * BLOCKS_PER_OUTPUT // 4)
    block = 0
    while todo.size:
        words = blocks_at(state, todo.astype(np.uint64) * step + np.uint64(block))
        block += 1
        if wide:
            candidates = np.stack(_pairs64(words), axis=1)
        else:
            flat = words.reshape(-1, 2)
            pair = _pairs32(np.ascontiguousarray(flat[:, 0]), np.ascontiguousarray(flat[:, 1]))
            candidates = np.stack(pair, axis=1).reshape(-1, 4)
        for column in range(candidates.shape[1]):
            value = candidates[:, column]
            take = (np.abs(value) < 2) & (filled[todo] < group)
            rows = todo[take]
            found[rows, filled[rows]] = value[take]
            filled[rows] += 1
        todo = todo[filled[todo] < group]
    return found.reshape(-1)[:n].astype(dtype, copy=False)
