"""Tests of scatters and sums of segments by simulated threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_node, run_node_state
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import Unsupported

TABLE = np.arange(30, dtype=np.float32).reshape(5, 6)
ROWS = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Update")
VECTORS = ("Add", "Sub", "Max", "Min", "Update")


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Small integers: sums of them are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(1, 5, shape).astype(dtype)


def vectors(count: int, *limits: int, dtype: str = "int32") -> np.ndarray:
    rng = np.random.default_rng(count)
    return np.stack([rng.integers(0, n, count) for n in limits], -1).astype(dtype)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("prefix", ["Scatter", "ResourceScatter"])
def test_rows_of_variables(kind: str, prefix: str) -> None:
    """Rows repeat: the order of products, quotients and replacements is that of the indices."""
    rows = np.int64([[4, 0, 4], [1, 4, 0]])
    check(f"{prefix}{kind}", values(5, 3), rows, np.float32(1.25) * values(2, 3, 3))
    check(f"{prefix}{kind}", values(5), np.int32([2, 2, 0]), values(3))
    check(f"{prefix}{kind}", values(5, 3), np.int32([2, 2, 0]), np.float32(3))


@pytest.mark.parametrize("kind", VECTORS)
@pytest.mark.parametrize("prefix", ["ScatterNd", "ResourceScatterNd", "TensorScatter"])
def test_rows_by_vectors(kind: str, prefix: str) -> None:
    op = f"{prefix}{kind}"
    check(op, values(4, 3, 5), vectors(9, 4), values(9, 3, 5))
    check(op, values(4, 3, 2), vectors(9, 4, 3, dtype="int64"), values(9, 2))
    check(op, values(4, 3), vectors(6, 4, 3).reshape(2, 3, 2), values(2, 3))


def test_sums_by_a_legacy_name() -> None:
    check("ScatterNdNonAliasingAdd", values(4, 3), vectors(9, 4), values(9, 3))
    flags = np.array([True, False])
    places = np.array([[1], [0], [1], [0]], np.int32)
    check("ScatterNd", places, np.array([True, False, False, True]), np.int32([3]))
    with pytest.raises(Unsupported, match="sums of bool"):
        call_of("ScatterNdNonAliasingAdd", [flags, np.int32([[1]]), flags[:1]], [tensor(flags)])


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "int8", "uint8", "int16", "int64", "uint32", "complex64"]
)
def test_types(dtype: str) -> None:
    target, indices, updates = values(4, 3, dtype=dtype), vectors(7, 4), values(7, 3, dtype=dtype)
    for kind in VECTORS:
        if not (dtype == "complex64" and kind in ("Max", "Min")):
            check(f"TensorScatter{kind}", target, indices, updates)
    check("ScatterNd", indices, updates, np.int32([4, 3]))
    check("ResourceScatterMul", target, indices[:, 0], updates)


@pytest.mark.parametrize("kind", ROWS)
def test_values_of_tensorflow(kind: str) -> None:
    """Beside NaN, infinities and zeros, with rows that repeat."""
    tf = pytest.importorskip("tensorflow")
    nan, inf = np.nan, np.inf
    x = np.float32([0, -0.0, nan, inf, -inf, 1, 2, 3])
    index = np.int32([0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7])
    zero = 0.0 if kind != "Div" else 8.0
    updates = np.float32([nan, 1, -zero, 5, nan, -inf, inf, 3, nan, zero, -2])
    variable, op = tf.Variable(x), f"ResourceScatter{kind}"
    getattr(tf.raw_ops, op)(resource=variable.handle, indices=index, updates=updates)
    _, after = run_node_state(find_builder(op), op, [x, index, updates], [])
    np.testing.assert_array_equal(after[0], variable.numpy())
    if kind in VECTORS:
        op, inputs = f"TensorScatter{kind}", [x, index[:, None], updates]
        wanted = getattr(tf.raw_ops, op)(
            tensor=inputs[0], indices=inputs[1], updates=inputs[2]
        ).numpy()
        (found,) = run_node(find_builder(op), op, inputs, [x])
        np.testing.assert_array_equal(found, wanted)


def test_flags() -> None:
    flags = np.array([True, False, True])
    check("TensorScatterUpdate", flags, np.int32([[1], [1]]), np.array([True, False]))
    check("ScatterNd", np.int32([[1], [1]]), np.array([False, True]), np.int32([3]))


def test_indices_out_of_range_change_nothing() -> None:
    rows = np.int32([4, -1, 0, 5, 4, 2**31 - 1, -(2**31)])
    good = np.array([0, 2, 4])
    updates = values(7, 6)
    for kind in ROWS:
        op = f"ResourceScatter{kind}"
        check(op, TABLE, rows, updates, reference=[TABLE, rows[good], updates[good]])
    bad = np.int64([[0, 1], [1, 6], [-1, 2], [4, 5], [5, 0], [1 << 62, 1 << 62]])
    good = np.array([0, 3])
    for kind in VECTORS:
        op, single = f"TensorScatter{kind}", values(6)
        check(op, TABLE, bad, single, reference=[TABLE, bad[good], single[good]])


def test_no_rows() -> None:
    none = np.zeros(0, np.int32)
    for shape, rows in (((5, 6), none), ((0, 6), none), ((5, 0), np.int32([1]))):
        inputs = [np.zeros(shape, np.float32), rows, np.zeros((len(rows), *shape[1:]), np.float32)]
        assert call_of("ResourceScatterAdd", inputs, []).launches == ()


def test_forms_that_are_left_to_the_host() -> None:
    whole = values(5, dtype="int64")
    with pytest.raises(Unsupported, match="fails for zeros"):
        call_of("ResourceScatterDiv", [whole, np.int32([1]), whole[:1]], [])
    indices, updates = vectors(2, 5), values(2, 6)
    with pytest.raises(Unsupported, match="policy ERROR is the host's"):
        call_of(
            "TensorScatterAdd", [TABLE, indices, updates], [tensor(TABLE)],
            bad_indices_policy=b"ERROR",
        )  # fmt: skip
    with pytest.raises(Unsupported, match="do not fit"):
        call_of("TensorScatterAdd", [TABLE, indices, updates[:, :2]], [tensor(TABLE)])


def test_a_divisor_of_zero_gives_infinity() -> None:
    builder = find_builder("ResourceScatterDiv")
    inputs = [np.float32([1, -1, 0]), np.int32([0, 1, 2]), np.zeros(3, np.float32)]
    _, after = run_node_state(builder, "ResourceScatterDiv", inputs, [])
    np.testing.assert_array_equal(after[0], np.float32([np.inf, -np.inf, np.nan]))


@pytest.mark.parametrize("kind", ["Sum", "Prod", "Max", "Min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_segments(kind: str, dtype: str) -> None:
    op, count = f"UnsortedSegment{kind}", np.int32(3)
    check(op, values(4, 3, dtype=dtype), np.int32([1, 0, 1, -1]), count)
    check(op, values(2, 3, 2, dtype=dtype), np.int64([[2, 0, 0], [2, 2, -5]]), count)
    check(op, values(0, 2, dtype=dtype), np.int32([]), count)
    data, ids = values(4, dtype=dtype), np.int32([0, 3, 0, 9])
    check(op, data, ids, count, reference=[data[::2], ids[::2], count])


def test_no_registers_are_spilled() -> None:
    indices, row = vectors(7, 4, 3), vectors(7, 4)[:, 0]
    calls = [
        call_of("TensorScatterAdd", [target, indices, values(7, dtype=dtype)], [tensor(target)])
        for dtype in ("float32", "float16")
        for target in [values(4, 3, dtype=dtype)]
    ]
    calls.append(call_of("ResourceScatterUpdate", [values(4, 3), row, values(7, 3)], []))
    segments = [values(7, 3, dtype="int64"), row, np.int32(4)]
    calls.append(call_of("UnsortedSegmentMax", segments, [tensor(values(4, 3, dtype="int64"))]))
    for found in resources([call.launches[-1].source for call in calls], *ALL):
        assert found.local_bytes == 0 and found.registers <= 64
