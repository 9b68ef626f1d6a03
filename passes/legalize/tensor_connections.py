"""Apply the tensor connections of a callable to a copied graph.

Consumers of one output use another output instead, for that callable alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.framework import errors
from tfjit.framework.types.dtypes import DType, enum_name
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec, parse_tensor_name
from tfjit.passes.ir.subgraph import ancestors, in_id_order, needed_nodes

Endpoint = tuple[str, int]


def connect(graph: DataflowGraph, spec: RunSpec) -> DataflowGraph:
    """Return a new graph of the needed nodes with the connections made.

    The consumers of each connection's second tensor use its first tensor.

    Before: a -> b -> c, x
    After: x -> c, for ("x:0", "b:0")
    Keeps: every node that fetches, targets and connections depend on, as `prune.extract` copies
    them; `graph` stays unchanged.
    Needs: `check_connections` has passed.
    """
    pairs = [
        (parse_tensor_name(source), parse_tensor_name(target))
        for source, target in spec.connections
    ]
    sources, targets = (
        [f"{name}:{output}" for name, output in ends] for ends in zip(*pairs, strict=True)
    )
    reached = RunSpec((*spec.feeds, *targets), (*spec.fetches, *sources), spec.targets)
    needed, shields = needed_nodes(graph, reached)
    made = graph.copy_subset(in_id_order(graph, needed | shields))
    made.functions = graph.functions.child()
    for (source, source_output), (target, target_output) in pairs:
        if target in made:
            made.redirect_output(target, target_output, source, source_output)
    return made


def check_connections(
    graph: DataflowGraph,
    connections: Sequence[tuple[str, str]],
    feeds: Sequence[str],
    fetches: Sequence[str],
) -> None:
    """Raise an error, in TensorFlow's words, for impossible connections.

    The errors are InvalidArgumentError and NotFoundError.
    """
    fed = {parse_tensor_name(feed) for feed in feeds}
    fetched = {parse_tensor_name(fetch) for fetch in fetches}
    for source_text, target_text in connections:
        source, target = parse_tensor_name(source_text), parse_tensor_name(target_text)
        named = f"{target[0]}:{target[1]}"
        if source[0] not in graph:
            raise errors.InvalidArgumentError(
                None, None, f'Requested tensor connection from unknown node: "{named}".'
            )
        outputs = graph.node(source[0]).output_dtypes
        if source[1] >= len(outputs):
            raise errors.InvalidArgumentError(
                None,
                None,
                f'Requested tensor connection from unknown edge: "{named}" (actual number of '
                f"outputs = {len(outputs)}).",
            )
        if target in fed:
            raise errors.InvalidArgumentError(None, None, f'Endpoint "{named}" fed more than once.')
        fed.add(target)
        if target[0] not in graph:
            raise errors.NotFoundError(
                None, None, f"FeedInputs: unable to find feed output {named}"
            )
        count = len(graph.node(target[0]).output_dtypes)
        if target[1] >= count:
            raise errors.InvalidArgumentError(
                None, None, f"FeedInputs: {named} should have output index < {count}"
            )
        if target in fetched:
            raise errors.InvalidArgumentError(None, None, f"{named} is both fed and fetched.")
        _check_consumers(graph, source, target)


def _check_consumers(graph: DataflowGraph, source: Endpoint, target: Endpoint) -> None:
    dtype = graph.node(source[0]).output_dtypes[source[1]]
    consumers = [
        edge
        for edge in graph.edges_out_of(target[0])
        if not edge.is_control and edge.src_output == target[1]
    ]
    behind = ancestors(graph, [source[0]]) | {source[0]}
    if any(edge.dst in behind for edge in consumers):
        raise errors.InvalidArgumentError(
            None,
            None,
            f'Requested Tensor connection between nodes "{target[0]}" and "{source[0]}" would '
            "create a cycle.",
        )
    for edge in consumers:
        expected = graph.node(edge.dst).input_dtypes[edge.dst_input]
        if expected.base_dtype != dtype.base_dtype:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Input {edge.dst_input} of node {edge.dst} was passed {_name(dtype)} from "
                f"_identity_{target[0]}_{target[1]}:0 "
                f"incompatible with expected {_name(expected)}.",
            )


def _name(dtype: DType) -> str:
    return enum_name(dtype.base_dtype)[3:].lower()
