"""Step statistics: the run of each node, in TensorFlow's StepStats."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.env import Clock
from tfjit.framework.types.dtypes import as_dtype

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node

_ALLOCATOR: Final = "cpu"
_REPORTED: Final = 20  # tensors in the report of a step that ran out of memory


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """An output: NumPy dtype, shape, size and address in bytes.

    An address of 0 means that the output has no memory.
    """

    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    address: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One run of a node.

    Times in ns, of the collector's clock. outputs: in order, None where the value was no array.
    """

    device: str
    node: Node
    start_ns: int
    elapsed_ns: int
    outputs: tuple[TensorRecord | None, ...]
    thread: int
    thread_name: str


class StepStatsCollector:
    """Collector of the runs of each node of a step.

    Times are taken from a monotonic clock and shown as wall clock.
    """

    def __init__(self, clock: Clock) -> None:
        self.now_ns = clock.monotonic_ns
        self._lock = threading.Lock()
        self._records: list[NodeRecord] = []
        self._offset_ns = clock.time_ns() - clock.monotonic_ns()

    @property
    def records(self) -> list[NodeRecord]:
        """The runs so far, in order of their ends."""
        with self._lock:
            return list(self._records)

    def record(
        self, device: str, node: Node, start_ns: int, elapsed_ns: int, outputs: Sequence[Any]
    ) -> None:
        """Record one run of a node.

        start_ns: of `now_ns`. outputs: its values; only their dtypes, shapes and addresses are
        kept.
        """
        thread = threading.current_thread()
        made = NodeRecord(
            device,
            node,
            start_ns,
            elapsed_ns,
            tuple(map(_tensor, outputs)),
            threading.get_ident(),
            thread.name,
        )
        with self._lock:
            self._records.append(made)

    def fill(self, metadata: Any) -> None:
        """Write RunMetadata.step_stats."""
        from tfjit.protos import DeviceStepStats

        devices: dict[str, Any] = {}
        threads: dict[int, int] = {}
        for record in sorted(self.records, key=lambda r: r.start_ns):
            device = _device(record)
            stats = devices.get(device)
            thread = threads.setdefault(record.thread, len(threads))
            if stats is None:
                stats = devices[device] = DeviceStepStats(device=device)
                self._fill_source(stats.node_stats.add(), record, thread)
            stats.thread_names[thread] = record.thread_name
            self._fill_node(stats.node_stats.add(), record, thread)
        for device in sorted(devices):
            metadata.step_stats.dev_stats.append(devices[device])

    def _fill_source(self, entry: Any, first: NodeRecord, thread: int) -> None:
        """Fill the source node that every partition begins with.

        It computes nothing, and ends as the first node starts.
        """
        at_ns = first.start_ns + self._offset_ns
        entry.node_name, entry.timeline_label, entry.thread_id = (
            "_SOURCE",
            "_SOURCE = NoOp()",
            thread,
        )
        entry.scheduled_micros = entry.all_start_micros = at_ns // 1000
        entry.scheduled_nanos = entry.all_start_nanos = at_ns

    def _fill_node(self, entry: Any, record: NodeRecord, thread: int) -> None:
        at_ns, elapsed_ns = record.start_ns + self._offset_ns, record.elapsed_ns
        entry.node_name = record.node.name
        entry.timeline_label = label(record.node)
        entry.thread_id = thread
        entry.scheduled_micros = entry.all_start_micros = at_ns // 1000
        entry.op_end_rel_micros = entry.all_end_rel_micros = max(1, elapsed_ns // 1000)
        entry.scheduled_nanos = entry.all_start_nanos = at_ns
        entry.op_end_rel_nanos = entry.all_end_rel_nanos = elapsed_ns
        made = 0
        for index, tensor in enumerate(record.outputs):
            if tensor is None:
                continue
            description = entry.output.add(slot=index).tensor_description
            description.dtype = as_dtype(tensor.dtype).as_datatype_enum
            description.shape.SetInParent()
            for d in tensor.shape:
                description.shape.dim.add(size=d)
            allocation = description.allocation_description
            allocation.requested_bytes = allocation.allocated_bytes = tensor.nbytes
            allocation.allocator_name = _ALLOCATOR
            allocation.ptr = tensor.address
            made += tensor.nbytes
        if record.node.op == "Const":
            entry.memory_stats.persistent_memory_size = made
        elif made and record.node.op != "_Arg":
            entry.memory_stats.SetInParent()
            memory = entry.memory.add(
                allocator_name=_ALLOCATOR, total_bytes=made, peak_bytes=made, live_bytes=made
            )
            memory.allocation_records.add(alloc_micros=at_ns // 1000, alloc_bytes=made)

    def memory_report(self) -> str:
        """Return the text of the largest tensors made so far.

        For a step that ran out of memory.
        """
        found = [
            (tensor, record, index)
            for record in self.records
            for index, tensor in enumerate(record.outputs)
            if tensor is not None
        ]
        found = [entry for entry in found if entry[1].node.op not in ("_Arg", "_Retval")]
        total = sum(tensor.nbytes for tensor, _, _ in found)
        found.sort(key=lambda entry: -entry[0].nbytes)
        lines = [
            f"Current usage from device: {device}, allocator: {_ALLOCATOR}"
            for device in sorted({r.device for _, r, _ in found})
        ]
        for tensor, record, index in found[:_REPORTED]:
            shape = ",".join(map(str, tensor.shape))
            lines.append(
                f"  {tensor.nbytes} B from {label(record.node)}, output {index}: "
                f"{as_dtype(tensor.dtype).name}[{shape}]"
            )
        if len(found) > _REPORTED:
            lines.append(f"  and {len(found) - _REPORTED} smaller ones")
        return "\n".join(
            [
                *lines,
                f"{len(found)} tensors of {total} B were made by this step before it ran out of "
                "memory.",
            ]
        )


def _tensor(value: Any) -> TensorRecord | None:
    if isinstance(value, np.ndarray):
        return TensorRecord(
            value.dtype, value.shape, value.nbytes, value.__array_interface__["data"][0]
        )
    if isinstance(value, np.generic):
        return TensorRecord(value.dtype, (), value.nbytes, 0)
    return None


def _device(record: NodeRecord) -> str:
    """Return the device of a run, the accelerator for offloaded nodes."""
    offloaded = record.node.attrs.get("offloaded")
    return record.device if offloaded is None else str(offloaded.device)


def label(node: Node) -> str:
    """Return TensorFlow's label of a node.

    The label of a fused or offloaded node has its members by name: "y = _Fused[h:Tanh+y:AddV2](x,
    b)".
    """
    group, offloaded = node.attrs.get("group"), node.attrs.get("offloaded")
    op = node.op if node.op_def is None else node.op_def.name
    members = () if group is None else tuple(zip(group.names, group.ops, strict=True))
    if offloaded is not None:
        nodes = map(offloaded.function.graph.node, offloaded.names)
        members = tuple((inner.name, inner.op) for inner in nodes if inner.op != "Const")
    if members:
        op = f"{node.op}[{'+'.join(f'{name}:{member}' for name, member in members)}]"
    inputs = ", ".join(edge.src for edge in node.in_edges if not edge.is_control)
    return f"{node.name} = {op}({inputs})"
