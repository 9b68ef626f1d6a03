"""Nodes that read, write and list whole files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.core.apply import create, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def read_file(filename: TensorLike, name: str | None = None) -> Tensor:
    """Return the contents of a file, a string scalar.

    Its run raises NotFoundError for a missing file.
    """
    return tensor("ReadFile", name, filename=filename)


def write_file(filename: TensorLike, contents: TensorLike, name: str | None = None) -> Operation:
    """Return the operation that writes a file, in a folder that it makes where it is missing."""
    return create("WriteFile", name, filename=filename, contents=contents)


def matching_files(pattern: TensorLike, name: str | None = None) -> Tensor:
    """Return the names of the files that match a glob pattern or a vector of such, string [n]."""
    return tensor("MatchingFiles", name, pattern=pattern)
