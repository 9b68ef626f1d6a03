"""Run the graphs by other libraries, with values that stay on the GPU.

Each takes a GraphDef node by node. Products of float32 keep their precision everywhere: the short
formats of tensor cores (TF32) are off.
"""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.gpu.clock import wall_us
from benchmarks.gpu.graphs import compare
from benchmarks.gpu.torch_rules import RULES as TORCH_RULES
from benchmarks.peers import jax as jax_peer
from benchmarks.workload import Feeds, Workload
from tfjit.lab.peers.graph import PeerGraph, PeerNode, endpoint
from tfjit.lab.peers.numpy_like import FOLDED, RULES
from tfjit.lab.peers.presence import Absent

State = dict[str, Any]
_KNOWN = (np.ndarray, np.generic)


def evaluate(
    graph: PeerGraph,
    feeds: Mapping[str, Any],
    state: State,
    rules: Mapping[str, Callable[..., Any]],
    place: Callable[[np.ndarray], Any],
    sqrt: Callable[[Any], Any],
    folded: dict[str, Any],
) -> list[Any]:
    """Compute the fetches of a graph, node by node.

    rules: by op, of (node, *inputs). place: a NumPy array -> the library's. Values that follow from
    constants and shapes stay NumPy's until a rule of the library needs them; `folded` keeps them
    for the next steps. Raises Absent.
    """
    values: dict[tuple[str, int], Any] = {endpoint(name): value for name, value in feeds.items()}
    for node in graph.order:
        inputs = [values.get(at) for at in node.inputs]
        if node.op == "NoOp":
            continue
        if node.op == "ResourceApplyAdam":
            _adam(state, inputs, sqrt)
            continue
        if node.op in jax_peer._VARIABLE_OPS:
            result = jax_peer._VARIABLE_OPS[node.op](node, state, *inputs)
        elif node.name in folded:
            result = folded[node.name]
        elif node.op in ("Shape", "ShapeN", "Size") or (
            node.op in FOLDED and all(isinstance(value, _KNOWN) for value in inputs)
        ):
            result = folded[node.name] = RULES[node.op](np, node, *inputs)
        else:
            result = _applied(node, inputs, rules, place)
        for port, value in enumerate(result if isinstance(result, tuple) else (result,)):
            values[node.name, port] = value
    found = [values[endpoint(name)] for name in graph.fetches]
    return [place(value) if isinstance(value, _KNOWN) else value for value in found]


_AS_NUMBERS = frozenset(
    {
        "Reshape",
        "Transpose",
        "Pad",
        "StridedSlice",
        "Tile",
        "BroadcastTo",
        "ConcatV2",
        "Mean",
        "Sum",
    }
)
"""Ops whose small inputs of integers stay NumPy's."""
_SIZES = frozenset({"Conv2DBackpropInput", "Conv2DBackpropFilter"})


def _applied(
    node: PeerNode,
    inputs: list[Any],
    rules: Mapping[str, Callable[..., Any]],
    place: Callable[[np.ndarray], Any],
) -> Any:
    found = rules.get(node.op)
    if found is None:
        raise Absent(f"no rule for {node.op}")
    return found(
        node,
        *[
            place(value)
            if isinstance(value, _KNOWN)
            and not (node.op in _AS_NUMBERS | _SIZES and np.asarray(value).dtype.kind == "i")
            else value
            for value in inputs
        ],
    )


def _adam(state: State, inputs: list[Any], sqrt: Callable[[Any], Any]) -> None:
    var, m, v, power1, power2 = inputs[:5]
    rate, beta1, beta2, epsilon = (float(number) for number in inputs[5:9])
    gradient = inputs[9]
    state[m] = beta1 * state[m] + (1 - beta1) * gradient
    state[v] = beta2 * state[v] + (1 - beta2) * gradient * gradient
    step = rate * sqrt(1 - power2) / (1 - power1)
    state[var] = state[var] - step * state[m] / (sqrt(state[v]) + epsilon)


