"""Staging areas: tuples of tensors that one step leaves for another.

They leave in order of arrival or by key. An operation that must wait holds no thread; it waits
until it can run or its step is cancelled (TensorFlow's would wait for ever). Source of the
semantics: TensorFlow 2.5, kernels/stage_op.cc and map_stage_op.cc.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.completion import Done
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.runtime.host.cancellation import CancellationManager

Finish = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Attempt:
    """A waiting operation.

    try_run: runs the operation under the area's lock; returns the function to call then, or None
    while it must wait.
    """

    try_run: Callable[[], Finish | None]
    manager: CancellationManager
    token: Any = None


@dataclass(slots=True)
class _Waiting:
    """The operations that wait for an area to change.

    The first one that can run does so, even before earlier ones.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    attempts: list[_Attempt] = field(default_factory=list)

    def begin(self, ctx: OpContext, work: Callable[[], Sequence[Any] | None], done: Done) -> None:
        """Do `work` as soon as possible.

        `work` returns the outputs, None to wait, or raises.
        """

        def try_run() -> Finish | None:
            try:
                outputs = work()
            except errors.OpError as error:
                failure = error
                return lambda: done(failure)
            return None if outputs is None else lambda: done(outputs)

        def cancel() -> None:
            with self.lock:
                if attempt not in self.attempts:
                    return
                self.attempts.remove(attempt)
            done(cancelled)

        cancelled = errors.CancelledError(None, None, f"{ctx.op} operation was cancelled")
        attempt = _Attempt(try_run, ctx.step.cancellation)
        attempt.token = attempt.manager.register(cancel)
        if attempt.token is None:
            done(cancelled)
            return
        with self.lock:
            self.attempts.append(attempt)
        self.advance()

    def advance(self) -> None:
        """Run waiting operations until none can run."""
        over: list[tuple[_Attempt, Finish]] = []
        with self.lock:
            moved = True
            while moved:
                moved = False
                for attempt in list(self.attempts):
                    finish = attempt.try_run()
                    if finish is not None:
                        self.attempts.remove(attempt)
                        over.append((attempt, finish))
                        moved = True
        for attempt, finish in over:
            attempt.manager.deregister(attempt.token)
            finish()

    def after_fork(self) -> None:
        """Reset the area in a forked child.

        The steps that wait here are the parent's.
        """
        release_lock(self.lock)
        self.attempts.clear()


class _Area:
    """Base of the kinds of areas.

    capacity: tuples; memory_limit: bytes of them all; 0: no limit.
    """

    def __init__(self, capacity: int, memory_limit: int) -> None:
        self.capacity, self.memory_limit = capacity, memory_limit
        self.size_bytes = 0
        self.waiting = _Waiting()

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        self.waiting.after_fork()

    def check_bytes(self, size_bytes: int) -> None:
        """Raise ResourceExhaustedError for tensors that never fit."""
        if self.memory_limit and size_bytes > self.memory_limit:
            raise errors.ResourceExhaustedError(
                None,
                None,
                f"Attempted to insert tensors with combined size of '{size_bytes}' bytes into "
                "Staging Area with a memory limit of "
                f"'{self.memory_limit}'.",
            )

    def has_capacity(self, count: int, size_bytes: int) -> bool:
        """Return whether tensors of that size fit beside `count` tuples."""
        if self.capacity and count >= self.capacity:
            return False
        return not self.memory_limit or self.size_bytes + size_bytes <= self.memory_limit


class StagingArea(_Area):
    """Tuples in order of arrival."""

    def __init__(self, capacity: int, memory_limit: int) -> None:
        super().__init__(capacity, memory_limit)
        self.tuples: list[tuple[Any, ...]] = []

    def put(self, values: tuple[Any, ...]) -> Sequence[Any] | None:
        """Append a tuple, if there is room."""
        size_bytes = _size_bytes(values)
        self.check_bytes(size_bytes)
        if not self.has_capacity(len(self.tuples), size_bytes):
            return None
        self.tuples.append(values)
        self.size_bytes += size_bytes
        return ()

    def take(self) -> Sequence[Any] | None:
        """Remove the first tuple, if there is one."""
        if not self.tuples:
            return None
        values = self.tuples.pop(0)
        self.size_bytes -= _size_bytes(values)
        return values

    def peek(self, index: int) -> Sequence[Any] | None:
        """Return the tuple of that number, if there is one."""
        return self.tuples[index] if index < len(self.tuples) else None

    def clear(self) -> None:
        """Drop all tuples."""
        self.tuples.clear()
        self.size_bytes = 0


_NOTHING: Final = object()  # marks a place of a tuple without value


