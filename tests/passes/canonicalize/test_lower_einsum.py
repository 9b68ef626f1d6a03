"""Einsum as products, transposes and sums: what each equation becomes, what is left alone, and
values against TensorFlow's.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit
from tfjit.passes.canonicalize.lower_einsum import Term, plan_einsum
from tfjit.passes.ir.declined import Declined

tf1 = tf.compat.v1


def _ops(term: Term) -> list[str]:
    found = [op for part in term.inputs if isinstance(part, Term) for op in _ops(part)]
    return [*found, term.op] if term.op else found


def _plan(
    equation: str, *shapes: tuple[int, ...], known: tuple[bool, ...] = (False, False)
) -> Term:
    return plan_einsum(equation, shapes, known)


@pytest.mark.parametrize(
    ("equation", "shapes", "ops"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], ["MatMul"]),
        ("ij,jk->ki", [(2, 3), (3, 4)], ["MatMul"]),
        ("ji,kj->ik", [(3, 2), (4, 3)], ["MatMul"]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], ["BatchMatMulV2"]),
        ("bij,bkj->bki", [(2, 3, 4), (2, 5, 4)], ["BatchMatMulV2"]),
        ("bsd,dhk->bshk", [(2, 3, 4), (4, 5, 6)], ["Reshape", "Reshape", "MatMul", "Reshape"]),
        ("bshk,hkd->bsd", [(2, 3, 4, 5), (4, 5, 6)], ["Reshape", "Reshape", "MatMul", "Reshape"]),
        (
            "aecd,abcd->acbe",
            [(2, 3, 4, 5), (2, 6, 4, 5)],
            ["Transpose", "Transpose", "BatchMatMulV2"],
        ),
        ("bsd,d->bs", [(2, 3, 4), (4,)], ["Reshape", "Reshape", "MatMul", "Reshape"]),
        ("i,j->ij", [(2,), (3,)], ["Reshape", "Reshape", "Mul"]),
        ("ij,ij->", [(2, 3), (2, 3)], ["Mul", "Sum"]),
        ("ij,jk->k", [(2, 3), (3, 4)], ["Sum", "Reshape", "MatMul", "Reshape"]),
        ("ijk->ki", [(2, 3, 4)], ["Sum", "Transpose"]),
        ("...ij,...jk->...ik", [(7, 2, 3), (7, 3, 4)], ["BatchMatMulV2"]),
        ("...d,de->...e", [(7, 2, 3), (3, 4)], ["Reshape", "MatMul", "Reshape"]),
    ],
)
def test_form(equation: str, shapes: list[tuple[int, ...]], ops: list[str]) -> None:
    assert _ops(_plan(equation, *shapes)) == ops


def test_a_constant_is_transposed_rather_than_the_other_input() -> None:
    term = _plan("bsd,hdk->bshk", (2, 3, 4), (5, 4, 6), known=(False, True))
    assert _ops(term).count("Transpose") == 1
    assert [
        part.number
        for part in _parts(term)
        if part.op == "Transpose"
        for part in part.inputs
        if isinstance(part, Term)
    ] == [1]


def _parts(term: Term) -> list[Term]:
    return [
        term,
        *itertools.chain.from_iterable(
            _parts(part) for part in term.inputs if isinstance(part, Term)
        ),
    ]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii->i", [(3, 3)]),
        ("ij,jj->i", [(2, 3), (3, 3)]),
        ("i->ii", [(3,)]),
        ("ij,jk->ik", [(2, 3), (4, 5)]),
        ("ij->ik", [(2, 3)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ijk->i", [(2, 3)]),
        ("...i->i", [(2, 3)]),
    ],
)
def test_left_alone(equation: str, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(Declined):
        _plan(equation, *shapes)


def _evaluate(term: Term, inputs: list[np.ndarray]) -> np.ndarray:
    """The expression by NumPy."""
    if not term.op:
        return inputs[term.number].reshape(term.shape)
    attrs = dict(term.attrs)
    x, y = (
        *(_evaluate(part, inputs) if isinstance(part, Term) else part for part in term.inputs),
        None,
    )[:2]
    assert isinstance(x, np.ndarray) and isinstance(y, np.ndarray)
    if term.op in ("MatMul", "BatchMatMulV2"):
        turned = [
            attrs[name]
            for name in (
                ("transpose_a", "transpose_b") if term.op == "MatMul" else ("adj_x", "adj_y")
            )
        ]
        x, y = (
            np.swapaxes(v, -1, -2) if turn else v for v, turn in zip((x, y), turned, strict=True)
        )
        made = x @ y
    elif term.op == "Mul":
        made = x * y
    elif term.op == "Sum":
        made = x.sum(tuple(y))
    else:
        made = x.reshape(y) if term.op == "Reshape" else x.transpose(y)
    assert made.shape == term.shape
    return np.asarray(made)


@st.composite
def equations(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    sizes = {label: draw(st.integers(0, 4)) for label in "abcdef"}
    terms = [
        "".join(draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    labels = sorted(set("".join(terms)))
    out = "".join(draw(st.permutations([label for label in labels if draw(st.booleans())])))
    shapes = [tuple(sizes[label] for label in term) for term in terms]
    if draw(st.booleans()):  # an ellipsis somewhere in each term
        common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
        spread = []
        for term, shape in zip(terms, shapes, strict=True):
            at = draw(st.integers(0, len(term)))
            own = tuple(
                draw(st.sampled_from((n, 1))) for n in common[draw(st.integers(0, len(common))) :]
            )
            spread.append((f"{term[:at]}...{term[at:]}", shape[:at] + own + shape[at:]))
        terms, shapes = [term for term, _ in spread], [shape for _, shape in spread]
        at = draw(st.integers(0, len(out)))
        out = f"{out[:at]}...{out[at:]}"
    return f"{','.join(terms)}->{out}", shapes


@settings(max_examples=300, deadline=None)
@given(equations(), st.tuples(st.booleans(), st.booleans()), st.booleans())
def test_any_equation(
    case: tuple[str, list[tuple[int, ...]]], known: tuple[bool, bool], is_complex: bool
) -> None:
    equation, shapes = case
    rng = np.random.default_rng(len(equation))
    inputs = [rng.integers(-9, 9, shape).astype(np.float64) for shape in shapes]
    term = plan_einsum(equation, shapes, known, is_complex)
    np.testing.assert_array_equal(_evaluate(term, inputs), np.einsum(equation, *inputs))


EQUATIONS = (
    ("ij,jk->ik", (37, 65), (65, 33)),
    ("ij,jk->ki", (37, 65), (65, 33)),
    ("bij,bkj->bik", (3, 17, 9), (3, 31, 9)),
    ("bsd,dhk->bshk", (2, 7, 33), (33, 3, 5)),
    ("bshk,hkd->bsd", (2, 7, 3, 5), (3, 5, 33)),
    ("aecd,abcd->acbe", (2, 9, 3, 17), (2, 11, 3, 17)),
    ("acbe,aecd->abcd", (2, 3, 11, 9), (2, 9, 3, 17)),
    ("bi,bj->bij", (5, 7), (5, 9)),
    ("bi,bi->b", (5, 70), (5, 70)),
    ("ij,jk->k", (5, 7), (7, 3)),
    ("ij,ji->", (5, 7), (7, 5)),
    ("...ij,...jk->...ik", (4, 1, 7, 3), (5, 3, 9)),
    ("...d,de->e...", (4, 1, 7), (7, 5)),
    ("ij,jk->ik", (3, 0), (0, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("ijk->ki", (5, 6, 7)),
    ("ij->ij", (5, 6)),
    ("i,i->i", (6,), (6,)),
)


def _run_both(
    equation: str, arrays: list[np.ndarray], threads: int = 1, constant: bool = False
) -> tuple[Any, Any, Any]:
    """TensorFlow's result, ours and the explanation."""
    with tf1.Graph().as_default() as graph:
        held = [tf1.placeholder(x.dtype, x.shape, name=f"x{k}") for k, x in enumerate(arrays)]
        if constant:
            held[-1] = tf.constant(arrays[-1])
        tf.identity(tf.einsum(equation, *held), name="y")
    feeds = {
        x.name: value for x, value in zip(held, arrays, strict=True) if x.op.type == "Placeholder"
    }
    with tf1.Session(graph=graph) as session:
        wanted = session.run("y:0", feeds)
    config = tfjit.ConfigProto(intra_op_parallelism_threads=threads)
    with tfjit.Session(graph=graph.as_graph_def().SerializeToString(), config=config) as session:
        explained = session.explain("y:0", {name: value.shape for name, value in feeds.items()})
        got = session.run("y:0", feeds)
    return wanted, got, explained


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: f"{case[0]} {case[1]}")
def test_values(case: tuple[Any, ...], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    equation, *shapes = case
    rng = np.random.default_rng(threads)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    for fusion in ("", "fuse"):
        monkeypatch.setenv("TFJIT_JIT", "eager")
        monkeypatch.setenv("TFJIT_DISABLE", fusion)
        wanted, got, explained = _run_both(
            equation, arrays, threads, constant=threads == 2 and len(arrays) == 2
        )
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
        assert not explained.reference_nodes and "Einsum" not in [
            node.op for node in explained.nodes
        ]


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float16, np.int32, np.int64, np.complex64, np.complex128]
)
@pytest.mark.parametrize("equation", ["bij,bkj->bki", "bij,bij->b", "ijk,jl->kli"])
def test_dtypes(equation: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    shapes = {
        "bij,bkj->bki": [(3, 5, 7), (3, 4, 7)],
        "bij,bij->b": [(3, 5, 7)] * 2,
        "ijk,jl->kli": [(3, 5, 7), (5, 4)],
    }[equation]
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    if np.dtype(dtype).kind == "c":
        arrays = [x + 1j * rng.integers(-4, 5, x.shape).astype(x.real.dtype) for x in arrays]
        arrays = [x.astype(dtype) for x in arrays]
    wanted, got, _ = _run_both(equation, arrays)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)  # small whole numbers: every sum is exact


def test_special_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    x = np.array([[np.inf, -0.0, 1.0], [np.nan, 2.0, -np.inf]], np.float32)
    wanted, got, _ = _run_both("ij,jk->ki", [x, np.ones((3, 4), np.float32)])
    np.testing.assert_array_equal(got, wanted)
