"""Hold generated kernels as text.

`Source` builds the text line by line; `KernelSource` is the finished, canonical unit of
compilation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final


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
        """Append `header` and indent the lines inside the `with`."""
        self.begin(header)
        yield
        self.end()

    def begin(self, header: str) -> None:
        """Append `header` and indent the lines until `end()`."""
        self.line(header)
        self._depth += 1

    def end(self) -> None:
        """Leave the innermost block."""
        self._depth -= 1

    def text(self) -> str:
        """Return the text so far, newline-terminated."""
        return "\n".join(self._lines) + "\n"


LAST_ATTEMPT: Final = 2
"""Greatest `KernelSource.attempt`."""
FAST_ATTEMPT: Final = 1
"""Last attempt whose code is as fast as the first's."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One unit of compilation.

    text: a Python module's source. It may import from `numba`, `tfjit.kernels.codegen.intrinsics`
        and `tfjit.kernels.vmath`. It is deterministic and free of sizes, so that one compile serves
        every batch size.
    entries: names of functions in it that become C functions `void f(intp args, intp chunk, intp
        nchunks)`, or with `arity` integer arguments where that differs (micro-kernels).
    interleave: vector blocks that the loops should process at a time; 0 leaves the number to LLVM
        (see loop_metadata.py).
    title: a description for logs and `explain` ("loop mul+add+relu f32"); not part of the key.
    module: the module that generated the text, its `__name__`; not part of the key.
    attempt: the number of ways of compiling that have failed before (jit/compiler.py).
    target: the kind of device, "" for the host; else `entries` are kernels of that device, and
        `arity` is the number of their integer arguments (`kernels/jit/targets.py`).
    """

    text: str
    entries: tuple[str, ...] = ("kernel",)
    arity: int = 3
    interleave: int = 0
    title: str = field(default="", compare=False)
    module: str = field(default="", compare=False)
    attempt: int = 0
    target: str = ""

    @property
    def writer(self) -> str:
        """Return the path of the module that generated the text.

        A path in the source tree: "kernels/cpu/reduction/scan.py"; "" if it is not known.
        """
        if not self.module:
            return ""
        # kernels/ is installed as tfjit.kernels, and has its own folder in the source tree
        name = self.module.removeprefix("tfjit.") if ".kernels." in self.module else self.module
        return f"{name.replace('.', '/')}.py"

    @property
    def description(self) -> str:
        """Return title and writer: "running sum float32, kernels/cpu/reduction/scan.py"."""
        title = self.title or self.entries[0]
        return f"{title}, {self.writer}" if self.writer else title

    @property
    def digest(self) -> str:
        """Return the hash of the compiled text and flags.

        The store adds versions and CPU.
        """
        parts = self.text, self.entries, self.arity, self.interleave
        key = repr((*parts, self.attempt) if self.attempt else parts)
        if self.target:
            key += self.target
        return hashlib.sha256(key.encode()).hexdigest()
