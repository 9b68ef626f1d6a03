"""Build the gradient of a function as a function, for SymbolicGradient."""

from __future__ import annotations

import importlib
from typing import Any

from tfjit.framework.errors import NotFoundError, OpError
from tfjit.framework.graphs import graph as framework_graph
from tfjit.framework.graphs.graph_def import import_graph_def
from tfjit.framework.op_defs.attrs import FuncRef, fill_proto
from tfjit.framework.types.shape import TensorShape
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.function_library import Function, FunctionLibrary
from tfjit.passes.ir.graph_def import add_operations


def gradient_function(library: FunctionLibrary, ref: FuncRef, flat: Function) -> FuncRef:
    """Return the function that a SymbolicGradient of `ref` calls.

    The function maps arguments and gradients of the results to gradients of the arguments. A
    GradientDef may name the function. Otherwise the function is derived from `flat`, the body
    without calls, by the gradient functions of its ops, and added to the library. An argument that
    no result depends on has zeros for a gradient.
    Raises NotFoundError, as TensorFlow does, for an op without a gradient function.
    """
    named = library.gradients.get(ref.name)
    if named is not None:
        return FuncRef(named, ref.attrs if len(library.definitions[named].signature.attr) else {})
    name = library.new_name(f"SymbolicGradient_{ref.name}")
    try:
        graph = _differentiate(flat)
    except (LookupError, NotImplementedError, TypeError, OpError) as error:
        reason = error.message if isinstance(error, OpError) else str(error).strip("'\"")
        raise NotFoundError(
            None, None, f"No gradient of function '{ref.name}': {reason}"
        ) from error
    graph.functions = library
    return library.add(Function.from_graph(name, graph, (*flat.inputs, *flat.outputs)))


def _differentiate(flat: Function) -> DataflowGraph:
    # ops is above the passes; the op registry finds families in the same way
    ops: Any = importlib.import_module("tfjit.ops")
    gradients = importlib.import_module("tfjit.ops.autodiff.backprop").gradients
    message = flat.graph.to_graph_def()
    message.ClearField("library")
    results = {node.name for node in flat.results.values()}
    nodes = [node for node in message.node if node.name not in results]
    del message.node[:]
    message.node.extend(nodes)
    for node in message.node:
        if node.op == "_Arg":
            node.op = "Placeholder"
            node.attr["dtype"].type = node.attr["T"].type
            fill_proto(node.attr["shape"], TensorShape(flat.graph.node(node.name).output_shapes[0]))
            for key in ("T", "index"):
                del node.attr[key]
    twin = framework_graph.Graph()
    with twin.as_default():
        import_graph_def(message, name="", graph=twin, scopes_take_names=False)
        args = {i: twin.get_tensor_by_name(f"{node.name}:0") for i, node in flat.args.items()}
        ys = [twin.get_tensor_by_name(f"{src}:{output}") for src, output in flat.returned]
        starts = [
            twin.create_op(
                "Placeholder",
                name=f"gradient_of_result_{i}",
                attrs={"dtype": y.dtype, "shape": y.shape},
            ).outputs[0]
            for i, y in enumerate(ys)
        ]
        for i, dtype in enumerate(flat.inputs):
            if i not in args:
                args[i] = twin.create_op(
                    "Placeholder", name=f"argument_{i}", attrs={"dtype": dtype}
                ).outputs[0]
        differentiable = [i for i, y in enumerate(ys) if y.dtype.is_floating or y.dtype.is_complex]
        found = gradients(
            [ys[i] for i in differentiable],
            list(args.values()),
            [starts[i] for i in differentiable],
        )
        dxs = {
            i: ops.zeros_like(args[i]) if d is None else ops.convert_to_tensor(d)
            for i, d in zip(args, found, strict=True)
        }
    graph = DataflowGraph()
    add_operations(graph, twin.get_operations())
    for index, tensor in [
        *sorted(args.items()),
        *((len(args) + i, start) for i, start in enumerate(starts)),
    ]:
        node = graph.node(tensor.op.name)
        shapes = node.output_shapes
        graph.change_op(
            node.name, "_Arg", (), {"T": tensor.dtype.base_dtype, "index": index}
        ).output_shapes = shapes
    for index in sorted(dxs):
        tensor = dxs[index]
        attrs = {"T": tensor.dtype.base_dtype, "index": index}
        graph.add_node_op(
            f"gradient_{index}_RetVal", "_Retval", [(tensor.op.name, tensor.value_index)], attrs
        )
    return graph
