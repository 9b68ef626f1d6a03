"""Assign each node a device.

Device specs, colocation groups, kernels and soft placement decide.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tfjit.framework import settings
from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.attrs import summarize
from tfjit.framework.op_defs.op_traits import CALL, CASE, IF, SEND, SHAPE_QUERY, WHILE
from tfjit.framework.types import device_spec, dtypes
from tfjit.framework.types.device_spec import DeviceSpec
from tfjit.framework.types.dtypes import DType
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager.pass_context import DeviceInfo, PassContext, PassOptions

log: Final = logging.getLogger("tfjit.placement")


def place(graph: DataflowGraph, ctx: PassContext) -> None:
    """Assign one of `options.devices` to every node without an assigned device.

    Before: v=VariableV2 @/cpu:1 -> Assign -> y
    After: v and Assign on CPU:1, y on CPU:0
    Keeps: assigned devices. A session places its whole graph, and later the nodes that extend the
    graph, so variables have one device for all runs.

    Nodes that share a `loc:@` class, a reference or a resource share a device. A node without
    inputs follows its consumers if all of them are on one device, a shape query follows its input,
    and an Identity between two nodes that request one device goes there. A node that cannot be
    placed is noted in `graph.unplaced`, and `pipeline.build` raises for runs that need the node;
    with `options.strict_placement` the first one raises InvalidArgumentError here. Source:
    TensorFlow 2.5, common_runtime/placer.cc and colocation_graph.cc.
    """
    _Placer(graph, ctx).run()
    if graph.unplaced and ctx.options.strict_placement:
        raise_unplaced(graph, graph)


def place_graph(graph: DataflowGraph, options: PassOptions) -> None:
    """Run `place` for a session, which has options and no run yet."""
    place(graph, PassContext(options=options))


def raise_unplaced(graph: DataflowGraph, needed: DataflowGraph) -> None:
    """Raise InvalidArgumentError for the first unplaced node in `needed`.

    `graph` holds the nodes that could not be placed, in order.
    """
    for name, reason in graph.unplaced.items():
        if name in needed and name not in needed.shields:
            raise InvalidArgumentError(None, None, reason)


class _Conflict(Exception):
    """Two device specs, or two nodes, that exclude each other."""


@dataclass(slots=True)
class _Group:
    """Nodes that must share a device.

    kinds: device types with a kernel for all of them.
    """

    leader: Node
    requested: DeviceSpec
    kinds: tuple[str, ...]
    resource: DeviceSpec = field(default_factory=DeviceSpec)
    assigned: str = ""
    size: int = 1


@dataclass(slots=True)
class _Signature:
    """Placement facts shared by all nodes of one op type and dtypes.

    kinds: as in a group. shares: the nodes have references or resources as inputs or outputs.
    generates: the nodes have one output and no inputs, so that they may follow their consumers.
    found: names of the devices for a node that only needs a kernel, best first; None until first
    needed.
    """

    kinds: tuple[str, ...]
    shares: bool
    generates: bool
    found: list[str] | None = None


class _Placer:
    """One placement of one graph."""

    def __init__(self, graph: DataflowGraph, ctx: PassContext) -> None:
        self.graph, self.options, self.ctx = graph, ctx.options, ctx
        self.devices = {device.name: device for device in self.options.devices}
        self.specs = {
            device.name: device_spec.parse(device.name) for device in self.options.devices
        }
        self.device_types = sorted({device.device_type for device in self.options.devices})
        self.parent: dict[str, str] = {}
        self.groups: dict[str, _Group] = {}
        self.signatures: dict[tuple[Any, ...], _Signature] = {}
        self.candidates: dict[tuple[object, ...], list[str]] = {}
        self.broken: dict[str, str] = {}  # root of a group that cannot be placed -> reason
        self.logs = settings.logs("placement")
        self.reports = self.logs or self.options.log_device_placement

    def run(self) -> None:
        graph = self.graph
        graph.unplaced = {}
        nodes = sorted(
            (node for node in graph.op_nodes() if not node.assigned_device),
            key=lambda node: node.id,
        )
        companions = {
            name for node in nodes if "_class" in node.attrs for name in _colocated_with(node)
        }
        signatures = [self.signature(node) for node in nodes]
        for node, signature in zip(nodes, signatures, strict=True):
            yield_interpreter()
            alone = not node.device and "_class" not in node.attrs and not signature.shares
            if not alone or not signature.kinds or node.name in companions:
                self.start_group(node)
        self.colocate_classes(nodes)
        self.colocate_references(
            [node for node, signature in zip(nodes, signatures, strict=True) if signature.shares]
        )
        # broken groups come before nodes without a device, in TensorFlow's order of reports
        for root, reason in self.broken.items():
            graph.unplaced[root] = reason
        later = []
        several = len(self.devices) > 1
        for node, signature in zip(nodes, signatures, strict=True):
            if signature.generates or (several and _is_between_equals(graph, node)):
                later.append((node, signature))
                continue
            wanted = ""
            if node.has_trait(SHAPE_QUERY):
                inputs = graph.inputs(node.name)
                wanted = graph.node(inputs[0][0]).assigned_device if inputs else ""
            self.assign(node, signature, wanted)
        for node, signature in later:
            homes = (
                {graph.node(edge.dst).assigned_device for edge in graph.edges_out_of(node.name)}
                if several
                else ()
            )
            self.assign(node, signature, next(iter(homes)) if len(homes) == 1 else "")

    # ---- groups

    def start_group(self, node: Node) -> None:
        """Make a group of one node from its own device and kernels."""
        self.parent[node.name] = node.name
        if node.assigned_device:
            spec = device_spec.parse(node.assigned_device)
            self.groups[node.name] = _Group(
                node, spec, self.kinds(node), assigned=node.assigned_device
            )
            return
        requested = DeviceSpec()
        if node.device:
            try:
                requested = device_spec.parse(node.device)
            except ValueError:
                self.fail(
                    node,
                    f"Malformed device specification '{node.device}' in node: {_describe(node)}",
                    name_operation=False,
                )
        kinds = self.kinds(node)
        if not kinds:
            self.fail(node, self.no_kernel(node), name_operation=False)
        group = self.groups[node.name] = _Group(node, requested, kinds)
        if node.device and _is_resource_generator(node):
            group.resource = requested

    def kinds(self, node: Node) -> tuple[str, ...]:
        """Return the device types that have a kernel for the node."""
        return self.signature(node).kinds

    def signature(self, node: Node) -> _Signature:
        """Return the placement facts of the node's op type and dtypes."""
        # dtypes are interned, so an address identifies a dtype
        key = (node.op, *map(id, node.input_dtypes), 0, *map(id, node.output_dtypes))
        found = self.signatures.get(key)
        if found is None:
            types = node.input_dtypes + node.output_dtypes
            has_kernel = self.options.has_kernel
            kinds = tuple([k for k in self.device_types if has_kernel(node.op, k, types)])
            outputs = node.output_dtypes
            generates = not node.input_dtypes and len(outputs) == 1 and not outputs[0].is_ref
            found = self.signatures[key] = _Signature(kinds, _shares(types), generates)
        return found

    def root(self, name: str) -> str:
        """Return the name of the root of a node's group.

        A node without a group gets one.
        """
        parent = self.parent
        if name not in parent:
            self.start_group(self.graph.node(name))
        top = name
        while parent[top] != top:
            top = parent[top]
        while parent[name] != top:
            parent[name], name = top, parent[name]
        return top

    def colocate_classes(self, nodes: list[Node]) -> None:
        """Join nodes of one `loc:@` class, in any order.

        The class of a node's own name counts as well.
        """
        for node in nodes:
            for other in _colocated_with(node) if "_class" in node.attrs else ():
                if other not in self.graph:
                    self.fail(
                        node,
                        f"Node '{node.name}' expects to be colocated with unknown node '{other}'",
                        name_operation=False,
                    )
                elif other != node.name:
                    self.join(node.name, other, node)

    def colocate_references(self, nodes: list[Node]) -> None:
        """Join makers and users of references or resources.

        Where both request a device, the maker's request wins.
        """
        for node in nodes:
            if _is_exempt(node) or not _shares(node.input_dtypes):
                continue
            for index, (src, _) in enumerate(self.graph.inputs(node.name)):
                dtype = node.input_dtypes[index]
                if (
                    not (dtype.is_ref or dtype is dtypes.resource)
                    or self.graph.node(src).op == "_Arg"
                ):
                    continue
                maker, taker = self.groups[self.root(src)], self.groups[self.root(node.name)]
                if maker is taker:
                    continue
                if not taker.assigned and _conflict(maker.requested, taker.requested):
                    self.ctx.log(
                        node.name,
                        f"its device {taker.requested} is replaced by {maker.requested} of "
                        f"'{src}', whose reference is its input",
                    )
                    taker.requested = maker.requested
                self.join(src, node.name, node)

    def join(self, x: str, y: str, blamed: Node) -> None:
        """Join the groups of two nodes.

        A conflict breaks the joint group.
        """
        x_root, y_root = self.root(x), self.root(y)
        if x_root == y_root:
            return
        a, b = self.groups[x_root], self.groups[y_root]
        reason = self.broken.pop(x_root, "") or self.broken.pop(y_root, "")
        try:
            requested = _merge(a.requested, b.requested, self.options.soft_placement)
            resource = _merge(a.resource, b.resource, self.options.soft_placement)
            assigned = a.assigned or b.assigned
            if a.assigned and b.assigned and a.assigned != b.assigned:
                raise _Conflict(
                    f"Cannot merge devices with incompatible names: '{a.assigned}' and "
                    f"'{b.assigned}'"
                )
            if assigned and not requested.matches(device_spec.parse(assigned)):
                if not self.options.soft_placement:
                    raise _Conflict(f"'{x if a.assigned else y}' is on '{assigned}' already")
                requested = device_spec.parse(assigned)
        except _Conflict as conflict:
            requested, resource, assigned = a.requested, a.resource, a.assigned or b.assigned
            reason = reason or _at(
                blamed,
                f"Cannot colocate nodes {{{{colocation_node {x}}}}} and {{{{colocation_node "
                f"{y}}}}}: {conflict}",
            )
        kinds = tuple([kind for kind in a.kinds if kind in b.kinds])
        if not kinds and a.kinds and b.kinds:
            reason = reason or _at(
                blamed,
                f"Cannot colocate nodes {{{{colocation_node {x}}}}} and {{{{colocation_node "
                f"{y}}}}} because no device type supports both "
                f"of those nodes and the other nodes colocated with them.{self.kernels_of(x, y)}",
            )
        if a.size < b.size:
            x_root, y_root, a, b = y_root, x_root, b, a
        self.parent[y_root] = x_root
        a.requested, a.resource, a.kinds, a.assigned, a.size = (
            requested,
            resource,
            kinds,
            assigned,
            a.size + b.size,
        )
        del self.groups[y_root]
        if reason:
            self.broken[x_root] = reason

    def kernels_of(self, *names: str) -> str:
        lines = [
            f"\n  {name} ({self.graph.node(name).op}): "
            f"{', '.join(self.kinds(self.graph.node(name))) or 'none'}"
            for name in names
        ]
        return "\nDevice types with a kernel:" + "".join(lines)

    # ---- choosing

    def assign(self, node: Node, signature: _Signature, wanted: str) -> None:
        """Assign `wanted` if possible, else the best device of the node's group."""
        # the node shares its device with no other node and requests none
        if node.name not in self.parent:
            found = signature.found
            if found is None:
                found = signature.found = self.unconstrained(signature.kinds)
            node.assigned_device = wanted if wanted in found else found[0]
            if self.reports:
                self.report(node)
            return
        root = self.root(node.name)
        group = self.groups[root]
        if root in self.broken:
            self.graph.unplaced[node.name] = self.broken[root]
            return
        found = self.devices_for(group)
        if not found:
            self.fail(node, self.no_device(node, group))
            self.graph.unplaced[node.name] = self.broken[root]
            return
        chosen = wanted if wanted in found else found[0]
        node.assigned_device = chosen
        group.assigned = chosen
        self.report(node)

    def report(self, node: Node) -> None:
        if self.options.log_device_placement:
            # TensorFlow writes to stdout, in these words
            print(f"{node.name}: ({node.op}): {node.assigned_device}", flush=True)
        elif self.logs:
            log.warning("%s: (%s): %s", node.name, node.op, node.assigned_device)

    def unconstrained(self, kinds: tuple[str, ...]) -> list[str]:
        """Return devices for a node that only needs a kernel, best first."""
        found = self.candidates.get(kinds)
        if found is None:
            found = self.candidates[kinds] = self.matching(DeviceSpec(), kinds)
        return found

    def devices_for(self, group: _Group) -> list[str]:
        """Return the names of the possible devices of a group, best first."""
        if group.assigned:
            return [group.assigned] if group.assigned in self.devices else []
        key = (group.requested, group.resource, group.kinds)
        found = self.candidates.get(key)
        if found is None:
            found = self.matching(group.requested, group.kinds)
            if not found and self.options.soft_placement:
                open_spec = replace(group.requested, device_type=None, device_index=None)
                kept = open_spec.make_merged_spec(group.resource)
                found = self.matching(kept, group.kinds) or self.matching(open_spec, group.kinds)
            self.candidates[key] = found
        return found

    def matching(self, requested: DeviceSpec, kinds: tuple[str, ...]) -> list[str]:
        client = self.options.client_device
        fitting = [
            device
            for device in self.options.devices
            if device.device_type in kinds and requested.matches(self.specs[device.name])
        ]

        def rank(device: DeviceInfo) -> tuple[int, bool, str]:
            return -device.priority, device.name != client, device.name

        return [device.name for device in sorted(fitting, key=rank)]

    # ---- errors

    def fail(self, node: Node, reason: str, name_operation: bool = True) -> None:
        """Break the node's group."""
        if name_operation:
            reason = f"Cannot assign a device for operation {node.name}: {reason}"
        self.broken.setdefault(self.root(node.name), _at(node, reason))

    def no_kernel(self, node: Node) -> str:
        attrs = ", ".join(f"{key}={summarize(value)}" for key, value in sorted(node.attrs.items()))
        return (
            f"No OpKernel was registered to support Op '{node.op}' used by {{{{node "
            f"{node.name}}}}} with these attrs: [{attrs}]\n"
            f"Registered devices: [{', '.join(self.device_types)}]\nRegistered kernels:\n  <no "
            "registered kernels>\n"
        )

    def no_device(self, node: Node, group: _Group) -> str:
        available = ", ".join(self.devices)
        own = device_spec.parse(node.device)
        if own != group.requested:
            return (
                f"Could not satisfy explicit device specification '{node.device}' because the node "
                f"{{{{colocation_node {node.name}}}}} was "
                "colocated with a group of nodes that required incompatible device "
                f"'{group.requested}'. All available devices "
                f"[{available}]. "
            )
        if not any(own.matches(spec) for spec in self.specs.values()):
            no_gpu = own.device_type == "GPU" and "GPU" not in self.device_types
            hint = ""
            if no_gpu:
                hint = (
                    " The requested device appears to be a GPU, but CUDA is not enabled."
                    " This version of tfjit has no GPU devices: set allow_soft_placement, or name "
                    "no device."
                )
            elif own.job not in (None, "localhost") and {
                spec.job for spec in self.specs.values()
            } == {"localhost"}:
                hint = " Other jobs need a session on their cluster (target grpc://host:port)."
            return (
                f"{{{{node {node.name}}}}} was explicitly assigned to {node.device} but available "
                f"devices are [ {available} ]. "
                f"Make sure the device specification refers to a valid device.{hint}"
            )
        kinds = ", ".join(group.kinds)
        if own.device_type is None:
            return (
                f"Could not satisfy explicit device specification '{node.device}': kernels "
                f"exist for {kinds} only"
            )
        return (
            f"Could not satisfy explicit device specification '{node.device}' because no supported "
            f"kernel for {own.device_type} devices is "
            f"available.\nOp: {node.op}\nRegistered kernels:\n  device={kinds!r}"
        )


