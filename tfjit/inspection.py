"""Report on a model from its graph alone: `tfjit inspect`.

Needs neither kernels nor a session.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tfjit.client.session.pack_file import archive_name
from tfjit.framework.types.dtypes import as_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfjit.client.session.model_file import ModelFile
    from tfjit.client.session.pack_file import PackFile

_INPUT_OPS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
_VARIABLE_OPS = frozenset({"Variable", "VariableV2", "VarHandleOp", "TemporaryVariable"})
# Nodes at the end of a graph that are run for their effect, not fetched; the same holds for ops
# that begin with one of the prefixes.
_EFFECT_OPS = frozenset(
    {
        "NoOp",
        "Assert",
        "Print",
        "PrintV2",
        "Save",
        "SaveSlices",
        "SaveV2",
        "MergeV2Checkpoints",
        "CountUpTo",
    }
)
_EFFECT_PREFIXES = (
    "Assign",
    "Apply",
    "ResourceApply",
    "SparseApply",
    "ResourceSparseApply",
    "Scatter",
    "ResourceScatter",
    "QueueEnqueue",
)


def inspect_model(model: ModelFile) -> str:
    """Return a report of several lines on a model.

    It has size, inputs, outputs, signatures, variables, constants, and the count of each op; of a
    pack its plans and kernels, too. Raises DataLossError when an entry of a pack is damaged.
    """
    graph = model.graph_def
    functions = graph.library.function
    producer = graph.versions.producer or graph.version
    pack = model.pack
    kind = model.kind if pack is None else f"pack of a {model.kind}"
    lines = [f"{model.path}: {kind}, {_bytes(model.size_bytes)}"]
    lines += [] if pack is None else [*_describe_pack(pack), ""]
    lines += [
        f"{len(graph.node):,} nodes, {_edge_count(graph.node):,} edges, {len(functions):,} "
        f"functions, producer {producer}",
    ]
    lines += _section(
        "Inputs", [_describe_input(node) for node in graph.node if node.op in _INPUT_OPS]
    )
    outputs, targets = _ends(graph.node)
    lines += _section("Outputs", [f"{node.name}:0  {node.op}" for node in outputs], limit=20)
    lines += _section("Targets", [f"{node.name}  {node.op}" for node in targets], limit=20)
    for name, signature in sorted(model.signatures.items()):
        lines += _section(f"Signature {name}", list(_describe_signature(signature)))
    variables = [node for node in graph.node if node.op in _VARIABLE_OPS]
    lines += _section("Variables", [_describe_variable(node) for node in variables], limit=12)
    constants = [node for node in graph.node if node.op == "Const"]
    if constants:
        sizes = sorted(
            ((_content_bytes(node.attr["value"].tensor), node.name) for node in constants),
            reverse=True,
        )
        lines += [
            "",
            f"Constants: {len(constants):,}, {_bytes(sum(size for size, _ in sizes))}; largest "
            f"{sizes[0][1]}, {_bytes(sizes[0][0])}",
        ]
    histogram = Counter(node.op for node in graph.node)
    for function in functions:
        histogram.update(node.op for node in function.node_def)
    where = " (functions included)" if functions else ""
    lines += _section(
        f"Ops{where}",
        [
            f"{count:6,}  {op}"
            for op, count in sorted(histogram.items(), key=lambda item: (-item[1], item[0]))
        ],
    )
    return "\n".join(lines)


def _describe_pack(pack: PackFile) -> list[str]:
    """Return lines on versions, plans and kernels of a pack.

    All its digests are checked.
    """
    packed = pack.manifest
    for name in pack.entries:
        pack.check(name)
    level, reason = pack.fitting_level() if packed.levels else ("", "there are none")
    fits = f"kernels for {level} serve this machine" if level else f"no kernels serve: {reason}"
    lines = [
        f"packed by tfjit {packed.tfjit} for {packed.system} on {packed.machine}; {fits}",
        f"{len(pack.entries)} entries match their digests",
    ]
    plans = []
    for run in packed.runs:
        feeds = ", ".join(f"{name} {list(shape)}" for name, shape in run.feeds.items())
        kind = f"  (node by node: {run.dynamic_reason})" if run.dynamic_reason else ""
        plans.append(f"{', '.join(run.fetches)}{f' for {feeds}' if feeds else ''}{kind}")
    lines += _section("Plans", plans, limit=20)
    kernels = [
        f"{name}  {part.kernels} in {_bytes(pack.entries[archive_name(name)].size)}"
        + (f", {len(part.refused)} refused" if part.refused else "")
        for name, part in packed.levels.items()
    ]
    lines += _section("Kernels", kernels)
    others = [name for name in pack.entries if name.startswith(("variables/", "assets/"))]
    rows = [f"{name}  {_bytes(pack.entries[name].size)}" for name in others]
    return lines + _section("Files", rows, limit=20)


def _section(title: str, rows: Sequence[str], limit: int | None = None) -> list[str]:
    """Return a blank line, a heading and at most `limit` rows.

    An empty list when there are no rows.
    """
    if not rows:
        return []
    shown = list(rows if limit is None else rows[:limit])
    if len(shown) < len(rows):
        shown.append(f"... and {len(rows) - len(shown):,} more")
    return ["", f"{title}:", *(f"  {row}" for row in shown)]


def _bytes(size: int) -> str:
    if size < 10_000:
        return f"{size:,} bytes"
    return f"{size / 1e6:,.2f} MB" if size >= 1_000_000 else f"{size / 1e3:,.1f} kB"


def _edge_count(nodes: Sequence[Any]) -> int:
    return sum(len(node.input) for node in nodes)


def _shape(shape: Any) -> str:
    if shape.unknown_rank:
        return "of unknown rank"
    return "[" + ", ".join("?" if dim.size < 0 else str(dim.size) for dim in shape.dim) + "]"


def _dtype(enum: int) -> str:
    try:
        return as_dtype(enum).name
    except TypeError:
        return f"type {enum}"


def _describe_input(node: Any) -> str:
    shape = f" {_shape(node.attr['shape'].shape)}" if "shape" in node.attr else ""
    default = (
        f", default {node.input[0]}" if node.op == "PlaceholderWithDefault" and node.input else ""
    )
    return f"{node.name}:0  {_dtype(node.attr['dtype'].type)}{shape}{default}"


def _describe_variable(node: Any) -> str:
    return (
        f"{node.name}  {_dtype(node.attr['dtype'].type)} {_shape(node.attr['shape'].shape)}  "
        f"({node.op})"
    )


def _describe_signature(signature: Any) -> Iterator[str]:
    for word, infos in (("in ", signature.inputs), ("out", signature.outputs)):
        for key, info in sorted(infos.items()):
            name = info.name or f"({info.WhichOneof('encoding')})"
            kind = (
                f"{_dtype(info.dtype)} {_shape(info.tensor_shape)}" if info.dtype else "operation"
            )
            yield f"{word} {key} = {name}  {kind}"
    if signature.method_name:
        yield f"method {signature.method_name}"


def _ends(nodes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the nodes that no other node depends on: (outputs, targets).

    Outputs give a value, targets are run for their effect. A variable's plain read (an unused
    Identity or ReadVariableOp) tells nothing about the purpose of the graph.
    """
    used = {name.lstrip("^").split(":")[0] for node in nodes for name in node.input}
    variables = {node.name for node in nodes if node.op in _VARIABLE_OPS}
    outputs, targets = [], []
    for node in nodes:
        if (
            node.name in used
            or node.op in _VARIABLE_OPS
            or node.op in _INPUT_OPS
            or node.op == "Const"
        ):
            continue
        if node.op in _EFFECT_OPS or node.op.startswith(_EFFECT_PREFIXES):
            targets.append(node)
        elif not (
            node.op in ("Identity", "ReadVariableOp", "VarIsInitializedOp")
            and node.input[0].split(":")[0] in variables
        ):
            outputs.append(node)
    return outputs, targets


def _content_bytes(tensor: Any) -> int:
    """Return the bytes of a TensorProto's elements in memory.

    Strings count with their content.
    """
    if tensor.string_val:
        return sum(len(value) for value in tensor.string_val)
    count = 1
    for dim in tensor.tensor_shape.dim:
        count *= dim.size
    try:
        return count * as_dtype(tensor.dtype).size
    except TypeError:
        return len(tensor.tensor_content)
