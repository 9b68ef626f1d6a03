"""Generated kernels as text: `Source` builds it line by line, `KernelSource` is the finished,
canonical unit of compilation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class Source:
    """Python text under construction, indented by `block()`."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Append one line at the current depth."""
        self._lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Append `header` and indent what follows inside the `with`."""
        self.begin(header)
        yield
        self.end()

    def begin(self, header: str) -> None:
        """Append `header` and indent what follows until `end()`."""
        self.line(header)
        self._depth += 1

    def end(self) -> None:
        """Leave the innermost block."""
        self._depth -= 1

    def text(self) -> str:
        """The text so far, newline-terminated."""
        return "\n".join(self._lines) + "\n"


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One unit of compilation.

    text: a Python module's source. It may import from `numba`, `tfjit.kernels.codegen.intrinsics` and `tfjit.kernels.vmath`. It is
        deterministic and free of sizes, so that one compile serves every batch size.
    entries: names of functions in it that become C functions `void f(intp args, intp chunk, intp nchunks)`, or with
        `arity` integer arguments where that differs (micro-kernels).
    interleave: how many vector blocks the loops should work on at a time; 0 leaves it to LLVM (see loop_metadata.py).
    title: what it serves, for logs and `explain` ("loop mul+add+relu f32"); not part of the key.
    """

    text: str
    entries: tuple[str, ...] = ("kernel",)
    arity: int = 3
    interleave: int = 0
    title: str = field(default="", compare=False)

    @property
    def digest(self) -> str:
        """Hash of what is compiled; versions and CPU are added by the store."""
        key = repr((self.text, self.entries, self.arity, self.interleave))
        return hashlib.sha256(key.encode()).hexdigest()
