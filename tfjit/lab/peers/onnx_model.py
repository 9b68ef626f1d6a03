"""Translate a GraphDef to an ONNX model with static shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.lab.peers import numpy_like, onnx_rules
from tfjit.lab.peers.graph import Endpoint, PeerGraph, PeerNode, ShapedGraph, endpoint
from tfjit.lab.peers.presence import Absent

if TYPE_CHECKING:
    import onnx
    import onnxruntime

    from tfjit.lab.peers.onnx_rules import Operand

OPSET = 20
_MAX_PROTO_BYTES = 2**31 - 1


class Translation:
    """Build an ONNX model.

    NumPy computes here the values that depend on constants and shapes alone.
    """

    def __init__(self, graph: ShapedGraph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._count = 0
        # id of a value -> its name, and the value, which keeps the id its own
        self._known: dict[int, tuple[str, Operand]] = {}

    def add(self, op: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> Any:
        """Add an ONNX node; its output's name, or a tuple of names."""
        import onnx

        self._count += 1
        names = [f"v{self._count}_{i}" for i in range(outputs)]
        self.nodes.append(
            onnx.helper.make_node(op, [self._name(value) for value in inputs], names, **attributes)
        )
        return names[0] if outputs == 1 else tuple(names)

    def shape(self, at: Endpoint) -> tuple[int, ...]:
        """Return the static shape of an output of the TensorFlow graph.

        Raises Absent where it is not known.
        """
        shape = self.graph.shape(at)
        if shape is None:
            raise Absent(f"the shape of {at[0]} is not known before the run")
        return shape

    def _name(self, value: Operand) -> str:
        if isinstance(value, str):
            return value
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = (f"c{len(self._known)}", value)
            self.constants[found[0]] = np.asarray(value)
        return found[0]

    def _known_value(
        self, node: PeerNode, inputs: list[Operand]
    ) -> numpy_like.Array | tuple[numpy_like.Array, ...] | None:
        """Compute a node by NumPy, or return None.

        The node's inputs, or their shapes, must be known; None leaves the node to the run.
        """
        if node.op == "Shape":
            return np.array(self.shape(node.inputs[0]), node.attrs.get("out_type", np.int32))
        if any(isinstance(value, str) for value in inputs) or node.op not in numpy_like.FOLDED:
            return None
        return numpy_like.RULES[node.op](np, node, *inputs)

    def model(self) -> bytes:
        """The model's bytes. Raises Absent for an op without a rule."""
        import onnx
        from onnx import helper, numpy_helper

        values: dict[Endpoint, Operand] = {
            endpoint(name): f"feed{i}" for i, name in enumerate(self.graph.feeds)
        }
        for node in self.graph.order:
            if node.op == "NoOp":
                continue
            inputs = [values[at] for at in node.inputs]
            result: Operand | tuple[Operand, ...] | None = self._known_value(node, inputs)
            if result is None:
                rule = onnx_rules.RULES.get(node.op)
                if rule is None:
                    raise Absent(f"no rule for {node.op}")
                result = rule(self, node, *inputs)
            for port, value in enumerate(result if isinstance(result, tuple) else (result,)):
                values[node.name, port] = value
        fetched = [self.add("Identity", values[endpoint(name)]) for name in self.graph.fetches]

        def info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), np.shape(value)
            )

        feeds = [info(f"feed{i}", value) for i, value in enumerate(self.graph.fed.values())]
        outputs = [onnx.ValueInfoProto(name=name) for name in fetched]
        initializers = [
            numpy_helper.from_array(value, name) for name, value in self.constants.items()
        ]
        graph = helper.make_graph(self.nodes, "workload", feeds, outputs, initializers)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
        )
        if model.ByteSize() > _MAX_PROTO_BYTES:
            raise Absent("the model is too large for one message")
        data: bytes = model.SerializeToString()
        return data


def translate(
    graph_def: bytes,
    fetches: Sequence[str],
    targets: Sequence[str],
    feeds: Mapping[str, np.ndarray],
) -> bytes:
    """Return an ONNX model of the fetches.

    Its inputs feed0, feed1 ... are `feeds` in order, and its outputs are the fetches.
    """
    if PeerGraph(graph_def, fetches, targets, feeds).targets:
        raise Absent("ONNX Runtime runs no updates of variables")
    return Translation(ShapedGraph(graph_def, fetches, targets, feeds)).model()


def inference_session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    """Return an onnxruntime.InferenceSession on the CPU, with all of its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
