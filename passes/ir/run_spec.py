"""Define the feeds, fetches and targets of a run, and check them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape


from tfjit.framework.errors import InvalidArgumentError, NotFoundError
from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds
from tfjit.passes.ir.dataflow_graph import CONTROL, DataflowGraph


def parse_tensor_name(name: str) -> tuple[str, int]:
    """Split a tensor name into node and output.

    The result is ("x", 1) for "x:1", ("x", 0) for "x", ("x", -1) for "^x". The text behind the last
    colon counts only if it is a number.
    """
    if name.startswith("^"):
        return name[1:], CONTROL
    node, colon, output = name.rpartition(":")
    if colon and output.isdigit():
        return node, int(output)
    return name, 0


def check_spec(graph: DataflowGraph, spec: RunSpec) -> None:
    """Check a run's feeds, fetches and targets against a graph.

    They must exist and not contradict each other.
    Raises InvalidArgumentError or NotFoundError as TensorFlow's session does.
    Source: TensorFlow 2.5, graph/subgraph.cc.
    """
    if not spec.fetches and not spec.targets:
        raise InvalidArgumentError(
            None, None, "Must specify at least one target to fetch or execute."
        )
    fed: set[str] = set()
    for feed in spec.feeds:
        if feed in fed:
            raise InvalidArgumentError(None, None, f'Endpoint "{feed}" fed more than once.')
        fed.add(feed)
    for fetch in spec.fetches:
        if fetch in fed:
            raise InvalidArgumentError(None, None, f"{fetch} is both fed and fetched.")
    for feed in spec.feeds:
        node, output = parse_tensor_name(feed)
        if node not in graph:
            raise NotFoundError(None, None, f"FeedInputs: unable to find feed output {feed}")
        outputs = len(graph.node(node).output_dtypes)
        if not 0 <= output < outputs:
            raise InvalidArgumentError(
                None, None, f"FeedInputs: {feed} should have output index < {outputs}"
            )
    for fetch in spec.fetches:
        node, output = parse_tensor_name(fetch)
        if node not in graph:
            raise NotFoundError(None, None, f"FetchOutputs node {fetch}: not found")
        outputs = len(graph.node(node).output_dtypes)
        if outputs == 0:
            raise InvalidArgumentError(
                None,
                None,
                f"Tried to fetch data for '{fetch}', which produces no output.  To run to a node "
                "but not fetch any data, "
                f"pass '{fetch}' as an argument to the 'target_node_names' argument of the "
                "Session::Run API.",
            )
        if not 0 <= output < outputs:
            raise InvalidArgumentError(
                None, None, f"FetchOutputs {fetch}: output index too large, must be < {outputs}"
            )
    missing = [target for target in spec.targets if target not in graph]
    if missing:
        raise NotFoundError(
            None,
            None,
            "PruneForTargets: Some target nodes not found: "
            + "".join(name + " " for name in missing),
        )


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The signature of one run.

    feeds, fetches: tensor names "x:0". targets: node names. Positions are the `index` of `_Arg` and
    `_Retval`.
    feed_types: feed name -> (dtype, shape), where more is known than in the graph; a missing entry
    means the graph's.
    connections: (tensor, other tensor): consumers of the other tensor use the first; `connect`
    makes them before any pass.
    cut: nodes that have run already, in an earlier stage. Their needed outputs are among the feeds,
    and no node waits for them.
    feed_values: feed name -> value, where all runs of the plan feed the same.
    sampled: the shapes stand for a range of sizes. A choice between two right forms does not depend
    on them, so that all sizes have one form.
    ends: feeds and fetches that are not in host memory.
    """

    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    feed_types: Mapping[str, tuple[DType, Shape]] = field(default_factory=dict)
    connections: tuple[tuple[str, str], ...] = ()
    cut: frozenset[str] = frozenset()
    feed_values: Mapping[str, np.ndarray] = field(default_factory=dict)
    sampled: bool = False
    ends: DeviceEnds = ON_HOST
