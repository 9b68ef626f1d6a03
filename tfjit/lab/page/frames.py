"""Describe a graph's history: runs of passes, frames of changed nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.passes.ir.graph_def import derived_attrs, signature
from tfjit.passes.ir.region_path import node_path
from tfjit.passes.text.value_text import format_shape, format_value

if TYPE_CHECKING:
    from tfjit.framework.op_defs.op_def import OpDef
    from tfjit.framework.types.shape import Shape


class Described(Protocol):
    """A node of a graph, or its state at one moment."""

    @property
    def name(self) -> str:
        """Return its name in its graph."""

    @property
    def op(self) -> str:
        """Return its op type."""

    @property
    def op_def(self) -> OpDef | None:
        """Return its contract."""

    @property
    def attrs(self) -> Mapping[str, object]:
        """Return its attrs as Python values."""

    @property
    def device(self) -> str:
        """Return the requested device."""

    @property
    def output_shapes(self) -> Sequence[Shape]:
        """Return the shapes of its outputs."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of one moment.

    name: its path. inputs: (path of the node, output). controls: paths. text: its attrs and the
    types of its outputs, in the form of dumps. fused: the kind of a fused group and the op types of
    its members; () for other nodes.
    """

    name: str
    op: str
    inputs: tuple[tuple[str, int], ...] = ()
    controls: tuple[str, ...] = ()
    text: str = ""
    fused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of the history.

    It is a rewrite, or the other changes of a pass.

    node: the path of the rewritten node, "" for many. added, changed: nodes as they are afterwards.
    removed: paths.
    """

    node: str = ""
    reason: str = ""
    added: tuple[NodeRecord, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[NodeRecord, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not (self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class PassRun:
    """Consecutive frames of one run of a pass.

    where: the region or device. remarks: (path of the node or "", text).
    """

    name: str
    frames: tuple[Frame, ...]
    where: str = ""
    elapsed_us: float = 0.0
    remarks: tuple[tuple[str, str], ...] = ()


def record_of(
    node: Described,
    inputs: Iterable[tuple[str, int]],
    controls: Iterable[str],
    region: str = "",
) -> NodeRecord:
    """Return a node's record. region: the path of its graph."""
    group = node.attrs.get("group")
    return NodeRecord(
        node_path(region, node.name),
        node.op,
        tuple((node_path(region, src), output) for src, output in inputs),
        tuple(node_path(region, src) for src in controls),
        node_text(node),
        (group.kind, *group.ops) if isinstance(group, FusedGroup) else (),
    )


def node_text(node: Described) -> str:
    """Return attrs, requested device and outputs of a node as text.

    Attrs that follow from the inputs or are defaults are left out, and so are fused groups, which
    the page shows by themselves.
    """
    attrs = dict(node.attrs)
    inputs, outputs = signature(node.op, node.op_def, attrs, node.name)
    derived = derived_attrs(node.op_def, inputs) if node.op_def is not None else {}
    given = ", ".join(
        f"{key}={format_value(value)}"
        for key, value in sorted(attrs.items())
        if not hasattr(value, "explain")
        and not (key in derived and attr_forms.equal(derived[key], value))
    )
    types = ", ".join(
        f"{dtype.name}{format_shape(shape)}"
        for dtype, shape in zip(outputs, node.output_shapes, strict=False)
    )
    parts = [given and f"({given})", node.device and f"@{node.device}", types and f"-> {types}"]
    return " ".join(part for part in parts if part)


def frame_between(before: Iterable[NodeRecord], after: Iterable[NodeRecord]) -> Frame:
    """Return the frame that leads from one set of nodes to another."""
    old = {record.name: record for record in before}
    new = {record.name: record for record in after}
    return Frame(
        added=tuple(record for path, record in new.items() if path not in old),
        removed=tuple(path for path in old if path not in new),
        changed=tuple(r for path, r in new.items() if path in old and old[path] != r),
    )