def _at(node: Node, reason: str) -> str:
    return f"{reason}\n\t [[{{{{node {node.name}}}}}]]"


def _describe(node: Node) -> str:
    device = f"{{requested: '{node.device}', assigned: '{node.assigned_device}'}}"
    return f"{{name:'{node.name}' id:{node.id} op device:{device} def:{node.op}}}"


def _colocated_with(node: Node) -> list[str]:
    """Return the names in the node's `loc:@` classes."""
    classes = node.attrs.get("_class")
    if not classes:
        return []
    entries = classes if isinstance(classes, (tuple, list)) else (classes,)
    return [
        entry[5:].decode()
        for entry in entries
        if isinstance(entry, bytes) and entry.startswith(b"loc:@")
    ]


def is_constrained(node: Node) -> bool:
    """Return whether the node requests or may share a device."""
    if node.device or "_class" in node.attrs:
        return True
    return _shares(node.input_dtypes + node.output_dtypes)


def _is_exempt(node: Node) -> bool:
    """Return whether a node uses resources of devices other than its own."""
    return node.has_trait(WHILE | IF | CASE | CALL | SEND) or node.op in (
        "RemoteCall",
        "ReduceDataset",
        "_Retval",
    )


def _shares(types: tuple[DType, ...]) -> bool:
    return any(dtype.is_ref or dtype is dtypes.resource for dtype in types)


