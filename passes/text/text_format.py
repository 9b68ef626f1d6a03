r"""Print and parse the text form of a working graph.

Dumps and tests use this form. One node a line, in any order:

    x    = Placeholder(dtype=float32, shape=<?,3>) @/device:CPU:0
    init = NoOp()
    y    = Split(axis, x:1, ^init, num_split=2) -> float32<?,3>, float32<?,3>   # halves

The brackets contain data inputs in order ("x" is "x:0"), control inputs with "^", then attrs.
After them come, each optional: `@` the requested device, `on` the assigned one, `from` the user's
nodes that the node implements, `->` the types and shapes of its outputs. A "#" starts a comment.
Attrs that follow from the inputs or are their defaults are left out, and filled in when read; a
type that nothing determines is float32. `value_text.py` has the form of values.

Functions that nodes name come behind the nodes, each as a block. The types of its arguments come
before the block where some have no node (`takes int32, float32`). The nodes that each call runs
for their effects come behind the block:

    y = While(x, body=func'step'{}, cond=func'more'{})
    function 'step'{} {
        x = _Arg(index=0)
        p = Print(x, x)
        r = _Retval(p, index=0)
    } runs p
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tfjit.framework.errors import OpError
from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_traits import MERGE, NEXT_ITERATION
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.function_library import Function
from tfjit.passes.ir.graph_def import COMPOSED, derived_attrs, find_op_def, signature
from tfjit.passes.text.group_text import KEY
from tfjit.passes.text.tensor_files import FOLDER, TensorFiles
from tfjit.passes.text.value_text import (
    Full,
    TextError,
    ValueReader,
    format_shape,
    format_value,
    statements,
)

_NODE_NAME: Final = r"[A-Za-z0-9._][\w.\\/>-]*"
_LINE: Final = re.compile(rf"\s*({_NODE_NAME})\s*=\s*([A-Za-z_]\w*)\s*\(")
_INPUT: Final = re.compile(rf"(\^?)({_NODE_NAME})(?::(\d+))?")
_FUNCTION: Final = re.compile(r"\s*function\s*['\"]")
_END: Final = re.compile(
    rf"\s*\}}(?:\s*runs\s+({_NODE_NAME}(?:\s*,\s*{_NODE_NAME})*))?\s*(?:#.*)?$"
)
_NAME_LIST: Final = re.compile(rf"\s*from\s+({_NODE_NAME}(?:\s*,\s*{_NODE_NAME})*)")


def print_graph(graph: DataflowGraph, *, full: Full = False, shapes: bool = True) -> str:
    """Return the graph as text, in id order.

    full: write tensors of any size out or into files, so that `parse_graph` gives the same graph;
    else tensors above 16 elements are elided ("..."). shapes: add each node's output dtypes and
    shapes.
    """
    text = _print_nodes(graph, full, shapes, "")
    for ref in graph.functions.reachable(graph):
        try:
            body = graph.functions.body(ref)
        except OpError as error:
            text += f"# function '{ref.name}': {error.message}\n"
            continue
        runs = f" runs {', '.join(body.must_run)}" if body.must_run else ""
        head = format_value(ref, full=full).removeprefix("func")
        if list(body.args) != list(range(len(body.inputs))):  # some argument has no node
            head += f" takes {', '.join(dtype.name for dtype in body.inputs)}"
        text += f"function {head} {{\n{_print_nodes(body.graph, full, shapes, '    ')}}}{runs}\n"
    return text


def _print_nodes(graph: DataflowGraph, full: Full, shapes: bool, indent: str) -> str:
    nodes = sorted(graph.op_nodes(), key=lambda node: node.id)
    width = min(max((len(node.name) for node in nodes), default=0), 40)
    return "".join(
        textwrap.indent(format_node(graph, node, full=full, shapes=shapes, width=width), indent)
        + "\n"
        for node in nodes
    )


def format_node(
    graph: DataflowGraph, node: Node, *, full: Full = False, shapes: bool = True, width: int = 0
) -> str:
    """Return one node as one line of text.

    A loop program among its attrs needs several lines.
    """
    arguments = [
        src if output == 0 else f"{src}:{output}" for src, output in graph.inputs(node.name)
    ]
    arguments += [f"^{src}" for src in graph.control_inputs(node.name)]
    derived = derived_attrs(node.op_def, node.input_dtypes) if node.op_def is not None else {}
    for key in sorted(node.attrs):
        value = node.attrs[key]
        if key not in derived or not attr_forms.equal(derived[key], value):
            arguments.append(f"{key}={format_value(value, full=full)}")
    line = f"{node.name:<{width}} = {node.op}({', '.join(arguments)})"
    if node.device:
        line += f" @{node.device}"
    if node.assigned_device:
        line += f" on {node.assigned_device}"
    if node.origin and node.origin != (node.name,):
        line += f" from {', '.join(node.origin)}"
    if shapes and node.output_dtypes:
        outputs = (
            f"{dtype.name}{format_shape(shape)}"
            for dtype, shape in zip(node.output_dtypes, node.output_shapes)
        )
        line += " -> " + ", ".join(outputs)
    return line


@dataclass
class _Record:
    line: int
    name: str
    op: str
    inputs: list[tuple[str, int]] = field(default_factory=list)
    control_inputs: list[str] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    device: str = ""
    assigned_device: str = ""
    origin: tuple[str, ...] = ()
    input_dtypes: tuple[DType, ...] = ()
    output_dtypes: tuple[DType, ...] | None = None
    outputs: tuple[tuple[DType, Shape], ...] = ()


@dataclass
class _Block:
    line: int
    ref: FuncRef
    lines: list[tuple[int, str]] = field(default_factory=list)
    runs: tuple[str, ...] = ()
    argument_types: tuple[DType, ...] | None = None


def parse_graph(text: str, files: TensorFiles | None = None) -> DataflowGraph:
    """Return the graph that a text describes, functions included.

    The ids follow the order of its lines. files: of large tensors that the text only names.
    Raises TextError with line and reason.
    """
    lines: list[tuple[int, str]] = []
    blocks: list[_Block] = []
    block: _Block | None = None
    for number, line in statements(text):
        opens, closes = _FUNCTION.match(line), _END.match(line)
        if opens and block is None:
            reader = ValueReader(line, number, opens.end() - 1)
            block = _Block(number, reader.func())
            if reader.take("takes"):
                block.argument_types = tuple(reader.argument_types())
            reader.expect("{")
        elif closes and block is not None:
            block.runs = tuple(name.strip() for name in closes[1].split(",")) if closes[1] else ()
            blocks.append(block)
            block = None
        elif opens or closes:
            raise TextError(
                f"line {number}: a function "
                f"{'begins inside of another' if opens else 'ends that has not begun'}"
            )
        else:
            (lines if block is None else block.lines).append((number, line))
    if block is not None:
        raise TextError(f"line {block.line}: function '{block.ref.name}' does not end")
    graph = _parse_nodes(lines, DataflowGraph(), files)
    for block in blocks:
        body = DataflowGraph()
        body.functions = graph.functions
        _parse_nodes(block.lines, body, files)
        try:
            function = Function.from_graph(block.ref.name, body, block.argument_types, block.runs)
            graph.functions.add(function, block.ref)
        except OpError as error:
            raise TextError(f"line {block.line}: {error.message}") from error
    return graph


def _parse_nodes(
    lines: Sequence[tuple[int, str]], graph: DataflowGraph, files: TensorFiles | None
) -> DataflowGraph:
    records: dict[str, _Record] = {}
    for number, line in lines:
        record = _parse_line(line, number, files)
        if record is None:
            continue
        if record.name in records:
            raise TextError(f"line {number}: Node '{record.name}' is not unique")
        records[record.name] = record
    for record in records.values():
        for src in [src for src, _ in record.inputs] + record.control_inputs:
            if src not in records:
                raise TextError(
                    f"line {record.line}: Node '{record.name}': Unknown input node '{src}'"
                )

    for record in _inputs_first(records):
        got: list[DType | None] = []
        for src, output in record.inputs:
            outputs = records[src].output_dtypes
            if outputs is None:
                # the back edge of a loop: the Merge's other input determines the dtype
                got.append(None)
            elif output >= len(outputs):
                raise TextError(
                    f"line {record.line}: Node '{record.name}': '{src}' has no output {output}"
                )
            else:
                got.append(outputs[output])
        entering = next((dtype for dtype in got if dtype is not None), None)
        got = [dtype or entering for dtype in got]
        try:
            op_def = definition(record.op)
            if op_def is not None:
                for key, value in derived_attrs(op_def, tuple(got)).items():
                    record.attrs.setdefault(key, value)
                for attr in op_def.attrs:
                    if attr.name not in record.attrs and attr.type == "type":
                        record.attrs[attr.name] = dtypes.float32
            record.input_dtypes, record.output_dtypes = signature(
                record.op, op_def, record.attrs, record.name
            )
        except OpError as error:
            raise TextError(f"line {record.line}: {error}") from error
        declared = tuple(dtype for dtype, _ in record.outputs)
        if record.outputs and declared != record.output_dtypes:
            raise TextError(
                f"line {record.line}: the outputs of '{record.name}' are "
                f"{', '.join(dtype.name for dtype in record.output_dtypes) or 'none'}, "
                f"not {', '.join(dtype.name for dtype in declared)}"
            )

    for record in records.values():
        graph._insert(
            Node(
                graph,
                record.name,
                graph._new_node_id(),
                record.op,
                record.attrs,
                definition(record.op),
                record.input_dtypes,
                record.output_dtypes or (),
                record.device,
                record.assigned_device,
                record.origin or (record.name,),
                tuple(shape for _, shape in record.outputs) or None,
            )
        )
    for record in records.values():
        for index, (src, output) in enumerate(record.inputs):
            graph._connect(src, output, record.name, index)
        for src in record.control_inputs:
            graph.add_control_edge(src, record.name)
    graph.tie_ends()
    return graph


def definition(op: str) -> OpDef | None:
    """Return the definition of an op type.

    None for composed nodes, which are defined by their attrs.
    """
    return None if op in COMPOSED else find_op_def(op)


def _has_trait(op: str, trait: int) -> bool:
    found = definition(op)
    return found is not None and found.traits & trait != 0


def _inputs_first(records: dict[str, _Record]) -> Iterable[_Record]:
    """Yield records in topological order; back edges of loops do not count."""
    consumers: dict[str, list[str]] = {name: [] for name in records}
    pending = dict.fromkeys(records, 0)
    for record in records.values():
        for src in [src for src, _ in record.inputs] + record.control_inputs:
            if _has_trait(record.op, MERGE) and _has_trait(records[src].op, NEXT_ITERATION):
                continue
            consumers[src].append(record.name)
            pending[record.name] += 1
    ready = [name for name, count in pending.items() if count == 0]
    done = 0
    while done < len(ready):
        name = ready[done]
        done += 1
        yield records[name]
        for dst in consumers[name]:
            pending[dst] -= 1
            if pending[dst] == 0:
                ready.append(dst)
    if done < len(records):
        stuck = [name for name, count in pending.items() if count > 0]
        raise TextError(
            f"line {records[stuck[0]].line}: {len(stuck)} nodes in or behind a cycle, among them "
            f"'{stuck[0]}'"
        )


def _parse_line(line: str, number: int, files: TensorFiles | None) -> _Record | None:
    head = _LINE.match(line)
    if head is None:
        if not line.strip() or line.lstrip().startswith("#"):
            return None
        raise TextError(
            f"line {number}: expected 'name = Op(inputs, attrs)', found {line.strip()!r}"
        )
    record = _Record(number, head[1], head[2])
    reader = ValueReader(line, number, head.end(), files)
    while not reader.take(")"):
        key = KEY.match(reader.text, reader.position)
        if key:
            reader.position = key.end()
            record.attrs[key[1]] = reader.value()
        else:
            found = reader.match(_INPUT, "an input, an attr or ')'")
            if record.attrs:
                reader.fail("inputs come before attrs")
            if found[1]:
                record.control_inputs.append(found[2])
            elif record.control_inputs:
                reader.fail("Control dependencies must come after regular dependencies")
            else:
                record.inputs.append((found[2], int(found[3] or 0)))
        if not reader.take(","):
            reader.expect(")")
            break
    rest = reader.rest()
    while rest:
        if rest.startswith("#"):
            break
        device = re.match(r"(@|on\s+)([^\s#]+)\s*", rest)
        origin = _NAME_LIST.match(rest)
        if device:
            if device[1] == "@":
                record.device = device[2]
            else:
                record.assigned_device = device[2]
            rest = rest[device.end() :]
        elif origin:
            record.origin = tuple(name.strip() for name in origin[1].split(","))
            rest = rest[origin.end() :].lstrip()
        elif rest.startswith("->"):
            tail = ValueReader(rest, number, 2)
            record.outputs = tuple(tail.outputs())
            rest = tail.rest()
        else:
            raise TextError(
                f"line {number}: expected a device, 'from', '->' or a comment, found {rest!r}"
            )
    return record


def read_dump(path: Path) -> DataflowGraph:
    """Return the graph of a file that TFJIT_DUMP has written.

    Raises TextError.
    """
    return parse_graph(path.read_text(encoding="utf-8"), TensorFiles(path.parent / FOLDER))


__all__ = ["TextError", "definition", "format_node", "parse_graph", "print_graph", "read_dump"]
