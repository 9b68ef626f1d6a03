"""Keep sparse tensors between steps, each under a number.

Input pipelines put sparse tensors into queues as these numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.runtime.host.completion import Values
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel


@dataclass(frozen=True, slots=True)
class _Sparse:
    """indices int64 [n, rank], values [n], sizes: the dense shape."""

    indices: np.ndarray
    values: np.ndarray
    sizes: tuple[int, ...]


class SparseTensorsMap:
    """A resource: sparse tensors by number, in order of arrival."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._kept: dict[int, _Sparse] = {}
        self._next = 0

    def add(self, tensors: Sequence[_Sparse]) -> list[int]:
        """Keep sparse tensors; return their numbers."""
        with self._lock:
            first = self._next
            self._next += len(tensors)
            numbers = list(range(first, self._next))
            self._kept.update(zip(numbers, tensors, strict=True))
        return numbers

    def take(self, numbers: Sequence[int]) -> list[_Sparse]:
        """Remove sparse tensors and return them. Raises InvalidArgumentError for unknown ones."""
        found = []
        with self._lock:
            for number in numbers:
                tensor = self._kept.pop(number, None)
                if tensor is None:
                    raise InvalidArgumentError(
                        None, None, f"Unable to find SparseTensor: {number} in map: {self._name}"
                    )
                found.append(tensor)
        return found

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)


def _map(ctx: OpContext) -> SparseTensorsMap:
    container = ctx.attrs.get("container", b"").decode()
    name = ctx.attrs.get("shared_name", b"").decode() or ctx.name
    manager = ctx.session.manager(ctx.device.name)
    found: SparseTensorsMap = manager.lookup_or_create(
        container, "SparseTensorsMap", name, lambda: SparseTensorsMap(name)
    )
    return found


def _sparse(inputs: Values) -> _Sparse:
    """Return a copy of the sparse tensor of three inputs."""
    indices, values, sizes = (np.asarray(value) for value in inputs)
    for what, value, rank, kind in (
        ("indices", indices, 2, "matrix"),
        ("values", values, 1, "vector"),
        ("shape", sizes, 1, "vector"),
    ):
        if value.ndim != rank:
            raise InvalidArgumentError(
                None,
                None,
                f"Input {what} should be a {kind} but received shape {format_shape(value.shape)}",
            )
    if len(indices) != len(values):
        raise InvalidArgumentError(
            None,
            None,
            "indices and values rows (indexing dimension) must match. (indices = "
            f"{len(indices)}, values = {len(values)})",
        )
    if indices.shape[1] != len(sizes):
        raise InvalidArgumentError(None, None, "Order length must be SparseTensor rank.")
    if (sizes < 0).any():
        raise InvalidArgumentError(None, None, f"Dimension {sizes[sizes < 0][0]} must be >= 0")
    return _Sparse(indices.copy(), values.copy(), tuple(sizes.tolist()))


@runtime_kernel("AddSparseToTensorsMap")
def add(ctx: OpContext, inputs: Values) -> Values:
    """Keep a sparse tensor; return its number."""
    (number,) = _map(ctx).add([_sparse(inputs)])
    return (np.array(number, np.int64),)


@runtime_kernel("AddManySparseToTensorsMap")
def add_many(ctx: OpContext, inputs: Values) -> Values:
    """Keep each row of a sparse tensor; return the numbers.

    Rows have no first axis.
    """
    given = _sparse(inputs)
    if len(given.sizes) < 2:
        raise InvalidArgumentError(
            None,
            None,
            f"Rank of input SparseTensor should be > 1, but saw rank: {len(given.sizes)}",
        )
    _check_order(given)
    check_fits_in_memory((given.sizes[0], 8), np.dtype(np.int64))  # a number and a place each
    rows, count = given.indices[:, 0], given.sizes[0]
    starts = np.searchsorted(rows, np.arange(count + 1))
    filled = np.flatnonzero(np.diff(starts))
    # rows without elements get their numbers last, as in TensorFlow
    order = [*filled.tolist(), *np.setdiff1d(np.arange(count), filled).tolist()]
    parts = []
    for row in order:
        part = slice(starts[row], starts[row + 1])
        parts.append(_Sparse(given.indices[part, 1:], given.values[part], given.sizes[1:]))
    numbers = np.zeros(count, np.int64)
    numbers[order] = _map(ctx).add(parts)
    return (numbers,)


def _later(faults: np.ndarray) -> np.ndarray:
    """Return faults of all elements but the first, as faults of all."""
    return np.concatenate([np.zeros(1, bool), faults])


def _check_order(given: _Sparse) -> None:
    """Raise InvalidArgumentError for faulty indices.

    They may be outside of the shape, out of order, or repeated.
    """
    places, sizes = given.indices, np.array(given.sizes, np.int64)
    outside: np.ndarray = np.any((places < 0) | (places >= sizes), axis=1)
    steps = places[1:] - places[:-1]
    first = np.argmax(steps != 0, axis=1)[:, None] if steps.size else np.zeros((0, 1), np.int64)
    ascent = np.take_along_axis(steps, first, 1)[:, 0]
    for faults, reason in (
        (outside, f"is out of bounds: need 0 <= index < {format_shape(given.sizes)}"),
        (
            _later(ascent < 0),
            "is out of order. Many sparse ops require sorted indices.",
        ),
        (_later(ascent == 0), "is repeated"),
    ):
        if faults[: len(places)].any():
            at = int(np.argmax(faults))
            place = format_shape(tuple(places[at].tolist()))
            raise InvalidArgumentError(None, None, f"indices[{at}] = {place} {reason}")


@runtime_kernel("TakeManySparseFromTensorsMap")
def take_many(ctx: OpContext, inputs: Values) -> Values:
    """Remove sparse tensors; return them as rows of one."""
    numbers, dtype = np.asarray(inputs[0]), as_dtype(ctx.attrs["dtype"])
    if numbers.ndim != 1:
        raise InvalidArgumentError(
            None,
            None,
            f"sparse_handles should be a vector but received shape {format_shape(numbers.shape)}",
        )
    kept = _map(ctx)
    if not numbers.size:
        raise InvalidArgumentError(
            None,
            None,
            "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows",
        )
    parts = kept.take(numbers.tolist())
    rank = len(parts[0].sizes)
    for i, part in enumerate(parts):
        if as_dtype(part.values.dtype) != dtype:
            raise InvalidArgumentError(
                None,
                None,
                f"Requested SparseTensor of type {short_name(dtype)} but SparseTensor[{i}]"
                f".values.dtype() == {short_name(as_dtype(part.values.dtype))}",
            )
        if len(part.sizes) != rank:
            raise InvalidArgumentError(
                None,
                None,
                f"Inconsistent rank across SparseTensors: rank prior to SparseTensor[{i}] was: "
                f"{rank + 1} but rank of SparseTensor[{i}] is: {len(part.sizes) + 1}",
            )
    indices = np.concatenate(
        [
            np.insert(part.indices, 0, row, axis=1)
            if len(part.indices)
            else np.zeros((0, rank + 1), np.int64)
            for row, part in enumerate(parts)
        ]
    )
    sizes = [len(parts), *np.max([part.sizes for part in parts], axis=0, initial=0)]
    return (
        indices,
        np.concatenate([part.values for part in parts]),
        np.array(sizes, np.int64),
    )
