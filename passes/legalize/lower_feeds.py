"""Lower feeds and fetches to nodes of the graph.

The nodes are `_Arg` and `_Retval`, or receives from and sends to the client.
"""

from __future__ import annotations

from tfjit.framework.errors import NotFoundError
from tfjit.framework.op_defs.op_traits import PLACEHOLDER
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph
from tfjit.passes.ir.run_spec import check_spec, parse_tensor_name
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant


def lower_feeds(graph: DataflowGraph, ctx: PassContext) -> None:
    """Turn feeds, fetches and targets into nodes and edges.

    Later passes then need no list of them.

    Before: x -> y (feed x:0, fetch y:0)
    After: _arg_x_0_0 -> y -> _retval_y_0_0 -> _SINK
    Keeps: every node; a fed output loses its consumers. Only fetches and targets stay tied to
    `_SINK`. The consumers of a feed with a value in `spec.feed_values` read a Const.

    With `options.client` set, `_recv_x_0` and `_send_y_0` meet the client at a rendezvous instead.
    Raises the errors of `check_spec`, unless the graph was extracted for this very run.
    """
    spec, client = ctx.spec, ctx.options.client
    if graph.extracted_for is not spec:
        check_spec(graph, spec)
    device = ctx.options.client_device
    wanted = {*spec.targets, *(parse_tensor_name(fetch)[0] for fetch in spec.fetches)}
    for edge in graph.edges_into(SINK):
        if edge.src not in wanted and edge.src != SOURCE:
            graph.remove_edge(edge.src, SINK, edge.id)

    for index, feed in enumerate(spec.feeds):
        node, output = parse_tensor_name(feed)
        # left out by `extract` when only the feed names the node
        fed = graph.node(node) if node in graph else None
        known = spec.feed_types.get(feed)
        dtype = known[0] if known else fed.output_dtypes[output].base_dtype if fed else None
        if dtype is None:
            raise NotFoundError(None, None, f"FeedInputs: unable to find feed output {feed}")
        shape = known[1] if known else fed.output_shapes[output] if fed else None
        if client is None:
            name, op, attrs = f"_arg_{node}_{output}_{index}", "_Arg", {"T": dtype, "index": index}
        else:
            name, op = f"_recv_{node}_{output}", "_Recv"
            attrs = {
                "tensor_type": dtype,
                "tensor_name": feed.encode(),
                "send_device": client.device.encode(),
                "send_device_incarnation": client.incarnation,
                "recv_device": client.device.encode(),
                "client_terminated": True,
            }
        made = graph.add_node_op(
            name,
            op,
            (),
            attrs,
            device=device,
            assigned_device=device,
            origin=(node,),
            output_shapes=(shape,),
        )
        graph.add_control_edge(SOURCE, name)
        if fed is None:
            continue
        value = spec.feed_values.get(feed)
        used = (name, 0) if value is None else insert_constant(graph, made, value)
        for edge in graph.edges_out_of(node):
            if edge.src_output == output:
                graph.replace_input(edge.dst, edge.dst_input, *used)
            elif edge.is_control and edge.dst != SINK and fed.has_trait(PLACEHOLDER):
                graph.remove_control_edge(node, edge.dst)
                graph.add_control_edge(made.name, edge.dst)

    for name in graph.shields:
        graph.remove_op(name)
    graph.shields = set()

    for index, fetch in enumerate(spec.fetches):
        node, output = parse_tensor_name(fetch)
        fetched = graph.node(node)
        dtype = fetched.output_dtypes[output].base_dtype
        if client is None:
            name, op, attrs = (
                f"_retval_{node}_{output}_{index}",
                "_Retval",
                {"T": dtype, "index": index},
            )
        else:
            name, op = f"_send_{node}_{output}", "_Send"
            attrs = {
                "T": dtype,
                "tensor_name": fetch.encode(),
                "send_device": client.device.encode(),
                "send_device_incarnation": client.incarnation,
                "recv_device": client.device.encode(),
                "client_terminated": True,
            }
        graph.add_node_op(
            name, op, [(node, output)], attrs, device=device, assigned_device=device, origin=(node,)
        )
        graph.add_control_edge(name, SINK)

    for target in spec.targets:
        graph.add_control_edge(target, SINK)
