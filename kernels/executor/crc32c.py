"""Compute CRC-32C by the processor's own instruction.

x86-64 (level 2 and later) and ARMv8 have one that takes 8 bytes. The checksums of files
(`framework/files/crc32c.py`) use it where it is; NumPy is the reference.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable
from typing import Final

import numpy as np

from tfjit.kernels.jit.loader import fork_lock

# (LLVM's feature, declarations of the instruction over 8 bytes and over one byte)
_X86: Final = (
    "crc32",
    """
declare i64 @llvm.x86.sse42.crc32.64.64(i64, i64)
declare i32 @llvm.x86.sse42.crc32.32.8(i32, i8)

define internal i32 @eight(i32 %state, i64 %data) alwaysinline {
  %wide = zext i32 %state to i64
  %next = call i64 @llvm.x86.sse42.crc32.64.64(i64 %wide, i64 %data)
  %narrow = trunc i64 %next to i32
  ret i32 %narrow
}

define internal i32 @one(i32 %state, i8 %data) alwaysinline {
  %next = call i32 @llvm.x86.sse42.crc32.32.8(i32 %state, i8 %data)
  ret i32 %next
}
""",
)
_ARM: Final = (
    "crc",
    """
declare i32 @llvm.aarch64.crc32cx(i32, i64)
declare i32 @llvm.aarch64.crc32cb(i32, i32)

define internal i32 @eight(i32 %state, i64 %data) alwaysinline {
  %next = call i32 @llvm.aarch64.crc32cx(i32 %state, i64 %data)
  ret i32 %next
}

define internal i32 @one(i32 %state, i8 %data) alwaysinline {
  %wide = zext i8 %data to i32
  %next = call i32 @llvm.aarch64.crc32cb(i32 %state, i32 %wide)
  ret i32 %next
}
""",
)
_INSTRUCTIONS: Final = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}

_LOOPS: Final = """
define i32 @tfjit_crc32c(i32 %start, ptr %data, i64 %size) {
entry:
  %words = lshr i64 %size, 3
  br label %head
head:
  %index = phi i64 [ 0, %entry ], [ %following, %body ]
  %state = phi i32 [ %start, %entry ], [ %after, %body ]
  %more = icmp ult i64 %index, %words
  br i1 %more, label %body, label %rest
body:
  %at = getelementptr i64, ptr %data, i64 %index
  %word = load i64, ptr %at, align 1
  %after = call i32 @eight(i32 %state, i64 %word)
  %following = add i64 %index, 1
  br label %head
rest:
  %done = shl i64 %words, 3
  br label %tail
tail:
  %position = phi i64 [ %done, %rest ], [ %next_position, %last ]
  %tail_state = phi i32 [ %state, %rest ], [ %tail_after, %last ]
  %bytes = icmp ult i64 %position, %size
  br i1 %bytes, label %last, label %end
last:
  %byte_at = getelementptr i8, ptr %data, i64 %position
  %byte = load i8, ptr %byte_at, align 1
  %tail_after = call i32 @one(i32 %tail_state, i8 %byte)
  %next_position = add i64 %position, 1
  br label %tail
end:
  ret i32 %tail_state
}
"""


class CompiledCrc32c:
    """Compute checksums by compiled code, which releases the GIL for long data."""

    def __init__(self, address: int) -> None:
        self._advance = ctypes.CFUNCTYPE(
            ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t
        )(address)
        # to release the interpreter takes longer than the checksum of a short record
        self._advance_short = ctypes.PYFUNCTYPE(
            ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t
        )(address)

    def __call__(self, data: memoryview, crc: int) -> int:
        """Return the checksum of contiguous bytes; crc: of the bytes before."""
        array = np.frombuffer(data, np.uint8)
        start: int = array.__array_interface__["data"][0]
        return int(self._advance(crc ^ 0xFFFFFFFF, start, array.size)) ^ 0xFFFFFFFF

    def of_short(self, data: bytes, crc: int) -> int:
        """Return the checksum of some kilobytes; crc: of the bytes before."""
        return int(self._advance_short(crc ^ 0xFFFFFFFF, data, len(data))) ^ 0xFFFFFFFF

    def parts(self, data: np.ndarray, places: Iterable[tuple[int, int]]) -> list[int]:
        """Return the checksum of each (offset, size) of `data`, contiguous bytes."""
        start: int = data.__array_interface__["data"][0]
        advance = self._advance
        return [advance(0xFFFFFFFF, start + offset, size) ^ 0xFFFFFFFF for offset, size in places]


def crc32c_function() -> CompiledCrc32c | None:
    """Return the functions of this processor.

    None on a processor without the instruction, and where the function is not on disk and there is
    no compiler.
    """
    if not _loaded:
        with fork_lock():  # a text is loaded once a process, whichever threads ask
            if not _loaded:
                _loaded.append(_load())
    return _loaded[0]


_loaded: list[CompiledCrc32c | None] = []


def _load() -> CompiledCrc32c | None:
    from tfjit.kernels.jit.loader import NoCompiler
    from tfjit.kernels.jit.store import store
    from tfjit.kernels.jit.target import host

    feature, instruction = _INSTRUCTIONS.get(platform.machine().lower(), ("", ""))
    if not feature or feature not in host().features:
        return None
    try:
        address = store.assembly.load(instruction + _LOOPS, ("tfjit_crc32c",))["tfjit_crc32c"]
    except NoCompiler:
        return None
    return CompiledCrc32c(address)
