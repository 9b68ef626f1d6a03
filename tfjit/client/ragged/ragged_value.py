"""The value of a ragged tensor in fetches and feeds: arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tfjit.ops.core.dispatch import Dispatching, Kind

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class RaggedTensorValue(Dispatching):
    """The value of a RaggedTensor in fetches and feeds.

    values: an array, or a RaggedTensorValue of the next axis. row_splits: int32 or int64
    [rows + 1], as of a RaggedTensor. Raises TypeError for other classes and dtypes, ValueError for
    splits of two dtypes.
    """

    def __init__(self, values: Structure, row_splits: Structure) -> None:
        if not (
            isinstance(row_splits, (np.ndarray, np.generic))
            and row_splits.dtype in (np.int64, np.int32)
            and row_splits.ndim == 1
        ):
            raise TypeError("row_splits must be a 1D int32 or int64 numpy array")
        if not isinstance(values, (np.ndarray, np.generic, RaggedTensorValue)):
            raise TypeError("values must be a numpy array or a RaggedTensorValue")
        if isinstance(values, RaggedTensorValue) and row_splits.dtype != values.row_splits.dtype:
            raise ValueError("row_splits and values.row_splits must have the same dtype")
        self._values: Structure = values
        self._row_splits: Structure = row_splits

    @property
    def row_splits(self) -> np.ndarray:
        """The first value of each row, and the number of values."""
        splits: np.ndarray = self._row_splits
        return splits

    @property
    def values(self) -> Structure:
        """The values of all rows, one after another."""
        return self._values

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the flat values."""
        return self.flat_values.dtype

    @property
    def flat_values(self) -> np.ndarray:
        """The values inside all ragged axes."""
        values = self._values
        while isinstance(values, RaggedTensorValue):
            values = values.values
        flat: np.ndarray = values
        return flat

    @property
    def nested_row_splits(self) -> tuple[np.ndarray, ...]:
        """The splits of all ragged axes, from the outermost."""
        inner = self._values
        return (
            self.row_splits,
            *(inner.nested_row_splits if isinstance(inner, RaggedTensorValue) else ()),
        )

    @property
    def ragged_rank(self) -> int:
        """The number of ragged axes."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, None, and the shape inside."""
        return (len(self._row_splits) - 1, None, *self._values.shape[1:])

    def to_list(self) -> Structure:
        """Return nested lists of Python values."""
        inner = self._values
        items = inner.to_list() if isinstance(inner, RaggedTensorValue) else inner.tolist()
        return [items[start:limit] for start, limit in pairwise(self._row_splits)]

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"

    def _handle(
        self,
        kind: Kind,
        function: Callable[..., object],
        args: tuple[object, ...],
        keywords: dict[str, object],
    ) -> object:
        from tfjit.client.ragged.handlers import handle

        return handle(kind, function, args, keywords)


def nested_value(parts: list[np.ndarray]) -> RaggedTensorValue:
    """Return the value of nested splits and, behind them, flat values."""
    value: Structure = parts[-1]
    for splits in reversed(parts[:-1]):
        value = RaggedTensorValue(value, splits)
    made: RaggedTensorValue = value
    return made
