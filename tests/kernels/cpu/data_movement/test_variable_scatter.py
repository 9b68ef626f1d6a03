"""Scatters into variables: against their references, and against TensorFlow where NaNs meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

RNG = np.random.default_rng(3)
KINDS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Update")


def whole(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Small integers: sums of them are exact in any order."""
    return RNG.integers(1, 9, shape).astype(dtype)


def rows(limit: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    return RNG.integers(0, limit, shape).astype(dtype)


def updated(op: str, *inputs: np.ndarray, nchunks: int = 0) -> np.ndarray:
    """The variable behind the compiled update."""
    builder = find_native(op)
    assert builder is not None
    spec = NodeSpec("node", op, {}, tuple(tensor(a) for a in inputs), ())
    (found,) = run_native(builder(spec), inputs, (tensor(inputs[0]),), nchunks, ((0, 0),))
    return found


def expected(op: str, *inputs: np.ndarray) -> np.ndarray:
    """The variable behind the reference's update."""
    kernel = find_reference(op)
    assert kernel is not None
    variable = inputs[0].copy()
    spec = NodeSpec("node", op, {}, tuple(tensor(a) for a in inputs), ())
    kernel(spec, (variable, *inputs[1:]))
    return variable


def check(op: str, *inputs: np.ndarray, nchunks: int = 0) -> None:
    np.testing.assert_array_equal(updated(op, *inputs, nchunks=nchunks), expected(op, *inputs))


def fails(op: str, *inputs: np.ndarray) -> None:
    """Both say the same, and neither changes the variable."""
    with pytest.raises(InvalidArgumentError) as wanted:
        expected(op, *inputs)
    builder = find_native(op)
    assert builder is not None
    call = builder(NodeSpec("node", op, {}, tuple(tensor(a) for a in inputs), ()))
    kept = np.array(inputs[0])
    with pytest.raises(KernelError) as raised:
        run_native(call, (kept, *inputs[1:]), ())
    assert raised.value.args == ("InvalidArgumentError", wanted.value.message)
    np.testing.assert_array_equal(kept, inputs[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inner", [(), (5,), (2, 150)])
def test_rows_that_repeat(kind: str, inner: tuple[int, ...]) -> None:
    index = rows(20, 6, 5, dtype="int64")
    for nchunks in (1, 3):
        check(f"Scatter{kind}", whole(20, *inner), index, whole(6, 5, *inner), nchunks=nchunks)
    check(f"ResourceScatter{kind}", whole(20, *inner), index, whole(1)[0])


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("float16", "Add"), ("float64", "Div"), ("int8", "Add"), ("uint8", "Div"), ("int16", "Mul"),
     ("uint32", "Max"), ("uint64", "Min"), ("int64", "Div"), ("complex64", "Mul")],
)  # fmt: skip
def test_dtypes(dtype: str, kind: str) -> None:
    check(f"ResourceScatter{kind}", whole(7, 3, dtype=dtype), rows(7, 9), whole(9, 3, dtype=dtype))


def test_complex_quotients() -> None:
    inputs = (whole(7, dtype="complex128"), rows(7, 9), whole(9, dtype="complex128") + 2j)
    wanted = expected("ScatterDiv", *inputs)
    np.testing.assert_allclose(updated("ScatterDiv", *inputs), wanted, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["bool", "float16", "complex128", "bfloat16"])
def test_elements_of_any_size_are_moved(dtype: str) -> None:
    import ml_dtypes  # noqa: F401  (names bfloat16)

    check("ScatterUpdate", whole(7, 3, dtype=dtype), rows(7, 9), whole(9, 3, dtype=dtype))


def test_signs_of_divided_integers() -> None:
    x, y = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    check("ScatterDiv", x, np.arange(4, dtype=np.int32), y)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Max", "Min", "Update"])
def test_index_vectors(kind: str) -> None:
    index = np.stack([rows(4, 30), rows(3, 30)], -1)
    for inner in ((), (6,), (200,)):
        check(f"ScatterNd{kind}", whole(4, 3, *inner), index, whole(30, *inner), nchunks=2)
        check(f"ResourceScatterNd{kind}", whole(4, *inner), index[:, :1], whole(30, *inner))


def test_no_indices() -> None:
    none = np.zeros(0, np.int32)
    check("ScatterAdd", whole(4, 3), none, whole(0, 3))
    check("ScatterMul", whole(4, 3), none, whole(1)[0])
    check("ScatterNdAdd", whole(4, 3), none.reshape(0, 1), whole(0, 3))
    check("ScatterAdd", whole(4, 0), rows(4, 3), whole(3, 0))


def test_one_index() -> None:
    check("ScatterAdd", whole(4, 3), np.array(2, np.int64), whole(3))
    check("ScatterSub", whole(4), np.array(2, np.int32), whole(1)[0])


def test_faulty_indices_are_named_before_anything_changes() -> None:
    fails("ScatterAdd", whole(5, 2), np.array([1, 5, 9], np.int32), whole(3, 2))
    fails("ScatterUpdate", whole(5), np.array([[1, 0], [4, -3]], np.int64), whole(2, 2))
    fails("ResourceScatterMax", whole(5, 2), np.array(-(1 << 40), np.int64), whole(2))
    fails("ResourceScatterMul", whole(0, 2), np.array([0], np.int32), whole(1)[0])
    fails("ScatterNdSub", whole(5, 2), np.array([[[1, 1]], [[4, 2]]], np.int32), whole(2, 1))
    fails("ResourceScatterNdAdd", whole(5, 2), np.array([[0], [7]], np.int32), whole(2, 2))


def test_zero_is_no_divisor() -> None:
    ones, numbers = np.ones((2, 2), np.int32), np.ones((2, 2), np.float32)
    fails("ResourceScatterDiv", numbers, np.array([0, 9], np.int32), np.float32(-0.0))
    fails("ResourceScatterDiv", numbers, np.zeros(0, np.int32), np.float32(0))
    check("ScatterDiv", numbers, np.array([0], np.int32), np.float32(0))
    fails("ScatterDiv", ones, np.array([0, 1], np.int32), np.array([[1, 1], [1, 0]], np.int32))
    fails("ScatterDiv", ones, np.array([0, 1], np.int32), np.int32(0))
    fails("ScatterDiv", ones, np.array([0, 2], np.int32), np.int32(0))


def test_shapes_that_do_not_fit_are_left_to_the_reference() -> None:
    builder = find_native("ScatterAdd")
    assert builder is not None
    for inputs in (
        (whole(5, 2), rows(5, 3), whole(3)),
        (whole(1)[0], rows(1, 3), whole(3)),
        (whole(5, 2), rows(5, 3), whole(3, 2, dtype="float64")),
    ):
        with pytest.raises(Unsupported):
            builder(NodeSpec("node", "ScatterAdd", {}, tuple(map(tensor, inputs)), ()))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_scatters(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 9))
    inner = tuple(data.draw(st.lists(st.integers(1, 20), max_size=2)))
    many = tuple(data.draw(st.lists(st.integers(0, 9), max_size=2)))
    index = rows(count, *many, dtype=data.draw(st.sampled_from(["int32", "int64"])))
    kind = data.draw(st.sampled_from(["Add", "Max", "Update"]))
    one = data.draw(st.booleans())
    updates: Any = whole(1)[0] if one else whole(*many, *inner)
    nchunks = data.draw(st.sampled_from([0, 1, 2, 5]))
    check(f"Scatter{kind}", whole(count, *inner), index, updates, nchunks=nchunks)


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_tensorflow(kind: str) -> None:
    tf = pytest.importorskip("tensorflow")
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    x = np.array([0, -0.0, nan, inf, -inf, 1, 2, 3], np.float32)
    index = np.array([0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7], np.int32)
    zero = np.float32(0 if kind != "Div" else 8)
    updates = np.array([nan, 1, -zero, 5, nan, -inf, inf, 3, nan, zero, -2], np.float32)
    fn = getattr(tf.raw_ops, f"ResourceScatter{kind}")
    for shape in ((), (1,), (3,)):  # TensorFlow has code of its own for single elements
        values, changes = (np.broadcast_to(a.reshape(-1, *([1] * len(shape))), (len(a), *shape))
                           for a in (x, updates))  # fmt: skip
        variable = tf.Variable(values)
        fn(resource=variable.handle, indices=index, updates=changes)
        found = updated(f"ResourceScatter{kind}", np.ascontiguousarray(values), index, changes)
        np.testing.assert_array_equal(found, variable.numpy())
    for value in (nan, np.float32(2), zero):
        variable = tf.Variable(x)
        fn(resource=variable.handle, indices=index, updates=value)
        found = updated(f"ResourceScatter{kind}", x, index, np.asarray(value))
        np.testing.assert_array_equal(found, variable.numpy())


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", ["ScatterAdd", "ResourceScatterUpdate"])
def test_padding_is_ignored(op: str, dtype: str) -> None:
    """And a fault in front of it is not."""
    variable, updates = whole(6, 3), whole(5, 3)
    indices = np.array([4, 1, 5, 0, 0], dtype)
    indices[3:] = np.iinfo(dtype).min
    kernel, builder = find_reference(op), find_native(op)
    assert kernel is not None and builder is not None

    def both(indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs = (variable.copy(), indices, updates)
        spec = NodeSpec("node", op, {"_padded": True}, tuple(tensor(a) for a in inputs), ())
        (found,) = run_native(builder(spec), inputs, (tensor(variable),), 0, ((0, 0),))
        kernel(spec, inputs)
        return found, inputs[0]

    found, wanted = both(indices)
    np.testing.assert_array_equal(found, expected(op, variable, indices[:3], updates[:3]))
    np.testing.assert_array_equal(found, wanted)
    found, wanted = both(np.full_like(indices, indices[4]))
    np.testing.assert_array_equal(found, variable)
    np.testing.assert_array_equal(wanted, variable)
    indices[1] = 6
    with pytest.raises((InvalidArgumentError, KernelError), match=r"indices\[1\] = 6"):
        both(indices)
    indices[1] = indices[4]  # padding in front of an index is a fault as well
    with pytest.raises((InvalidArgumentError, KernelError)):
        both(indices)
