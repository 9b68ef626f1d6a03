"""Build the FusedGroup of a cluster for a kernel builder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import MATRIX_PRODUCT, REDUCTION
from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.ir.kernel_keys import attrs_key, constants_key
from tfjit.kernels.ir.op_forms import BIAS, PARAMETERS
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.fusion.clusters import Clusters
    from tfjit.passes.fusion.roles import RoleFinder
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

# op types with inputs at these numbers that are parameters: they become part of the group where
# their values are known
UNKNOWN: Final = -1
"""Size of a dim that is unknown while the group is made.

The builder gets the group again with the sizes of a run.
"""


class GroupMaker:
    """Builds groups; specs of nodes are made once."""

    def __init__(self, graph: DataflowGraph, clusters: Clusters, roles: RoleFinder) -> None:
        self.graph = graph
        self.clusters = clusters
        self.roles = roles
        self.rules = roles.rules
        self.anchor_kinds = roles.anchor_kinds
        self._specs: dict[str, NodeSpec] = {}
        self._tensors: dict[tuple[DType, Shape], TensorSpec] = {}
        self._renamed: dict[tuple[str, int], tuple[str, int]] = {}
        self._numbers: dict[str, int] = {}  # node -> number that nodes alike share
        self._forms: dict[Hashable, int] = {}  # key of nodes alike -> their number
        self._accepted: set[Hashable] = set()  # keys of groups that their template accepts

    def tensor(self, name: str, output: int) -> TensorSpec:
        """Return dtype and shape of a tensor; unknown sizes are UNKNOWN."""
        node = self.graph.node(name)
        shape = node.output_shapes[output]
        dtype = node.output_dtypes[output]._base
        found = self._tensors.get((dtype, shape))
        if found is None:
            sizes = (
                (UNKNOWN,) if shape is None else tuple(UNKNOWN if n is None else n for n in shape)
            )
            found = self._tensors[dtype, shape] = TensorSpec(dtype, sizes)
        return found

    def spec(self, name: str) -> NodeSpec:
        """Return the NodeSpec of a node that is still in the graph."""
        found = self._specs.get(name)
        if found is None:
            node = self.graph.node(name)
            inputs = tuple(
                [self.tensor(src, output) for src, output in self.clusters.sources[name]]
            )
            outputs = tuple([self.tensor(name, k) for k in range(len(node.output_dtypes))])
            found = self._specs[name] = NodeSpec(
                name, node.op, node.attrs, inputs, outputs, self._parameters(name)
            )
        return found

    def _parameters(self, name: str) -> dict[int, np.ndarray]:
        node = self.graph.node(name)
        known = (1,) if node.has_trait(REDUCTION) else PARAMETERS.get(node.op, ())
        sources = self.clusters.sources[name]
        indices = [index for index in known if index < len(sources)]
        values = {index: self.roles.value(*sources[index]) for index in indices}
        return {index: value for index, value in values.items() if value is not None}

    def make(
        self,
        members: Sequence[str],
        kind: str,
        anchor: str,
        trial: bool = False,
        copies: Sequence[str] = (),
        given: Collection[str] = (),
    ) -> tuple[FusedGroup, list[tuple[str, int]]]:
        """Return the group of these members, with (node, output) per output.

        trial: without reason and costs. copies: nodes of other groups that this group computes too.
        given: members that are no results any more.
        """
        ordered = sorted({*members, *copies}, key=self.clusters.position.__getitem__)
        hidden = {*given, *copies} - (set(members) - set(given))
        inside = {name: k for k, name in enumerate(ordered)}
        for name in ordered:
            self.spec(name)
        constants: list[np.ndarray] = []
        wiring: list[Member] = []
        inputs, numbers = self._inputs(ordered, inside, anchor)
        for name in ordered:
            yield_interpreter()
            spec = self._specs[name]
            refs: list[Ref] = []
            for k, (src, output) in enumerate(self.clusters.sources[name]):
                if src in inside:
                    refs.append(Ref(inside[src], output))
                elif k in spec.constants:
                    refs.append(Ref(CONSTANT, len(constants)))
                    constants.append(spec.constants[k])
                else:
                    refs.append(Ref(INPUT, numbers[src, output]))
            wiring.append(Member(spec, tuple(refs)))
        outputs = self._outputs(ordered, inside, hidden)
        specs = tuple(spec for _, spec in inputs)
        refs_out = tuple(Ref(inside[name], output) for name, output in outputs)
        group = FusedGroup(
            kind, tuple(wiring), specs, refs_out, tuple(constants), _anchor=inside.get(anchor, 0)
        )
        return group if trial else described(group), outputs

    def _inputs(
        self, ordered: Sequence[str], inside: dict[str, int], anchor: str
    ) -> tuple[list[tuple[tuple[str, int], TensorSpec]], dict[tuple[str, int], int]]:
        """Return external inputs: the anchor's first, then by first use."""
        found: list[tuple[tuple[str, int], TensorSpec]] = []
        numbers: dict[tuple[str, int], int] = {}
        for name in ([anchor] if anchor in inside else []) + list(ordered):
            spec = self._specs[name]
            for k, source in enumerate(self.clusters.sources[name]):
                if source[0] not in inside and k not in spec.constants and source not in numbers:
                    numbers[source] = len(found)
                    found.append((source, spec.inputs[k]))
        return found, numbers

    def external_inputs(self, members: Collection[str], anchor: str) -> list[tuple[str, int]]:
        """Return the present sources of a group's inputs.

        Other groups may have been replaced already.
        """
        ordered = sorted(members, key=self.clusters.position.__getitem__)
        inputs, _ = self._inputs(ordered, {name: k for k, name in enumerate(ordered)}, anchor)
        return [self._renamed.get(source, source) for source, _ in inputs]

    def renamed(self, names: dict[tuple[str, int], tuple[str, int]]) -> None:
        """Record the new names of tensors of a group in the graph."""
        self._renamed.update(names)

    def _outputs(
        self, ordered: Sequence[str], inside: dict[str, int], hidden: Collection[str]
    ) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for name in ordered:
            if name in hidden:
                continue
            consumers = self.clusters.consumers_of(name)
            if consumers and consumers <= inside.keys():
                continue
            used = {
                data["src_output"]
                for consumer in consumers
                if consumer not in inside and self.graph.has_node(name)
                for data in self.graph._succ[name].get(consumer, {}).values()
                if data["src_output"] >= 0
            }
            found += [(name, output) for output in sorted(used)]
        if not found:  # no node uses a tensor: the last member was a target
            found.append((ordered[-1], 0))
        return found

    def suits_epilogue(
        self, name: str, producer: set[str] | Sequence[str], space: Sequence[int]
    ) -> bool:
        """Return whether an epilogue can surely read the operands of a node.

        space: shape of the products. False when only the template can tell.
        """
        spec = self.spec(name)
        if (
            spec.outputs[0].shape != tuple(space)
            or spec.op == "Select"
            or spec.attrs.get("data_format") in (b"NCHW", "NCHW")
        ):
            return False
        inside = set(producer)
        for (src, _), tensor in zip(self.clusters.sources[name], spec.inputs):
            shape = tensor.shape
            plain = shape == tuple(space) or (
                src not in inside and (tensor.size == 1 or shape == tuple(space[-1:]))
            )
            if not plain or (
                spec.op in BIAS and shape != tuple(space) and shape != tuple(space[-1:])
            ):
                return False
        return elementwise.lookup(spec.op) is not None or spec.op in BIAS

    def require_accepted(self, members: Sequence[str], kind: str, anchor: str) -> None:
        """Raise Unsupported where the template of the kind refuses the members' group.

        Groups of nodes alike, wired alike, are checked once: a graph repeats its cells and layers.
        """
        key = self._key(members, kind, anchor)
        if key not in self._accepted:
            self.check(self.make(members, kind, anchor, trial=True)[0])
            self._accepted.add(key)

    def _key(self, members: Sequence[str], kind: str, anchor: str) -> Hashable:
        """Return a key of the members' group without their names."""
        ordered = sorted(members, key=self.clusters.position.__getitem__)
        inside = {name: k for k, name in enumerate(ordered)}
        inputs: dict[tuple[str, int], int] = {}
        wires: list[int | tuple[int, int]] = [inside.get(anchor, 0)]
        for name in ordered:
            wires.append(self._number(name))
            constants = self._specs[name].constants
            for k, source in enumerate(self.clusters.sources[name]):
                member = inside.get(source[0])
                if member is not None:
                    wires.append((member, source[1]))
                elif k in constants:
                    wires.append(-1)
                else:
                    wires.append(-2 - inputs.setdefault(source, len(inputs)))
        outputs = self._outputs(ordered, inside, ())
        return kind, tuple(wires), tuple([(inside[name], output) for name, output in outputs])

    def _number(self, name: str) -> int:
        """Return the number that a node shares with nodes alike."""
        found = self._numbers.get(name)
        if found is None:
            spec = self.spec(name)
            form = (
                spec.op,
                attrs_key(spec.attrs),
                spec.inputs,
                spec.outputs,
                constants_key(spec.constants),
            )
            found = self._numbers[name] = self._forms.setdefault(form, len(self._forms))
        return found

    def check(self, group: FusedGroup) -> None:
        """Raise Unsupported where the template of the group's kind refuses the group."""
        template = self.rules.template_of(group.kind)
        if template is None:
            raise Unsupported(f"the device has no template for {group.kind} groups")
        template.accepts(group)


