"""List the functions of strings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tfjit.kernels.cpu.strings import csv, examples, hashes, made_strings, numbers
from tfjit.kernels.source import KernelSource


def string_sources() -> Iterator[KernelSource]:
    """Yield the sources."""
    for function in chain(
        numbers.FUNCTIONS,
        csv.FUNCTIONS,
        examples.FUNCTIONS,
        hashes.FUNCTIONS,
        made_strings.FUNCTIONS,
    ):
        yield function.source