def _is_between_equals(graph: DataflowGraph, node: Node) -> bool:
    """Return whether the node is an Identity between equal device requests.

    Such a node goes to the same device.
    """
    if node.op not in ("Identity", "RefIdentity"):
        return False
    before, after = graph.edges_into(node.name), graph.edges_out_of(node.name)
    return (
        len(before) == len(after) == 1
        and graph.node(before[0].src).device == graph.node(after[0].dst).device
    )


def _is_resource_generator(node: Node) -> bool:
    outputs = node.output_dtypes
    return (
        not node.input_dtypes
        and len(outputs) == 1
        and (outputs[0].is_ref or outputs[0] is dtypes.resource)
    )


_FIELDS: Final = (
    ("job", "jobs"),
    ("replica", "replicas"),
    ("task", "tasks"),
    ("device_type", "types"),
    ("device_index", "ids"),
)


def _conflict(a: DeviceSpec, b: DeviceSpec) -> str:
    """Return the kind of field in which two specs conflict.

    A kind is a plural such as "types"; "" without a conflict.
    """
    for name, plural in _FIELDS:
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None and x != y:
            return plural
    return ""


def _merge(a: DeviceSpec, b: DeviceSpec, soft: bool) -> DeviceSpec:
    """Return the spec that satisfies both.

    A conflict of type or id clears both fields when `soft`; other conflicts raise _Conflict.
    """
    kind = _conflict(a, b)
    if not kind:
        return a.make_merged_spec(b)
    if soft and kind in ("types", "ids"):
        return replace(a.make_merged_spec(b), device_type=None, device_index=None)
    raise _Conflict(f"Cannot merge devices with incompatible {kind}: '{a}' and '{b}'")
