"""tf.losses: values, gradients, graphs, collections and errors are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.evaluation.batches import (
    assert_same,
    error_of,
    run_all,
    tensorflow_one,
    tf1,
)
from tests.client.variables.same_graphs import collections, nodes

REDUCTIONS = {
    "none": "none",
    "sum": "weighted_sum",
    "mean": "weighted_mean",
    "batch": "weighted_sum_over_batch_size",
    "nonzero": "weighted_sum_by_nonzero_weights",
}
SHAPES = {
    "y": ("float32", [None, 3]),
    "p": ("float32", [None, 3]),
    "double": ("float64", [None, 3]),
    "half": ("float16", [None, 3]),
    "u": ("float32", None),
    "w": ("float32", [None, 1]),
    "v": ("float32", None),
    "row": ("float32", [None]),
    "c": ("int32", [None]),
    "column": ("int64", [None, 1]),
}


def batch(rng: np.random.Generator, n: int, weight: float | None = None) -> dict[str, Any]:
    """Return a batch of n rows; all weights are `weight`, or some of them zero."""
    drawn = rng.uniform(0, 2, n) * (rng.uniform(size=n) > 0.4)
    weights = drawn if weight is None else np.full(n, weight)
    u = rng.normal(size=(n, 3))
    u[-1:] = np.nan
    return {
        "y": rng.integers(0, 2, (n, 3)),
        "p": rng.uniform(0.01, 0.99, (n, 3)),
        "double": rng.normal(size=(n, 3)),
        "half": rng.normal(size=(n, 3)),
        "u": u,
        "w": weights[:, None],
        "v": weights[:, None],
        "row": weights,
        "c": rng.integers(0, 3, n),
        "column": rng.integers(0, 3, (n, 1)),
    }


def with_gradients(loss: Callable[[Any, dict[str, Any]], Any], *of: str) -> Any:
    """Return a case of a loss and its gradients."""

    def case(tf: Any, f: dict[str, Any], gradients: bool = True) -> list[Any]:
        made = loss(tf, f)
        if not of or not gradients:
            return [made]
        return [made, *tf.gradients(made, [f[name] for name in of])]

    return case


ELEMENTWISE = (
    *("absolute_difference", "mean_squared_error", "huber_loss", "log_loss"),
    *("hinge_loss", "sigmoid_cross_entropy", "mean_pairwise_squared_error"),
)
CASES: dict[str, Any] = {
    **{
        name: with_gradients(lambda tf, f, name=name: getattr(tf.losses, name)(f["y"], f["p"]), "p")
        for name in ELEMENTWISE
    },
    **{
        f"{name} weighted": with_gradients(
            lambda tf, f, name=name: getattr(tf.losses, name)(f["y"], f["p"], f["w"]), "p", "w"
        )
        for name in ELEMENTWISE
    },
    "unknown shapes": with_gradients(
        lambda tf, f: tf.losses.mean_squared_error(f["u"], f["u"] * 2, f["v"]), "v"
    ),
    "pairwise of unknown shape": with_gradients(
        lambda tf, f: tf.losses.mean_pairwise_squared_error(f["y"], f["y"] * f["u"][:, ::-1], 0.5)
    ),
    "huber delta": with_gradients(
        lambda tf, f: tf.losses.huber_loss(f["y"], f["double"], delta=0.3), "double"
    ),
    "log epsilon": with_gradients(
        lambda tf, f: tf.losses.log_loss(f["y"], f["p"], 2, epsilon=1e-3), "p"
    ),
    "cosine": with_gradients(lambda tf, f: tf.losses.cosine_distance(f["y"], f["p"], 1), "p"),
    "cosine weighted": with_gradients(
        lambda tf, f: tf.losses.cosine_distance(f["y"], f["p"], dim=1, weights=f["w"]), "p", "w"
    ),
    **{
        f"reduction {kind} {name}": with_gradients(
            lambda tf, f, kind=kind, name=name: tf.losses.compute_weighted_loss(
                f["p"], f[name] if name else 0.0, reduction=kind
            ),
            "p",
        )
        for kind in REDUCTIONS.values()
        for name in ("w", "v", "")
    },
    "double": with_gradients(
        lambda tf, f: tf.losses.compute_weighted_loss(f["double"], f["w"]), "double"
    ),
    "half": with_gradients(lambda tf, f: tf.losses.compute_weighted_loss(f["half"], 2), "half"),
    "integers": with_gradients(
        lambda tf, f: tf.losses.compute_weighted_loss(f["c"], 3, reduction="none")
    ),
    "sigmoid smoothed": with_gradients(
        lambda tf, f: tf.losses.sigmoid_cross_entropy(f["c"][:, None], f["w"] - 1, 1.0, 0.2), "w"
    ),
    "softmax": with_gradients(lambda tf, f: tf.losses.softmax_cross_entropy(f["y"], f["p"]), "p"),
    "softmax weighted": with_gradients(
        lambda tf, f: tf.losses.softmax_cross_entropy(f["y"], f["p"], f["row"], 0.1), "p", "row"
    ),
    "sparse softmax": with_gradients(
        lambda tf, f: tf.losses.sparse_softmax_cross_entropy(f["c"], f["p"]), "p"
    ),
    "sparse softmax column": with_gradients(
        lambda tf, f: tf.losses.sparse_softmax_cross_entropy(f["column"], f["double"], f["w"]),
        *("double", "w"),
    ),
    "sparse softmax unknown": with_gradients(
        lambda tf, f: tf.losses.sparse_softmax_cross_entropy(f["c"], f["p"] + 0 * f["u"], f["v"]),
        "v",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def as_in_version_one() -> Iterator[None]:
    with tensorflow_one():
        yield


def test_values_and_gradients() -> None:
    rng = np.random.default_rng(1)
    batches = [batch(rng, 4), batch(rng, 4, 0.0), batch(rng, 4, 1.0), batch(rng, 0)]
    ours, theirs = (run_all(tf, CASES, SHAPES, batches) for tf in (tfjit, tf1))
    wrong = {}
    for name in CASES:
        try:
            assert_same(ours[name], theirs[name])
        except AssertionError as error:
            wrong[name] = str(error)
    assert not wrong


# Functions of tf.nn have fewer nodes than TensorFlow's, in a scope "xentropy"; these two give
# their results other names, too.
OTHER_NODES = ("sigmoid", "softmax")


def built(tf: Any) -> tuple[Any, list[str]]:
    """Return a graph of losses and the names of their tensors."""
    with tf.Graph().as_default() as graph:
        f = {
            name: tf.placeholder(tf.as_dtype(dtype), shape, name=name)
            for name, (dtype, shape) in SHAPES.items()
        }
        made = [
            case(tf, f, False)[0].name
            for name, case in CASES.items()
            if not name.startswith(OTHER_NODES)
        ]
        for name in ELEMENTWISE:
            if not name.startswith(OTHER_NODES):
                function = getattr(tf.losses, name)
                made.append(
                    function(f["y"], f["p"], 0.5, scope="mine", loss_collection="kept").name
                )
        tf.losses.cosine_distance(f["y"], f["p"], 1, 1.0, "mine", None)
        tf.losses.sparse_softmax_cross_entropy(f["c"], f["p"], 1.0, "mine", "kept")
        made.append(graph._last_loss_reduction)
    return graph, made


def test_graphs() -> None:
    """Names, inputs and attributes of all nodes, and the collections."""
    (ours, our_names), (theirs, their_names) = built(tfjit), built(tf1)
    assert our_names == their_names
    own, wanted = (
        {name: node for name, node in nodes(graph).items() if "/xentropy/" not in name}
        for graph in (ours, theirs)
    )
    assert own == wanted
    assert collections(ours) == collections(theirs)


def collected(tf: Any) -> list[Any]:
    """Return names of losses, and their sums."""
    x = tf.ones([2], name="x")
    names = [tf.losses.get_regularization_loss().name]
    with tf.variable_scope("a"):
        tf.losses.mean_squared_error(x, x * 3)
        tf.get_variable("v", initializer=x, regularizer=tf.reduce_sum)
    with tf.variable_scope("b"):
        tf.losses.absolute_difference(x, x * 2, scope="mine")
        tf.losses.hinge_loss(x, x, loss_collection="other")
        tf.losses.hinge_loss(x, x, loss_collection=None)
    tf.losses.add_loss(x[0] * 10)
    tf.losses.add_loss(x[0], None)
    tf.losses.add_loss(x[0], "other")
    for scope in (None, "a", "b/", "nowhere"):
        names.append([t.name for t in tf.losses.get_losses(scope)])
        names.append([t.name for t in tf.losses.get_regularization_losses(scope)])
    names.append([t.name for t in tf.losses.get_losses(loss_collection="other")])
    sums = [
        tf.losses.get_total_loss(),
        tf.losses.get_total_loss(False, "named"),
        tf.losses.get_total_loss(scope="a"),
        tf.losses.get_regularization_loss("a", "mine"),
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [names, [t.name for t in sums], session.run(sums)]


def test_collections() -> None:
    found = []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default():
            found.append(collected(tf))
    assert found[0] == found[1]
    assert found[0][-1] == [17.0, 15.0, 6.0, 2.0]


def test_reductions() -> None:
    ours, theirs = tfjit.losses.Reduction, tf1.losses.Reduction
    assert ours.all() == theirs.all()
    for name in ("NONE", "SUM", "MEAN", "SUM_OVER_BATCH_SIZE"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.SUM_OVER_NONZERO_WEIGHTS == ours.SUM_BY_NONZERO_WEIGHTS
    assert ours.SUM_BY_NONZERO_WEIGHTS == theirs.SUM_BY_NONZERO_WEIGHTS
    ours.validate("none")
    with pytest.raises(ValueError, match="Invalid Reduction Key"):
        ours.validate("sum")


def of_shapes(*shapes: tuple[int, ...], **keywords: Any) -> Callable[[Any], None]:
    """Return a program that fails while its graph is built."""

    def program(tf: Any) -> None:
        tensors = [tf.ones(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
        tf.losses.mean_squared_error(*tensors, **keywords)

    return program


def unfit(own: tuple[int, ...], wanted: tuple[int, ...]) -> Callable[[Any], Any]:
    """Return a program that fails in its run."""

    def program(tf: Any) -> Any:
        x, w = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        loss = tf.losses.compute_weighted_loss(x, w)
        return loss, {x: np.ones(wanted), w: np.ones(own)}

    return program


ERRORS: dict[str, Callable[[Any], Any]] = {
    "shapes": of_shapes((2, 3), (3, 2)),
    "ranks of weights": of_shapes((2, 3), (2, 3), (2,)),
    "sizes of weights": of_shapes((2, 3), (2, 3), (1, 2)),
    "no weights": of_shapes((2, 3), (2, 3), weights=None),
    "reduction": of_shapes((2, 3), (2, 3), reduction="average"),
    "rank in a run": unfit((2,), (2, 3)),
    "size in a run": unfit((3, 1), (2, 3)),
    "no axis": lambda tf: tf.losses.cosine_distance([1.0], [1.0]) and None,
    "two axes": lambda tf: tf.losses.cosine_distance([1.0], [1.0], 0, dim=0) and None,
    "softmax": lambda tf: tf.losses.softmax_cross_entropy([[1.0]], [[1.0, 2.0]]) and None,
    "sparse": lambda tf: tf.losses.sparse_softmax_cross_entropy([[1, 2]], [[1.0, 2.0]]) and None,
    **{
        f"no {place} of {name}": lambda tf, name=name, place=place: (
            getattr(tf.losses, name)(*([None, [1.0]] if place == "labels" else [[1.0], None]))
            and None
        )
        for name in (*ELEMENTWISE, "softmax_cross_entropy", "sparse_softmax_cross_entropy")
        for place in ("labels", "predictions")
    },
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    ours, theirs = error_of(tfjit, ERRORS[case]), error_of(tf1, ERRORS[case])
    assert ours == theirs
    assert ours[0]


def test_no_losses() -> None:
    for tf in (tfjit, tf1):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="at least one Tensor"):
            tf.losses.get_total_loss()