class StagingMap(_Area):
    """Tuples by key; a key's values may come and leave in parts.

    ordered: the smallest key leaves first, else the newest.
    """

    def __init__(self, width: int, capacity: int, memory_limit: int, *, ordered: bool) -> None:
        super().__init__(capacity, memory_limit)
        self.width = width
        self.ordered = ordered
        self.complete: dict[int, list[Any]] = {}
        self.incomplete: dict[int, list[Any]] = {}

    def put(
        self, key: int, indices: Sequence[int], values: tuple[Any, ...]
    ) -> Sequence[Any] | None:
        """Put some or all of a key's values, if there is room.

        A known key keeps its values.
        """
        self._check_order(indices)
        if len(indices) != len(values):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"There are {len(indices)} indices for {len(values)} values of key '{key}'",
            )
        size_bytes = _size_bytes(values)
        self.check_bytes(size_bytes)
        if len(indices) == self.width:
            self._check_indices(key, indices)
            if not self.has_capacity(len(self.complete), size_bytes):
                return None
            self._add(key, list(values))
            return ()
        if self.memory_limit and self.size_bytes + size_bytes > self.memory_limit:
            return None
        self._check_indices(key, indices)
        row = self.incomplete.get(key, [_NOTHING] * self.width)
        for index in indices:
            if row[index] is not _NOTHING:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"The tensor for index '{index}' for key '{key}' was already initialized "
                    f"'{self.width}'.",
                )
        for index, value in zip(indices, values, strict=True):
            row[index] = value
        self.incomplete[key] = row
        self.size_bytes += size_bytes
        if all(value is not _NOTHING for value in row):
            del self.incomplete[key]
            self.size_bytes -= _size_bytes(row)
            self._add(key, row)
        return ()

    def _add(self, key: int, row: list[Any]) -> None:
        if key not in self.complete:
            self.complete[key] = row
            self.size_bytes += _size_bytes(row)

    def read(self, key: int, indices: Sequence[int], *, remove: bool) -> Sequence[Any] | None:
        """Return some of a key's values, if the key is here.

        A key whose values are all gone is gone.
        """
        row = self.complete.get(key)
        if row is None:
            return None
        self._check_order(indices)
        self._check_indices(key, indices)
        for index in indices:
            if row[index] is _NOTHING:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Tensor at index '{index}' for key '{key}' has already been removed.",
                )
        values = [row[index] for index in indices]
        if remove:
            for index in indices:
                row[index] = _NOTHING
            self.size_bytes -= _size_bytes(values)
            if all(value is _NOTHING for value in row):
                del self.complete[key]
        return values

    def take_any(self, indices: Sequence[int]) -> Sequence[Any] | None:
        """Return (key, *values) of the first key, if there is one."""
        if not self.complete:
            return None
        key = min(self.complete) if self.ordered else next(reversed(self.complete))
        values = self.read(key, indices, remove=True)
        return None if values is None else [np.array(key, np.int64), *values]

    def clear(self) -> None:
        """Drop all keys."""
        self.complete.clear()
        self.incomplete.clear()
        self.size_bytes = 0

    def _check_order(self, indices: Sequence[int]) -> None:
        if any(b <= a for a, b in itertools.pairwise(indices)):
            raise errors.InvalidArgumentError(None, None, "Indices are not strictly ordered")

    def _check_indices(self, key: int, indices: Sequence[int]) -> None:
        for index in indices:
            if not 0 <= index < self.width:
                # as TensorFlow, which takes it for unsigned
                shown = index if index >= 0 else index + (1 << 64)
                raise errors.InvalidArgumentError(
                    None, None, f"Index '{shown}' for key '{key}' was out of bounds '{self.width}'."
                )


def _size_bytes(values: Sequence[Any]) -> int:
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


def _area(ctx: OpContext, kind: str, make: Callable[[int, int], Any]) -> Any:
    attrs = ctx.attrs
    name = attrs.get("shared_name", b"").decode() or ctx.name
    container = attrs.get("container", b"").decode()
    manager = ctx.session.manager(ctx.device.name)
    return manager.lookup_or_create(
        container, kind, name, lambda: make(attrs["capacity"], attrs["memory_limit"])
    )


def _staging_area(ctx: OpContext) -> StagingArea:
    found: StagingArea = _area(ctx, "StagingArea", StagingArea)
    return found


def _staging_map(ctx: OpContext) -> StagingMap:
    ordered = ctx.op.startswith("Ordered")
    width = len(ctx.attrs["dtypes"])
    found: StagingMap = _area(
        ctx,
        "OrderedStagingMap" if ordered else "StagingMap",
        lambda capacity, limit: StagingMap(width, capacity, limit, ordered=ordered),
    )
    return found


