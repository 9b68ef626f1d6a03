"""Prune unused inputs and outputs of loop and branch bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import CASE, IF, WHILE
from tfjit.framework.types.dtypes import DType
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph, Node
from tfjit.passes.ir.function_library import Function, indexed
from tfjit.passes.ir.subgraph import ancestors
from tfjit.passes.manager.pass_context import PassContext

Tensor = tuple[str, int]

_BRANCH_ATTRS: Final = ("then_branch", "else_branch")


def trim_bodies(graph: DataflowGraph, ctx: PassContext) -> None:
    """Prune captures of While, If and Case; move constants into bodies.

    Before: c = Const; w = While(i, c, cond, body), where body returns c unchanged
    After:  w = While(i, cond', body'), c inside
    Keeps: every value, effects and their order.
    Needs: nothing; more captures can be pruned after `fold_constants`.

    A loop variable is dropped if the body returns it unchanged and its start is a constant, or if
    only the variable itself depends on it. Users of the output of an unchanged variable get its
    start, unless the loop has effects that they may rely on. A resource is replaced by its start
    even then, and a control edge keeps the order.

    A branch loses inputs that no branch uses, and unused outputs. Two inputs of the same tensor
    become one. The same is then done in the bodies. Bodies are copied before they are changed:
    other nodes may name them.
    """
    if not _has_structure(graph):
        return
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        if node.has_trait(WHILE | IF | CASE):
            if not ctx.may_rewrite():
                return
            changes = graph.changes
            reason = _trim(graph, node)
            if graph.changes != changes:
                ctx.rewrote(name, reason)


def _trim(graph: DataflowGraph, node: Node) -> str:
    """Prune the captures of a node and its bodies; return a description."""
    reason = (_while if node.has_trait(WHILE) else _branches)(graph, node)
    return reason or "its bodies are pruned"


def _while(graph: DataflowGraph, node: Node) -> str:
    library = graph.functions
    cond, body = library.body(node.attrs["cond"]), library.body(node.attrs["body"])
    inputs = graph.inputs(node.name)
    count = len(inputs)
    args = body.args
    unchanged = [
        i
        for i, returned in enumerate(body.returned)
        if i in args and _behind_identities(body.graph, returned) == (args[i].name, 0)
    ]
    for i in unchanged:
        if not node.is_stateful:
            graph.redirect_output(node.name, i, *inputs[i])
        elif node.output_dtypes[i].name == "resource":
            # the consumer waits for the loop, but uses the resource from before the loop
            for consumer, _ in graph.consumers(node.name, i):
                graph.add_control_edge(node.name, consumer)
            graph.redirect_output(node.name, i, *inputs[i])
    constants = {
        i: graph.node(inputs[i][0]) for i in unchanged if graph.node(inputs[i][0]).op == "Const"
    }
    needed = _needed_variables(graph, node, cond, body)
    for i in constants:
        if graph.consumers(node.name, i):
            constants = {j: constant for j, constant in constants.items() if j != i}
    same = _duplicates(
        inputs,
        [
            i
            for i in unchanged
            if i in needed and i not in constants and not graph.consumers(node.name, i)
        ],
    )
    kept = [i for i in range(count) if i in needed and i not in constants and i not in same]
    if len(kept) == count and not _has_structure(cond.graph) and not _has_structure(body.graph):
        return ""
    attrs = dict(node.attrs)
    attrs["T"] = types = tuple(node.attrs["T"][i] for i in kept)
    for key, function in (("cond", cond), ("body", body)):
        attrs[key] = _narrowed(
            graph, function, kept, types, constants, same, kept if key == "body" else [0]
        )
    _renumber(graph, node, [inputs[i] for i in kept], kept, attrs)
    if len(kept) == count:
        return ""
    return f"{count - len(kept)} of {count} variables left: {len(constants)} constants went in"


def _needed_variables(graph: DataflowGraph, node: Node, cond: Function, body: Function) -> set[int]:
    """Return variables that the condition, an effect or a consumer depends on.

    The dependency may pass through any number of iterations.
    """
    args = {arg.name: i for i, arg in body.args.items()}
    wanted = {arg.name: i for i, arg in cond.args.items()}
    found = {
        wanted[name]
        for name in ancestors(cond.graph, [SINK])
        if name in wanted and cond.graph.edges_out_of(name)
    }
    found |= {args[name] for name in ancestors(body.graph, body.must_run) if name in args}
    found |= {i for i in range(len(body.outputs)) if graph.consumers(node.name, i)}
    results = body.results
    waiting = sorted(found)
    while waiting:
        for name in ancestors(body.graph, [results[waiting.pop()].name]):
            i = args.get(name, -1)
            if i >= 0 and i not in found:
                found.add(i)
                waiting.append(i)
    return found


def _branches(graph: DataflowGraph, node: Node) -> str:
    library = graph.functions
    refs: dict[str, Any] = {
        key: node.attrs[key] for key in (_BRANCH_ATTRS if node.has_trait(IF) else ("branches",))
    }
    functions = [
        library.body(ref) for ref in (refs["branches"] if "branches" in refs else refs.values())
    ]
    predicate, *inputs = graph.inputs(node.name)
    count, given = len(inputs), len(functions[0].outputs)
    used = set()
    for function in functions:
        used |= {i for i, arg in function.args.items() if function.graph.edges_out_of(arg.name)}
    constants = {
        i: graph.node(src)
        for i, (src, _) in enumerate(inputs)
        if i in used and graph.node(src).op == "Const"
    }
    same = _duplicates(inputs, [i for i in sorted(used) if i not in constants])
    kept = [i for i in sorted(used) if i not in constants and i not in same]
    outputs = [i for i in range(given) if graph.consumers(node.name, i)]
    if (
        len(kept) == count
        and len(outputs) == given
        and not any(_has_structure(function.graph) for function in functions)
    ):
        return ""
    types = tuple(node.attrs["Tin"][i] for i in kept)
    made = [
        _narrowed(graph, function, kept, types, constants, same, outputs) for function in functions
    ]
    attrs = dict(node.attrs)
    attrs.update(
        {"branches": tuple(made)} if "branches" in refs else dict(zip(refs, made, strict=True))
    )
    attrs["Tin"] = types
    attrs["Tout"] = tuple(node.attrs["Tout"][i] for i in outputs)
    _renumber(graph, node, [predicate, *(inputs[i] for i in kept)], outputs, attrs)
    if len(kept) == count and len(outputs) == given:
        return ""
    return (
        f"{len(kept)} of {count} inputs and {len(outputs)} of {given} outputs stay: "
        f"{len(constants)} constants went in"
    )


def _duplicates(inputs: Sequence[Tensor], among: Sequence[int]) -> dict[int, int]:
    """Return input -> an earlier input of the same tensor."""
    first: dict[Tensor, int] = {}
    return {i: first[inputs[i]] for i in among if first.setdefault(inputs[i], i) != i}


def _has_structure(graph: DataflowGraph) -> bool:
    return graph.has_trait(WHILE | IF | CASE)


def _behind_identities(graph: DataflowGraph, tensor: Tensor) -> Tensor:
    while graph.node(tensor[0]).op == "Identity":
        tensor = graph.inputs(tensor[0])[0]
    return tensor


def _narrowed(
    graph: DataflowGraph,
    function: Function,
    kept: Sequence[int],
    types: Sequence[DType],
    constants: Mapping[int, Node],
    same: Mapping[int, int],
    outputs: Sequence[int],
) -> FuncRef:
    """Return the body with fewer arguments and results, in the library.

    kept, types: the arguments that stay, renumbered, with their types. outputs: the results that
    stay, renumbered. constants: argument -> the Const that it becomes. same: argument -> the
    argument of the same tensor.
    """
    body = function.graph.copy()
    args, results = indexed(body, "_Arg"), indexed(body, "_Retval")
    body.remove_nodes_from([node.name for i, node in results.items() if i not in outputs])
    number = {i: position for position, i in enumerate(kept)}
    for i, position in same.items():
        if i in args and position in args:
            body.redirect_output(args[i].name, 0, args[position].name, 0)
            body.redirect_control(args[i].name, args[position].name)
        elif i in args:  # the body had no use for the other argument
            args[position] = args.pop(i)
    for i, arg in args.items():
        if i in number:
            body.node(arg.name).attrs["index"] = number[i]
        elif i in constants and body.edges_out_of(arg.name):
            value = constants[i]
            shape = value.output_shapes
            body.change_op(
                arg.name,
                "Const",
                (),
                {"dtype": value.attrs["dtype"], "value": value.attrs["value"]},
            ).output_shapes = shape
    for position, i in enumerate(outputs):
        body.node(results[i].name).attrs["index"] = position
    ends = [results[i].name for i in outputs] + list(function.must_run)
    # A dead branch or loop is removed now: its own captures could not be pruned once their
    # arguments are gone.
    alive = ancestors(body, ends) | {args[i].name for i in number if i in args}
    body.remove_nodes_from([node.name for node in body.op_nodes() if node.name not in alive])
    for name in body.topological_order() if _has_structure(body) else ():
        if body.node(name).has_trait(WHILE | IF | CASE):
            _trim(body, body.node(name))
    library = graph.functions
    made = Function.from_graph(
        library.new_name(function.name),
        body,
        types,
        function.must_run,
        function.attrs,
        function.unique,
    )
    return library.add(made)


def _renumber(
    graph: DataflowGraph,
    node: Node,
    inputs: Sequence[Tensor],
    outputs: Sequence[int],
    attrs: dict[str, Any],
) -> None:
    """Give the node its new signature.

    outputs: the old numbers of the outputs that stay.
    """
    shapes = tuple(node.output_shapes[i] for i in outputs)
    stated = attrs.get("output_shapes", ())
    attrs["output_shapes"] = tuple(stated[i] for i in outputs) if stated else ()
    for position, i in enumerate(outputs):
        if position != i:
            graph.redirect_output(node.name, i, node.name, position)
    graph.change_op(node.name, node.op, inputs, attrs).output_shapes = shapes
