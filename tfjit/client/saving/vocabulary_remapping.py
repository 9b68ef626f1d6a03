"""Matrices of checkpoints for another vocabulary.

Their rows or columns stand for words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.client.variables.initializers import Zeros
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.arrays.creation import range as range_of
from tfjit.ops.arrays.movement_functions import concat
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.saving.warm_starting import VocabInfo
    from tfjit.framework.graphs.typing import Structure


def remapped_matrix(
    path: str,
    old_name: str,
    shape: Sequence[int],
    first_row: int,
    rows: int,
    vocabulary: VocabInfo,
) -> Tensor:
    """Return a matrix from the checkpoint with words in new places.

    Words that the old vocabulary lacks, and the rows or columns behind those of the words, come
    from the vocabulary's backup initializer. first_row: the place of the matrix in the variable
    that it is a slice of; rows: the number of rows of that variable. Raises ValueError for a shape
    that does not fit the vocabulary, TypeError for a backup initializer that cannot be called.
    """
    by_rows = vocabulary.axis == 0
    new_size, extra = vocabulary.new_vocab_size, vocabulary.num_oov_buckets
    row_words = new_size if by_rows else rows
    columns = shape[1] if by_rows else new_size
    initializer: Structure = vocabulary.backup_initializer or Zeros()
    _check(initializer, shape, first_row, row_words, columns, vocabulary)
    extra_rows = min(shape[0], max(0, first_row + shape[0] - row_words)) if by_rows else 0
    loaded = shape[0] - extra_rows
    if first_row > row_words:
        return convert_to_tensor(initializer(shape))
    found_rows: Tensor | int = loaded
    found_columns: Tensor | int = columns
    places: Structure = []
    if by_rows:
        row_places, found_rows = raw.GenerateVocabRemapping(
            new_vocab_file=vocabulary.new_vocab,
            old_vocab_file=vocabulary.old_vocab,
            new_vocab_offset=first_row,
            num_new_vocab=loaded,
            old_vocab_size=vocabulary.old_vocab_size,
        )
    else:
        row_places = range_of(first_row, first_row + loaded, dtype=dtypes.int64)
        places, found_columns = raw.GenerateVocabRemapping(
            new_vocab_file=vocabulary.new_vocab,
            old_vocab_file=vocabulary.old_vocab,
            new_vocab_offset=0,
            num_new_vocab=columns,
        )
    missing = loaded * columns - found_rows * found_columns
    matrix: Tensor = raw.LoadAndRemapMatrix(
        ckpt_path=path,
        old_tensor_name=old_name,
        row_remapping=row_places,
        col_remapping=places,
        initializing_values=initializer([missing, 1]),
        num_rows=loaded,
        num_cols=columns,
    )
    if extra_rows:
        matrix = concat([matrix, convert_to_tensor(initializer([extra_rows, columns]))], 0)
    if extra and not by_rows:
        matrix = concat([matrix, convert_to_tensor(initializer([loaded, extra]))], 1)
    return matrix


def _check(
    initializer: object,
    shape: Sequence[int],
    first_row: int,
    row_words: int,
    columns: int,
    vocabulary: VocabInfo,
) -> None:
    if not callable(initializer):
        raise TypeError(
            f"initializer must be callable, instead of being {initializer} of type "
            f"{type(initializer)}."
        )
    if len(shape) != 2:
        raise ValueError(f"Expected 2-dim shape, but received: {shape}")
    by_rows = vocabulary.axis == 0
    extra_rows, extra_columns = (
        (vocabulary.num_oov_buckets, 0) if by_rows else (0, vocabulary.num_oov_buckets)
    )
    if shape[1] != columns + extra_columns:
        raise ValueError(
            f"Expected 2nd dim of shape to be new_col_vocab_size ({columns}) + "
            f"num_col_oov_buckets ({extra_columns}) = {columns + extra_columns}, but received "
            f"shape: {shape}"
        )
    if first_row + shape[0] > row_words + extra_rows:
        raise ValueError(
            f"Trying to initialize {shape[0]} additional rows after {first_row} rows have already "
            "been initialized, which would exceed expected total row count of "
            f"new_row_vocab_size ({row_words}) + num_row_oov_buckets ({extra_rows}) = "
            f"{row_words + extra_rows}."
        )
