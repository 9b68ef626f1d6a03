"""Run the fuse pass over text graphs and evaluate what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native
from tfjit.framework.types import dtypes as d
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_native, find_reference
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.fusion.fuse import fuse
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph


def fused(text: str) -> tuple[DataflowGraph, PassContext]:
    """The graph of a text after shape inference and fusion, verified."""
    graph = parse_graph(text)
    ctx = PassContext()
    infer_shapes(graph, ctx)
    fuse(graph, ctx)
    graph.verify()
    return graph, ctx


def groups(graph: DataflowGraph) -> dict[str, FusedGroup]:
    return {node.name: node.attrs["group"] for node in graph.op_nodes() if node.op == "_Fused"}


def evaluate(
    graph: DataflowGraph, feeds: dict[str, np.ndarray], native: bool
) -> dict[str, np.ndarray]:
    """Every tensor "x:0" of a graph of stateless nodes; `_Fused` nodes compiled if `native`, all
    others by their reference.
    """
    values: dict[str, np.ndarray] = {}
    for name in graph.topological_order():
        node = graph.node(name)
        if name in feeds:
            values[f"{name}:0"] = feeds[name]
            continue
        if not node.output_dtypes:
            continue
        inputs = [values[f"{src}:{output}"] for src, output in graph.inputs(name)]
        specs = tuple(TensorSpec(d.as_dtype(a.dtype), a.shape) for a in inputs)
        known = {
            k: values[f"{src}:{output}"]
            for k, (src, output) in enumerate(graph.inputs(name))
            if graph.node(src).op == "Const"
        }
        if node.op == "_Fused" and native:
            group = node.attrs["group"]
            outputs = tuple(group.tensor(ref) for ref in group.outputs)
            if any(n < 0 for t in outputs for n in t.shape):
                special = group.with_input_shapes([a.shape for a in inputs])
                outputs = tuple(special.tensor(ref) for ref in group.outputs)
            spec = NodeSpec(name, "_Fused", node.attrs, specs, outputs, known)
            builder = find_native("_Fused")
            assert builder is not None
            results: Any = run_native(builder(spec), inputs, outputs)
        else:
            kernel = find_reference(node.op)
            assert kernel is not None, node.op
            with np.errstate(all="ignore"):
                results = kernel(
                    NodeSpec(name, node.op, node.attrs, specs, (), dict(enumerate(inputs))), inputs
                )
        for output, value in enumerate(results):
            values[f"{name}:{output}"] = np.asarray(value)
    return values