class Peer(ABC):
    """Describe a library beside tfjit."""

    def __init__(self, workload: Workload, data: bytes, feeds: Feeds) -> None:
        self.workload = workload
        self.names = list(feeds)
        self.graph = PeerGraph(data, workload.fetches, workload.targets, feeds)
        self.initial = PeerGraph(data, (), workload.setup, ())
        self.state: State = {}
        self.folded: dict[str, Any] = {}
        self._constants: dict[int, tuple[np.ndarray, Any]] = {}
        self.prepare(feeds)

    @abstractmethod
    def prepare(self, feeds: Feeds) -> None:
        """Compile, where the library does."""

    @abstractmethod
    def place(self, array: np.ndarray) -> Any:
        """Return an array on the GPU."""

    @abstractmethod
    def step(self, values: list[Any]) -> list[Any]:
        """Return the fetches of one step; it may still be computed."""

    @abstractmethod
    def numpy(self, value: Any) -> np.ndarray:
        """Return a value as an array of the host."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the GPU."""

    def reset(self) -> None:
        """Give the variables their first values."""
        state: State = {}
        same: Callable[[Any], Any] = np.asarray
        evaluate(self.initial, {}, state, {}, same, np.sqrt, {})
        self.state = {name: self.place(np.array(value)) for name, value in state.items()}

    def constant(self, array: np.ndarray) -> Any:
        """Return a constant of the graph on the GPU, where it stays."""
        found = self._constants.get(id(array))
        if found is None:
            found = self._constants[id(array)] = (array, self.place(array))
        return found[1]

    def placed(self, feeds: Feeds) -> list[Any]:
        """Return the feeds on the GPU."""
        return [self.place(np.asarray(feeds[name])) for name in self.names]

    def figures(self, feeds: Feeds) -> dict[str, Any]:
        """Return the times of a step."""
        values = self.placed(feeds)

        def wall() -> None:
            for value in self.step(self.placed(feeds)):
                self.numpy(value)

        def resident() -> None:
            self.step(values)
            self.synchronize()

        for _ in range(3):
            resident()
        once = max(wall_us(resident, 0.1) / 1e6, 1e-6)
        count = max(1, min(1000, int(0.02 / once)))
        batches = []
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(count):
                self.step(values)
            self.synchronize()
            batches.append((time.perf_counter() - start) / count)
        return {
            "device_us": statistics.median(batches) * 1e6,
            "wall_us": wall_us(wall),
            "resident_us": wall_us(resident),
            "note": "time of steps queued one behind the other",
        }


class Jax(Peer):
    """jax.jit."""

    def prepare(self, feeds: Feeds) -> None:
        import jax

        if jax.default_backend() not in ("gpu", "cuda"):
            raise Absent("JAX has no GPU")
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_matmul_precision", "highest")

        def step(state: State, *values: Any) -> Any:
            state = dict(state)
            fed = dict(zip(self.names, values, strict=True))
            return jax_peer.evaluate(self.graph, fed, state), state

        self._step = jax.jit(step, donate_argnums=0)
        self._newest: list[Any] = []

    def place(self, array: np.ndarray) -> Any:
        import jax

        return jax.device_put(array)

    def step(self, values: list[Any]) -> list[Any]:
        self._newest, self.state = self._step(self.state, *values)
        return self._newest

    def numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    def synchronize(self) -> None:
        for value in (*self._newest, *self.state.values()):
            value.block_until_ready()


