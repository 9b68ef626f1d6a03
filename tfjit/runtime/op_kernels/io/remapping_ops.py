"""Runtime kernels of checkpoint matrices whose rows or columns are words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, UnimplementedError
from tfjit.framework.files.bundle import BundleReader
from tfjit.runtime.kernel_api.op_kernel import OpContext
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, path_of, system_errors


@file_kernel("GenerateVocabRemapping")
def generate_vocab_remapping(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the old line of each new word, or -1.

    The second result is the number of words that have one.
    """
    new = _lines(ctx, path_of(inputs[0], "new_vocab_file"))
    old = _lines(ctx, path_of(inputs[1], "old_vocab_file"))
    first, count = ctx.attrs["new_vocab_offset"], ctx.attrs["num_new_vocab"]
    if first + count > len(new):
        raise InvalidArgumentError(
            None,
            None,
            f"the new vocabulary has {len(new)} words, fewer than new_vocab_offset ({first}) + "
            f"num_new_vocab ({count})",
        )
    old_size = ctx.attrs.get("old_vocab_size", -1)
    if old_size > len(old):
        raise InvalidArgumentError(
            None, None, f"the old vocabulary has {len(old)} words, fewer than {old_size}"
        )
    places = {word: place for place, word in enumerate(old if old_size < 0 else old[:old_size])}
    found = [places.get(word, -1) for word in new[first : first + count]]
    remapping = np.array(found, np.int64)
    return remapping, np.array(np.count_nonzero(remapping >= 0), np.int32)


def _lines(ctx: OpContext, path: str) -> list[bytes]:
    with system_errors(path):
        lines = ctx.session.env.files.read(path).split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


@file_kernel("LoadAndRemapMatrix")
def load_and_remap_matrix(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a checkpoint's matrix with rows and columns in new places.

    Missing ones take the initializing values, row by row.
    """
    path, name = path_of(inputs[0], "ckpt_path"), path_of(inputs[1], "old_tensor_name")
    rows, columns = ctx.attrs["num_rows"], ctx.attrs["num_cols"]
    row_places, column_places = np.asarray(inputs[2]), np.asarray(inputs[3])
    if row_places.shape != (rows,):
        raise InvalidArgumentError(
            None,
            None,
            f"Size of row_remapping is {row_places.size} instead of being equal to num_rows: "
            f"{rows}",
        )
    if column_places.shape not in ((columns,), (0,)):
        raise InvalidArgumentError(
            None,
            None,
            f"Provided col_remapping, but its size is {column_places.size} instead of being equal "
            f"to num_cols: {columns}",
        )
    with system_errors(path):
        old = BundleReader(path, ctx.session.env.files).read(name)
    if old.ndim != 2 or old.dtype != np.float32:
        raise InvalidArgumentError(
            None,
            None,
            f"Old tensor {name} must be a float32 matrix, but it is {old.dtype.name} of shape "
            f"{list(old.shape)}",
        )
    if not column_places.size:
        if old.shape[1] != columns:
            raise InvalidArgumentError(
                None,
                None,
                f"Old tensor {name} has {old.shape[1]} columns, not the {columns} of num_cols",
            )
        column_places = np.arange(columns)
    _check_places("row", row_places, old.shape[0])
    _check_places("column", column_places, old.shape[1])
    present = (row_places >= 0)[:, None] & (column_places >= 0)
    values = np.asarray(inputs[4], np.float32).reshape(-1)
    missing = present.size - np.count_nonzero(present)
    if values.size != missing:
        raise InvalidArgumentError(
            None,
            None,
            f"initializing_values contained {values.size} elements, but {missing} missing values "
            "are to be filled in",
        )
    matrix = np.empty((rows, columns), np.float32)
    matrix[present] = old[row_places[row_places >= 0]][
        :, column_places[column_places >= 0]
    ].reshape(-1)
    matrix[~present] = values
    return (matrix,)


def _check_places(kind: str, places: np.ndarray, size: int) -> None:
    """Raise an error for a place out of range or repeated."""
    known = places[places >= 0]
    if known.size and known.max() >= size:
        raise InvalidArgumentError(
            None, None, f"Old {kind} {known.max()} is not one of the {size} of the checkpoint"
        )
    if np.unique(known).size != known.size:
        raise UnimplementedError(None, None, f"an old {kind} is in two places of the new matrix")
