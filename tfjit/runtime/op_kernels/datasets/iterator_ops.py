"""Iterators: made, given a dataset, asked for elements, and named by strings."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.runtime.datasets.dataset import as_dataset
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.iterator import IteratorResource, NotReady, check_shapes
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.op_kernel import (
    OpContext,
    RuntimeKernel,
    blocking_kernel,
    kernel_maker,
    runtime_kernel,
)
from tfjit.runtime.op_kernels.containers.optional_ops import NOTHING, Optional
from tfjit.runtime.plan.function_plan import BodyPlan

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.runtime.datasets.dataset import Element

_TYPE: Final = "N10tensorflow4data16IteratorResourceE"
_numbers: Final = itertools.count()
# iterators without a name in a resource manager, by the name in their string handle
_anonymous: Final[weakref.WeakValueDictionary[str, IteratorResource]] = (
    weakref.WeakValueDictionary()
)


def _new(ctx: OpContext, container: str, name: str) -> IteratorResource:
    shapes = [shape.dims_tuple for shape in ctx.attrs["output_shapes"]]
    return IteratorResource(container, name, ctx.attrs["output_types"], shapes)


def _shared(ctx: OpContext) -> IteratorResource:
    container = ctx.attrs.get("container", b"").decode()
    name = ctx.attrs.get("shared_name", b"").decode() or ctx.name
    manager = ctx.session.manager(ctx.device.name)
    found: IteratorResource = manager.lookup_or_create(
        container, _TYPE, name, lambda: _new(ctx, container, name)
    )
    return found


@runtime_kernel("Iterator", "IteratorV2")
def iterator(ctx: OpContext, inputs: Element) -> Element:
    """Return the iterator of a name, made if missing."""
    return (_shared(ctx),)


@runtime_kernel("AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3")
def anonymous_iterator(ctx: OpContext, inputs: Element) -> Element:
    """Return a new iterator that ends with its last handle."""
    made = _new(ctx, "", f"{ctx.op}{next(_numbers)}")
    _anonymous[made.name] = made
    return (made, None) if ctx.op == "AnonymousIteratorV2" else (made,)


@runtime_kernel("DeleteIterator", expensive=True)
def delete_iterator(ctx: OpContext, inputs: Element) -> Element:
    """End the iterator."""
    _iterator(inputs[0]).close()
    return ()


@runtime_kernel("MakeIterator", expensive=True)
def make_iterator(ctx: OpContext, inputs: Element) -> Element:
    """Begin a pass of the iterator over the dataset."""
    _iterator(inputs[1]).restart(as_dataset(inputs[0]), ctx.step)
    return ()


@kernel_maker("OneShotIterator")
def one_shot_iterator(node: Node) -> RuntimeKernel:
    """Make a kernel of an iterator over a function's dataset."""
    library, ref = node._graph.functions, node.attrs["dataset_factory"]

    def compute(ctx: OpContext, inputs: Element) -> Element:
        found = _shared(ctx)
        if not found.is_initialized:
            with found.making:
                if not found.is_initialized:
                    host = ctx.step.host
                    plan: BodyPlan = library.keep(
                        ref, "plan", lambda: BodyPlan(host, library.body(ref))
                    )
                    (dataset,) = plan.body(()).call([], ctx.step)
                    found.restart(as_dataset(dataset), ctx.step)
        return (found,)

    return RuntimeKernel(compute, expensive=True)


def _get_next(
    ctx: OpContext,
    inputs: Element,
    done: Done,
    finish: Callable[[OpContext, Element | None], Element],
) -> None:
    """Call `done` with the outputs that `finish` makes of an element."""
    _Request(_iterator(inputs[0]), ctx, done, finish).attempt()


class _Request:
    """A step's request for an element.

    A quick element is computed at once. A thread that prefetches calls back when it has one. For
    another element, the request gets a thread.
    """

    __slots__ = ("_ctx", "_done", "_finish", "_iterator", "_lock", "_token")

    def __init__(
        self,
        iterator: IteratorResource,
        ctx: OpContext,
        done: Done,
        finish: Callable[[OpContext, Element | None], Element],
    ) -> None:
        self._iterator, self._ctx, self._finish = iterator, ctx, finish
        self._done: Done | None = done
        self._lock = threading.Lock()
        self._token: int | None = None

    def attempt(self) -> None:
        """Answer the request now, or have that done later."""
        cancellation = self._ctx.step.cancellation
        attrs = self._ctx.attrs
        try:
            self._iterator.accepts(attrs["output_types"], attrs["output_shapes"])
            found = self._iterator.poll(cancellation)
        except BaseException as error:  # handed to the executor
            self._answer(error)
            return
        if not isinstance(found, NotReady):
            self._answer(found)
        elif self._iterator.call_when_ready(self.attempt):
            if self._token is None:
                self._token = cancellation.register(self._cancel)
                if self._token is None:
                    self._cancel()
        else:
            threading.Thread(target=self._wait, name="tfjit-iterator", daemon=True).start()

    def _wait(self) -> None:
        try:
            found = self._iterator.next(self._ctx.step.cancellation)
        except BaseException as error:  # handed to the executor
            self._answer(error)
        else:
            self._answer(found)

    def _cancel(self) -> None:
        self._answer(errors.CancelledError(None, None, "IteratorGetNext was cancelled"))

    def _answer(self, found: Element | BaseException | None) -> None:
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return
        self._ctx.step.cancellation.deregister(self._token)
        if isinstance(found, errors.OpError):
            done(_told(self._ctx, found))
        elif isinstance(found, BaseException):
            done(found)
        else:
            try:
                result = self._finish(self._ctx, found)
            except BaseException as error:  # handed to the executor
                done(error)
            else:
                done(result)


