"""Log the tensors that steps receive, for the call Logging."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final

from tfjit.runtime.host.rendezvous import RendezvousKey

MAX_STEPS: Final = 1000
"""Steps with a log; the oldest one is dropped."""


class StepLog:
    """The received tensors of the last steps, while logging is on. Thread-safe."""

    def __init__(self) -> None:
        self.is_on = False
        self._lock = threading.Lock()
        self._steps: OrderedDict[int, list[tuple[RendezvousKey, int, int, int]]] = OrderedDict()

    def record(
        self, step_id: int, key: RendezvousKey, start_us: int, end_us: int, size: int
    ) -> None:
        """Add a received tensor. start_us, end_us: since the epoch. size: in bytes."""
        with self._lock:
            found = self._steps.get(step_id)
            if found is None:
                found = self._steps[step_id] = []
                if len(self._steps) > MAX_STEPS:
                    self._steps.popitem(last=False)
            found.append((key, start_us, end_us, size))

    def answer(self, request: Any) -> Any:
        """Return the LoggingResponse to a LoggingRequest. Fetched steps are forgotten."""
        from tfjit.protos import LoggingResponse

        if request.enable_rpc_logging:
            self.is_on = True
        if request.disable_rpc_logging:
            self.is_on = False
        response = LoggingResponse()
        with self._lock:
            for step_id in request.fetch_step_id:
                records = self._steps.pop(step_id, None)
                if records is not None:
                    labeled = response.step.add(step_id=step_id)
                    _fill(labeled.step_stats, records)
            if request.clear:
                self._steps.clear()
        return response


def _fill(step_stats: Any, records: list[tuple[RendezvousKey, int, int, int]]) -> None:
    by_device: dict[str, Any] = {}
    for key, start_us, end_us, size in records:
        device = by_device.get(key.dst_device)
        if device is None:
            device = by_device[key.dst_device] = step_stats.dev_stats.add(device=key.dst_device)
        node = device.node_stats.add(
            node_name="RecvTensor",
            all_start_micros=start_us,
            op_end_rel_micros=end_us - start_us,
            all_end_rel_micros=end_us - start_us,
            timeline_label=f"[{size}B] {key.edge_name} from {key.src_device} to {key.dst_device}",
        )
        node.output.add().tensor_description.allocation_description.requested_bytes = size
