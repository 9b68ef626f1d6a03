"""Puts a NativeCall together: launches, scratch buffers and constants, numbered as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfjit.kernels.registry import Launch, NativeCall, Pointer, Word


def aligned(array: np.ndarray) -> np.ndarray:
    """A contiguous copy whose data starts at a multiple of 64 bytes, as vector loads of packed data
    want it.
    """
    empty = aligned_empty(array.shape, array.dtype)
    empty[...] = array
    return empty


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Uninitialised array at a multiple of 64 bytes."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def moved_pointer(
    word: Pointer, ins: Sequence[Pointer], outs: Sequence[Pointer], temps: int, constants: int
) -> Pointer:
    """A pointer of a call that becomes part of another: its inputs and outputs lie at these places,
    and its scratch buffers and constants come after so many others.
    """
    if word.kind in ("in", "out"):
        target = (ins if word.kind == "in" else outs)[word.index]
        return replace(target, offset=target.offset + word.offset) if word.offset else target
    if word.kind == "temp":
        return replace(word, index=temps + word.index)
    return replace(word, index=constants + word.index) if word.kind == "const" else word


class CallBuilder:
    """Collects the parts of one NativeCall. known_inputs: values of the node's inputs that are
    known while planning.
    """

    def __init__(self, known_inputs: Mapping[int, np.ndarray] | None = None) -> None:
        self._known = dict(known_inputs or {})
        self._launches: list[Launch] = []
        self._temps: list[int] = []
        self._constants: list[np.ndarray] = []

    def known(self, pointer: Pointer) -> np.ndarray | None:
        """The value an input pointer leads to, if it is known while planning."""
        return (
            self._known.get(pointer.index) if pointer.kind == "in" and pointer.offset == 0 else None
        )

    def temp(self, nbytes: int) -> Pointer:
        """A scratch buffer."""
        self._temps.append(max(64, nbytes))
        return Pointer("temp", len(self._temps) - 1)

    def constant(self, array: np.ndarray) -> Pointer:
        """An array that lives as long as the plan; copied, so that it is aligned and
        nobody else's.
        """
        self._constants.append(aligned(array))
        return Pointer("const", len(self._constants) - 1)

    def table(self, rows: object) -> Pointer:
        """Integers that kernels read with `word`."""
        return self.constant(np.asarray(rows, np.int64).reshape(-1))

    def launch(self, launch: Launch) -> None:
        """Append a launch."""
        self._launches.append(launch)

    def append(self, call: NativeCall, ins: Sequence[Pointer], outs: Sequence[Pointer]) -> None:
        """Add the launches of another call, whose inputs and outputs lie at these places."""

        def moved(word: Word) -> Word:
            return (
                moved_pointer(word, ins, outs, len(self._temps), len(self._constants))
                if isinstance(word, Pointer)
                else word
            )

        self._launches += [
            replace(launch, words=tuple([moved(w) for w in launch.words]))
            for launch in call.launches
        ]
        self._temps += call.temp_bytes
        self._constants += call.constants

    def finish(self, bytes_moved: int = 0, flops: int = 0) -> NativeCall:
        """The finished call."""
        return NativeCall(
            tuple(self._launches),
            temp_bytes=tuple(self._temps),
            constants=tuple(self._constants),
            bytes_moved=bytes_moved,
            flops=flops,
        )
