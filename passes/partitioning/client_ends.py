"""Hand feeds and fetches over at the tasks that use and compute them."""

from __future__ import annotations

from typing import Any

from tfjit.framework.types import device_spec
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.manager.pass_context import DeviceInfo, PassContext

_HOST = "CPU"


def meet_client_nearby(graph: DataflowGraph, ctx: PassContext) -> None:
    """Move a feed to the only task that uses it, and a fetch to the task of its tensor.

    The value then travels with the call of that task's partition, and saves a send between tasks.

    Before: _recv_x_0 on worker:0 -> y on ps:0 -> _send_y_0 on worker:0
    After: all on ps:0; the keys of both ends name its CPU
    Keeps: everything but the devices of the client's ends.
    Needs: `place`.

    Fires where partitions are tasks, for receives whose users are all on one other task.
    """
    if ctx.options.client is None or len(ctx.options.devices) < 2:
        return
    hosts: dict[str, DeviceInfo] = {}
    for device in ctx.options.devices:
        if device.device_type == _HOST:
            hosts.setdefault(_task_of(device.name), device)
    for node in list(graph.op_nodes()):
        if not node.attrs.get("client_terminated"):
            continue
        if node.num_inputs:
            near = {graph.inputs(node.name)[0][0]}
        else:
            near = {edge.dst for edge in graph.edges_out_of(node.name) if edge.dst != SINK}
        tasks = {_task_of(graph.node(name).assigned_device) for name in near - {SOURCE}}
        if len(tasks) == 1 and (host := hosts.get(tasks.pop())) is not None:
            if _task_of(node.assigned_device) != _task_of(host.name):
                _move(node, host)
                ctx.log(node.name, f"meets the client at {host.name}")


def _move(node: Node, host: DeviceInfo) -> None:
    device = host.name.encode()
    moved: dict[str, Any] = {
        "send_device": device,
        "send_device_incarnation": host.incarnation,
        "recv_device": device,
    }
    node.attrs = {**node.attrs, **moved}
    node.device = node.assigned_device = host.name


def _task_of(device: str) -> str:
    spec = device_spec.parse(device)
    return f"/job:{spec.job}/replica:{spec.replica}/task:{spec.task}"


__all__ = ["meet_client_nearby"]
