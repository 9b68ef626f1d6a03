"""Random graphs through the whole order of passes: the values stay equal bit by bit, and folding
leaves nothing it should have taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.reference_run import run_partitions
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_reference
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.ir.subgraph import ancestors
from tfjit.passes.manager.pass_context import DeviceInfo, PassOptions
from tfjit.passes.partitioning.place import place_graph
from tfjit.passes.pipeline import build

DEVICES = tuple(
    DeviceInfo(f"/job:localhost/replica:0/task:0/device:CPU:{i}", "CPU") for i in (0, 1)
)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 0.5, 3.0, 1e-3], np.float32)


class Maker:
    """Makes a random graph node by node; each node is run as it is made, so that shapes are known
    and every run succeeds.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = DataflowGraph()
        self.values: dict[tuple[str, int], np.ndarray] = {}
        self.feeds: dict[str, np.ndarray] = {}

    def choose(self, things: list[Any]) -> Any:
        return things[self.rng.integers(0, len(things))]

    def tensor(self, wanted: Any) -> tuple[str, int] | None:
        found = [tensor for tensor, value in self.values.items() if wanted(value)]
        return self.choose(found) if found else None

    def constant(self, value: Any) -> tuple[str, int]:
        array = np.array(value)
        name = f"k{self.graph.num_node_ids}"
        waits = (
            [self.choose(list(self.graph.op_nodes())).name]
            if self.rng.random() < 0.1 and self.values
            else []
        )
        self.graph.add_node_op(
            name,
            "Const",
            (),
            {"dtype": as_dtype(array.dtype), "value": array},
            control_inputs=waits,
        )
        self.values[name, 0] = array
        return name, 0

    def placeholder(self, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
        name = f"x{len(self.feeds)}"
        value = (
            self.rng.choice(SPECIAL, shape).astype(np.float32)
            if dtype is np.float32
            else self.rng.integers(-3, 4, shape).astype(dtype)
        )
        known = [None if self.rng.random() < 0.5 else size for size in shape]
        self.graph.add_node_op(
            name, "Placeholder", (), {"dtype": as_dtype(dtype), "shape": TensorShape(known)}
        )
        self.values[name, 0] = self.feeds[f"{name}:0"] = np.asarray(value)

    def add(
        self, op: str, inputs: list[tuple[str, int]], attrs: dict[str, Any] | None = None
    ) -> None:
        name = f"n{self.graph.num_node_ids}"
        waits = []
        if self.rng.random() < 0.15:
            waits = [self.choose(list(self.graph.op_nodes())).name for _ in range(2)]
            if self.rng.random() < 0.5:
                gate = f"g{self.graph.num_node_ids}"
                self.graph.add_node_op(gate, "NoOp", control_inputs=waits)
                waits = [gate]
        device = f"/device:CPU:{self.rng.integers(0, 2)}" if self.rng.random() < 0.2 else ""
        node = self.graph.add_node_op(name, op, inputs, attrs, control_inputs=waits, device=device)
        kernel = find_reference(op)
        assert kernel is not None, op
        arrays = [self.values[tensor] for tensor in inputs]
        spec = NodeSpec(
            name, op, node.attrs, tuple(TensorSpec(as_dtype(a.dtype), a.shape) for a in arrays), ()
        )
        with np.errstate(all="ignore"):
            for output, value in enumerate(kernel(spec, arrays)):
                self.values[name, output] = np.asarray(value)

    def step(self) -> None:
        """Add one random node (with the constants it needs)."""
        rng = self.rng
        real = self.tensor(lambda v: v.dtype == np.float32)
        value = self.values[real]
        kind = rng.integers(0, 22)
        if kind == 0:
            self.add(
                self.choose(["Identity", "StopGradient", "Neg", "Abs", "Relu", "Square"]), [real]
            )
        elif kind == 1:
            other = self.constant(
                np.full(
                    self.choose([(), (1,) * value.ndim, value.shape]),
                    self.choose([0.0, -0.0, 1.0, 2.0]),
                    np.float32,
                )
            )
            pair = [real, other] if rng.random() < 0.5 else [other, real]
            self.add(self.choose(["Mul", "AddV2", "Sub", "Add"]), pair)
        elif kind == 2:
            other = self.tensor(lambda v: v.dtype == np.float32 and v.shape == value.shape)
            self.add(self.choose(["Mul", "AddV2", "Sub", "Maximum"]), [real, other])
        elif kind == 3:
            shape = self.choose(
                [value.shape, (value.size,), (-1,), (1, *value.shape), (*value.shape, 1)]
            )
            self.add("Reshape", [real, self.constant(np.array(shape, np.int32))])
        elif kind == 4 and value.ndim:
            perm = self.choose(
                [rng.permutation(value.ndim), np.arange(value.ndim), np.arange(value.ndim)[::-1]]
            )
            self.add("Transpose", [real, self.constant(np.array(perm, np.int32))])
        elif kind == 5:
            self.add("Shape", [real], {"out_type": self.choose([dtypes.int32, dtypes.int64])})
        elif kind == 6:
            self.add(self.choose(["Size", "Rank"]), [real])
        elif kind == 7:
            vector = self.tensor(lambda v: v.dtype == np.int32 and v.ndim == 1 and v.size)
            if vector is not None:
                at = int(rng.integers(0, self.values[vector].size))
                bounds = [self.constant(np.array([i], np.int32)) for i in (at, at + 1, 1)]
                self.add(
                    "StridedSlice", [vector, *bounds], {"shrink_axis_mask": int(rng.integers(0, 2))}
                )
        elif kind == 8:
            scalars = [self.tensor(lambda v: v.dtype == np.int32 and v.ndim == 0) for _ in range(2)]
            if None not in scalars:
                self.add("Pack", scalars)
        elif kind == 9:
            left = self.tensor(lambda v: v.dtype == np.int32)
            if left is not None:
                right = self.choose(
                    [self.constant(np.array(self.choose([0, 1, 2]), np.int32)), left]
                )
                self.add(self.choose(["AddV2", "Mul", "Sub", "Maximum"]), [left, right])
        elif kind == 10:
            target = self.choose([dtypes.float32, dtypes.float64, dtypes.int32])
            source = self.tensor(
                lambda v: (
                    v.dtype in (np.int32, np.int64)
                    or (target.is_floating and v.dtype == np.float64)
                )
            )
            if source is not None:
                self.add("Cast", [source], {"DstT": target})
        elif kind == 11 and value.ndim:
            axis = int(rng.integers(0, value.ndim))
            others = [
                self.tensor(lambda v: v.dtype == np.float32 and v.shape == value.shape)
                for _ in range(rng.integers(0, 2))
            ]
            self.add("ConcatV2", [real, *others, self.constant(np.array(axis, np.int32))])
        elif kind == 12 and value.ndim:
            axes = self.choose([[], [0], [value.ndim - 1], list(range(value.ndim))])
            op = self.choose(
                ["Max", "Min", "Prod"]
                if any(value.shape[axis] == 1 for axis in axes) or not axes
                else ["Sum", "Mean", "Max"]
            )
            # (the references of Sum and Mean add to 0.0 even where there is nothing to add)
            if value.size:
                self.add(
                    op,
                    [real, self.constant(np.array(axes, np.int32))],
                    {"keep_dims": bool(rng.integers(0, 2))},
                )
        elif kind == 13:
            self.add(
                "ExpandDims",
                [real, self.constant(np.array(int(rng.integers(0, value.ndim + 1)), np.int32))],
            )
        elif kind == 14:
            self.add("Squeeze", [real])
        elif kind == 15 and value.ndim and value.size < 200:
            multiples = np.ones(value.ndim, np.int32)
            multiples[rng.integers(0, value.ndim)] = rng.integers(1, 3)
            self.add("Tile", [real, self.constant(multiples)])
        elif kind == 16 and value.ndim and value.shape[0] % 2 == 0:
            self.add("Split", [self.constant(np.array(0, np.int32)), real], {"num_split": 2})
        elif kind == 17:
            vector = self.tensor(
                lambda v: (
                    v.dtype == np.int32
                    and v.ndim == 1
                    and v.size <= 3
                    and (v >= 0).all()
                    and v.prod() < 200
                )
            )
            if vector is not None:
                self.add("Fill", [vector, self.constant(np.float32(self.choose([0.0, 1.0, 2.5])))])
        elif kind == 18 and value.ndim:
            paddings = np.zeros((value.ndim, 2), np.int32)
            if rng.random() < 0.5 and value.size < 200:
                paddings[0] = rng.integers(0, 2, 2)
            self.add("Pad", [real, self.constant(paddings)])
        elif kind == 19:
            self.add("AddN", [real] * int(rng.integers(1, 3)))
        elif kind == 20 and value.ndim:
            self.add(
                "Slice",
                [
                    real,
                    self.constant(np.zeros(value.ndim, np.int32)),
                    self.constant(np.array([-1] * value.ndim, np.int32)),
                ],
            )
        else:
            self.constant(rng.choice(SPECIAL, self.choose([(), (2,), (2, 3)])).astype(np.float32))

    def spec(self) -> RunSpec:
        tensors = [
            f"{name}:{output}"
            for name, output in self.values
            if f"{name}:{output}" not in self.feeds
        ]
        fetches = sorted({self.choose(tensors) for _ in range(4)} | {tensors[-1]})
        # as a target, a placeholder wants to run
        runnable = [node.name for node in self.graph.op_nodes() if node.op != "Placeholder"]
        targets = sorted({self.choose(runnable) for _ in range(2)})
        types = {name: (as_dtype(value.dtype), value.shape) for name, value in self.feeds.items()}
        return RunSpec(tuple(self.feeds), tuple(fetches), tuple(targets), types)


@pytest.mark.parametrize("seed", range(150))
def test_values_are_the_same_bit_by_bit(seed: int) -> None:
    maker = Maker(seed)
    maker.placeholder((2, 3))
    maker.placeholder(maker.choose([(), (4,), (2, 1, 3), (0, 3)]))
    maker.placeholder((), np.int32)
    for _ in range(30):
        maker.step()
    maker.graph.tie_ends()
    maker.graph.verify()
    spec = maker.spec()
    options = PassOptions(devices=DEVICES, verify=True, over_partitions=False)
    place_graph(maker.graph, options)
    partitions, report = build(maker.graph, spec, options)
    got = run_partitions(partitions, list(maker.feeds.values()))
    for index, name in enumerate(spec.fetches):
        node, _, output = name.rpartition(":")
        expected = maker.values[node, int(output)]
        assert got[index].dtype == expected.dtype and got[index].shape == expected.shape, name
        nan = np.isnan(expected) if expected.dtype.kind == "f" else np.zeros(expected.shape, bool)
        assert (np.isnan(got[index]) == nan).all() if expected.dtype.kind == "f" else True
        assert np.where(nan, 0, got[index]).tobytes() == np.where(nan, 0, expected).tobytes(), name
    cut = any("_arg_x2_0_2" in part.graph for part in partitions) and len(partitions) > 1
    for part in partitions:
        for node in part.graph.op_nodes():
            # its value is no shape
            if "_arg_x2_0_2" not in ancestors(part.graph, [node.name]) and not cut:
                assert all(
                    shape is not None and None not in shape for shape in node.output_shapes
                ), f"{node}: every feed has a shape"
            inputs = [part.graph.node(src).op for src, _ in part.graph.inputs(node.name)]
            if inputs and all(op == "Const" for op in inputs):
                stays = node.op in ("_Retval", "_Send", "_HostSend") or (
                    node.name in spec.targets and len(node.output_dtypes) > 1
                )
                assert stays, f"{node} should have been folded"
    assert report.elapsed_us > 0
