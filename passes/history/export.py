"""Write the graph after an event in ops that TensorFlow has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.framework.types.shape import TensorShape
from tfjit.passes.history.events import PASS
from tfjit.passes.history.recording import Changed, NodeState, States, insert_state, rebuilt
from tfjit.passes.history.standard_ops import expand_groups, replace_internal_ops
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph

if TYPE_CHECKING:
    from tfjit.passes.history.history import History
    from tfjit.protos.function_pb2 import FunctionDefLibrary
    from tfjit.protos.graph_pb2 import GraphDef


@dataclass(frozen=True)
class ExportedGraph:
    """A graph of standard ops.

    feeds, fetches: the run's feeds and fetches -> the tensors of this graph that stand for them;
    empty before `lower_feeds`, where they have their own names. targets: operations to run for
    their effects.
    """

    graph_def: GraphDef
    feeds: dict[str, str]
    fetches: dict[str, str]
    targets: tuple[str, ...]


def export(history: History, number: int) -> ExportedGraph:
    """Return a plan's graph after an event; `History.graph_after` has the contract."""
    number = _whole_after(history, number)
    records = history.own_graphs(number)
    states: dict[str, NodeState] = {}
    for record in records:
        for state in sorted(record.states(number).values(), key=lambda state: state.id):
            states[state.name] = state._replace(id=len(states) + 2)
    graph = rebuilt(states, functions=records[0].functions if records else None)
    expand_groups(graph)
    _LoopRestorer(history, number, graph).run()
    replace_internal_ops(graph)
    feeds, fetches, targets = _lift_ends(graph)
    for node in graph.op_nodes():
        node.assigned_device = ""
        node.attrs = {key: value for key, value in node.attrs.items() if key[0] != "_"}
    message = graph.to_graph_def()
    _keep_reachable(message.library, {ref.name for ref in graph.functions.reachable(graph)})
    names = _rename(message)
    return ExportedGraph(
        message,
        {feed: f"{names.get(name, name)}:0" for feed, name in feeds.items()},
        {fetch: f"{names.get(name, name)}:0" for fetch, name in fetches.items()},
        tuple(names.get(name, name) for name in targets),
    )


def _whole_after(history: History, number: int) -> int:
    """Return the first event from this one on with consistent bodies.

    A pass that rewrites bodies together with the graph puts the bodies back at its end.
    """
    ends = [0, *(e.number for e in history.events if e.kind == PASS and e.depth == 0)]
    begin = max((end for end in ends if end < number), default=0)
    end = min((end for end in ends if end >= number), default=number)
    scopes = (g for g in history.graphs if g.is_scope and begin < g.born <= number)
    return end if any(scopes) else number


# ---- loops


class _LoopRestorer:
    """Puts each While back that has become a `_Loop`."""

    def __init__(self, history: History, number: int, graph: DataflowGraph) -> None:
        self.history, self.number, self.graph = history, number, graph
        # loop -> output of the `_Loop` -> output of the While, or the tensor that was known
        self.outputs: dict[str, dict[int, tuple[str, int]]] = {}

    def run(self) -> None:
        """Restore the loops, producers first: a loop may read another's outputs."""
        order = self.graph.topological_order()
        for name in [name for name in order if self.graph.node(name).op == "_Loop"]:
            for event in reversed(self.history.events[: self.number]):
                made = [pair for pair in event.changes if _makes_loop(pair[1].get(name))]
                if made:
                    record, changed = made[0]
                    self._restore(name, record.states(event.number - 1), changed)
                    break

    def _restore(self, name: str, earlier: States, changed: Changed) -> None:
        """Replace one `_Loop` by its While, with its former inputs.

        earlier: the nodes before the `_Loop` was made. changed: the nodes that changed with it,
        which show the numbers of the outputs.
        """
        graph = self.graph
        outputs = self.outputs[name] = {}
        for before, after in changed.values():
            if before is None or after is None or len(before.inputs) != len(after.inputs):
                continue
            for old, new in zip(before.inputs, after.inputs, strict=True):
                if old[0] == new[0] == name:
                    outputs[new[1]] = old
        uses = graph.edges_out_of(name)
        graph.remove_op(name)
        added = [name]
        for wanted in added:  # grows
            state = earlier[wanted]
            insert_state(graph, state._replace(id=graph._new_node_id()))
            for src in (*(src for src, _ in state.inputs), *state.control_inputs):
                if src not in graph and src in earlier and src not in added:
                    added.append(src)
        for wanted in added:
            for index, (src, output) in enumerate(earlier[wanted].inputs):
                if earlier[src].op == "_Loop":
                    src, output = self.outputs[src][output]
                graph.add_data_edge(src, output, wanted, index)
            for src in earlier[wanted].control_inputs:
                graph.add_control_edge(src, wanted)
        for edge in uses:
            if edge.is_control:
                graph.add_control_edge(name, edge.dst)
            else:
                graph.add_data_edge(*outputs[edge.src_output], edge.dst, edge.dst_input)


