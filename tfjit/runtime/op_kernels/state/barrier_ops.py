"""Barriers: tuples whose components come one by one, by key.

Tuples leave when they are whole.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import int64, string
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.completion import Done
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.op_kernels.state.queue_ops import resource_label, stack_components
from tfjit.runtime.resources.queues import PriorityStore, Queue

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape

_FIRST_INDEX = -(1 << 63)


class Barrier:
    """A barrier resource.

    Whole tuples wait in a priority queue, the first inserted first: the index counts insertions of
    new keys.
    """

    def __init__(self, name: str, dtypes: tuple[DType, ...], shapes: tuple[Shape, ...]) -> None:
        self.name = name
        self.dtypes = dtypes
        self.shapes = shapes
        self.ready = Queue(
            f"{name}_queue",
            (int64, string, *dtypes),
            ((), (), *(shapes or [None] * len(dtypes))),
            -1,
            PriorityStore(),
            type_name="PriorityQueue",
        )
        self._lock = threading.Lock()
        self._incomplete: dict[bytes, tuple[int, list[Any]]] = {}
        self._next_index = _FIRST_INDEX
        self._closed = False
        self._cancelled = False

    def insert(
        self, keys: Sequence[bytes], values: np.ndarray, component: int, ctx: OpContext, done: Done
    ) -> None:
        """Give each key its component; tuples that are whole now become ready.

        Nothing is inserted when an error is raised.
        """
        with self._lock:
            self._check(keys, values, component)
            whole = []
            new = any(key not in self._incomplete for key in keys)
            for key, value in zip(keys, values, strict=True):
                index, parts = self._incomplete.setdefault(
                    key, (self._next_index, [None] * len(self.dtypes))
                )
                parts[component] = np.array(value)
                if all(part is not None for part in parts):
                    del self._incomplete[key]
                    whole.append((np.array(index), np.array(key, object), *parts))
            self._next_index += new
            closes = self._closed and not self._incomplete
        if whole:
            self.ready.enqueue(whole, ctx.step.cancellation, done)
        else:
            done(())
        if closes:
            self.ready.close()

    def _check(self, keys: Sequence[bytes], values: np.ndarray, component: int) -> None:
        state = f"Pending enqueues cancelled: {int(self._cancelled)}."
        left = f"Number of incomplete keys: {len(self._incomplete)}."
        if self._closed and (self._cancelled or (keys and not self._incomplete)):
            raise errors.CancelledError(
                None,
                None,
                f"Barrier {self.name} is closed.  {state}  Number of new insertions: {len(keys)}.  "
                f"{left}",
            )
        given = set()
        for i, key in enumerate(keys):
            known = self._incomplete.get(key)
            if known is None and self._closed:
                raise errors.CancelledError(
                    None,
                    None,
                    f"Barrier {self.name} is closed, but attempted to insert a brand new key: "
                    f"{key.decode(errors='replace')}.  {state}"
                    f"  Insertion index: {i}.  {left}",
                )
            if key in given or (known is not None and known[1][component] is not None):
                text = key.decode(errors="replace")
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Key {text} already has a value for component {component} in barrier "
                    f"{self.name}",
                )
            given.add(key)
        shape = self.shapes[component] if self.shapes else None
        got = values.shape[1:]
        if shape is not None and (
            len(shape) != len(got)
            or any(d is not None and d != g for d, g in zip(shape, got, strict=True))
        ):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Shape mismatch in tuple component {component}. Expected {format_shape(shape)}, "
                f"got {format_shape(got)}",
            )

    def take(self, count: int, small: bool, ctx: OpContext, done: Done) -> None:
        """Take `count` whole tuples: stacked indices, keys and components.

        Takes those that are there, when the barrier is closed and `small`.
        """
        with self._lock:
            size = len(self.ready.store)
            if self._closed and small and count:
                count = min(count, size)
                insufficient = count == 0
            else:
                insufficient = self._closed and not self._incomplete and size < count
        if insufficient:
            text = f"is closed and has insufficient elements (requested {count}, total size {size})"
            done(errors.OutOfRangeError(None, None, f"Barrier '{self.name}' {text}"))
            return

        def taken(result: Any) -> None:
            done(
                result
                if isinstance(result, BaseException)
                else stack_components(self.ready, result)
            )

        if count == 0:
            taken([])
        else:
            self.ready.dequeue(count, False, ctx.step.cancellation, taken)

    def refuse(self, cancel: bool) -> None:
        """Refuse new keys; with `cancel` also components of incomplete tuples.

        Raises CancelledError when closed already.
        """
        with self._lock:
            if self._closed and (self._cancelled or not cancel):
                raise errors.CancelledError(None, None, f"Barrier '{self.name}' is already closed.")
            self._closed = True
            self._cancelled = cancel
            if cancel:
                self._incomplete.clear()
            closes = not self._incomplete
        if closes:
            self.ready.close()

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)
        self.ready.after_fork()

    def close(self) -> None:
        """Close the barrier at the end of the session."""
        self.ready.close()

    def incomplete_size(self) -> int:
        """Return the number of keys that miss a component."""
        return len(self._incomplete)


@runtime_kernel("Barrier")
def barrier(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the barrier of this name."""
    a = ctx.attrs
    name = a.get("shared_name", b"").decode() or ctx.name
    dtypes = tuple(a["component_types"])
    shapes = tuple(shape.dims_tuple for shape in a.get("shapes", ()))
    manager = ctx.session.manager(ctx.device.name)
    found: Barrier = manager.lookup_or_create(
        a.get("container", b"").decode(),
        "Barrier",
        name,
        lambda: Barrier(resource_label(ctx), dtypes, shapes),
    )
    if found.dtypes != dtypes:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Shared barrier '{name}' has component types {found.dtypes} but requested component "
            f"types were {dtypes}",
        )
    return (found,)


@blocking_kernel("BarrierInsertMany")
def insert_many(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Insert one component of each key's tuple."""
    keys, values = np.asarray(inputs[1], object), np.asarray(inputs[2])
    if keys.ndim != 1 or values.ndim < 1 or values.shape[0] != keys.shape[0]:
        raise errors.InvalidArgumentError(
            None,
            None,
            "keys must be a vector with one element for each value. Got "
            f"{format_shape(keys.shape)} and {format_shape(values.shape)}",
        )
    component = int(ctx.attrs["component_index"])
    target: Barrier = inputs[0]
    if not 0 <= component < len(target.dtypes):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The component ID is out of range {component} > num_components (= "
            f"{len(target.dtypes)})",
        )
    target.insert(list(keys), values, component, ctx, done)


@blocking_kernel("BarrierTakeMany")
def take_many(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Take the next whole tuples."""
    count = int(np.asarray(inputs[1]))
    if count < 0:
        raise errors.InvalidArgumentError(
            None, None, f"num_elements must be nonnegative, but it is {count}"
        )
    inputs[0].take(count, bool(ctx.attrs.get("allow_small_batch", False)), ctx, done)


@runtime_kernel("BarrierClose")
def close(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Refuse new keys."""
    inputs[0].refuse(bool(ctx.attrs.get("cancel_pending_enqueues", False)))
    return ()


@runtime_kernel("BarrierReadySize")
def ready_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of whole tuples, an int32 scalar."""
    return (np.array(inputs[0].ready.size(), np.int32),)


@runtime_kernel("BarrierIncompleteSize")
def incomplete_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of keys that miss a component, an int32 scalar."""
    return (np.array(inputs[0].incomplete_size(), np.int32),)
