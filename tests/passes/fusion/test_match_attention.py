"""Attention as one group: where it fires, where it must not, and its values against
TensorFlow's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit
from tests.passes.fusing import evaluate, fused, groups
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

HEADS = """
    q     = Placeholder(shape=<2,9,3,8>)
    k     = Placeholder(shape=<2,11,3,8>)
    v     = Placeholder(shape=<2,11,3,5>)
    turn  = Const(value=int32<4>[0, 2, 1, 3])
    scale = Const(value=float32<>[0.25])
    qt    = Transpose(q, turn)
    kt    = Transpose(k, turn)
    vt    = Transpose(v, turn)
    qk    = BatchMatMulV2(qt, kt, adj_y=True)
    s     = Mul(qk, scale)
    p     = Softmax(s)
    o     = BatchMatMulV2(p, vt)
    y     = Transpose(o, turn)
"""


def attentions(text: str) -> list[FusedGroup]:
    return [group for group in groups(fused(text)[0]).values() if group.kind == "attention"]


def test_products_softmax_and_transposes_become_one_group() -> None:
    (group,) = attentions(HEADS + "    fetch = _Retval(y)\n")
    assert set(group.names) == {"qt", "kt", "vt", "qk", "s", "p", "o", "y"}
    assert [tuple(t.shape) for t in group.inputs[:1]] == [(2, 9, 3, 8)]
    assert "scores stay in cache" in group.reason


def test_a_transpose_that_serves_others_too_stays_outside() -> None:
    (group,) = attentions(
        HEADS + "    other = Neg(kt)\n    fetch = _Retval(y)\n    more = _Retval(other)\n"
    )
    assert set(group.names) == {"qt", "vt", "qk", "s", "p", "o", "y"}


def test_result_that_is_needed_as_it_is_stays_an_output() -> None:
    (group,) = attentions(
        HEADS + "    other = Neg(o)\n    fetch = _Retval(y)\n    more = _Retval(other)\n"
    )
    assert "y" not in group.names and "o" in group.names


@pytest.mark.parametrize(
    "extra",
    [
        "other = Neg(p)\n    more = _Retval(other)",  # a gradient needs the probabilities
        "other = Neg(qk)\n    more = _Retval(other)",
        "more = NoOp(^s)\n    late = Identity(y, ^more)\n    last = _Retval(late)",
    ],
)
def test_values_between_that_are_needed_elsewhere_keep_it_apart(extra: str) -> None:
    assert not attentions(HEADS + f"    fetch = _Retval(y)\n    {extra}\n")


def test_a_softmax_along_the_queries_is_no_attention() -> None:
    assert not attentions(
        HEADS.replace("BatchMatMulV2(p, vt)", "BatchMatMulV2(p, vt, adj_x=True)").replace(
            "11,3", "9,3"
        )
    )


def test_unknown_shapes_are_left_alone() -> None:
    assert not attentions(
        HEADS.replace("<2,9,3,8>", "<?,9,3,8>").replace("<2,11,3,", "<?,11,3,")
        + "    fetch = _Retval(y)\n"
    )


def test_a_mask_of_more_batches_than_the_scores_is_left_alone() -> None:
    text = HEADS.replace(
        "s     = Mul(qk, scale)", "m     = Placeholder(shape=<4,1,1,1,1>)\n    s     = AddV2(qk, m)"
    )
    assert not attentions(
        text.replace("y     = Transpose(o, turn)", "y     = Neg(o)") + "    fetch = _Retval(y)\n"
    )


CHAIN = """
    x  = Placeholder(shape=<2,9,11>)
    w  = Placeholder(shape=<11,11>)
    a  = BatchMatMulV2(x, w)
    p  = Softmax(a)
    b  = BatchMatMulV2(p, w)
    q  = Softmax(b)
    c  = BatchMatMulV2(q, w)
    r  = Softmax(c)
    d  = BatchMatMulV2(r, w)
    s  = Softmax(d)
    y  = BatchMatMulV2(s, w)
    f0 = _Retval(y)
