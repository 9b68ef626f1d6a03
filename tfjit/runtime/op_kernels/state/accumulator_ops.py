"""Accumulators of gradients, for replicas in lockstep.

Gradients of old steps are dropped, and a take waits until there are as many as it needs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import Shape, format_shape, is_compatible
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.op_kernel import OpContext, blocking_kernel, runtime_kernel

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.runtime.host.cancellation import CancellationManager

_CANCELLED = "TakeGrad operation was cancelled"


@dataclass(slots=True, eq=False)
class _Take:
    required: int
    done: Done
    manager: CancellationManager
    token: int | None = None


class Accumulator(ABC):
    """A sum of gradients of the current step.

    count: gradients in it. step: gradients of earlier steps are dropped; each take moves to the
    next. mean: a take gives the mean. A take waits without a thread, in order of arrival.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape, mean: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.mean = mean
        self.count = 0
        self.step = 0
        self._lock = threading.Lock()
        self._pending_takes: deque[_Take] = deque()

    @abstractmethod
    def _add(self, gradient: Any) -> None:
        """Add a gradient.

        Raises InvalidArgumentError, and changes nothing, where it does not fit.
        """

    @abstractmethod
    def _result(self) -> Sequence[Any]:
        """Return the outputs of a take."""

    def apply(self, local_step: int, gradient: Any) -> None:
        """Add a gradient, unless it was computed in an earlier step.

        Any gradient of an earlier step is dropped.
        """
        with self._lock:
            if local_step < self.step:
                return
            self._add(gradient)
            self.count += 1
        self._advance()

    def set_step(self, step: int) -> None:
        """Drop gradients of earlier steps from now on."""
        with self._lock:
            self.step = step

    def take(self, required: int, cancellation: CancellationManager, done: Done) -> None:
        """Call `done(outputs)` once there are `required` gradients.

        Then there are none, and it is the next step.
        """
        take = _Take(required, done, cancellation)

        def cancel() -> None:
            with self._lock:
                try:
                    self._pending_takes.remove(take)
                except ValueError:
                    return  # the take is over
            done(errors.CancelledError(None, None, _CANCELLED))

        take.token = cancellation.register(cancel)
        if take.token is None:
            done(errors.CancelledError(None, None, _CANCELLED))
            return
        with self._lock:
            self._pending_takes.append(take)
        self._advance()

    def _advance(self) -> None:
        taken: list[tuple[_Take, Sequence[Any]]] = []
        with self._lock:
            while self._pending_takes and self.count >= self._pending_takes[0].required:
                taken.append((self._pending_takes.popleft(), self._result()))
                self.count = 0
                self.step += 1
        for take, result in taken:
            take.manager.deregister(take.token)
            take.done(result)

    def close(self) -> None:
        """Cancel waiting takes at the end of the session."""
        with self._lock:
            waiting = list(self._pending_takes)
            self._pending_takes.clear()
        for take in waiting:
            take.manager.deregister(take.token)
            take.done(errors.CancelledError(None, None, _CANCELLED))


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


class DenseAccumulator(Accumulator):
    """Of tensors of one shape."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._sum: np.ndarray | None = None

    def _add(self, gradient: np.ndarray) -> None:
        expected = self._sum.shape if self.count and self._sum is not None else self.shape
        if not is_compatible(self.shape, gradient.shape) or not is_compatible(
            expected, gradient.shape
        ):
            raise _invalid(
                f"Shape mismatch: expected {format_shape(expected)}, got "
                f"{format_shape(gradient.shape)}"
            )
        self._sum = (
            np.array(gradient)
            if not self.count or self._sum is None
            else np.asarray(self._sum + gradient)
        )

    def _result(self) -> Sequence[Any]:
        total, self._sum = self._sum, None
        assert total is not None
        return (
            np.asarray(total / total.dtype.type(self.count), total.dtype) if self.mean else total,
        )


class SparseAccumulator(Accumulator):
    """An accumulator of slices: indices [n] and values [n, ...].

    The mean of a slice is over the gradients that had it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._indices = np.zeros(0, np.int64)
        self._values: np.ndarray | None = None
        self._counts = np.zeros(0, np.int64)

    def _add(self, gradient: tuple[np.ndarray, np.ndarray, np.ndarray | None]) -> None:
        indices, values, shape = gradient
        self._check(indices, values, shape)
        counts = np.ones(len(indices), np.int64)
        if not self.count or self._values is None:
            self._indices, self._values, self._counts = np.array(indices), np.array(values), counts
            return
        left, right = _places(self._indices, indices)
        size = max(*(int(p.max()) + 1 if p.size else 0 for p in (left, right)))
        merged = np.zeros(size, np.int64)
        merged[left], merged[right] = self._indices, indices
        total = np.zeros((size, *values.shape[1:]), values.dtype)
        total[left] = self._values
        total[right] += values
        seen = np.zeros(size, np.int64)
        seen[left] = self._counts
        seen[right] += counts
        self._indices, self._values, self._counts = merged, total, seen

    def _check(self, indices: np.ndarray, values: np.ndarray, shape: np.ndarray | None) -> None:
        if indices.ndim != 1:
            raise _invalid(
                f"Input indices should be vector but received shape: {format_shape(indices.shape)}"
            )
        if values.ndim == 0:
            raise _invalid("Values cannot be 0-dimensional.")
        if len(indices) != values.shape[0]:
            raise _invalid(f"Expected {len(indices)} non-empty input values, got {values.shape[0]}")
        declared = self.shape
        given = None if shape is None else tuple(int(d) for d in shape.reshape(-1))
        if declared is not None and given is not None:
            if len(given) < len(declared):
                raise _invalid(
                    f"Shape mismatch: expected shape rank at least {len(declared)}, got "
                    f"{len(given)}"
                )
            for i, (want, got) in enumerate(zip(declared, given, strict=False)):
                if want is not None and want != got:
                    raise _invalid(
                        f"Shape mismatch: expected shape dim {i} to be {want}, got {got}"
                    )
        held = self._values if self.count else None
        if held is not None:
            if held.ndim != values.ndim:
                raise _invalid(
                    f"Shape mismatch: expected values rank {held.ndim}, got {values.ndim}"
                )
            for i in range(1, held.ndim):
                if held.shape[i] != values.shape[i]:
                    raise _invalid(
                        f"Shape mismatch: expected values dim {i} to be {held.shape[i]}, got "
                        f"{values.shape[i]}"
                    )

    def _result(self) -> Sequence[Any]:
        values = self._values
        assert values is not None
        if self.mean:
            counts = self._counts.astype(values.dtype).reshape(-1, *(1,) * (values.ndim - 1))
            values = np.asarray(values / counts, values.dtype)
        first = self.shape[0] if self.shape else None
        shape = np.array([-1 if first is None else first, *values.shape[1:]], np.int64)
        indices, self._values = self._indices, None
        return (indices, values, shape)


