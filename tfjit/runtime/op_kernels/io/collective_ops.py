"""Runtime kernels of collectives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.collectives.collective_params import (
    BROADCAST,
    GATHER,
    REDUCTION,
    CollectiveCall,
)
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.op_kernel import OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.resources.variables_and_resources import Variable

_MERGES = {"Max": "Maximum", "Min": "Minimum"}
"""The names in messages for values of the attr."""


@blocking_kernel("CollectiveReduce")
def reduce(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Reduce the members' values."""
    value = _array(ctx, inputs[0])
    _run(ctx, _Part(ctx, REDUCTION, value.shape, "Reduce"), value, done)


@blocking_kernel("CollectiveReduceV2")
def reduce_v2(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Reduce the members' values; the keys are inputs."""
    value = _array(ctx, inputs[0])
    _run(ctx, _Part(ctx, REDUCTION, value.shape, "ReduceV2", _keys(ctx, inputs[1:4])), value, done)


@blocking_kernel("CollectiveGather")
def gather(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Join the members' values along the first axis."""
    value = _array(ctx, inputs[0])
    _run(ctx, _Part(ctx, GATHER, value.shape, "Gather"), value, done)


@blocking_kernel("CollectiveGatherV2")
def gather_v2(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Join the members' values along the first axis; the keys are inputs."""
    value = _array(ctx, inputs[0])
    _run(ctx, _Part(ctx, GATHER, value.shape, "GatherV2", _keys(ctx, inputs[1:4])), value, done)


@blocking_kernel("CollectiveBcastSend")
def broadcast_send(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Give the value to all members."""
    value = _array(ctx, inputs[0])
    part = _Part(ctx, BROADCAST, _declared(ctx), "Broadcast", is_source=True)
    if value.shape != part.shape:
        raise errors.InternalError(
            None, None, f"Declared shape of op {part.name} does not match shape of input"
        )
    _run(ctx, part, value, done)


@blocking_kernel("CollectiveBcastSendV2")
def broadcast_send_v2(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Give the value to all members; the keys are inputs."""
    value, keys = _array(ctx, inputs[0]), _keys(ctx, inputs[1:4])
    part = _Part(ctx, BROADCAST, value.shape, "Broadcast", keys, is_source=True)
    _run(ctx, part, value, done)


@blocking_kernel("CollectiveBcastRecv")
def broadcast_receive(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Return the value of the member that sends it."""
    _run(ctx, _Part(ctx, BROADCAST, _declared(ctx), "Broadcast"), None, done)


@blocking_kernel("CollectiveBcastRecvV2")
def broadcast_receive_v2(ctx: OpContext, inputs: Sequence[object], done: Done) -> None:
    """Return the sent value; keys and shape are inputs."""
    sizes = _array(ctx, inputs[3])
    if sizes.ndim != 1 or (sizes < 0).any():
        raise errors.InvalidArgumentError(
            None, None, f"shape must be a vector of sizes, got {sizes.tolist()}"
        )
    part = _Part(ctx, BROADCAST, tuple(sizes.tolist()), "Broadcast", _keys(ctx, inputs[:3]))
    _run(ctx, part, None, done)


@runtime_kernel("CollectiveAssignGroupV2")
def assign_group(ctx: OpContext, inputs: Sequence[object]) -> Sequence[object]:
    """Return size and key of a device's group.

    inputs: devices by group, device, first key.
    """
    groups, device, base = (_array(ctx, value) for value in inputs)
    for name, value, rank in (("device_index", device, 0), ("base_key", base, 0)):
        if value.ndim != rank:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{name} must be a scalar, but received tensor of shape: "
                f"{format_shape(value.shape)}",
            )
    if groups.ndim != 2:
        raise errors.InvalidArgumentError(
            None,
            None,
            "group_assignment must be a 2-d Tensor, but received tensor of shape: "
            f"{format_shape(groups.shape)}",
        )
    for number, members in enumerate(groups):
        key = np.add(base, np.int32(number), dtype=np.int32)
        if key == 0:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Using the reserved group_key = 0 is not allowed: group_id = {number}, "
                f"base_key = {base}",
            )
        for member in members:
            if not 0 <= member < groups.size:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Not all items in group_assignment {groups.tolist()} is within "
                    "[0, number of devices)",
                )
            if member == device:
                return np.array(groups.shape[1], np.int32), np.asarray(key)
    raise errors.InvalidArgumentError(
        None, None, f"device_index {device} is not found in group_assignment {groups.tolist()}"
    )


class _Part:
    """The member's part, as its node describes it.

    keys: (group_size, group_key, instance_key), by default of the attrs. A node with keys in attrs
    asks for its group once; it is the same in all steps.
    """

    def __init__(
        self,
        ctx: OpContext,
        kind: int,
        shape: tuple[int, ...],
        title: str,
        keys: tuple[int, int, int] | None = None,
        is_source: bool = False,
    ) -> None:
        attrs = ctx.attrs
        self.keeps_group = keys is None
        if keys is None:
            keys = attrs["group_size"], attrs["group_key"], attrs["instance_key"]
        self.size, self.group_key, self.instance_key = keys
        if self.size <= 0:
            raise errors.InvalidArgumentError(
                None, None, f"group_size must be positive integer but got {self.size}"
            )
        self.kind, self.is_source = kind, is_source
        self.merge = self.final = ""
        text = title
        if kind == REDUCTION:
            self.merge, self.final = attrs["merge_op"].decode(), attrs["final_op"].decode()
            text = f"{title}({_MERGES.get(self.merge, self.merge)},{self.final})"
        elif kind == BROADCAST:
            text = f"{title}({int(is_source)})"
        elif not shape:
            raise errors.InvalidArgumentError(None, None, "input should have rank > 0, received 0")
        else:
            shape = (shape[0] * self.size, *shape[1:])
        self.name = f"{ctx.name}: {text}"
        self.shape = shape


def _run(ctx: OpContext, part: _Part, value: np.ndarray | None, done: Done) -> None:
    attrs, step = ctx.attrs, ctx.step
    session = step.host
    call = CollectiveCall(
        part.name,
        part.kind,
        part.group_key,
        part.size,
        part.instance_key,
        ctx.device.name,
        ctx.device.device_type,
        ctx.output_dtypes[0],
        part.shape,
        step.step_id if session.collectives_by_step else 0,
        part.is_source,
        tuple(attrs.get("subdiv_offsets", ())),
        attrs.get("max_subdivs_per_device", -1),
        part.merge,
        part.final,
        attrs["timeout_seconds"],
        session.collective_leader,
    )

    def ended(error: BaseException | None, result: np.ndarray | None) -> None:
        done(error if error is not None else (ctx.device.backend.to_device(result),))

    session.collectives.manager().step(step.step_id).run(
        call,
        ctx.frame,
        value,
        session.collectives.resolved,
        (ctx.name, ctx.device.name) if part.keeps_group else None,
        step.cancellation,
        ended,
    )


def _array(ctx: OpContext, value: object) -> np.ndarray:
    """Return an input in host memory."""
    if isinstance(value, Variable):
        value = value.initialized_value()
    return np.asarray(ctx.device.backend.to_host(value))


def _declared(ctx: OpContext) -> tuple[int, ...]:
    """Return the shape of the attr. Raises InvalidArgumentError where sizes are open."""
    shape = ctx.attrs["shape"]
    if shape.rank is None or None in shape.as_list():
        raise errors.InvalidArgumentError(
            None, None, f"Attr shape of {ctx.name} must be fully defined"
        )
    return tuple(shape.as_list())


def _keys(ctx: OpContext, inputs: Sequence[object]) -> tuple[int, int, int]:
    """Return (group_size, group_key, instance_key). Raises InvalidArgumentError for no scalars."""
    values = [_array(ctx, value) for value in inputs]
    for name, value in zip(("group_size", "group_key", "instance_key"), values, strict=True):
        if value.ndim:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Unexpected dimensions on input {name}, got {format_shape(value.shape)}",
            )
    size, group, instance = (int(value) for value in values)
    return size, group, instance
