"""Spread the variables of a graph over parameter servers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from tfjit.framework.types.cluster_spec import ClusterSpec
from tfjit.framework.types.device_spec import DeviceSpec

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Operation
    from tfjit.protos import NodeDef

STANDARD_PS_OPS: Final = (
    *("Variable", "VariableV2", "AutoReloadVariable", "VarHandleOp"),
    *("MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors"),
    *("MutableHashTableOfTensorsV2", "MutableDenseHashTable", "MutableDenseHashTableV2"),
    *("BoostedTreesEnsembleResourceHandleOp", "BoostedTreesQuantileStreamResourceHandleOp"),
    *("ResourceConditionalAccumulator", "DecisionTreeResource"),
)
"""The op types that hold state which parameter servers keep."""


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: object = None,
    ps_ops: Collection[str] | None = None,
    ps_strategy: Callable[[Operation | NodeDef], int] | None = None,
) -> Callable[[Operation | NodeDef], str] | None:
    """Return a device function for `tf.device` in between-graph replication.

    Operations of types in `ps_ops` are placed on `ps_device`, in turn on each of its tasks; others
    on `worker_device`. ps_tasks: the tasks of the ps job, unless `cluster` says them. ps_strategy:
    takes the operation and returns the index of a task. Returns None where there are no parameter
    servers.
    """
    if cluster is not None:
        spec = cluster if isinstance(cluster, ClusterSpec) else ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job not in spec.jobs:
            return None
        ps_tasks = spec.num_tasks(job)
    if ps_tasks == 0:
        return None
    if not merge_devices:
        logging.getLogger("tensorflow").warning(
            "DEPRECATION: It is recommended to set merge_devices=true in replica_device_setter"
        )
    if ps_strategy is None:
        ps_strategy = _RoundRobin(ps_tasks)
    if not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    return _DeviceChooser(
        ps_device or "",
        worker_device or "",
        merge_devices,
        STANDARD_PS_OPS if ps_ops is None else ps_ops,
        ps_strategy,
    ).device_function


class _RoundRobin:
    """Give the tasks in turn."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._next = 0

    def __call__(self, op: Operation | NodeDef) -> int:
        task = self._next
        self._next = (task + 1) % self._count
        return task


class _DeviceChooser:
    """Choose the device of each operation."""

    def __init__(
        self,
        ps_device: str,
        worker_device: str,
        merge_devices: bool,
        ps_ops: Collection[str],
        ps_strategy: Callable[[Operation | NodeDef], int],
    ) -> None:
        self._ps_device = ps_device
        self._worker_device = worker_device
        self._merge_devices = merge_devices
        self._ps_ops = ps_ops
        self._ps_strategy = ps_strategy

    def device_function(self, op: Operation | NodeDef) -> str:
        """Return an operation's device; the fields that it has stay."""
        if op.device and not self._merge_devices:
            return str(op.device)
        current = DeviceSpec.from_string(op.device or "")
        # a NodeDef's `op` is the op type, an operation has it as `type`
        op_type = op.type if hasattr(op, "type") else op.op
        if not self._ps_device or op_type not in self._ps_ops:
            return DeviceSpec.from_string(self._worker_device).make_merged_spec(current).to_string()
        chosen = DeviceSpec.from_string(self._ps_device)
        # a task is chosen only for the job that the operation ends up in
        if chosen.job and current.job in (None, "", chosen.job):
            chosen = chosen.replace(task=self._ps_strategy(op))
        return chosen.make_merged_spec(current).to_string()