"""
STACKED = """
    q    = Placeholder(shape=<2,9,10,8>)
    turn = Const(value=int32<4>[0, 2, 1, 3])
    qt   = Transpose(q, turn)
    a    = BatchMatMulV2(qt, qt, adj_y=True)
    p    = Softmax(a)
    b    = BatchMatMulV2(p, qt)
    bt   = Transpose(b, turn)
    c    = BatchMatMulV2({left}, {right}, adj_y=True)
    s    = Softmax(c)
    d    = BatchMatMulV2(s, {value})
    y    = Neg(d)
    f0   = _Retval(y)
"""


def names_and_values(text: str) -> list[set[str]]:
    """Return the members of a text's attentions; the fetch keeps its value."""
    plain, (graph, _) = parse_graph(text), fused(text)
    infer_shapes(plain, PassContext())
    rng = np.random.default_rng(0)
    feeds = {
        node.name: np.asarray(rng.standard_normal(node.output_shapes[0]), np.float32)
        for node in plain.op_nodes()
        if node.op == "Placeholder"
    }
    ((wanted, output),) = plain.inputs("f0")
    expected = evaluate(plain, feeds, native=False)[f"{wanted}:{output}"]
    ((found, output),) = graph.inputs("f0")
    actual = evaluate(graph, feeds, native=True)[f"{found}:{output}"]
    np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-5)
    return [set(g.names) for g in groups(graph).values() if g.kind == "attention"]


def test_a_chain_of_softmaxes_divides_its_products_among_attentions() -> None:
    """The second product of one attention would be the first of the next."""
    assert names_and_values(CHAIN) == [{"a", "p", "b"}, {"c", "r", "d"}]


def test_a_refused_attention_leaves_its_product_to_the_next() -> None:
    text = CHAIN + "    f1 = _Retval(p, index=1)\n"
    assert names_and_values(text) == [{"b", "q", "c"}, {"d", "s", "y"}]


@pytest.mark.parametrize(
    ("left", "right", "value"), [("bt", "q", "q"), ("q", "bt", "q"), ("q", "q", "bt")]
)
def test_a_transpose_between_attentions_belongs_to_the_first(
    left: str, right: str, value: str
) -> None:
    text = STACKED.format(left=left, right=right, value=value)
    assert names_and_values(text) == [{"a", "p", "b", "bt"}, {"c", "s", "d"}]


def test_a_softmax_of_two_products_is_in_no_attention() -> None:
    """Each of both products needs the probabilities, which an attention does not keep."""
    text = (
        HEADS + "    z  = BatchMatMulV2(p, vt)\n    f0 = _Retval(y)\n    f1 = _Retval(z, index=1)\n"
    )
    assert names_and_values(text) == []


@pytest.mark.parametrize("value", ["p", "qk", "s"])
def test_values_from_inside_the_attention_are_refused(value: str) -> None:
    text = HEADS.replace("<2,11,3,8>", "<2,9,3,8>")
    text = text.replace("BatchMatMulV2(p, vt)", f"BatchMatMulV2(p, {value})")
    assert names_and_values(text + "    f0 = _Retval(y)\n") == []


# ---- values

BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]
MASKS = [None, "full", "key", "shared", "query", "bool"]


def _mask_shape(mask: str, batch: tuple[int, ...], queries: int, keys: int) -> list[int]:
    if mask in ("shared", "bool"):
        return [queries, keys]
    if mask == "key":
        return [*batch[:1], *[1] * (len(batch) - 1), 1, keys] if batch else [1, keys]
    return [*batch, queries, keys if mask == "full" else 1]


def _run_both(
    tf1: Any, graph: Any, feeds: dict[str, np.ndarray], threads: int
) -> tuple[np.ndarray, np.ndarray, str]:
    with tf1.Session(graph=graph) as session:
        wanted = session.run("y:0", feeds)
    config = tfjit.ConfigProto(intra_op_parallelism_threads=threads)
    config.graph_options.optimizer_options.global_jit_level = 1
    with tfjit.Session(graph=graph.as_graph_def().SerializeToString(), config=config) as session:
        found = session.run("y:0", feeds)
        kernels = session.explain(
            "y:0", {name: value.shape for name, value in feeds.items()}
        ).details()
    return found, wanted, kernels


