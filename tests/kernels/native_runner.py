"""Runs a NativeCall in a test: buffers, argument blocks and chunks, without the runtime."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import Launch, NativeCall, Pointer, TensorSpec

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_ssize_t)


def _unaligned(array: np.ndarray, shift: int) -> np.ndarray:
    """A copy that starts `shift` elements after a multiple of 64 bytes, as a fed slice may."""
    raw = np.empty(array.nbytes + 128 + shift * array.itemsize, np.uint8)
    start = -raw.ctypes.data % 64 + shift * array.itemsize
    out = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def _run_chunk(
    function: Callable[[int, int, int], None], address: int, parts: int, chunk: int
) -> None:
    function(address, chunk, parts)


class NativeRunner:
    """A NativeCall with its buffers. Outputs and scratch start as NaN-like garbage, so that what is
    not written shows.
    """

    def __init__(
        self,
        call: NativeCall,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[TensorSpec],
        shift: int = 1,
    ) -> None:
        self.call = call
        store.compile(call.sources())
        self.inputs = [_unaligned(np.ascontiguousarray(a), shift) for a in inputs]
        self.outputs = [
            np.full(s.nbytes, 0xFF, np.uint8).view(s.dtype.as_numpy_dtype).reshape(s.shape)
            for s in outputs
        ]
        self.cancel = np.zeros(1, np.int64)
        self.temps = [self._scratch(n) for n in call.temp_bytes]
        self.blocks = [self._block(launch) for launch in call.launches]
        self.functions = [_KERNEL(self._lookup(launch)[launch.entry]) for launch in call.launches]

    @staticmethod
    def _scratch(nbytes: int) -> np.ndarray:
        raw = np.full(nbytes + 64, 0xFF, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + nbytes]

    @staticmethod
    def _lookup(launch: Launch) -> Mapping[str, int]:
        found = store.lookup(launch.source)
        assert found is not None, store.refused(launch.source)
        return found

    def _block(self, launch: Launch) -> np.ndarray:
        return np.array(
            [0, 0, *(self._word(w) if isinstance(w, Pointer) else w for w in launch.words)],
            np.int64,
        )

    def _word(self, word: Pointer) -> int:
        if word.kind == "code":
            assert word.source is not None
            found = store.lookup(word.source)
            assert found is not None, store.refused(word.source)
            return found[word.entry]
        arrays = {
            "in": self.inputs,
            "out": self.outputs,
            "temp": self.temps,
            "const": self.call.constants,
            "cancel": [self.cancel],
        }
        return int(arrays[word.kind][word.index].ctypes.data) + word.offset

    def run(
        self, chunks: int | None = None, threads: bool = False, seed: int = 0
    ) -> list[np.ndarray]:
        """Every launch in order, each in `chunks` parts (its own number when None, 1 for launches
        that must not be cut).

        Chunks run in a random order, or on threads at the same time. Asserts that no kernel reports
        an error.
        """
        for launch, block, function in zip(
            self.call.launches, self.blocks, self.functions, strict=True
        ):
            parts = launch.chunks if chunks is None else min(chunks, launch.chunks)
            order = list(range(parts))
            random.Random(seed).shuffle(order)
            address = block.ctypes.data
            if threads and parts > 1:
                with ThreadPoolExecutor(4) as pool:
                    list(pool.map(partial(_run_chunk, function, address, parts), order))
            else:
                for chunk in order:
                    function(address, chunk, parts)
            assert block[0] == 0, (launch.errors, block[:2])
        return self.outputs
