"""Made-up values of feeds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tfjit
from tfjit.framework.errors import InvalidArgumentError
from tfjit.lab.measure.feeds import feed_values, random_feed


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_numbers_with_a_fraction(dtype: type) -> None:
    value = random_feed("x:0", (3, 5), np.dtype(dtype))
    assert value.shape == (3, 5) and value.dtype == dtype
    assert (value.astype(float) > 0.09).all() and (value.astype(float) <= 1).all()
    assert np.array_equal(value, random_feed("x:0", (3, 5), np.dtype(dtype)))
    assert not np.array_equal(value, random_feed("y:0", (3, 5), np.dtype(dtype)))


def test_other_dtypes() -> None:
    assert set(random_feed("x:0", (50,), np.dtype(np.int32)).tolist()) == {0, 1}
    assert random_feed("x:0", (2,), np.dtype(np.complex64)).imag.all()
    assert random_feed("x:0", (2,), np.dtype(bool)).dtype == bool
    with pytest.raises(InvalidArgumentError, match="x:0 takes strings"):
        random_feed("x:0", (2,), np.dtype(object))


def test_placeholders_behind_the_fetches_get_values() -> None:
    graph = tfjit.Graph()
    with graph.as_default():
        a = tfjit.placeholder(tfjit.float32, [2, 3], name="a")
        b = tfjit.placeholder(tfjit.float32, [None, 3], name="b")
        tfjit.placeholder(tfjit.string, [], name="unused")
        tfjit.add(a, b, name="y")
    found = feed_values(graph, ["y:0"], {}, {"b:0": (1, 3)})
    assert {name: value.shape for name, value in found.items()} == {"a:0": (2, 3), "b:0": (1, 3)}
    given = np.ones((4, 3), np.float32)
    assert feed_values(graph, ["y:0"], {"b:0": given}, {})["b:0"] is given
    with pytest.raises(InvalidArgumentError, match=r"b:0=FILE.npy.*b:0=SIZES"):
        feed_values(graph, ["y:0"], {}, {})
