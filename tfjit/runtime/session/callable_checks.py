"""Checks of CallableOptions when a callable is made, in TensorFlow's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors
from tfjit.framework.types.device_ends import DeviceEnds
from tfjit.framework.types.device_spec import DeviceSpec
from tfjit.framework.types.dtypes import enum_name
from tfjit.runtime.resources.device_tensor import DTYPES

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.runtime.host.device import DeviceManager


def check_devices(options: Any, devices: DeviceManager) -> None:
    """Check that feed_devices and fetch_devices name the session's devices.

    They map a tensor name to the device of its value, or to the wanted one. Raises
    InvalidArgumentError for other devices, UnimplementedError for fetch_devices without
    fetch_skip_sync.
    """
    names = {device.name for device in devices.devices}
    _check_map(options.feed_devices, names)
    if options.fetch_devices and not options.fetch_skip_sync:
        raise errors.UnimplementedError(
            None,
            None,
            "CallableOptions.fetch_skip_sync = false is not yet implemented. You can set it to "
            "true instead, but MUST ensure that "
            "Device::Sync() is invoked on the Device corresponding to the fetched tensor before "
            "dereferencing the Tensor's memory.",
        )
    _check_map(options.fetch_devices, names)


def _check_map(chosen: Any, names: set[str]) -> None:
    for tensor, device in sorted(chosen.items()):
        if device:
            try:
                DeviceSpec.from_string(device)
            except ValueError:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Invalid device name ('{device}') provided for the tensor '{tensor}' in "
                    "CallableOptions",
                ) from None
        if device not in names:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Device '{device}' specified for tensor '{tensor}' in CallableOptions does not "
                "exist",
            )


def device_ends(options: Message, graph: DataflowGraph, devices: DeviceManager) -> DeviceEnds:
    """Return a callable's feeds and fetches in the memory of accelerators.

    Raises UnimplementedError for types that are in host memory on such devices.
    """
    return DeviceEnds(
        _ends(options.feed_devices, options.feed, graph, devices),
        _ends(options.fetch_devices, options.fetch, graph, devices),
    )


def _ends(
    chosen: Mapping[str, str], names: Sequence[str], graph: DataflowGraph, devices: DeviceManager
) -> tuple[tuple[str, str], ...]:
    from tfjit.passes.ir.run_spec import parse_tensor_name

    found = {}
    for name in names:
        device = chosen.get(name, "") or chosen.get(name.removesuffix(":0"), "")
        if not device or not devices.lookup(device).backend.accelerates:
            continue
        node, output = parse_tensor_name(name)
        dtype = graph.node(node).output_dtypes[output]
        kind = devices.lookup(device).device_type
        if dtype.name not in DTYPES:
            raise errors.UnimplementedError(
                None,
                None,
                f"Cannot feed or fetch tensor '{node}:{output}' from device {device} as "
                f"feeding/fetching from {kind} devices is not yet supported for "
                f"{enum_name(dtype)[3:].lower()} tensors",
            )
        found[name] = device
    return tuple(sorted(found.items()))


def check_tensors(graph: DataflowGraph, names: Sequence[str]) -> None:
    """Check that the graph has the fed and fetched tensors.

    Raises InvalidArgumentError for a tensor of a missing node, OutOfRangeError for one beyond its
    node's outputs.
    """
    from tfjit.passes.ir.run_spec import parse_tensor_name

    for text in names:
        name, output = parse_tensor_name(text)
        if name not in graph:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Tensor {name}:{output}, specified in either feed_devices or fetch_devices was "
                "not found in the Graph",
            )
        node = graph.node(name)
        if output >= len(node.output_dtypes):
            raise errors.OutOfRangeError(
                None,
                None,
                f"Node '{name}' (type: '{node.op}', num of outputs: {len(node.output_dtypes)}) "
                f"does not have output {output}",
            )
