"""Distributions have TensorFlow's nodes, values, samples, errors and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import same_graph, switches_and_merges

tf1 = tensorflow.compat.v1
MOMENTS = "mean mode variance stddev entropy covariance batch_shape_tensor event_shape_tensor"
OF_VALUES = "prob log_prob cdf log_cdf survival_function log_survival_function quantile"
TABLE = [[0.5, 2.0], [1.0, 3.0], [4.0, 0.25]]
PROBS = [[0.5, 0.5], [0.2, 0.8], [0.3, 0.7]]
# name -> (constructor, values)
CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "normal": (lambda tf, d, **k: d.Normal([1.0, 2.0], [0.5, 1.5], **k), [[1.5, -9.0], [0.1, 30]]),
    "laplace": (lambda tf, d, **k: d.Laplace([1.0, 2.0], [0.5, 1.5], **k), [[1.5, -9.0]]),
    "uniform": (lambda tf, d, **k: d.Uniform([1.0, 2.0], [3.5, 4.5], **k), [[1.5, 9.0], [0, 2]]),
    "student": (lambda tf, d, **k: d.StudentT([1.0, 2.5], [1.0, 2.0], 0.5, **k), [0.5, -2.0]),
    "gamma": (lambda tf, d, **k: d.Gamma([0.5, 2.0], [1.0, 3.0], **k), [[0.5, 2.0], [0.1, 9.0]]),
    "exponential": (lambda tf, d, **k: d.Exponential([0.5, 2.0], **k), [[0.5, 2.0]]),
    "beta": (lambda tf, d, **k: d.Beta([1.5, 2.0], [2.0, 3.0], **k), [0.25, 0.5]),
    "dirichlet": (lambda tf, d, **k: d.Dirichlet(TABLE, **k), PROBS),
    "bernoulli": (lambda tf, d, **k: d.Bernoulli([0.5, -2.0], **k), [[0, 1], [1, 1]]),
    "bernoulli of probs": (
        lambda tf, d, **k: d.Bernoulli(probs=[0.5, 0.2], dtype=tf.float32, **k),
        [0.0, 1.0],
    ),
    "categorical": (lambda tf, d, **k: d.Categorical(TABLE, **k), [[0, 1, 1]]),
    "categorical of probs": (
        lambda tf, d, **k: d.Categorical(probs=PROBS, dtype=tf.int64, **k),
        [1, 1, 0],
    ),
    "multinomial": (
        lambda tf, d, **k: d.Multinomial([4.0, 5.0, 6.0], TABLE, **k),
        [[1.0, 3.0], [5.0, 0.0], [2.0, 4.0]],
    ),
    "multinomial of probs": (
        lambda tf, d, **k: d.Multinomial(4.0, probs=PROBS, **k),
        [[1.0, 3.0], [4.0, 0.0], [2.0, 2.0]],
    ),
    "dirichlet multinomial": (
        lambda tf, d, **k: d.DirichletMultinomial(3.0, TABLE, **k),
        [[1.0, 2.0], [0.0, 3.0], [2.0, 1.0]],
    ),
}


@pytest.fixture(autouse=True, scope="module")
def tensorflow_1() -> Iterator[None]:
    """TensorFlow makes conditionals of switches, as tfjit does."""
    with switches_and_merges():
        yield


def results(tf: Any, name: str, value: Any, **options: Any) -> list[tuple[str, Any]]:
    """Return the tensor of each method that there is, and the texts of the errors of others."""
    build, _ = CASES[name]
    one, other = (build(tf, tf.distributions, **options) for _ in range(2))
    calls: list[tuple[str, Callable[[], Any]]] = [
        *((method, getattr(one, method)) for method in MOMENTS.split()),
        *((m, lambda m=m: getattr(one, m)(value)) for m in OF_VALUES.split()),
        *(("sample", lambda s=s: one.sample(s, seed=5)) for s in ((), [2, 3])),
        ("kl_divergence", lambda: one.kl_divergence(other)),
        ("cross_entropy", lambda: one.cross_entropy(other)),
    ]
    found: list[tuple[str, Any]] = [("text", f"{one} {one!r} {sorted(one.parameters)}")]
    for method, call in calls:
        try:
            found.append((method, call()))
        except (NotImplementedError, ValueError, tf.errors.InvalidArgumentError) as error:
            found.append((method, f"{error}".partition("\n")[0]))
    return found


def described(found: list[tuple[str, Any]]) -> list[Any]:
    return [
        (name, made if isinstance(made, str) else (made.name, made.shape.as_list()))
        for name, made in found
    ]


# The nodes of the others' losses are those of tf.nn.
@pytest.mark.parametrize(
    "name", [name for name in CASES if "bern" not in name and "cat" not in name]
)
def test_the_same_graph(name: str) -> None:
    value = np.array(CASES[name][1], np.float32)
    options = {"validate_args": True, "allow_nan_stats": False}
    same_graph(lambda tf: described(results(tf, name, tf.constant(value), **options)))


def values(tf: Any) -> dict[str, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        found = {}
        for name, (_, value) in CASES.items():
            for method, made in results(tf, name, value):
                found[f"{name} {method} {len(found)}"] = made
        tensors = {key: made for key, made in found.items() if not isinstance(made, str)}
        arrays = session.run(tensors)
        texts = {key: made for key, made in found.items() if key not in tensors}
        return {**arrays, **texts}


def test_the_same_values_and_samples() -> None:
    theirs, ours = values(tf1), values(tfjit)
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        if isinstance(expected, str):
            assert ours[name] == expected, name
            continue
        assert ours[name].dtype == expected.dtype, name
        if name.startswith("multinomial") and " sample " in name:
            # the iterations of TensorFlow's loop draw in any order
            assert ours[name].shape == expected.shape
            ours[name], expected = (made.sum(-1) for made in (ours[name], expected))
        np.testing.assert_allclose(ours[name], expected, 2e-5, 1e-6, err_msg=name)


WRONG: list[Callable[[Any, Any], Any]] = [
    lambda tf, d: d.Bernoulli(),
    lambda tf, d: d.Bernoulli([0.5], [0.5]),
    lambda tf, d: d.Bernoulli([1]),
    lambda tf, d: d.Categorical([[0.5]], validate_args=True),
    lambda tf, d: d.Categorical(0.5),
    lambda tf, d: d.Normal(1, 2),
    lambda tf, d: d.Normal([1.0], np.array([2.0])),
    lambda tf, d: d.Normal(1.0, 2.0).sample([[1]]),
    lambda tf, d: d.Normal(1.0, 2.0).kl_divergence(d.Laplace(1.0, 2.0)),
    lambda tf, d: d.RegisterKL(d.Normal, d.Normal)(print),
    lambda tf, d: d.RegisterKL(d.Normal, d.Beta)(3),
    lambda tf, d: d.Normal.param_static_shapes(tf.TensorShape([None])),
    lambda tf, d: d.Distribution(tf.float32, d.NOT_REPARAMETERIZED, False, True, {}, [3], "x"),
    lambda tf, d: d.Dirichlet.param_shapes([1]),
]


def refusal(tf: Any, build: Callable[[Any, Any], Any]) -> str:
    with tf.Graph().as_default(), pytest.raises(Exception) as caught:
        build(tf, tf.distributions)
    return str(caught.value).partition(": <function")[0]


def test_the_same_errors() -> None:
    for build in WRONG:
        assert refusal(tfjit, build) == refusal(tf1, build)


def test_a_distribution_of_ones_own() -> None:
    """A subclass has the methods that follow from those it defines."""
    d = tfjit.distributions

    class Doubled(d.Normal):
        def _log_survival_function(self, value: Any) -> Any:
            raise NotImplementedError

        def _survival_function(self, value: Any) -> Any:
            raise NotImplementedError

    made = Doubled(0.0, 1.0)
    with tfjit.Session() as session:
        found = session.run(
            [made.survival_function(1.0), 1 - made.cdf(1.0), made.kl_divergence(made)]
        )
        assert found[0] == pytest.approx(found[1]) and found[2] == 0
    shapes = d.Normal.param_static_shapes([2, 3])
    assert {key: shape.as_list() for key, shape in shapes.items()} == {
        "loc": [2, 3],
        "scale": [2, 3],
    }
    copy = made.copy(scale=2.0)
    assert type(copy) is Doubled and copy.parameters["scale"] == 2.0
    assert d.FULLY_REPARAMETERIZED == made.reparameterization_type != d.NOT_REPARAMETERIZED
