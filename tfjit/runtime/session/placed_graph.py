"""Hold and place the graph of a session; run passes over it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.framework.types.dtypes import DType
from tfjit.runtime.host import fork_safety
from tfjit.runtime.session import session_config

if TYPE_CHECKING:
    from tfjit.passes.history.history import History
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.pipeline import Partition, PipelineReport, RunSpec
    from tfjit.runtime.session.session_passes import SessionPasses


class PlacedGraph:
    """The whole graph of a session with a device for each node.

    graph: None before the first extension and after the end. lock: hold it while reading or
    changing the graph. pruned_first: nodes are placed with the first run that needs them
    (`place_pruned_graph`). internal_names: names of nodes may begin with "_".
    """

    def __init__(self, passes: SessionPasses, pruned_first: bool, internal_names: bool) -> None:
        self.graph: DataflowGraph | None = None
        self.lock = threading.RLock()
        self._passes = passes
        self._pruned_first = pruned_first
        self._internal_names = internal_names
        self._closed = False
        fork_safety.hold(self.lock, fork_safety.PLACED_GRAPH)

    def extend(self, graph_def: Any) -> None:
        """Add and place the nodes of a GraphDef.

        Raises InvalidArgumentError for a faulty graph, and then keeps the old one.
        """
        from tfjit.passes.ir.dataflow_graph import DataflowGraph

        with collection_paused(), self.lock:
            graph = self.graph if self.graph is not None else DataflowGraph()
            graph.extend(graph_def, self._internal_names)
            self._place_all(graph)
            self.graph = graph

    def extend_from(self, graph: Any, version: int) -> bool:
        """Add and place operations of a tfjit Graph.

        They are newer than `version`. Returns False where only a message of them can be added.
        """
        from tfjit.passes.ir.dataflow_graph import DataflowGraph
        from tfjit.passes.ir.graph_def import add_and_change

        with collection_paused(), self.lock:
            mine = self.graph if self.graph is not None else DataflowGraph()
            if mine._twin is not None:
                return False
            # checked when they were made, so neither a message nor a second check is needed
            mine.versions = graph.version_numbers
            mine.functions.merge(graph.functions.values(), graph.function_gradients)
            add_and_change(
                mine, graph.operations_after(version), graph.operations_changed_after(version)
            )
            self._place_all(mine)
            self.graph = mine
            return True

    def _place_all(self, graph: DataflowGraph) -> None:
        if not self._pruned_first:
            self._place(graph)

    def _place(self, graph: DataflowGraph) -> None:
        from tfjit.passes.manager.pass_context import PassContext
        from tfjit.passes.partitioning.place import place

        with settings.using(self._passes.variables):
            place(graph, PassContext(options=self._passes.options()))

    def place_for(self, spec: RunSpec) -> None:
        """Place the unplaced nodes of a run, with place_pruned_graph.

        The placement is for all later runs. Call it with the lock held.
        """
        from tfjit.passes.ir.subgraph import extract
        from tfjit.passes.partitioning.place import raise_unplaced

        graph = self.graph
        if not self._pruned_first or graph is None:
            return
        part = extract(graph, spec)
        self._place(part)
        raise_unplaced(part, part)
        for node in part.op_nodes():
            graph.node(node.name).assigned_device = node.assigned_device

    def existing(self) -> DataflowGraph:
        """Return the graph.

        Raises InvalidArgumentError before the first extension, CancelledError after the end.
        """
        if self.graph is None:
            if self._closed:  # closing takes the graph away
                raise errors.CancelledError(None, None, "Session has been closed.")
            raise errors.InvalidArgumentError(
                None, None, "Session was not created with a graph before Run()!"
            )
        return self.graph

    def build_partitions(
        self,
        spec: RunSpec,
        quick: bool = False,
        fuses: bool = True,
        history: History | None = None,
    ) -> tuple[list[Partition], PipelineReport]:
        """Run the passes for one signature and feed shapes.

        quick: only passes that make the graph runnable. fuses: run the passes over partitions too.
        history: filled with the passes and their rewrites.
        """
        from tfjit.passes.partitioning.place import raise_unplaced
        from tfjit.passes.pipeline import build

        options = self._passes.options()
        if quick:
            options = replace(options, section="quick")
        if quick or not fuses:
            options = replace(options, over_partitions=False)
        if history is not None:
            options = replace(options, history=history)
        with self.lock:
            graph = self.existing()
            self.place_for(spec)
            if session_config.strict_placement():
                raise_unplaced(graph, graph)
            if spec.connections:
                from tfjit.passes.legalize.tensor_connections import connect

                graph = connect(graph, spec)
        try:
            return build(graph, spec, options, self.lock)
        finally:
            if spec.connections:
                graph.dissolve(functions=False)  # the plan's

    def feed_dtypes(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> list[DType]:
        """Return the base dtypes of the fed tensors of a run.

        Raises TensorFlow's errors for names that the graph does not have.
        """
        from tfjit.passes.ir.run_spec import RunSpec, check_spec, parse_tensor_name

        with self.lock:
            graph = self.existing()
            check_spec(graph, RunSpec(tuple(feeds), tuple(fetches), tuple(targets)))
            parsed = [parse_tensor_name(name) for name in feeds]
            return [graph.node(node).output_dtypes[output].base_dtype for node, output in parsed]

    def close(self) -> None:
        """Note that later uses find a closed session."""
        self._closed = True

    def take(self) -> DataflowGraph | None:
        """Return the graph, and keep none."""
        with self.lock:
            graph, self.graph = self.graph, None
        return graph
