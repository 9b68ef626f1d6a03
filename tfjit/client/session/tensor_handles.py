"""Session handles: tensors that stay in the session between runs.

`run` returns their names:

    handle = session.run(tfjit.get_session_handle(y), feeds)     # y stays where it is
    session.run(z, {x: handle})                                  # fed back for a tensor
    holder, value = tfjit.get_session_tensor(handle.handle, tfjit.float32)
    session.run(tfjit.sqrt(value), {holder: handle.handle})      # read by an operation
    handle.delete()                  # else deleted with the last reference to `handle`
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tfjit.client.session.feeds import FeedSlot, ResolvedFeeds, StringSlot, receiver
from tfjit.client.session.fetches import FetchMapper
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import colocate_with, device
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.device_spec import DeviceSpec
from tfjit.framework.types.dtypes import DType, as_dtype, enum_name, string
from tfjit.ops.core.apply import create, tensor

if TYPE_CHECKING:
    from tfjit.client.session.base_session import BaseSession
    from tfjit.framework.graphs.typing import DTypeLike

_HANDLE_OPS: Final = ("GetSessionHandle", "GetSessionHandleV2")


class TensorHandle:
    """A tensor that a session keeps.

    It is deleted after the last reference to this object is gone, together with others. handle:
    "node;id;device", the argument of `get_session_tensor` and `delete_session_tensor`, and the feed
    of their holders.
    """

    def __init__(self, handle: str, dtype: DType, session: BaseSession) -> None:
        self._handle = handle
        self._dtype = dtype
        self._session = session
        self._deletes = True

    @property
    def handle(self) -> str:
        """The handle as text."""
        return self._handle

    def __str__(self) -> str:
        return self._handle

    def eval(self) -> Any:
        """Return the tensor's value. Raises TypeError after `delete` and `get_raw_handle`."""
        self._check()
        holder, reader = handle_ops(self._session.graph).reader(self._handle, self._dtype)
        return self._session.run(reader, {holder: self._handle})

    def delete(self) -> None:
        """Delete the tensor now.

        Raises TypeError after `delete` and `get_raw_handle`.
        """
        self._check()
        self._deletes = False
        holder, deleter = handle_ops(self._session.graph).deleter(self._handle)
        self._session.run(deleter, {holder: self._handle})

    def get_raw_handle(self) -> str:
        """Return the handle as text and keep the tensor.

        From now on only `delete_session_tensor` and closing the session delete it.
        """
        self._deletes = False
        return self._handle

    def _check(self) -> None:
        if not self._deletes:
            raise TypeError(f"Persistent tensor {self._handle} may have already been deleted.")

    def __del__(self) -> None:
        if getattr(self, "_deletes", False) and not sys.is_finalizing():
            self._session._register_dead_handle(self._handle)


class HandleOps(Protocol):
    """A graph's nodes for handles, made at the first request."""

    def reader(self, handle: str, dtype: DTypeLike) -> tuple[Any, Any]:
        """Return (holder, tensor) that reads handles of this node and device."""

    def deleter(self, handle: str) -> tuple[Any, Any]:
        """Return (holder, operation) that deletes tensors of this device."""

    def mover(self, feeder: Any, handle: str) -> tuple[Any, Any] | None:
        """Return (holder, handle) that copies a tensor to `feeder`'s device.

        feeder: a holder. None when the tensor is there.
        """

    def is_feeder(self, tensor: object) -> bool:
        """Return whether the tensor is the holder of a `get_session_tensor`."""


