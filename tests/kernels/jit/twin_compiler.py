"""The compiler of `test_targets.HostTwin`: that of the host."""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.kernels.jit import compiler
from tfjit.kernels.jit.object_file import ObjectFile, Refused


def compile_text(
    text: str, entries: Sequence[str], arity: int, filename: str, unique: str, architecture: str
) -> ObjectFile:
    """Compile for the host. Raises Refused."""
    assert architecture == "twin-7"
    if "refuse" in text:
        raise Refused(f"{architecture} has no such kernel")
    return compiler.compile_text(text, entries, arity, 0, filename, unique)