def _places(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of both arrays' elements in their merge.

    The merge takes both for sorted; equal heads get one place.
    """
    if (np.diff(a) > 0).all() and (np.diff(b) > 0).all():
        union = np.union1d(a, b)
        return np.searchsorted(union, a), np.searchsorted(union, b)
    left, right = np.empty(len(a), np.int64), np.empty(len(b), np.int64)
    i = j = place = 0
    while i < len(a) or j < len(b):
        from_a = j == len(b) or (i < len(a) and a[i] <= b[j])
        from_b = i == len(a) or (j < len(b) and b[j] <= a[i])
        if from_a:
            left[i] = place
            i += 1
        if from_b:
            right[j] = place
            j += 1
        place += 1
    return left, right


def _scalar(value: Any, name: str) -> int:
    array = np.asarray(value)
    if array.ndim:
        raise _invalid(
            f"Argument {name} must be scalar, but had bad shape {format_shape(array.shape)}"
        )
    return int(array)


def _check_dtype(accumulator: Accumulator, dtype: DType, what: str) -> None:
    if dtype != accumulator.dtype:
        raise _invalid(
            f"{what} is {short_name(dtype)}, but the accumulator '{accumulator.name}' holds "
            f"{short_name(accumulator.dtype)}"
        )


@runtime_kernel(
    "ConditionalAccumulator", "SparseConditionalAccumulator", "ResourceConditionalAccumulator"
)
def make_accumulator(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the accumulator of this name."""
    a = ctx.attrs
    name = a.get("shared_name", b"").decode() or ctx.name
    dtype, shape = a["dtype"], a["shape"].dims_tuple
    kind = SparseAccumulator if ctx.op.startswith("Sparse") else DenseAccumulator
    manager = ctx.session.manager(ctx.device.name)
    mean = a.get("reduction_type", b"MEAN") == b"MEAN"
    found: Accumulator = manager.lookup_or_create(
        a.get("container", b"").decode(),
        kind.__name__,
        name,
        lambda: kind(name, dtype, shape, mean),
    )
    if found.dtype != dtype:
        raise _invalid(
            f"Shared conditional accumulator '{name}' has dtype {short_name(found.dtype)} but "
            f"requested dtype was {short_name(dtype)}"
        )
    if found.shape != shape:
        raise _invalid(
            f"Shared conditional accumulator '{name}' has shape {format_shape(found.shape)} but "
            f"requested shape was {format_shape(shape)}"
        )
    return (found,)


@runtime_kernel("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient")
def apply_gradient(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Add a gradient, unless it is of an earlier step."""
    accumulator = inputs[0]
    _check_dtype(accumulator, ctx.attrs["dtype"], "The gradient")
    accumulator.apply(_scalar(inputs[1], "local_step"), np.asarray(inputs[2]))
    return ()


@runtime_kernel("SparseAccumulatorApplyGradient")
def apply_sparse_gradient(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Add the slices of a gradient, unless of an earlier step."""
    accumulator, step, indices, values, shape = inputs
    _check_dtype(accumulator, ctx.attrs["dtype"], "The gradient")
    known = np.asarray(shape) if ctx.attrs["has_known_shape"] else None
    accumulator.apply(_scalar(step, "local_step"), (np.asarray(indices), np.asarray(values), known))
    return ()


@blocking_kernel(
    "AccumulatorTakeGradient", "SparseAccumulatorTakeGradient", "ResourceAccumulatorTakeGradient"
)
def take_gradient(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Take the sum or mean of the gradients, once there are enough."""
    accumulator = inputs[0]
    required = _scalar(inputs[1], "num_required")
    if required <= 0:
        raise _invalid(f"Argument num_required must be positive, but was {required}")
    _check_dtype(accumulator, ctx.attrs["dtype"], "What is taken")
    accumulator.take(required, ctx.step.cancellation, done)


@runtime_kernel("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated")
def num_accumulated(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of gradients, an int32 scalar."""
    return (np.array(inputs[0].count, np.int32),)


@runtime_kernel("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep")
def set_global_step(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Drop gradients of earlier steps from now on."""
    inputs[0].set_step(_scalar(inputs[1], "new_global_step"))
    return ()
