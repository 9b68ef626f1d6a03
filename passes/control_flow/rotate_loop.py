"""Rotate a While into one body that ends with the condition.

The body returns the next values of the variables, and whether the loop continues.
"""

from __future__ import annotations

from tfjit.framework.errors import InternalError
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph, Node
from tfjit.passes.ir.function_library import Function


def loop_step(cond: Function, body: Function) -> Function:
    """Return the body followed by the condition on its results.

    Before: body: (i, x) -> (i', x'), cond: (i, x) -> go
    After:  (i, x) -> (i', x', go), go from (i', x')
    Keeps: names of nodes, which body and condition do not share. The condition's effects come after
    the body's.
    """
    graph = body.graph.copy()
    inner = cond.graph
    returned = body.returned
    for result in body.results.values():
        graph.remove_op(result.name)
    arguments = {node.name: returned[index] for index, node in cond.args.items()}
    made: list[str] = []
    for node in sorted(inner.op_nodes(), key=lambda node: node.id):
        if node.op in ("_Arg", "_Retval"):
            continue
        if node.name in graph:
            raise InternalError(
                None,
                None,
                f"'{node.name}' is in the body '{body.name}' and in the condition '{cond.name}'",
            )
        graph._insert(_copy(graph, node))
        made.append(node.name)
    for name in made:
        for edge in inner.edges_into(name):
            if edge.src == SOURCE:
                continue
            if edge.is_control:
                graph.add_control_edge(
                    arguments[edge.src][0] if edge.src in arguments else edge.src, name
                )
            elif edge.src in arguments:
                graph.add_data_edge(*arguments[edge.src], name, edge.dst_input)
            else:
                graph.add_data_edge(edge.src, edge.src_output, name, edge.dst_input)
    for name in made:
        if graph.node(name).is_stateful:
            for effect in body.must_run:
                graph.add_control_edge(effect, name)
    go, output_index = cond.returned[0]
    results = [*returned, arguments.get(go, (go, output_index))]
    for index, (src, output) in enumerate(results):
        dtype = graph.node(src).output_dtypes[output].base_dtype
        graph.add_node_op(
            f"_retval_{index}_of_{body.name}",
            "_Retval",
            [(src, output)],
            {"T": dtype, "index": index},
        )
    graph.tie_ends()
    return Function.from_graph(
        f"{body.name}+cond",
        graph,
        body.inputs,
        (*body.must_run, *cond.must_run),
        body.attrs,
        unique=True,
    )


def _copy(graph: DataflowGraph, node: Node) -> Node:
    return Node(
        graph,
        node.name,
        graph._new_node_id(),
        node.op,
        dict(node.attrs),
        node.op_def,
        node.input_dtypes,
        node.output_dtypes,
        node.device,
        node.assigned_device,
        node.origin,
        node.output_shapes,
    )
