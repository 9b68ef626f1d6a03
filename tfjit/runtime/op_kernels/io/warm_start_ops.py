"""Runtime kernels of warm starts: vocabularies and matrices, remapped."""

from __future__ import annotations

import numpy as np

from tfjit.framework.env import FileSystem
from tfjit.framework.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    UnimplementedError,
)
from tfjit.framework.files.bundle import BundleReader
from tfjit.framework.files.slices import FULL
from tfjit.framework.types.dtypes import float32, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import OpContext
from tfjit.runtime.op_kernels.io.io_ops import file_kernel, path_of, system_errors


def _lines(path: str, files: FileSystem) -> list[bytes]:
    with system_errors(path):
        data = files.read(path)
    if not data:
        raise OutOfRangeError(None, None, "Read less bytes than requested")
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _line_numbers(path: str, size: int, files: FileSystem) -> dict[bytes, int]:
    """Return the number of each line.

    size: of the vocabulary, -1 for all lines.
    """
    lines = _lines(path, files)
    if size == 0:
        raise OutOfRangeError(None, None, f"Finished reading 0 of lines from {path}")
    if size > len(lines):
        raise InvalidArgumentError(
            None, None, f"Invalid vocab_size in {path}: expected {size} but got {len(lines)}"
        )
    numbers: dict[bytes, int] = {}
    for number, line in enumerate(lines if size < 0 else lines[:size]):
        known = numbers.setdefault(line, number)
        if known != number:
            raise FailedPreconditionError(
                None,
                None,
                "HashTable has different value for same key. Key "
                f"{line.decode(errors='replace')} has {known} and trying to add value {number}",
            )
    return numbers


@file_kernel("GenerateVocabRemapping")
def generate_vocab_remapping(ctx: OpContext, inputs: Values) -> Values:
    """Return the old line of each line of a vocabulary.

    It is -1 for a new word. Also the number of words that were found.
    """
    files = ctx.session.env.files
    paths = []
    for value, which in ((inputs[0], "new"), (inputs[1], "old")):
        path = path_of(value, f"{which}_vocab_file")
        if not path:
            raise InvalidArgumentError(None, None, f"{which} vocab filename cannot be empty.")
        paths.append(path)
    first, count = ctx.attrs["new_vocab_offset"], ctx.attrs["num_new_vocab"]
    new = _lines(paths[0], files)
    if first + count > len(new):
        raise InvalidArgumentError(
            None, None, "lookup table size must be larger than last new vocab entry's line"
        )
    old = _line_numbers(paths[1], ctx.attrs["old_vocab_size"], files)
    found = np.array([old.get(line, -1) for line in new[first : first + count]], np.int64)
    return found, np.array((found >= 0).sum(), np.int32)


def _checked_remapping(value: object, size: int, text: str) -> np.ndarray:
    """Return old numbers.

    Raises an error for another size, and for a number that comes twice.
    """
    old = np.asarray(value).reshape(-1)
    if old.size != size:
        raise InvalidArgumentError(None, None, text.format(size=old.size))
    seen: dict[int, int] = {}
    for new, number in enumerate(old.tolist()):
        if number >= 0 and seen.setdefault(number, new) != new:
            raise UnimplementedError(
                None,
                None,
                f"Old ID {number} is mapped to both new ID {seen[number]} and {new}, which is not "
                "supported.",
            )
    return old


@file_kernel("LoadAndRemapMatrix")
def load_and_remap_matrix(ctx: OpContext, inputs: Values) -> Values:
    """Return rows and columns of a checkpoint's matrix in another order.

    ckpt_path, old_tensor_name, row_remapping [num_rows], col_remapping [num_cols or 0],
    initializing_values [missing elements, by rows] -> [num_rows, num_cols]. `max_rows_in_memory`
    changes no result and is passed over.
    """
    num_rows, num_cols = ctx.attrs["num_rows"], ctx.attrs["num_cols"]
    rows = _checked_remapping(
        inputs[2],
        num_rows,
        f"Size of row_remapping is {{size}} instead of being equal to num_rows={num_rows}",
    )
    cols = np.arange(num_cols)
    remaps = np.size(inputs[3]) > 0
    if remaps:
        cols = _checked_remapping(
            inputs[3],
            num_cols,
            "Provided col_remapping, but its size is {size} instead of being equal to "
            f"num_cols={num_cols}",
        )
    path, name = path_of(inputs[0], "ckpt_path"), path_of(inputs[1], "old_tensor_name")
    matrix = _matrix(path, name, ctx.session.env.files, None if remaps else num_cols, rows)
    if cols.max() >= matrix.shape[1]:
        raise InvalidArgumentError(
            None, None, f"col_remapping has {cols.max()}, but {name} has {matrix.shape[1]} columns"
        )
    out = np.zeros((num_rows, num_cols), np.float32)
    known = (rows >= 0)[:, None] & (cols >= 0)
    if matrix.size:
        out = np.where(known, matrix[np.maximum(rows, 0)][:, np.maximum(cols, 0)], out)
    values = np.asarray(inputs[4]).reshape(-1)
    missing = known.size - int(known.sum())
    if values.size < missing:
        raise InvalidArgumentError(
            None,
            None,
            f"initializing_values contained {values.size} elements, but more missing values "
            "remain.",
        )
    if values.size > missing:
        raise InvalidArgumentError(
            None,
            None,
            f"initializing_values contained {values.size} elements, but only {missing} elements "
            "were used to fill in missing values.",
        )
    out[~known] = values
    return (out,)


def _matrix(
    path: str, name: str, files: FileSystem, columns: int | None, rows: np.ndarray
) -> np.ndarray:
    """Return a matrix of a checkpoint up to the last of `rows`.

    columns: the number that it has to have.
    """
    with system_errors(path):
        try:
            reader = BundleReader(path, files)
        except NotFoundError:
            raise NotFoundError(None, None, f"{path}.index; No such file or directory") from None
        dtype, shape = reader.dtype_and_shape(name)
        if dtype != float32:
            raise InvalidArgumentError(
                None,
                None,
                f"Tensor {name} has invalid type {short_name(dtype)} instead of expected type "
                "float",
            )
        where = f"Tensor {name} has shape {format_shape(shape)}"
        if len(shape) != 2:
            raise InvalidArgumentError(
                None,
                None,
                f"{where} of invalid rank {len(shape)} instead of expected shape of rank 2.",
            )
        if columns is not None and columns != shape[1]:
            raise InvalidArgumentError(
                None,
                None,
                f"{where}, where the size of its 2nd dimension is {shape[1]} instead of being "
                f"equal to num_cols={columns}",
            )
        last = int(rows.max(initial=-1))
        if last >= shape[0]:
            raise InternalError(
                None,
                None,
                f"Extent in dimension 0 out of bounds: shape = {format_shape(shape)}, slice = "
                f"0,{last + 1}:-",
            )
        if last < 0:
            return np.zeros((0, shape[1]), np.float32)
        return reader.read_slice(name, shape, ((0, last + 1), (0, FULL)))
