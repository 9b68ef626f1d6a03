"""`why_not`: how far a rule matched, and the reason."""

from __future__ import annotations

import pytest

import tfjit as tf
from tests.passes.patterns.cases import ABSORB, CONV_BIAS_RELU, TIMES_ONE, UNDO, x, y
from tfjit.framework.errors import NotFoundError
from tfjit.passes import patterns as p
from tfjit.passes.text.text_format import parse_graph, print_graph

NETWORK = """
    x     = Placeholder(shape=<1,4,4,2>)
    w     = Placeholder(shape=<2,2,2,2>)
    b     = Placeholder(shape=<2>)
    conv  = Conv2D(x, w, strides=[1, 1, 1, 1], padding=b'SAME')
    bias  = BiasAdd(conv, b)
    relu  = Relu(bias)
    pool  = MaxPool(relu, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding=b'SAME')
    bias2 = BiasAdd(pool, b)
    relu2 = Relu(bias2)
    conv3 = Conv2D(x, w, strides=[1, 1, 1, 1], padding=b'SAME')
    bias3 = BiasAdd(conv3, b)
    relu3 = Relu(bias3)
    other = Neg(conv3)
    n     = Neg(x)
"""


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (
            "relu",
            "conv_bias_relu: rewrites 'relu': matched Relu 'relu' <- BiasAdd 'bias' <- Conv2D",
        ),
        (
            "relu2",
            "conv_bias_relu: matched Relu 'relu2' <- BiasAdd 'bias2' up to BiasAdd's input 0: "
            "'pool' is a MaxPool, expected Conv2D",
        ),
        (
            "relu3",
            "conv_bias_relu: matched Relu 'relu3' <- BiasAdd 'bias3' <- Conv2D 'conv3', but stays: "
            "the use count of 'conv3' is 2, the pattern asks for 1: also used by 'other'",
        ),
        (
            "conv",
            "conv_bias_relu: no match at Relu: 'conv' is a Conv2D, expected Relu; the pattern's "
            "root may be 'relu', which uses it",
        ),
    ],
)
def test_the_text_says_how_far_a_rule_matched(node: str, text: str) -> None:
    graph = parse_graph(NETWORK)
    before = print_graph(graph)
    assert str(p.why_not(graph, CONV_BIAS_RELU, node)).startswith(text)
    assert print_graph(graph) == before


def test_an_explanation_is_an_object() -> None:
    (found,) = p.why_not(parse_graph(NETWORK), CONV_BIAS_RELU, "relu2")
    assert found == p.Explanation(
        "conv_bias_relu",
        "relu2",
        False,
        (("Relu", "relu2"), ("BiasAdd", "bias2")),
        "BiasAdd's input 0",
        "'pool' is a MaxPool, expected Conv2D",
    )


def test_every_rule_has_its_own_line() -> None:
    found = p.why_not(parse_graph(NETWORK), (TIMES_ONE, UNDO), "n")
    assert [one.rule for one in found] == ["times_one", "undo"]
    assert len(str(found).splitlines()) == 2


MULTIPLIED = """
    x   = Placeholder(shape=<2,3>)
    two = Const(dtype=float32, value=float32<>[2.0])
    z   = Mul(x, two)
    e   = Exp(z)
"""
c, d = p.constants("c d")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (x * 1, "expected 1"),
        (p.op.Mul(x, x), "is not x, which is"),
        (p.tensor("x", dtype="integer") * y, "'x' is float32, expected integer"),
        (p.tensor("x", rank=3) * y, "expected rank 3"),
        (p.tensor("x", shape=("n", "n")) * y, "expected [n, n]"),
        (p.op.Mul(x, y).uses(2), "its use count is 1, the pattern asks for 2: used by 'e'"),
        (p.op.Mul(x, y, T="int32"), "'z' has tf.float32, expected tf.int32"),
        (p.op.Mul(x, y, T=lambda t: t.is_integer), "the predicate is false for tf.float32"),
        (p.op.Mul(x, p.constant(2, when=lambda v: v.ndim == 1)), "the predicate on 2 is false"),
        (c * d, "without a static value, expected a constant"),
        (p.op.Mul(p.op.Exp(x), y), "expected Exp"),
    ],
)
def test_each_check_has_words(pattern: object, reason: str) -> None:
    made = p.rewrite("r", pattern, lambda: None)  # type: ignore[arg-type]
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(parse_graph(MULTIPLIED).to_graph_def(), name="")
    (found,) = p.why_not(graph, made, "z:0")
    assert reason in found.reason and not found.rewrites
    assert p.why_not(graph.as_graph_def(), made, "z") == (found,)


def test_guards_and_functions_that_refuse() -> None:
    graph = parse_graph(MULTIPLIED)
    guarded = p.rewrite("r", x * y, x, when=lambda: False)
    declining = p.rewrite("r", x * y, lambda: None)
    failing = p.rewrite("r", x * y, x, when=lambda x: x.nothing)
    text = str(p.why_not(graph, (guarded, declining, failing), "z"))
    assert "the guard declined" in text and "the replacement function declined" in text
    assert "AttributeError" in text


def test_an_unknown_node_has_near_names() -> None:
    with pytest.raises(NotFoundError, match="no node 'relu9' in the graph; did you mean 'relu"):
        p.why_not(parse_graph(NETWORK), ABSORB, "relu9")