class CuPy(Peer):
    """CuPy, one kernel after the other."""

    def prepare(self, feeds: Feeds) -> None:
        import cupy
        import cupyx.scipy.special as special

        def softmax(node: PeerNode, x: Any) -> Any:
            powers = cupy.exp(x - x.max(axis=-1, keepdims=True))
            return powers / powers.sum(axis=-1, keepdims=True)

        def of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda node, *inputs: function(cupy, node, *inputs)

        self._rules = {op: of_numpy(RULES[op]) for op in FOLDED} | {
            "Rsqrt": lambda node, x: 1 / cupy.sqrt(x),
            "Sigmoid": lambda node, x: 1 / (1 + cupy.exp(-x)),
            "Erf": lambda node, x: special.erf(x),
            "Softmax": softmax,
            "SparseSoftmaxCrossEntropyWithLogits": self._cross_entropy,
        }

    def _cross_entropy(self, node: PeerNode, logits: Any, labels: Any) -> Any:
        import cupy

        shifted = logits - logits.max(axis=-1, keepdims=True)
        logs = shifted - cupy.log(cupy.exp(shifted).sum(axis=-1, keepdims=True))
        rows = cupy.arange(logits.shape[0])
        gradient = cupy.exp(logs)
        gradient[rows, labels] -= 1
        return -logs[rows, labels], gradient

    def place(self, array: np.ndarray) -> Any:
        import cupy

        return cupy.asarray(array)

    def step(self, values: list[Any]) -> list[Any]:
        import cupy

        fed = dict(zip(self.names, values, strict=True))
        return evaluate(
            self.graph, fed, self.state, self._rules, self.constant, cupy.sqrt, self.folded
        )

    def numpy(self, value: Any) -> np.ndarray:
        import cupy

        return cupy.asnumpy(value)

    def synchronize(self) -> None:
        import cupy

        cupy.cuda.Device().synchronize()


class Torch(Peer):
    """PyTorch, each operation when it is met."""

    device = "cuda"

    def prepare(self, feeds: Feeds) -> None:
        import torch

        if self.device == "cuda" and not torch.cuda.is_available():
            raise Absent("PyTorch has no GPU")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False

    def place(self, array: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(np.array(array)).to(self.device)

    def compute(self, values: list[Any], state: State) -> list[Any]:
        """Return the fetches; `state` is changed."""
        import torch

        fed = dict(zip(self.names, values, strict=True))
        with torch.no_grad():
            return evaluate(self.graph, fed, state, TORCH_RULES, self.constant, _root, self.folded)

    def step(self, values: list[Any]) -> list[Any]:
        return self.compute(values, self.state)

    def numpy(self, value: Any) -> np.ndarray:
        found: np.ndarray = value.cpu().numpy()
        return found

    def synchronize(self) -> None:
        import torch

        if self.device == "cuda":
            torch.cuda.synchronize()


def _root(x: Any) -> Any:
    import torch

    return torch.sqrt(x) if isinstance(x, torch.Tensor) else np.sqrt(x)


class TorchCompiled(Torch):
    """torch.compile over the operations that a first step traces."""

    def prepare(self, feeds: Feeds) -> None:
        super().prepare(feeds)
        self._compiled: Any = None

    def _compile(self, values: list[Any]) -> None:
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx

        names = list(self.state)

        def step(values: list[Any], variables: list[Any]) -> Any:
            state = dict(zip(names, variables, strict=True))
            outputs = self.compute(values, state)
            return outputs, [state[name] for name in names]

        self.compute(values, dict(self.state))  # its constants are placed before they are traced
        traced = make_fx(step)(values, list(self.state.values()))
        self._compiled = torch.compile(traced, dynamic=False)

    def step(self, values: list[Any]) -> list[Any]:
        import torch

        if self._compiled is None:
            self._compile(values)
        with torch.no_grad():
            outputs, state = self._compiled(values, list(self.state.values()))
        self.state = dict(zip(self.state, state, strict=True))
        return list(outputs)


PEERS: Mapping[str, type[Peer]] = {
    "cupy": CuPy,
    "torch": Torch,
    "torch.compile": TorchCompiled,
    "jax": Jax,
}
MODULES: Mapping[str, str] = {
    "cupy": "cupy",
    "torch": "torch",
    "torch.compile": "torch",
    "jax": "jax",
}
"""The module that a candidate needs."""


def measure(
    name: str, workload: Workload, data: bytes, feeds: Feeds, expected: list[list[np.ndarray]]
) -> dict[str, Any]:
    """Return the figures of one workload; its outputs are checked first.

    expected: samples of the outputs of a session of the host. Raises Absent, AssertionError.
    """
    peer = PEERS[name](workload, data, feeds)
    peer.reset()
    values = peer.placed(feeds)
    runs = [[peer.numpy(value) for value in peer.step(values)] for _ in expected]
    compare(workload, runs, expected)
    return peer.figures(feeds)
