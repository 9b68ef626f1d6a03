"""The sizes of a TensorShape as programs see them, in both of TensorFlow's ways, against
TensorFlow.
"""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf1

import tfjit
from tfjit.framework.types.dimension import Size


@pytest.fixture(params=["v2", "v1"])
def sizes(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both of TensorFlow's ways with the sizes of a shape."""
    for api in (tf1, tfjit):
        (api.disable_v2_tensorshape if request.param == "v1" else api.enable_v2_tensorshape)()
    yield request.param
    tf1.enable_v2_tensorshape()
    tfjit.enable_v2_tensorshape()


# Expressions of: api, a shape [None, 3], a shape of unknown rank.
CASES = """
s[-1]; s[0]; list(s); tuple(s); s[0] is None; s[0] == None; s[-1] == 3; 3 == s[-1]; s[-1] != 3; s[0] == s[0]
int(s[-1]); float(s[-1]); range(s[-1]); bool(s[0]); bool(s[-1]); len(s); s[:1]; s[::-1]; s[5]; s.as_list()
s[0] + 1; s[1] + 1; 1 + s[1]; s[1] - 5; 5 - s[1]; s[1] * 2; s[1] // 2; 7 // s[1]; s[1] % 2; 7 % s[1]; s[1] / 2; 2 / s[1]
s[1] ** 2; -s[1]; divmod(s[1], 2); abs(s[1]); round(s[1]); s[1] & 1; s[1] + None; s[1] + 1.5; s[1] * s[0]; s[1] // 0
s[1] < 4; s[0] < 4; s[1] >= 3; s[1] < "a"; s[1] == "a"; s[1] == 3.0; max(s[1], 2); sorted([s[1], 2]); sum(s[1:])
hash(s[1]); {s[1]: 1}; {3: 1}[s[1]]; hash(api.Dimension(3)); hash(api.Dimension(None))
str(s); repr(s); str(s[0]); str(s[1]); repr(s[1]); f"{s[1]}"; f"{s[1]:d}"; "%d" % s[1]; json.dumps([s[1]])
list(reversed(s)); reversed(u); list(u); len(u); u[0]; u[1:]; bool(u); str(u); repr(u); 3 in s; None in s; 4 in s
copy.copy(s[1]); copy.deepcopy(s[1]); copy.deepcopy(s); pickle.loads(pickle.dumps(s[1])); pickle.loads(pickle.dumps(s))
np.zeros(s[1]); np.zeros(s[1:]); np.ones((2, s[1])).shape; np.array(s[1]); np.prod(s[1:]); np.arange(s[1])
np.float32(2) * s[1]; s[1] * np.float32(2); np.ones(2, np.float32) / s[1]; np.int32(2) + s[1]; np.arange(6).reshape(2, s[1])
[1, 2, 3, 4][s[1]]; [0, 1, 2, 3][: s[1]]; "x" * s[1]; [0] * s[1]; isinstance(s[1], int); s[1] in (3,); (1,) + tuple(s)
api.Dimension(3) == 3; api.Dimension(None) == None; api.Dimension(None) != None; api.Dimension(3).value; api.Dimension(-1)
api.Dimension("a"); api.Dimension(3.0); api.Dimension(np.int64(3)).value; api.Dimension(3) / 2; 2 / api.Dimension(3)
api.Dimension(3) + None; api.Dimension(7) % api.Dimension(None); api.Dimension(3) >= api.Dimension(None)
api.Dimension(3).merge_with(None); api.Dimension(3).merge_with(4); api.Dimension(None).is_compatible_with(3)
api.Dimension(3).assert_is_compatible_with(4); bool(api.Dimension(None)); bool(api.Dimension(0)); 7 - api.Dimension(8)
pickle.loads(pickle.dumps(api.Dimension(3))); copy.deepcopy(api.Dimension(None)); 3 in [api.Dimension(3)]
api.compat.dimension_value(s[1]); api.compat.dimension_value(s[0]); api.compat.dimension_value(api.Dimension(None))
api.dimension_value(s[1]); api.dimension_at_index(s, 0); api.compat.dimension_at_index(s, -1); api.compat.dimension_at_index(u, 0)
s == [None, 3]; s != (None, 3); u == u; s == s; s == 3; s == "a"; u == None; s.merge_with([2, 3]); s.merge_with([2, 4])
s + [4]; [4] + s; s.concatenate(4); s.num_elements(); s.ndims; s.dims; s.with_rank(3); s.is_compatible_with([5, 3])
s.is_subtype_of([None, None]); s.is_subtype_of(api.TensorShape([None, None])); s.most_specific_compatible_shape([3, 3])
api.TensorShape([api.Dimension(3), None]); api.TensorShape(api.Dimension(3)); api.TensorShape(s) == s; api.TensorShape([-1])
api.zeros([s[1], 2]).shape; api.fill([2, s[1]], 1.0).shape; api.reshape(api.zeros([6]), [-1, s[1]]).shape
(api.zeros([2]) * float(s[1])).dtype.name; (s[1] + api.constant(1)).dtype.name; api.cast(s[1], api.float32).dtype.name
"""
EXPRESSIONS = [case.strip() for case in CASES.replace("\n", ";").split(";") if case.strip()]


def outcome(api: Any, expression: str) -> str:
    with api.Graph().as_default():
        names = {"api": api, "s": api.TensorShape([None, 3]), "u": api.TensorShape(None)}
        try:
            return repr(
                eval(expression, {"copy": copy, "json": json, "np": np, "pickle": pickle}, names)
            )
        except Exception as error:  # of any kind: the kind is compared
            return type(error).__name__


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_tensorflow_has_it(expression: str, sizes: str) -> None:
    assert outcome(tfjit, expression) == outcome(tf1, expression)


def test_a_program_of_tensorflow_one_without_switches() -> None:
    """The default serves `.value` and ints at once; an unknown size is None."""
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float32, [None, 3, 4])
        assert x.shape[-1].value == 4 and type(x.shape[-1].value) is int
        assert x.get_shape()[1].value == 3
        assert [d.value for d in x.shape[1:]] == [3, 4]
        assert (x.shape[1] * x.shape[2]).value == 12
        assert sum(x.shape[1:]).value == 7  # type: ignore[attr-defined]
        assert x.shape[0] is None
        assert x.shape[1].is_compatible_with(None) and not x.shape[1].is_compatible_with(4)
        assert x.shape[1].merge_with(None).value == 3
        assert tfjit.reshape(x, [-1, x.shape[1] * x.shape[2]]).shape.as_list() == [None, 12]
        assert tfjit.get_variable("w", [x.shape[1], x.shape[2].value]).shape.as_list() == [3, 4]
        assert all(type(d) is int for d in tfjit.zeros(x.shape[1:]).shape_tuple)
        assert all(type(d) is int for d in tfjit.TensorShape(tuple(x.shape[1:])).as_list())


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "+": lambda d: (d + 2, 2 + d), "-": lambda d: (d - 5, 5 - d), "*": lambda d: (d * 2, 2 * d),
    "//": lambda d: (d // 2, 7 // d), "%": lambda d: (d % 2, 7 % d),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_sizes_stay_sizes(name: str) -> None:
    """The result of an operator is an int that has `value` too."""
    for got, expected in zip(OPERATORS[name](Size(3)), OPERATORS[name](3), strict=True):
        assert got == expected and got.value == expected


def test_numpy_takes_a_size_as_a_plain_int() -> None:
    """NumPy would take an int subclass for an int64, and make float64 of float32."""
    ones = np.ones(2, np.float32)
    for result in (
        ones * Size(3),
        Size(3) * ones,
        ones / Size(3),
        np.add(ones, Size(3)),
        np.clip(ones, 0, Size(3)),
    ):
        assert result.dtype == np.float32
    ones *= Size(3)
    assert ones.tolist() == [3, 3] and ones.dtype == np.float32