def _makes_loop(pair: tuple[NodeState | None, NodeState | None] | None) -> bool:
    before, after = pair or (None, None)
    return before is not None and after is not None and before.op != after.op == "_Loop"


# ---- feeds, fetches, names


def _lift_ends(graph: DataflowGraph) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Turn `_Arg` into Placeholder and `_Retval` into Identity; return feeds, fetches, targets."""
    feeds: dict[str, str] = {}
    fetches: dict[str, str] = {}
    targets = [name for name in graph._pred[SINK] if graph.node(name).op not in ("_Retval", "_Arg")]
    for node in list(graph.op_nodes()):
        if node.op == "_Arg":
            shape = node.output_shapes[0]
            feeds[_tensor_of(node.name, "_arg_")] = node.name
            attrs = {"dtype": node.output_dtypes[0], "shape": TensorShape(shape)}
            graph.change_op(node.name, "Placeholder", [], attrs)
        elif node.op == "_Retval":
            fetches[_tensor_of(node.name, "_retval_")] = node.name
            dtype = node.input_dtypes[0]
            graph.change_op(node.name, "Identity", graph.inputs(node.name), {"T": dtype})
    return feeds, fetches, sorted(name for name in targets if name != "_SOURCE")


def _tensor_of(name: str, prefix: str) -> str:
    """Return the tensor "x:0" of an end's name "_arg_x_0_1"."""
    node, output, _ = name.removeprefix(prefix).rsplit("_", 2)
    return f"{node}:{output}"


def _rename(message: GraphDef) -> dict[str, str]:
    """Rename nodes for TensorFlow; return new names by old ones."""
    used = {node.name for node in message.node}
    names: dict[str, str] = {}
    for node in message.node:
        if not node.name.startswith("_"):
            continue
        tensor = _tensor_of(node.name, "_arg_") if node.name.startswith("_arg_") else ""
        wanted = tensor.removesuffix(":0") if tensor.endswith(":0") else node.name.lstrip("_")
        if wanted in used:
            wanted = node.name.lstrip("_")
        while wanted in used:
            wanted += "_"
        used.add(wanted)
        names[node.name] = wanted
    for node in message.node:
        node.name = names.get(node.name, node.name)
        for k, text in enumerate(node.input):
            mark, bare = ("^", text[1:]) if text[0] == "^" else ("", text)
            src, colon, output = bare.partition(":")
            node.input[k] = f"{mark}{names.get(src, src)}{colon}{output}"
    return names


def _keep_reachable(library: FunctionDefLibrary, wanted: set[str]) -> None:
    """Drop the functions that no node names."""
    functions = [f for f in library.function if f.signature.name in wanted]
    gradients = [g for g in library.gradient if g.function_name in wanted]
    del library.function[:], library.gradient[:]
    library.function.extend(functions)
    library.gradient.extend(gradients)


__all__ = ["ExportedGraph", "export"]
