"""Rules that can match nothing, or whose replacement cannot fit, are errors when declared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.passes.patterns.cases import x, y
from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes import patterns as p

op = p.op


def _chain(length: int) -> object:
    value: object = x
    for _ in range(length):
        value = op.Mul(value, y)
    return value


def _guard(z: object) -> bool:
    return bool(z)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: p.rewrite("r", op.Mull(x, y), x), "unknown op type 'Mull'; did you mean 'Mul'"),
        (lambda: p.rewrite("r", op.relu(x), x), "unknown op type 'relu'; did you mean 'Relu"),
        (lambda: p.rewrite("r", op.Mul(x), x), r"Mul has 2 inputs \(x, y\), the pattern 1"),
        (lambda: p.rewrite("r", op.ConcatV2(), x), "ConcatV2 never has 0 inputs"),
        (
            lambda: p.rewrite("r", op.MatMul(x, y, transpos_a=True), x),
            "MatMul has no attr 'transpos_a'; did you mean 'transpose_a' or 'transpose_b'",
        ),
        (lambda: p.rewrite("r", op.MatMul(x, y, transpose_a="yes"), x), "transpose_a"),
        (lambda: p.rewrite("r", op.Relu(x, T="string"), x), "not in the list of allowed values"),
        (lambda: p.rewrite("r", op.Split(0, x)[0], x), "the root of a pattern is an op"),
        (lambda: p.rewrite("r", op.Neg(op.Exp(x)[1]), x), "Exp has 1 outputs, the pattern uses"),
        (lambda: p.rewrite("r", op.PrintV2(x), x), "PrintV2 has no output"),
        (lambda: p.rewrite("r", x, x), "the root of a pattern is an op"),
        (lambda: p.rewrite("r", op.Relu(op.Merge(x, y)), x), "Merge is control flow"),
        (lambda: p.rewrite("r", op.LogicalNot(op.Neg(x)), x), "has no possible dtype"),
        (lambda: p.rewrite("r", op.LogicalNot(p.constant(1.5)), x), "1.5 in .* no possible dtype"),
        (lambda: p.rewrite("r", op.Reshape(x, [0.5]), x), r"\[0.5\] in .* no possible dtype"),
        (
            lambda: p.rewrite("r", op.Relu(p.tensor("t", dtype="string")), op.Relu(p.tensor("t"))),
            "t in Relu.* no possible dtype",
        ),
        (
            lambda: p.rewrite("r", p.tensor("t", dtype="float32") + p.tensor("t"), x),
            "'t' names two parts of the pattern that differ",
        ),
        (lambda: p.rewrite("r", x * p.constant("x"), x), "'x' names two parts"),
        (
            lambda: p.rewrite("r", x * p.tensor("t", shape=(2, 3), rank=1), x),
            "rank 1 contradicts the shape of 2 sizes",
        ),
        (
            lambda: p.rewrite("r", op.Reshape(x, p.constant([1], when=lambda v: v[0] > 1)), x),
            "contradicts its own predicate",
        ),
        (
            lambda: (lambda e: p.rewrite("r", e * e, x))(op.Exp(x).uses(1)),
            "Exp has 2 uses in the pattern itself, and is to have 1",
        ),
        (lambda: p.rewrite("r", _chain(9), x), "9 commutative nodes"),  # type: ignore[arg-type]
        (lambda: p.rewrite("r", x * 1, y), "the replacement uses 'y', which the pattern does not"),
        (lambda: p.rewrite("r", x * 1, op.Exp(x * p.constant("c"))), "uses 'c', which"),
        (lambda: p.rewrite("r", x * 1, op.Cast(x)), "Cast needs the attr 'DstT'"),
        (lambda: p.rewrite("r", x * 1, op.LogicalNot(x)), "no possible dtype"),
        (lambda: p.rewrite("r", x * 1, op.any_of("Neg", "Exp")(x)), "leaves open which"),
        (lambda: p.rewrite("r", x * 1, p.op_type("f", "Neg")(x)), "does not bind the op type 'f'"),
        (lambda: p.rewrite("r", x * 1, op.Exp(x).with_attrs_of("conv")), "no node .* is named"),
        (
            lambda: p.rewrite("r", op.Relu(x), op.LeakyRelu(x, alpha=p.attr("alpha"))),
            "does not bind the attr 'alpha'",
        ),
        (lambda: p.rewrite("r", op.Relu(x), op.LogicalNot(y)), "does not bind"),
        (
            lambda: p.rewrite("r", op.LogicalNot(x), op.Neg(p.tensor("x"))),
            "x in Neg.* no possible dtype|the replacement is",
        ),
        (lambda: p.rewrite("r", x * 1, x, when=_guard), "the guard takes 'z', which"),
        (lambda: p.rewrite("r", x * 1, lambda xx: xx), "takes 'xx', .* did you mean 'x'"),
        (lambda: p.rewrite("r", x * 1, lambda *all: x), r"it takes '\*all'"),
        (lambda: p.rewrite("r", x * 1, "x"), "an input is an expression, a number or an array"),
        (lambda: p.rewrite("", x * 1, x), "a rule has a name"),
        (lambda: p.tensor("a b"), "'a b' is no name"),
        (lambda: p.tensor("root"), "'root' is no name"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        declare()


def test_the_error_names_the_rule() -> None:
    with pytest.raises(InvalidArgumentError, match="^rule 'my_rule': "):
        p.rewrite("my_rule", op.Mull(x, y), x)


def test_the_root_is_no_part_of_its_replacement() -> None:
    root = op.Exp(x)
    with pytest.raises(InvalidArgumentError, match="uses the root itself"):
        p.rewrite("r", root, op.Neg(root))
    with pytest.raises(InvalidArgumentError, match="is the root itself"):
        p.rewrite("r", root, root)


@pytest.mark.parametrize(
    "expression",
    [lambda: bool(x), lambda: list(op.Split(0, x)), lambda: op.Exp(op.Neg), lambda: x + "text"],
)
def test_python_that_no_expression_allows(expression: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        expression()
