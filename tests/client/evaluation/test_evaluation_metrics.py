"""tf.metrics: values over several batches, graphs, collections and errors are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.evaluation.batches import (
    Cases,
    Results,
    assert_same,
    error_of,
    run_all,
    tensorflow_one,
    tf1,
)
from tests.client.variables.same_graphs import collections, nodes

SHAPES = {
    "y": ("float32", [None, 3]),  # labels: 0 or 1
    "p": ("float32", [None, 3]),  # predictions: 0 .. 1
    "x": ("float64", None),  # any numbers [n, 3], in places not a number
    "w": ("float32", [None, 1]),
    "v": ("float32", None),  # weights [n, 1] of unknown shape
    "row": ("float32", [None]),  # weights [n]
    "c": ("int64", [None, 3]),  # class numbers below 4
    "d": ("int32", [None, 3]),
    "one": ("int64", [None]),  # a class number each
    "fixed": ("float32", [2, 3]),
    "fixed_w": ("float32", [2, 1]),
}


def batch(rng: np.random.Generator, n: int, weight: float | None = None) -> dict[str, Any]:
    """Return a batch of n rows; all weights are `weight`, or some of them zero."""

    def weights(*shape: int) -> Any:
        drawn = rng.uniform(0, 2, shape) * (rng.uniform(size=shape) > 0.3)
        return drawn if weight is None else np.full(shape, weight)

    x = rng.normal(size=(n, 3))
    x[: n // 4] = np.nan
    return {
        "y": rng.integers(0, 2, (n, 3)),
        "p": rng.uniform(size=(n, 3)),
        "x": x,
        "w": weights(n, 1),
        "v": weights(n, 1),
        "row": weights(n),
        "c": rng.integers(0, 4, (n, 3)),
        "d": rng.integers(0, 4, (n, 3)),
        "one": rng.integers(0, 4, n),
        "fixed": rng.normal(size=(2, 3)),
        "fixed_w": weights(2, 1),
    }


def sparse(tf: Any, f: dict[str, Any]) -> Any:
    """Return the labels c as a sparse tensor, without those of class 0."""
    return tf.sparse.from_dense(f["c"])


def scores(tf: Any, f: dict[str, Any]) -> Any:
    """Return four scores a row."""
    return tf.concat([f["p"], 1 - f["p"][:, :1]], 1)


MEANS: Cases = {
    "mean": lambda tf, f: tf.metrics.mean(f["p"]),
    "mean weighted": lambda tf, f: tf.metrics.mean(f["p"], f["w"]),
    "mean scalar weight": lambda tf, f: tf.metrics.mean(f["c"], 0.5),
    "mean zero weight": lambda tf, f: tf.metrics.mean(f["c"], 0.0),
    "mean row": lambda tf, f: tf.metrics.mean(f["p"], f["row"]),
    "mean nan": lambda tf, f: tf.metrics.mean(f["x"]),
    "mean unknown": lambda tf, f: tf.metrics.mean(f["x"], f["v"]),
    "mean unknown row": lambda tf, f: tf.metrics.mean(f["x"], f["row"]),
    "tensor": lambda tf, f: tf.metrics.mean_tensor(f["fixed"]),
    "tensor weighted": lambda tf, f: tf.metrics.mean_tensor(f["fixed"], f["fixed_w"]),
    "tensor scalar": lambda tf, f: tf.metrics.mean_tensor(f["fixed"], 2),
    "accuracy": lambda tf, f: tf.metrics.accuracy(f["c"], f["d"]),
    "accuracy weighted": lambda tf, f: tf.metrics.accuracy(f["d"], f["c"], f["w"]),
    "accuracy column": lambda tf, f: tf.metrics.accuracy(
        f["one"], tf.expand_dims(f["c"][:, 0], 1), f["row"]
    ),
    "accuracy strings": lambda tf, f: tf.metrics.accuracy(
        tf.as_string(f["c"]), tf.as_string(f["d"])
    ),
    "absolute": lambda tf, f: tf.metrics.mean_absolute_error(f["y"], f["p"]),
    "absolute weighted": lambda tf, f: tf.metrics.mean_absolute_error(f["c"], f["c"][::-1], f["w"]),
    "squared": lambda tf, f: tf.metrics.mean_squared_error(f["y"], f["p"], f["w"]),
    "squared unknown": lambda tf, f: tf.metrics.mean_squared_error(f["x"], f["x"] * 2, f["v"]),
    "root": lambda tf, f: tf.metrics.root_mean_squared_error(f["y"], f["p"]),
    "root weighted": lambda tf, f: tf.metrics.root_mean_squared_error(f["y"], f["p"], f["row"]),
    "relative": lambda tf, f: tf.metrics.mean_relative_error(f["y"], f["p"], f["y"]),
    "relative weighted": lambda tf, f: tf.metrics.mean_relative_error(
        f["p"], f["y"], f["p"], f["w"]
    ),
    "cosine": lambda tf, f: tf.metrics.mean_cosine_distance(f["y"], f["p"], 1),
    "cosine weighted": lambda tf, f: tf.metrics.mean_cosine_distance(f["y"], f["p"], 1, f["w"]),
    "below": lambda tf, f: tf.metrics.percentage_below(f["p"], 0.3),
    "below weighted": lambda tf, f: tf.metrics.percentage_below(f["p"], f["y"] / 2, f["w"]),
}
OUTCOMES = ("true_positives", "false_positives", "true_negatives", "false_negatives")
ANSWERS: Cases = {
    f"{name}{suffix}": lambda tf, f, name=name, weights=weights: getattr(tf.metrics, name)(
        f["y"], f["c"] - 1, weights(f)
    )
    for name in (*OUTCOMES, "precision", "recall")
    for suffix, weights in (
        ("", lambda f: None),
        (" weighted", lambda f: f["w"]),
    )
}
ANSWERS["scalar"] = lambda tf, f: tf.metrics.true_positives(f["y"], f["c"], 0.5)
ANSWERS["row"] = lambda tf, f: tf.metrics.precision(f["y"], f["c"], f["row"])
ANSWERS["unknown"] = lambda tf, f: tf.metrics.recall(f["y"], f["c"], f["v"])
ANSWERS["recall without labels"] = lambda tf, f: tf.metrics.recall(f["y"] * 0, f["c"])
ANSWERS["precision without predictions"] = lambda tf, f: tf.metrics.precision(f["y"], f["c"] * 0)
THRESHOLDS: Cases = {
    f"{name}{suffix}": lambda tf, f, name=name, weights=weights: getattr(
        tf.metrics, f"{name}_at_thresholds"
    )(f["y"], f["p"], [0.5, 0.1, 0.9], weights(f))
    for name in (*OUTCOMES, "precision", "recall")
    for suffix, weights in (
        ("", lambda f: None),
        (" weighted", lambda f: f["w"]),
    )
}
THRESHOLDS["recall unknown"] = lambda tf, f: tf.metrics.recall_at_thresholds(
    f["y"], f["p"], [0.3], f["v"]
)
THRESHOLDS["precision scalar"] = lambda tf, f: tf.metrics.precision_at_thresholds(
    f["y"], f["p"], (0.3,), 2
)
CURVES: Cases = {
    **{
        f"auc {curve} {method}": lambda tf, f, curve=curve, method=method: tf.metrics.auc(
            f["y"],
            f["p"],
            f["w"] if method == "minoring" else None,
            curve=curve,
            summation_method=method,
            num_thresholds=30,
        )
        for curve in ("ROC", "PR")
        for method in ("trapezoidal", "careful_interpolation", "minoring", "majoring")
    },
    "auc": lambda tf, f: tf.metrics.auc(f["c"], f["p"]),
    "auc thresholds": lambda tf, f: tf.metrics.auc(f["y"], f["p"], thresholds=[0.7, 0.2]),
    "auc two": lambda tf, f: tf.metrics.auc(f["y"], f["p"], num_thresholds=2),
    **{
        f"sensitivity {rate}": lambda tf, f, rate=rate: tf.metrics.sensitivity_at_specificity(
            f["y"], f["p"], rate, f["w"] if rate == 0.4 else None, num_thresholds=11
        )
        for rate in (0, 0.4, 1)
    },
    **{
        f"specificity {rate}": lambda tf, f, rate=rate: tf.metrics.specificity_at_sensitivity(
            f["y"], f["p"], rate, f["w"] if rate == 0.4 else None, num_thresholds=11
        )
        for rate in (0, 0.4, 1)
    },
}
CLASSES: Cases = {
    "iou": lambda tf, f: tf.metrics.mean_iou(f["c"], f["d"], 4),
    "iou more classes": lambda tf, f: tf.metrics.mean_iou(f["c"], f["d"], 6, f["p"]),
    "iou rows": lambda tf, f: tf.metrics.mean_iou(f["c"][:, 0], f["d"][:, 0], 4, f["row"]),
    "per class": lambda tf, f: tf.metrics.mean_per_class_accuracy(f["c"], f["d"], 4),
    "per class weighted": lambda tf, f: tf.metrics.mean_per_class_accuracy(
        f["c"], f["d"] + 2, 6, f["p"]
    ),
}
TOP_K: Cases = {
    **{
        f"{name} {suffix}": lambda tf, f, name=name, labels=labels, rest=rest: getattr(
            tf.metrics, name
        )(labels(tf, f), scores(tf, f), *rest[0], **rest[1](f))
        for name in ("precision_at_k", "recall_at_k", "sparse_precision_at_k")
        for suffix, labels, rest in (
            ("one label", lambda tf, f: f["one"], ([2], lambda f: {})),
            ("labels", lambda tf, f: f["c"], ([1], lambda f: {"weights": f["row"]})),
            ("class", lambda tf, f: f["c"], ([3, 1], lambda f: {})),
            ("sparse", sparse, ([2], lambda f: {"weights": 0.5})),
            ("sparse class", sparse, ([2, 2], lambda f: {"weights": f["row"]})),
        )
    },
    **{
        f"{name} {suffix}": lambda tf, f, name=name, labels=labels: getattr(tf.metrics, name)(
            labels(tf, f), f["d"], class_id=2 if labels is sparse else None
        )
        for name in ("precision_at_top_k", "recall_at_top_k")
        for suffix, labels in (
            ("one label", lambda tf, f: f["one"]),
            ("labels", lambda tf, f: f["c"]),
            ("sparse", sparse),
        )
    },
    **{
        f"{name} {suffix}": lambda tf, f, name=name, labels=labels, rest=rest: getattr(
            tf.metrics, name
        )(labels(tf, f), scores(tf, f), *rest(f))
        for name in ("average_precision_at_k", "sparse_average_precision_at_k")
        for suffix, labels, rest in (
            ("one label", lambda tf, f: f["one"], lambda f: [2]),
            ("labels", lambda tf, f: f["c"], lambda f: [3, f["row"]]),
            ("unknown class", lambda tf, f: f["c"] * 2 - 1, lambda f: [3]),
            ("sparse", sparse, lambda f: [1, 0.5]),
            ("sparse many", sparse, lambda f: [4]),
        )
    },
}
FAMILIES = {
    "means": MEANS,
    "answers": ANSWERS,
    "thresholds": THRESHOLDS,
    "curves": CURVES,
    "classes": CLASSES,
    "top k": TOP_K,
}


@pytest.fixture(scope="module", autouse=True)
def as_in_version_one() -> Iterator[None]:
    with tensorflow_one():
        yield


@pytest.fixture(scope="module")
def batches() -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    return [batch(rng, 5), batch(rng, 5, 0.0), batch(rng, 5)]


@pytest.mark.parametrize("family", FAMILIES)
def test_values(family: str, batches: list[dict[str, Any]]) -> None:
    cases = FAMILIES[family]
    ours = run_all(tfjit, cases, SHAPES, batches)
    theirs = run_all(tf1, cases, SHAPES, batches)
    wrong = {name: text for name in cases if (text := difference(ours, theirs, name))}
    assert not wrong


def difference(ours: Results, theirs: Results, name: str) -> str:
    try:
        assert_same(ours[name], theirs[name])
    except AssertionError as error:
        return str(error)
    return ""


def test_batches_of_changing_size() -> None:
    """With an empty one among them."""
    rng = np.random.default_rng(3)
    sizes = [batch(rng, 3), batch(rng, 0), batch(rng, 2)]
    cases = {
        "mean": MEANS["mean weighted"],
        "accuracy": MEANS["accuracy column"],
        "recall": ANSWERS["recall weighted"],
        "auc": CURVES["auc"],
        "iou": CLASSES["iou rows"],
        "precision at k": TOP_K["precision_at_k sparse class"],
        "average precision": TOP_K["average_precision_at_k sparse"],
    }
    ours, theirs = (run_all(tf, cases, SHAPES, sizes) for tf in (tfjit, tf1))
    assert not [text for name in cases if (text := difference(ours, theirs, name))]


def built(tf: Any, cases: Cases) -> Any:
    """Return the graph of all cases."""
    with tf.Graph().as_default() as graph:
        feeds = {
            name: tf.placeholder(tf.as_dtype(dtype), shape, name=name)
            for name, (dtype, shape) in SHAPES.items()
        }
        for case in cases.values():
            case(tf, feeds)
    return graph


@pytest.mark.parametrize("family", FAMILIES)
def test_graphs(family: str) -> None:
    """Names, inputs and attributes of all nodes, and the collections."""
    # tf.sparse.from_dense has nodes of its own
    cases = {name: case for name, case in FAMILIES[family].items() if "sparse" not in name}
    ours, theirs = built(tfjit, cases), built(tf1, cases)
    assert nodes(ours) == nodes(theirs)
    assert collections(ours) == collections(theirs)


SIGNATURES: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    **{name: lambda f: [f["y"], f["p"]] for name in dir(tfjit.metrics) if name != "mean"},
    **{name: lambda f: [f["fixed"]] for name in ("mean", "mean_tensor")},
    "percentage_below": lambda f: [f["p"], 0.5],
    "mean_relative_error": lambda f: [f["y"], f["p"], f["p"]],
    "mean_cosine_distance": lambda f: [f["y"], f["p"], 1],
    "mean_iou": lambda f: [f["c"], f["d"], 4],
    "mean_per_class_accuracy": lambda f: [f["c"], f["d"], 4],
    "sensitivity_at_specificity": lambda f: [f["y"], f["p"], 0.5],
    "specificity_at_sensitivity": lambda f: [f["y"], f["p"], 0.5],
    **{
        f"{name}_at_thresholds": lambda f: [f["y"], f["p"], [0.5]]
        for name in (*OUTCOMES, "precision", "recall")
    },
    **{
        name: lambda f: [f["c"], f["p"], 2]
        for name in (
            *("precision_at_k", "recall_at_k", "sparse_precision_at_k"),
            *("average_precision_at_k", "sparse_average_precision_at_k"),
        )
    },
    **{name: lambda f: [f["c"], f["d"], 2] for name in ("precision_at_top_k", "recall_at_top_k")},
}


def test_names_and_collections() -> None:
    """Every metric, with a name, its collections and a weight, inside a scope."""
    graphs, found = [], []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default() as graph:
            f = {
                name: tf.placeholder(tf.as_dtype(dtype), shape, name=name)
                for name, (dtype, shape) in SHAPES.items()
            }
            names = []
            with tf.variable_scope("outer"):
                for metric in sorted(tfjit.client.metrics.__all__):
                    function, arguments = getattr(tf.metrics, metric), SIGNATURES[metric](f)
                    names += [t.name for t in function(*arguments)]
                    value, update = function(
                        *arguments,
                        metrics_collections=["a", f"values of {metric}"],
                        updates_collections=f"updates of {metric}",
                        name=f"my_{metric}",
                    )
                    names += [value.name, update.name]
            found.append(names)
            assert all(v.name.startswith("outer/") for v in tf.local_variables())
        graphs.append(graph)
    assert len(tfjit.client.metrics.__all__) == 33
    assert found[0] == found[1]
    assert collections(graphs[0]) == collections(graphs[1])
    assert nodes(graphs[0]) == nodes(graphs[1])


def fed(tf: Any, pair: Any, feeds: dict[Any, Any]) -> Any:
    """Return what a run needs: the update, and feeds."""
    return pair[1], feeds


def outside(tf: Any) -> Any:
    p = tf.placeholder(tf.float32, [2])
    return fed(tf, tf.metrics.auc([1, 0], p), {p: [0.5, 1.5]})


def unfit_weights(tf: Any) -> Any:
    x, w = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    return fed(tf, tf.metrics.mean(x, w), {x: np.ones((2, 3)), w: np.ones((3, 3))})


def wrong_class(wrong: int) -> Callable[[Any], Any]:
    def program(tf: Any) -> Any:
        x = tf.placeholder(tf.int32, [2])
        return fed(tf, tf.metrics.mean_iou(x, x * 0, 3), {x: [0, wrong]})

    return program


def x23(tf: Any) -> Any:
    return tf.ones([2, 3], name="x")


ERRORS: dict[str, Callable[[Any], Any]] = {
    "predictions": outside,
    "weights": unfit_weights,
    "a class below zero": wrong_class(-1),
    "a class too large": wrong_class(3),
    "known weights": lambda tf: tf.metrics.mean(x23(tf), tf.ones([3, 1], name="w")) and None,
    "rank of weights": lambda tf: tf.metrics.mean(x23(tf), tf.ones([2, 3, 1, 1])) and None,
    "shapes": lambda tf: tf.metrics.accuracy(x23(tf), tf.ones([3, 2])) and None,
    "rank of counts": lambda tf: (
        tf.metrics.recall(x23(tf), x23(tf), tf.ones([2, 2, 2, 2])) and None
    ),
    "curve": lambda tf: tf.metrics.auc(x23(tf), x23(tf), curve="X") and None,
    "summation": lambda tf: tf.metrics.auc(x23(tf), x23(tf), summation_method="X") and None,
    "specificity": lambda tf: tf.metrics.sensitivity_at_specificity(x23(tf), x23(tf), 2) and None,
    "sensitivity": lambda tf: tf.metrics.specificity_at_sensitivity(x23(tf), x23(tf), -1) and None,
    "k": lambda tf: tf.metrics.average_precision_at_k([[1]], x23(tf), 0) and None,
    "labels": lambda tf: (
        tf.metrics.recall_at_k(tf.ones([1, 1, 1, 1], tf.int64), x23(tf), 1) and None
    ),
    "dtype of labels": lambda tf: tf.metrics.precision_at_k(x23(tf), x23(tf), 1) and None,
    "unknown shape": lambda tf: tf.metrics.mean_tensor(tf.placeholder(tf.float32)) and None,
    "scope": lambda tf: tf.metrics.mean(1.0, name=3) and None,
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    ours, theirs = error_of(tfjit, ERRORS[case]), error_of(tf1, ERRORS[case])
    assert ours == theirs
    assert ours[0]
