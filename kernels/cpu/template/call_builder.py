"""Assemble a NativeCall.

Launches, scratch buffers and constants are numbered in order of appearance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfjit.kernels.ir.symbolic_size import word_table
from tfjit.kernels.registry import Launch, NativeCall, Pointer, Word


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a contiguous copy at a multiple of 64 bytes.

    Vector loads of packed data need the alignment.
    """
    empty = aligned_empty(array.shape, array.dtype)
    empty[...] = array
    return empty


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
    """Return an uninitialised array at a multiple of 64 bytes."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def moved_pointer(
    word: Pointer, ins: Sequence[Pointer], outs: Sequence[Pointer], temps: int, constants: int
) -> Pointer:
    """Renumber a pointer of a call that becomes part of another.

    ins, outs: places of the call's inputs and outputs. temps, constants: numbers of the other
    call's scratch buffers and constants, which come first.
    """
    if word.kind in ("in", "out"):
        target = (ins if word.kind == "in" else outs)[word.index]
        return replace(target, offset=target.offset + word.offset) if word.offset else target
    if word.kind == "temp":
        return replace(word, index=temps + word.index)
    return replace(word, index=constants + word.index) if word.kind == "const" else word


class CallBuilder:
    """Collector of the parts of one NativeCall.

    known_inputs: values of the node's inputs that are known while planning.
    """

    def __init__(self, known_inputs: Mapping[int, np.ndarray] | None = None) -> None:
        self._known = dict(known_inputs or {})
        self._launches: list[Launch] = []
        self._temps: list[int] = []
        self._constants: list[np.ndarray] = []

    def known(self, pointer: Pointer) -> np.ndarray | None:
        """Return an input pointer's value if it is known while planning."""
        return (
            self._known.get(pointer.index) if pointer.kind == "in" and pointer.offset == 0 else None
        )

    def temp(self, nbytes: int) -> Pointer:
        """Return a scratch buffer."""
        self._temps.append(max(64, nbytes))
        return Pointer("temp", len(self._temps) - 1)

    def constant(self, array: np.ndarray) -> Pointer:
        """Add an array that lives as long as the plan.

        It is copied, so that it is aligned and has no other owner. A table of formulas
        (`word_table`) stays as it is; the tables of known sizes are made from it.
        """
        self._constants.append(array if array.dtype == object else aligned(array))
        return Pointer("const", len(self._constants) - 1)

    def table(self, rows: object) -> Pointer:
        """Add integers that kernels read with `word`."""
        return self.constant(word_table(rows))

    def launch(self, launch: Launch) -> None:
        """Append a launch."""
        self._launches.append(launch)

    def append(self, call: NativeCall, ins: Sequence[Pointer], outs: Sequence[Pointer]) -> None:
        """Add the launches of another call.

        ins, outs: places of its inputs and outputs.
        """

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
        """Return the finished call."""
        return NativeCall(
            tuple(self._launches),
            temp_bytes=tuple(self._temps),
            constants=tuple(self._constants),
            bytes_moved=bytes_moved,
            flops=flops,
        )
