"""Sums of products that become one product: where, where not, and values."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.passes.reference_run import lowered, run_lowered
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.canonicalize.canonicalize import simplify
from tfjit.passes.ir.dataflow_graph import DataflowGraph

RNG = np.random.default_rng(0)


def sum_of(count: int, flags: str, rest: str = "", last: str = "") -> str:
    """The text of a sum of products a0 b0 + a1 b1 + ... + rest."""
    products = "".join(
        f"p{k} = MatMul(a{k}, b{k}, {last if k == count - 1 else ''}{flags})\n"
        for k in range(count)
    )
    leaves = "".join(f"{x}{k} = Placeholder()\n" for k in range(count) for x in "ab")
    names = ", ".join([f"p{k}" for k in range(count)] + [rest] * bool(rest))
    return f"{leaves}r = Placeholder()\n{products}s = AddN({names})\n"


def values(count: int, a: tuple[int, int], b: tuple[int, int]) -> dict[str, np.ndarray]:
    found = {"r:0": RNG.standard_normal((4, 5)).astype(np.float32)}
    for k in range(count):
        found[f"a{k}:0"] = RNG.standard_normal(a).astype(np.float32)
        found[f"b{k}:0"] = RNG.standard_normal(b).astype(np.float32)
    return found


def simplified(
    text: str, feeds: dict[str, np.ndarray], fetches: tuple[str, ...] = ("s:0",)
) -> DataflowGraph:
    """The simplified graph, after a comparison of its values with those before."""
    used = {name: v for name, v in feeds.items() if name != "r:0" or ", r)" in text}
    plain, _ = lowered(text, used, fetches)
    graph, ctx = lowered(text, used, fetches)
    infer_shapes(graph, ctx)
    simplify(graph, ctx)
    graph.verify()
    wanted = run_lowered(plain, list(used.values()))
    for index, value in run_lowered(graph, list(used.values())).items():
        np.testing.assert_allclose(value, wanted[index], rtol=1e-5, atol=1e-6)
    return graph


def ops(graph: DataflowGraph) -> list[str]:
    kept = {"_Arg", "_Retval", "Const"}
    return sorted(node.op for node in graph.op_nodes() if node.op not in kept)


@pytest.mark.parametrize(
    ("flags", "a", "b"),
    [
        ("transpose_a=True", (2, 4), (2, 5)),
        ("transpose_a=False", (4, 2), (2, 5)),
        ("transpose_b=True", (4, 2), (5, 2)),
        ("transpose_a=True, transpose_b=True", (2, 4), (5, 2)),
    ],
)
def test_one_product_sums_over_all_operands(
    flags: str, a: tuple[int, int], b: tuple[int, int]
) -> None:
    feeds = values(5, a, b)
    graph = simplified(sum_of(5, flags), feeds)
    assert ops(graph) == ["ConcatV2", "ConcatV2", "MatMul"]
    assert graph.node("s").op == "MatMul"
    graph = simplified(sum_of(5, flags, rest="r"), feeds)
    assert ops(graph) == ["AddN", "ConcatV2", "ConcatV2", "MatMul"]
    assert len(graph.inputs("s")) == 2


def test_products_of_several_depths() -> None:
    feeds = values(4, (2, 4), (2, 5))
    feeds["a1:0"], feeds["b1:0"] = np.ones((1, 4), np.float32), np.ones((1, 5), np.float32)
    graph = simplified(sum_of(4, "transpose_a=True"), feeds)
    assert ops(graph) == ["ConcatV2", "ConcatV2", "MatMul"]


def test_the_product_waits_for_what_its_products_waited_for() -> None:
    text = "go = NoOp()\n" + sum_of(4, "transpose_a=True", last="^go, ")
    graph = simplified(text, values(4, (2, 4), (2, 5)))
    assert graph.control_inputs("s") == ["go"]


@pytest.mark.parametrize(
    ("text", "depth", "fetches"),
    [
        (sum_of(3, "transpose_a=True"), 2, ("s:0",)),  # few
        (sum_of(4, "transpose_a=True"), 3, ("s:0",)),  # deep: operands larger than the product
        (sum_of(4, "transpose_a=True"), 2, ("s:0", "p1:0")),  # a product is used elsewhere
    ],
)
def test_other_sums_stay(text: str, depth: int, fetches: tuple[str, ...]) -> None:
    count = text.count("MatMul")
    graph = simplified(text, values(count, (depth, 4), (depth, 5)), fetches)
    assert ops(graph) == ["AddN", *["MatMul"] * count]