def _told(ctx: OpContext, error: errors.OpError) -> errors.OpError:
    """Return a function's error with the node that asked for the element."""
    if "{{node " not in error.message:
        return error
    return error.restated(f"{error.message}\n\t [[{ctx.name}]]")


def _components(ctx: OpContext, element: Element | None) -> Element:
    if element is None:
        raise errors.OutOfRangeError(None, None, "End of sequence")
    return _checked(ctx, element)


def _checked(ctx: OpContext, element: Element) -> Element:
    """Check an element's types and shapes, which compiled code trusts."""
    shapes = ctx.attrs["output_shapes"]
    for i, (value, dtype) in enumerate(zip(element, ctx.attrs["output_types"], strict=True)):
        if isinstance(value, np.ndarray):
            if dtype.is_numpy_compatible and value.dtype != dtype.as_numpy_dtype:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Data type mismatch at component {i}: expected {short_name(dtype)} but got "
                    f"{value.dtype}.",
                )
            shape = shapes[i].dims_tuple
            if shape != value.shape:
                check_shapes([None] * i + [shape], [None] * i + [value.shape])
    return element


@blocking_kernel("IteratorGetNext", "IteratorGetNextSync")
def get_next(ctx: OpContext, inputs: Element, done: Done) -> None:
    """Return the components of the next element; OutOfRangeError at the end."""
    _get_next(ctx, inputs, done, _components)


@blocking_kernel("IteratorGetNextAsOptional")
def get_next_as_optional(ctx: OpContext, inputs: Element, done: Done) -> None:
    """Return an optional of the next element, without value at the end."""
    _get_next(ctx, inputs, done, _as_optional)


def _as_optional(ctx: OpContext, element: Element | None) -> Element:
    return (NOTHING if element is None else Optional(tuple(_checked(ctx, element))),)


@runtime_kernel("IteratorToStringHandle")
def to_string_handle(ctx: OpContext, inputs: Element) -> Element:
    """Return a string that names the iterator to later steps."""
    from tfjit.protos.tensor_pb2 import ResourceHandleProto

    found = _iterator(inputs[0])
    handle = ResourceHandleProto(
        device=ctx.device.name,
        container=found.container or "localhost",
        name=found.name,
        maybe_type_name=_TYPE,
    )
    return (np.array(handle.SerializeToString(deterministic=True), object),)


@runtime_kernel("IteratorFromStringHandle", "IteratorFromStringHandleV2")
def from_string_handle(ctx: OpContext, inputs: Element) -> Element:
    """Return the iterator that a string names.

    Raises InvalidArgumentError for a string that is no handle or of an iterator on another device,
    NotFoundError where the iterator is gone.
    """
    from google.protobuf.message import DecodeError

    from tfjit.protos.tensor_pb2 import ResourceHandleProto

    text = np.asarray(inputs[0], object)
    if text.ndim:
        raise errors.InvalidArgumentError(None, None, "string_handle must be a scalar")
    try:
        handle = ResourceHandleProto.FromString(text.item())
    except DecodeError:
        handle = ResourceHandleProto()
    if not handle.name:
        raise errors.InvalidArgumentError(
            None, None, "Could not parse string_handle as a valid ResourceHandle"
        )
    if handle.device != ctx.device.name:
        raise errors.InvalidArgumentError(
            None,
            None,
            f'Attempted create an iterator on device "{ctx.device.name}" from handle defined on '
            f'device "{handle.device}"',
        )
    found = _anonymous.get(handle.name)
    if found is None:
        found = ctx.session.manager(ctx.device.name).lookup(handle.container, _TYPE, handle.name)
    if ctx.attrs["output_types"]:
        found.accepts(ctx.attrs["output_types"], ctx.attrs["output_shapes"])
    return (found,)


@runtime_kernel("IteratorGetDevice", "ExperimentalIteratorGetDevice")
def get_device(ctx: OpContext, inputs: Element) -> Element:
    """Return the name of the device that the iterator is on."""
    _iterator(inputs[0])
    return (np.array(ctx.device.name.encode(), object),)


def _iterator(value: Value) -> IteratorResource:
    if not isinstance(value, IteratorResource):
        raise errors.InvalidArgumentError(
            None, None, f"the handle belongs to a {type(value).__name__}, not to an iterator"
        )
    return value
