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
    """Return the operation that writes a file.

    It makes the folder where that is missing.
    """
    return create("WriteFile", name, filename=filename, contents=contents)


def matching_files(pattern: TensorLike, name: str | None = None) -> Tensor:
    """Return the names of the files that match glob patterns, string [n].

    pattern: a scalar or a vector.
    """
    return tensor("MatchingFiles", name, pattern=pattern)