class _OwnHandleOps:
    """Of a tfjit graph, which it does not keep alive."""

    def __init__(self, graph: Graph) -> None:
        self._graph = weakref.ref(graph)
        self._feeders: dict[str, DType] = {}
        self._readers: dict[str, tuple[Tensor, Tensor]] = {}
        self._movers: dict[str, tuple[Tensor, Tensor]] = {}
        self._deleters: dict[str, tuple[Tensor, Operation]] = {}

    def add_feeder(self, holder: Tensor, dtype: DType) -> None:
        self._feeders[holder.op.name] = dtype

    def is_feeder(self, tensor: Any) -> bool:
        return tensor.op.name in self._feeders

    def reader(self, handle: str, dtype: DTypeLike) -> tuple[Any, Any]:
        key = _node_and_device(handle)
        if key not in self._readers:
            with self._entered():
                self._readers[key] = get_session_tensor(handle, dtype)
        return self._readers[key]

    def deleter(self, handle: str) -> tuple[Any, Any]:
        key = _device_of(handle)
        if key not in self._deleters:
            with self._entered():
                self._deleters[key] = delete_session_tensor(handle)
        return self._deleters[key]

    def mover(self, feeder: Any, handle: str) -> tuple[Any, Any] | None:
        where = feeder.op.device
        if where == _device_of(handle):
            return None
        key = f"{feeder.op.name};{_node_and_device(handle)}"
        if key not in self._movers:
            holder, value = self.reader(handle, self._feeders[feeder.op.name])
            with self._entered(), device(where):
                self._movers[key] = (holder, tensor("GetSessionHandle", value=value))
        return self._movers[key]

    def _entered(self) -> Any:
        graph = self._graph()
        assert graph is not None
        return graph.as_default()


class _TensorFlowHandleOps:
    """Handle operations of a `tf.Graph`: TensorFlow's own.

    So its functions and ours know of each other's holders.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._theirs: Any = sys.modules["tensorflow.python.ops.session_ops"]

    def is_feeder(self, tensor: Any) -> bool:
        return tensor.op.name in self._graph._handle_feeders

    def reader(self, handle: str, dtype: DTypeLike) -> tuple[Any, Any]:
        holder, value = self._theirs._get_handle_reader(
            self._graph, handle, as_dtype(dtype).as_datatype_enum
        )
        return holder, value

    def deleter(self, handle: str) -> tuple[Any, Any]:
        holder, operation = self._theirs._get_handle_deleter(
            self._graph, _device_of(handle), handle
        )
        return holder, operation

    def mover(self, feeder: Any, handle: str) -> tuple[Any, Any] | None:
        found: tuple[Any, Any] | None = self._theirs._get_handle_mover(self._graph, feeder, handle)
        return found


_own: weakref.WeakKeyDictionary[Graph, _OwnHandleOps] = weakref.WeakKeyDictionary()


def handle_ops(graph: Any) -> HandleOps:
    """Return the graph's operations for handles."""
    return _own_ops(graph) if isinstance(graph, Graph) else _TensorFlowHandleOps(graph)


def _own_ops(graph: Graph) -> _OwnHandleOps:
    found = _own.get(graph)
    if found is None:
        found = _own.setdefault(graph, _OwnHandleOps(graph))
    return found


def _device_of(handle: str) -> str:
    """Return the full name of the device that a handle is of.

    Raises ValueError when it names none.
    """
    return DeviceSpec.from_string(handle.split(";")[-1]).to_string()


def _node_and_device(handle: str) -> str:
    parts = handle.split(";")
    return f"{parts[0]};{parts[-1]}"


# building graphs


def get_session_handle(data: Tensor, name: str | None = None) -> Tensor:
    """Return a string scalar that keeps `data` in the session.

    A fetch of it returns a `TensorHandle`. Raises TypeError for no tensor.
    """
    if not isinstance(data, Tensor):
        raise TypeError("`data` must be of type Tensor.")
    with colocate_with(data):
        return tensor("GetSessionHandle", name, value=data)


