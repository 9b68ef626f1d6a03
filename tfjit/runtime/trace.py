"""Step statistics: what ran when, in TensorFlow's StepStats."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.dtypes import as_dtype
from tfjit.framework.env import Clock

if TYPE_CHECKING:
    from tfjit.passes.view import Node


class StepStatsCollector:
    """Collects one NodeExecStats a node and run. Times are taken from a monotonic clock and shown as wall clock."""

    def __init__(self, clock: Clock) -> None:
        self.now_ns = clock.monotonic_ns
        self._lock = threading.Lock()
        self._records: list[tuple[str, Node, int, int, list[tuple[Any, tuple[int, ...], int]], int]] = []
        self._offset_ns = clock.time_ns() - clock.monotonic_ns()

    def record(self, device: str, node: Node, start_ns: int, elapsed_ns: int, outputs: Sequence[Any]) -> None:
        """Note one run of a node. start_ns: of `now_ns`. outputs: its values; only their dtypes and shapes are kept."""
        tensors = [(v.dtype, v.shape, v.nbytes) for v in outputs if isinstance(v, (np.ndarray, np.generic))]
        with self._lock:
            self._records.append((device, node, start_ns, elapsed_ns, tensors, threading.get_ident()))

    def fill(self, metadata: Any) -> None:
        """Write RunMetadata.step_stats."""
        from tfjit.protos import DeviceStepStats

        devices: dict[str, Any] = {}
        threads: dict[int, int] = {}
        with self._lock:
            records = list(self._records)
        for device, node, start_ns, elapsed_ns, tensors, thread in sorted(records, key=lambda r: r[2]):
            stats = devices.get(device)
            if stats is None:
                stats = devices[device] = DeviceStepStats(device=device)
            at_ns = start_ns + self._offset_ns
            entry = stats.node_stats.add(
                node_name=node.name,
                all_start_micros=at_ns // 1000,
                op_end_rel_micros=max(1, elapsed_ns // 1000),
                all_end_rel_micros=max(1, elapsed_ns // 1000),
                timeline_label=_label(node),
                scheduled_micros=at_ns // 1000,
                thread_id=threads.setdefault(thread, len(threads)),
                all_start_nanos=at_ns,
                op_end_rel_nanos=elapsed_ns,
                all_end_rel_nanos=elapsed_ns,
                scheduled_nanos=at_ns,
            )
            for slot, (np_dtype, shape, nbytes) in enumerate(tensors):
                description = entry.output.add(slot=slot).tensor_description
                description.dtype = as_dtype(np_dtype).as_datatype_enum
                for d in shape:
                    description.shape.dim.add(size=d)
                description.allocation_description.requested_bytes = nbytes
        for device in sorted(devices):
            metadata.step_stats.dev_stats.append(devices[device])


def _label(node: Node) -> str:
    """TensorFlow's label, with a fused node's members: "y = _Fused[AddV2+Relu](x, b)"."""
    group = node.attrs.get("group")
    op = f"{node.op}[{'+'.join(group.ops)}]" if group is not None else node.op
    inputs = ", ".join(edge.src for edge in node.in_edges if not edge.is_control)
    return f"{node.name} = {op}({inputs})"