def described(group: FusedGroup) -> FusedGroup:
    """Return the group with its reason and its predicted traffic and work."""
    tensors = [*group.inputs, *(group.tensor(ref) for ref in group.outputs)]
    moved = sum(max(t.nbytes, 0) for t in tensors)
    alone = sum(max(t.nbytes, 0) for m in group.members for t in (*m.spec.inputs, *m.spec.outputs))
    flops = sum(max(m.spec.outputs[0].size, 0) for m in group.members)
    anchor = group.members[group.anchor].spec
    flops += (
        sum(anchor_flops(m.spec) for m in group.members)
        if group.kind == "attention"
        else anchor_flops(anchor)
    )
    rest = len(group.members) - 1
    nodes = "node" if rest == 1 else "nodes"
    reasons = {
        "loop": f"{rest + 1} elementwise nodes in one loop",
        "rows": f"{rest + 1} nodes along the same rows, one pass while a row is in cache",
        "attention": f"{rest + 1} nodes of an attention, whose scores stay in cache",
        "pool_gradient": f"{rest} {nodes} after {anchor.op} {anchor.name} in the same pass",
        "reduce": f"{rest} more {nodes} in the loops of {anchor.op} {anchor.name}",
    }
    reason = reasons.get(
        group.kind, f"{rest} {nodes} after {anchor.op} {anchor.name} while its result is in cache"
    )
    return FusedGroup(
        group.kind,
        group.members,
        group.inputs,
        group.outputs,
        group.constants,
        reason,
        moved,
        alone,
        flops,
        group._anchor,
    )


def anchor_flops(spec: NodeSpec) -> int:
    """Return the flops of a matmul or convolution, else 0."""
    if not spec.has_trait(MATRIX_PRODUCT) and spec.op not in ("Conv2D", "DepthwiseConv2dNative"):
        return 0
    weights, result = spec.inputs[1].shape, spec.outputs[0]
    if spec.op == "Conv2D":
        return 2 * result.size * prod(weights[:3])
    if spec.op == "DepthwiseConv2dNative":
        return 2 * result.size * prod(weights[:2])
    transposed = spec.attrs.get("transpose_b", spec.attrs.get("adj_y", False))
    return 2 * result.size * weights[-1 if transposed else -2]
