"""Run a workload's GraphDef in JAX.

The nodes are evaluated with jax.numpy under `jax.jit`, variables passed through it as state.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.candidates import Candidate
from benchmarks.workload import Feeds
from tfjit.lab.peers.graph import PeerGraph, PeerNode, endpoint
from tfjit.lab.peers.numpy_like import RULES, rule
from tfjit.lab.peers.presence import Absent

_LAYOUT = ("NHWC", "HWIO", "NHWC")


@rule("Sigmoid")
def _sigmoid(xp: Any, node: PeerNode, x: Any) -> Any:
    import jax

    return jax.nn.sigmoid(x)


@rule("Erf")
def _erf(xp: Any, node: PeerNode, x: Any) -> Any:
    from jax import lax

    return lax.erf(x)


@rule("Softmax")
def _softmax(xp: Any, node: PeerNode, x: Any) -> Any:
    import jax

    return jax.nn.softmax(x, axis=-1)


@rule("SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(xp: Any, node: PeerNode, logits: Any, labels: Any) -> Any:
    import jax
    import jax.numpy as jnp

    log_probabilities = jax.nn.log_softmax(logits, axis=-1)
    taken = jnp.take_along_axis(log_probabilities, labels[:, None], axis=-1)[:, 0]
    return -taken, jnp.exp(log_probabilities) - jax.nn.one_hot(
        labels, logits.shape[-1], dtype=logits.dtype
    )


def _convolve(node: PeerNode, x: Any, weights: Any, groups: int = 1) -> Any:
    from jax import lax

    if node.attrs.get("data_format", "NHWC") != "NHWC" or node.attrs["padding"] not in (
        "SAME",
        "VALID",
    ):
        raise Absent(f"{node.op} with this layout or padding is not translated")
    strides, dilations = node.attrs["strides"][1:3], node.attrs["dilations"][1:3]
    return lax.conv_general_dilated(
        x,
        weights,
        strides,
        node.attrs["padding"],
        rhs_dilation=dilations,
        dimension_numbers=_LAYOUT,
        feature_group_count=groups,
    )


@rule("Conv2D")
def _conv(xp: Any, node: PeerNode, x: Any, weights: Any) -> Any:
    return _convolve(node, x, weights)


@rule("DepthwiseConv2dNative")
def _depthwise(xp: Any, node: PeerNode, x: Any, weights: Any) -> Any:
    height, width, channels, multiplier = weights.shape
    return _convolve(
        node, x, weights.reshape(height, width, 1, channels * multiplier), groups=channels
    )


@rule("Conv2DBackpropInput")
def _conv_input_gradient(xp: Any, node: PeerNode, sizes: Any, weights: Any, dy: Any) -> Any:
    import jax
    import jax.numpy as jnp

    zeros = jnp.zeros(tuple(int(n) for n in sizes), dy.dtype)
    return jax.vjp(lambda x: _convolve(node, x, weights), zeros)[1](dy)[0]


@rule("Conv2DBackpropFilter")
def _conv_filter_gradient(xp: Any, node: PeerNode, x: Any, sizes: Any, dy: Any) -> Any:
    import jax
    import jax.numpy as jnp

    zeros = jnp.zeros(tuple(int(n) for n in sizes), dy.dtype)
    return jax.vjp(lambda weights: _convolve(node, x, weights), zeros)[1](dy)[0]


def _windows(node: PeerNode, x: Any, start: Any, combine: Any) -> Any:
    from jax import lax

    if node.attrs.get("data_format", "NHWC") != "NHWC" or node.attrs["padding"] not in (
        "SAME",
        "VALID",
    ):
        raise Absent(f"{node.op} with this layout or padding is not translated")
    return lax.reduce_window(
        x, start, combine, node.attrs["ksize"], node.attrs["strides"], node.attrs["padding"]
    )


@rule("MaxPool")
def _max_pool(xp: Any, node: PeerNode, x: Any) -> Any:
    from jax import lax

    return _windows(node, x, -np.inf, lax.max)


@rule("AvgPool")
def _avg_pool(xp: Any, node: PeerNode, x: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax

    return _windows(node, x, 0.0, lax.add) / _windows(node, jnp.ones_like(x), 0.0, lax.add)


@rule("MaxPoolGrad")
def _max_pool_gradient(xp: Any, node: PeerNode, x: Any, y: Any, dy: Any) -> Any:
    import jax

    return jax.vjp(lambda x: _max_pool(xp, node, x), x)[1](dy)[0]


def evaluate(graph: PeerGraph, feeds: dict[str, Any], state: dict[str, Any]) -> list[Any]:
    """Compute the graph's fetches, node by node.

    `state` holds variables by name and is updated. Raises Absent for an op without a rule.
    """
    import jax.numpy as jnp

    values: dict[tuple[str, int], Any] = {endpoint(name): value for name, value in feeds.items()}
    for node in graph.order:
        inputs = [values.get(at) for at in node.inputs]
        if node.op in _VARIABLE_OPS:
            values[node.name, 0] = _VARIABLE_OPS[node.op](node, state, *inputs)
        elif node.op in _CONTROL_OPS:
            for port, value in enumerate(_CONTROL_OPS[node.op](graph, node, *inputs)):
                values[node.name, port] = value
        elif node.op != "NoOp":
            found = RULES.get(node.op)
            if found is None:
                raise Absent(f"no rule for {node.op}")
            xp = np if all(isinstance(value, (np.ndarray, np.generic)) for value in inputs) else jnp
            result = found(xp, node, *inputs)
            for port, value in enumerate(result if isinstance(result, tuple) else (result,)):
                values[node.name, port] = value
    return [values[endpoint(name)] for name in graph.fetches]


def _call(graph: PeerGraph, ref: Any, values: Sequence[Any]) -> list[Any]:
    body = graph.function(ref.name)
    return evaluate(body, dict(zip(body.feeds, values, strict=True)), {})


def _while(graph: PeerGraph, node: PeerNode, *inputs: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax

    def body(values: Any) -> list[Any]:
        found = _call(graph, node.attrs["body"], values)
        return [jnp.asarray(new, old.dtype) for new, old in zip(found, values, strict=True)]

    first = [jnp.asarray(x, x.dtype) for x in inputs]
    return lax.while_loop(lambda values: _call(graph, node.attrs["cond"], values)[0], body, first)


def _if(graph: PeerGraph, node: PeerNode, predicate: Any, *inputs: Any) -> Any:
    from jax import lax

    sides = [
        functools.partial(_call, graph, node.attrs[branch])
        for branch in ("then_branch", "else_branch")
    ]
    return lax.cond(
        predicate, *(lambda *values, side=side: tuple(side(values)) for side in sides), *inputs
    )


_CONTROL_OPS = {"While": _while, "StatelessWhile": _while, "If": _if, "StatelessIf": _if}


def _assign(node: PeerNode, state: dict[str, Any], name: str, value: Any) -> None:
    state[name] = value


def _assign_add(node: PeerNode, state: dict[str, Any], name: str, value: Any) -> None:
    state[name] = state[name] + value


def _descend(node: PeerNode, state: dict[str, Any], name: str, rate: Any, gradient: Any) -> None:
    state[name] = state[name] - rate * gradient


def _adam(node: PeerNode, state: dict[str, Any], var: str, m: str, v: str, *inputs: Any) -> None:
    """Source: TensorFlow's documentation of ResourceApplyAdam."""
    import jax.numpy as jnp

    power1, power2, rate, beta1, beta2, epsilon, gradient = inputs
    state[m] = beta1 * state[m] + (1 - beta1) * gradient
    state[v] = beta2 * state[v] + (1 - beta2) * gradient * gradient
    step = rate * jnp.sqrt(1 - power2) / (1 - power1)
    state[var] = state[var] - step * state[m] / (jnp.sqrt(state[v]) + epsilon)