def _values(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Copy values, since a step's memory is its own."""
    values = (
        value.initialized_value() if isinstance(value, Variable) else value for value in inputs
    )
    return tuple(
        [
            np.array(value) if isinstance(value, (np.ndarray, np.generic)) else value
            for value in values
        ]
    )


def _results(ctx: OpContext, done: Done) -> Done:
    """Return `done` with a check of the outputs' dtypes.

    The area knows the dtypes and the node states them.
    """

    def checked(outputs: Sequence[Any] | BaseException) -> None:
        if not isinstance(outputs, BaseException):
            if len(outputs) != len(ctx.output_dtypes):
                text = f"Mismatch stage/unstage: {len(outputs)} vs. {len(ctx.output_dtypes)}"
                done(errors.InvalidArgumentError(None, None, text))
                return
            for i, (value, dtype) in enumerate(zip(outputs, ctx.output_dtypes, strict=True)):
                if (
                    isinstance(value, np.ndarray)
                    and value.dtype != object
                    and as_dtype(value.dtype) != dtype
                ):
                    text = (
                        f"Output {i} of type {_name(as_dtype(value.dtype))} does not match "
                        f"declared output type {_name(dtype)} for node "
                    )
                    done(errors.InternalError(None, None, f"{text}{{{{node {ctx.name}}}}}"))
                    return
        done(outputs)

    return checked


def _name(dtype: Any) -> str:
    name: str = dtype.name
    return {"float32": "float", "float64": "double"}.get(name, name)


def _key(value: Any) -> int:
    key = np.asarray(value)
    if key.size == 0:
        raise errors.InvalidArgumentError(None, None, "key must not be empty")
    if key.size != 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"key must be an int64 scalar, got tensor with shape: {format_shape(key.shape)}",
        )
    return int(key.reshape(-1)[0])


def _indices(value: Any) -> list[int]:
    return [int(index) for index in np.asarray(value).reshape(-1)]


@blocking_kernel("Stage")
def stage(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Append a tuple; waits for room."""
    area, values = _staging_area(ctx), _values(inputs)
    area.waiting.begin(ctx, lambda: area.put(values), done)


@blocking_kernel("Unstage")
def unstage(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Remove the first tuple; waits for one."""
    area = _staging_area(ctx)
    area.waiting.begin(ctx, area.take, _results(ctx, done))


@blocking_kernel("StagePeek")
def stage_peek(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Read the tuple of a number without removing it; waits for it."""
    index = np.asarray(inputs[0])
    if index.shape != ():
        raise errors.InvalidArgumentError(None, None, "index must be scalar")
    if index < 0:
        raise errors.InvalidArgumentError(
            None, None, f"index must not be negative, got {int(index)}"
        )
    area, number = _staging_area(ctx), int(index)
    area.waiting.begin(ctx, lambda: area.peek(number), _results(ctx, done))


@runtime_kernel("StageSize")
def stage_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of tuples in the area."""
    return (np.array(len(_staging_area(ctx).tuples), np.int32),)


@runtime_kernel("StageClear", "MapClear", "OrderedMapClear")
def stage_clear(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Drop all."""
    area: StagingArea | StagingMap = (
        _staging_area(ctx) if ctx.op == "StageClear" else _staging_map(ctx)
    )
    with area.waiting.lock:
        area.clear()
    area.waiting.advance()
    return ()


@blocking_kernel("MapStage", "OrderedMapStage")
def map_stage(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Put a key's values, all or some; waits for room."""
    area, key, indices, values = (
        _staging_map(ctx),
        _key(inputs[0]),
        _indices(inputs[1]),
        _values(inputs[2:]),
    )
    area.waiting.begin(ctx, lambda: area.put(key, indices, values), done)


@blocking_kernel("MapUnstage", "OrderedMapUnstage", "MapPeek", "OrderedMapPeek")
def map_unstage(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Read some of a key's values; waits for the key.

    They are removed unless it is a peek.
    """
    area, key, indices = _staging_map(ctx), _key(inputs[0]), _indices(inputs[1])
    remove = ctx.op.endswith("Unstage")
    area.waiting.begin(ctx, lambda: area.read(key, indices, remove=remove), _results(ctx, done))


@blocking_kernel("MapUnstageNoKey", "OrderedMapUnstageNoKey")
def map_unstage_any(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Remove a key and some of its values; waits for a key."""
    area, indices = _staging_map(ctx), _indices(inputs[0])
    area.waiting.begin(ctx, lambda: area.take_any(indices), _results(ctx, done))


@runtime_kernel("MapSize", "OrderedMapSize")
def map_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of keys with all values."""
    return (np.array(len(_staging_map(ctx).complete), np.int32),)


@runtime_kernel("MapIncompleteSize", "OrderedMapIncompleteSize")
def map_incomplete_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of keys with values still missing."""
    return (np.array(len(_staging_map(ctx).incomplete), np.int32),)
