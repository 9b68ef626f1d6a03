"""A small program, and rewrites planted behind those of a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager import pass_registry
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import PASSES

Rewrite = Callable[[DataflowGraph, Node], None]
FEEDS = {"x:0": np.array([[0.5, -1.5], [2.0, 0.25]], np.float32)}
FETCHES = ["y:0", "last:1"]


def small_program() -> tf.Graph:
    """Return a graph with something to simplify, fold, merge and fuse, and a loop."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        scale = tf.constant(2.0) * tf.constant(1.5)
        a, b = tf.tanh(x * 1.0), tf.tanh(tf.identity(x))
        h = tf.matmul(a + b, x) * scale
        tf.add(tf.nn.relu(h), h * h, name="y")
        ends = tf.while_loop(
            lambda i, t: i < 3, lambda i, t: (i + 1, tf.matmul(t, x) * 0.5), [0, h]
        )
        tf.identity_n(ends, name="last")
    return graph


def negate(graph: DataflowGraph, result: Node) -> None:
    """Negate a result: a wrong rewrite."""
    ((source, output),) = graph.inputs(result.name)
    made = graph.add_node_op("planted", "Neg", [(source, output)], like=result)
    made.output_shapes = (graph.node(source).output_shapes[output],)
    graph.replace_input(result.name, 0, made.name, 0)


def slow(graph: DataflowGraph, result: Node) -> None:
    """Compute a result many times over: a rewrite that is slow, with the right value."""
    source = graph.inputs(result.name)[0]
    shape = graph.node(source[0]).output_shapes[source[1]]
    for k in range(250):
        made = graph.add_node_op(f"planted{k or ''}", "Maximum", [source, source], like=result)
        made.output_shapes = (shape,)
        source = made.name, 0
    graph.replace_input(result.name, 0, *source)


@dataclass
class Planted:
    """The place of the planted rewrite: its number among all, once a run has made it."""

    number: int = 0


def plant(patch: pytest.MonkeyPatch, name: str, rewrite: Rewrite) -> Planted:
    """Plant one rewrite behind the first run of a pass over a plan's own graph."""
    info, found = PASSES[name], pass_registry._function
    right, planted = info.function(), Planted()

    def wrapped(graph: DataflowGraph, ctx: PassContext) -> None:
        if info.when is None or info.when(graph):
            right(graph, ctx)
        results = [
            n for n in graph.op_nodes() if n.op == "_Retval" and n.input_dtypes[0].name == "float32"
        ]
        if ctx.where or not results or not ctx.may_rewrite():
            return
        if any("planted" in n.name for n in graph.op_nodes()):
            return
        rewrite(graph, results[0])
        ctx.rewrote("planted", "planted by a test")
        budget: Any = ctx.manager.budget
        planted.number = budget.used

    patch.setitem(PASSES, name, replace(info, when=None))
    patch.setattr(
        pass_registry,
        "_function",
        lambda home, wanted: wrapped if wanted == name else found(home, wanted),
    )
    return planted