_VARIABLE_OPS = {
    "VarHandleOp": lambda node, state: node.name,
    "ReadVariableOp": lambda node, state, name: state[name],
    "AssignVariableOp": _assign,
    "AssignAddVariableOp": _assign_add,
    "ResourceApplyGradientDescent": _descend,
    "ResourceApplyAdam": _adam,
}


class Jax(Candidate):
    """jax.jit, NumPy in and out; the variables stay on the device."""

    name = "jax"

    def prepare(self, graph_def: bytes, threads: int) -> None:
        import jax

        # TensorFlow's float64 and int64 have their full width
        jax.config.update("jax_enable_x64", True)
        workload = self.workload
        self.names = list(workload.feeds(np.random.default_rng(0)))
        graph = PeerGraph(graph_def, workload.fetches, workload.targets, self.names)
        self.initial = PeerGraph(graph_def, (), workload.setup, ())
        self.state: dict[str, Any] = {}

        def step(state: dict[str, Any], *values: Any) -> tuple[list[Any], dict[str, Any]]:
            state = dict(state)
            return evaluate(graph, dict(zip(self.names, values, strict=True)), state), state

        self.step = jax.jit(step, donate_argnums=0)
        self.plain = jax.jit(lambda *values: step({}, *values)[0])

    def reset(self) -> None:
        import jax.numpy as jnp

        if self.workload.setup:
            state: dict[str, Any] = {}
            evaluate(self.initial, {}, state)
            self.state = {name: jnp.array(value) for name, value in state.items()}

    def bind(self, feeds: Feeds) -> Any:
        return [feeds[name] for name in self.names]

    def run(self, bound: Any) -> Any:
        if not self.state:
            return [np.asarray(out) for out in self.plain(*bound)]
        outputs, self.state = self.step(self.state, *bound)
        return [np.asarray(out) for out in outputs]