@pytest.mark.parametrize("seed", range(len(BATCHES) * len(MASKS)))
def test_attention_equals_tensorflow(seed: int) -> None:
    tf1 = pytest.importorskip("tensorflow").compat.v1
    rng = np.random.default_rng(seed)
    # each batch meets each mask
    batch, mask = BATCHES[(seed + seed // len(MASKS)) % 3], MASKS[seed % len(MASKS)]
    dtype = np.float64 if seed % 5 == 4 else np.float32
    queries, keys = int(rng.integers(4, 70)), int(rng.integers(1, 140))
    depth, width = int(rng.integers(1, 40)), int(rng.integers(1, 40))
    adjoint, heads = bool(rng.integers(2)), len(batch) == 2 and bool(rng.integers(4))
    feeds: dict[str, np.ndarray] = {}

    def placeholder(shape: list[int], value: np.ndarray | None = None) -> Any:
        if value is None:
            value = rng.standard_normal(shape).astype(dtype)
        made = tf1.placeholder(value.dtype, shape)
        feeds[made.name] = value
        return made

    def matrix(rows: int, columns: int) -> Any:
        if heads:
            return tf1.transpose(placeholder([batch[0], rows, batch[1], columns]), [0, 2, 1, 3])
        return placeholder([*batch, rows, columns])

    graph = tf1.Graph()
    with graph.as_default():
        query, value = matrix(queries, depth), matrix(keys, width)
        key = matrix(keys, depth) if adjoint else matrix(depth, keys)
        scores = tf1.matmul(query, key, transpose_b=adjoint)
        scores = [scores, scores * dtype(0.3), scores / dtype(3.0)][seed % 3]
        if mask is not None:
            shape = _mask_shape(mask, batch, queries, keys)
            hidden = rng.random(shape) < 0.3
            if mask == "full":
                hidden[..., 0, :] = True  # a query that may look at nothing
            if mask == "bool":
                low = tf1.fill([*batch, queries, keys], dtype(-1e9))
                scores = tf1.where_v2(placeholder(shape, hidden), low, scores)
            else:
                low = dtype(-np.inf if seed % 2 else -1e9)
                scores = scores + placeholder(shape, np.where(hidden, low, dtype(0)).astype(dtype))
        mixed = tf1.matmul(tf1.nn.softmax(scores), value)
        if heads:
            mixed = tf1.reshape(tf1.transpose(mixed, [0, 2, 1, 3]), [batch[0], queries, -1])
        tf1.identity(mixed, name="y")
    found, wanted, kernels = _run_both(tf1, graph, feeds, (1, 2, 8)[seed // 3 % 3])
    assert "attention" in kernels
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=10 * tolerance, atol=tolerance)


def test_many_keys_and_infinite_scores() -> None:
    tf1 = pytest.importorskip("tensorflow").compat.v1
    rng = np.random.default_rng(1)
    graph = tf1.Graph()
    with graph.as_default():
        query, key = (
            tf1.placeholder(tf1.float32, [2, 37, 4]),
            tf1.placeholder(tf1.float32, [2, 5000, 4]),
        )
        scores = tf1.matmul(query, key, transpose_b=True)
        tf1.matmul(tf1.nn.softmax(scores), key, name="y")
    feeds = {
        query.name: rng.standard_normal((2, 37, 4)).astype("f4"),
        key.name: rng.standard_normal((2, 5000, 4)).astype("f4"),
    }
    feeds[query.name][0, 3, 1] = np.inf
    feeds[query.name][1, 5, 2] = np.nan
    found, wanted, kernels = _run_both(tf1, graph, feeds, 2)
    assert "attention" in kernels
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