def get_session_tensor(
    handle: str, dtype: DTypeLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return (holder, value) of a tensor that the session keeps.

    Feed the holder a handle's text, and `value` is the tensor under that handle. handle: text of
    any handle of the same device. Raises ValueError when it names no device.
    """
    with device(_device_of(str(handle))):
        holder = tensor("Placeholder", dtype=string)
        _own_ops(holder.graph).add_feeder(holder, as_dtype(dtype))
        return holder, tensor("GetSessionTensor", name, handle=holder, dtype=as_dtype(dtype))


def delete_session_tensor(handle: str, name: str | None = None) -> tuple[Tensor, Operation]:
    """Return (holder, deletion) of a kept tensor.

    Feed the holder a handle's text and run the operation. Raises ValueError when `handle` names no
    device.
    """
    with device(_device_of(str(handle))):
        holder = tensor("Placeholder", dtype=string)
        return holder, create("DeleteSessionTensor", name, handle=holder)


# in `run`


def makes_handle(leaf: Any) -> bool:
    """Return whether `run` returns a TensorHandle for this fetch."""
    return not leaf.is_operation and leaf.element.op.type in _HANDLE_OPS


def fetch_handles(session: BaseSession, mapper: FetchMapper) -> None:
    """Let the mapper return TensorHandles where handles are fetched."""
    dtypes = {
        i: as_dtype(leaf.element.op.inputs[0].dtype)
        for i, leaf in enumerate(mapper.leaves)
        if makes_handle(leaf)
    }
    if not dtypes:
        return
    # the cached function of a fetch must not keep the session
    rebuild, found = mapper.rebuild, weakref.ref(session)

    def rebuild_with_handles(values: Sequence[Any]) -> Any:
        owner = found()
        assert owner is not None
        return rebuild(
            [
                TensorHandle(_text(v), dtypes[i], owner) if i in dtypes else v
                for i, v in enumerate(values)
            ]
        )

    mapper.rebuild = rebuild_with_handles


def feed_handles(session: BaseSession, feeds: ResolvedFeeds) -> ResolvedFeeds:
    """Return the feeds, able to take TensorHandles.

    A tensor is moved to the device of the holder that its handle is fed to.
    """
    backend = session._runtime_session
    assert backend is not None
    operations = handle_ops(session.graph)
    result = []
    for i, (slot, get, element) in enumerate(feeds):
        slot.stored = _reader(backend.session_tensor, slot, i)
        slot.received = receiver(backend, slot)
        if slot.dtype == string and operations.is_feeder(element):
            slot = _HolderSlot(slot, element, operations, session)
        result.append((slot, get, element))
    return result


def _reader(
    session_tensor: Callable[[str], tuple[DType, Any]], slot: FeedSlot, position: int
) -> Callable[[Any], Any]:
    dtype = slot.dtype

    def read(handle: TensorHandle) -> Any:
        found, value = session_tensor(handle.handle)
        if found.base_dtype != dtype:
            wanted, got = (enum_name(d)[3:].lower() for d in (dtype, found))
            raise errors.InvalidArgumentError(
                None, None, f"Expects arg[{position}] to be {wanted} but {got} is provided"
            )
        return value

    return read


class _HolderSlot(StringSlot):
    """The holder of a `get_session_tensor`.

    A handle of another device is moved first; the copy lives as long as the run.
    """

    __slots__ = ("_element", "_operations", "_session")

    def __init__(
        self, slot: FeedSlot, element: Any, operations: HandleOps, session: BaseSession
    ) -> None:
        super().__init__(slot.name, slot.dtype, slot.shape, slot.key)
        self.stored = slot.stored
        self._element = element
        self._operations = operations
        self._session = weakref.ref(session)

    def convert(self, value: Any) -> Any:
        """Return the text of a handle on the holder's device."""
        array = super().convert(value)
        if array.shape != () or isinstance(value, TensorHandle):
            return array
        handle = array.item().decode()
        mover = self._operations.mover(self._element, handle)
        if mover is None:
            return array
        session = self._session()
        assert session is not None
        holder, moved = mover
        return np.array(_Moved(session.run(moved, {holder: handle})), object)


class _Moved(bytes):
    """The text of a moved tensor's handle, which keeps that tensor."""

    kept: TensorHandle

    def __new__(cls, handle: TensorHandle) -> _Moved:
        made = super().__new__(cls, handle.handle.encode())
        made.kept = handle
        return made


def _text(value: Any) -> str:
    found = np.asarray(value, object).item()
    return found.decode() if isinstance(found, bytes) else str(found)
