"""Section 6, points 20 to 29: values at the edges of arithmetic, reductions, indices
and constants.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tests.contract.worlds import (
    Call,
    agree,
    both,
    cause,
    ours,
    outcome,
    shared_world,
    theirs,
    world,
)

tf1 = tf.compat.v1
LOW, HIGH = np.iinfo("i4").min, np.iinfo("i4").max
NAN = np.nan


def build(api: Any) -> dict[str, Any]:
    ops = api.raw_ops
    i, j = api.placeholder(api.int32, name="i"), api.placeholder(api.int32, name="j")
    f, g = api.placeholder(api.float32, name="f"), api.placeholder(api.float32, name="g")
    ids = api.placeholder(api.int32, [None], name="ids")
    rows = api.placeholder(api.float32, [None, 2], name="rows")
    square = api.placeholder(api.float32, [None, None], name="square")
    image = api.placeholder(api.float32, [1, 2, 2, 1], name="image")
    return {
        "i": i,
        "j": j,
        "f": f,
        "g": g,
        "ids": ids,
        "rows": rows,
        "square": square,
        "image": image,
        "floor_div": ops.FloorDiv(x=i, y=j),
        "truncate_div": ops.TruncateDiv(x=i, y=j),
        "div": ops.Div(x=i, y=j),
        "floor_mod": ops.FloorMod(x=i, y=j),
        "truncate_mod": ops.TruncateMod(x=i, y=j),
        "left_shift": ops.LeftShift(x=i, y=j),
        "right_shift": ops.RightShift(x=i, y=j),
        "float_mod": ops.FloorMod(x=f, y=g),
        "sum": api.reduce_sum(f),
        "mean": api.reduce_mean(f),
        "max": api.reduce_max(f),
        "min": api.reduce_min(f),
        "prod": api.reduce_prod(f),
        "argmax": ops.ArgMax(input=f, dimension=0),
        "maximum": api.maximum(f, g),
        "minimum": api.minimum(f, g),
        "relu": api.nn.relu(f),
        "relu6": api.nn.relu6(f),
        "sign": api.sign(f),
        "pool": api.nn.max_pool(image, [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
        "to_int32": api.cast(f, api.int32),
        "to_int64": api.cast(f, api.int64),
        "round": api.round(f),
        "product": api.multiply(f, g),
        "segment_max": ops.UnsortedSegmentMax(data=rows, segment_ids=ids, num_segments=4),
        "segment_mean": ops.SegmentMean(data=rows, segment_ids=ids),
        "gather": api.gather(rows, ids),
        "gather_one": ops.GatherV2(params=rows, indices=i, axis=0),
        "gather_nd": api.gather_nd(rows, api.expand_dims(ids, 1)),
        "scatter_nd": api.scatter_nd(api.expand_dims(ids, 1), rows, [5, 2]),
        "one_hot": api.one_hot(ids, 3),
        "cholesky": ops.Cholesky(input=square),
        "inverse": ops.MatrixInverse(input=square),
        "spectrum": ops.RFFT(input=f, fft_length=[4]),
    }


def binary(name: str, a: str, b: str, x: Any, y: Any) -> Call:
    return lambda s, w: s.run(getattr(w, name), {getattr(w, a): x, getattr(w, b): y})


def unary(name: str, x: Any) -> Call:
    return lambda s, w: s.run(getattr(w, name), {w.f: x})


CASES: dict[str, Call] = {
    # 20
    **{
        f"{name} by zero": binary(name, "i", "j", [1, 2], [1, 0])
        for name in ("floor_div", "div", "floor_mod")
    },
    "lowest by -1": binary("floor_div", "i", "j", [LOW], [-1]),
    "shift beyond the width": binary("left_shift", "i", "j", [1, 1, 3, 1], [40, 31, -1, 2]),
    "right shift beyond the width": binary("right_shift", "i", "j", [-8, 8, 8], [40, 33, -3]),
    # 21
    "div of ints": binary("div", "i", "j", [-7, 7, -7, 7], [2, 2, -2, -2]),
    "floordiv": binary("floor_div", "i", "j", [-7, 7, -7, 7], [2, 2, -2, -2]),
    "truncatediv": binary("truncate_div", "i", "j", [-7, 7, -7, 7], [2, 2, -2, -2]),
    "floormod": binary("floor_mod", "i", "j", [-7, 7, -7, 7], [3, 3, -3, -3]),
    "truncatemod": binary("truncate_mod", "i", "j", [-7, 7, -7, 7], [3, 3, -3, -3]),
    "floormod of floats": binary("float_mod", "f", "g", [-7.5, 7.5, -7.5], [2, -2, -2]),
    # 22
    **{
        f"{name} of nothing": unary(name, [])
        for name in ("sum", "mean", "max", "min", "prod", "argmax")
    },
    # 23
    **{
        f"{name} with NaN": unary(name, [1, NAN, 2])
        for name in ("max", "min", "relu", "relu6", "sign", "argmax", "sum")
    },
    "maximum with NaN": binary("maximum", "f", "g", [1, NAN, NAN], [NAN, 1, NAN]),
    "minimum with NaN": binary("minimum", "f", "g", [1, NAN, NAN], [NAN, 1, NAN]),
    "max_pool with NaN": lambda s, w: s.run(
        w.pool, {w.image: np.array([1, NAN, 2, 3], "f4").reshape(1, 2, 2, 1)}
    ),
    # 24
    "cast beyond int32": unary("to_int32", [NAN, np.inf, -np.inf, 3e9, -3e9, 1.9, -1.9]),
    "cast beyond int64": unary("to_int64", [NAN, np.inf, -np.inf, 1e19, -1e19, 2.9]),
    "round": unary("round", [0.5, 1.5, 2.5, -0.5, -1.5, 2.4999998]),
    "denormals": binary("product", "f", "g", [1e-30, 2.0], [1e-10, 1e-40]),
    # 25
    "empty segments": lambda s, w: s.run(
        w.segment_max, {w.rows: [[1, 2], [3, -4], [5, 6]], w.ids: [0, -1, 2]}
    ),
    "gaps of SegmentMean": lambda s, w: s.run(
        w.segment_mean, {w.rows: [[1, 2], [3, 4]], w.ids: [0, 2]}
    ),
    # 26
    "gather out of range": lambda s, w: s.run(w.gather, {w.rows: np.zeros((5, 2)), w.ids: [0, 7]}),
    "gather below zero": lambda s, w: s.run(w.gather, {w.rows: np.zeros((5, 2)), w.ids: [-1]}),
    "gather one out of range": lambda s, w: s.run(w.gather_one, {w.rows: np.zeros((5, 2)), w.i: 7}),
    "gather_nd out of range": lambda s, w: s.run(
        w.gather_nd, {w.rows: np.zeros((5, 2)), w.ids: [0, 7]}
    ),
    "scatter_nd out of range": lambda s, w: s.run(
        w.scatter_nd, {w.rows: np.zeros((2, 2)), w.ids: [0, 7]}
    ),
    "one_hot out of range": lambda s, w: s.run(w.one_hot, {w.ids: [-1, 1, 7]}),
    # 27
    "inverse of a singular matrix": lambda s, w: s.run(w.inverse, {w.square: [[1, 2], [2, 4]]}),
    # 28
    "spectrum of too few": unary("spectrum", [1, 2, 3]),
    "spectrum of too many": unary("spectrum", [1, 2, 3, 4, 5, 6]),
}


ON_A_GPU = {
    # which keeps subnormals
    "denormals": np.float32([1e-30, 2]) * np.float32([1e-10, 1e-40]),
    # which reports no index: Gather gives zeros and ScatterNd leaves it out, as their documentation
    # in TensorFlow says
    "gather out of range": np.zeros((2, 2), "f4"),
    "gather below zero": np.zeros((1, 2), "f4"),
    "gather one out of range": np.zeros(2, "f4"),
    "gather_nd out of range": np.zeros((2, 2), "f4"),
    "scatter_nd out of range": np.zeros((5, 2), "f4"),
}
"""Values of a GPU where it differs from the CPU."""


@both
@pytest.mark.parametrize("name", CASES)
def test_edges(front: str, name: str) -> None:
    reference, w = shared_world("tf", build), shared_world(front, build)
    with theirs(reference) as session:
        expected = outcome(session, reference, CASES[name])
    if hardware.gpu_count() and name in ON_A_GPU:
        expected = "value", ON_A_GPU[name]
    with ours(w) as session:
        for _ in range(3):
            got = outcome(session, w, CASES[name])
            if expected[0] == "error":
                agree(got, expected, text=False)
                assert cause(got[1]) == cause(expected[1])
            elif name.startswith("spectrum"):
                np.testing.assert_allclose(got[1], expected[1], rtol=1e-6)
            else:
                agree(got, expected)


@both
def test_truncated_division_by_zero(front: str) -> None:
    """Point 20. (TensorFlow's own check of the truncating ops is for other error codes, so it says
    Internal.)
    """
    w = shared_world(front, build)
    with ours(w) as session:
        for name in ("truncate_div", "truncate_mod"):
            with pytest.raises(tfjit.errors.InternalError, match="Integer division by zero"):
                binary(name, "i", "j", [1, 2], [1, 0])(session, w)


@both
def test_what_the_sign_of_zero_may_be(front: str) -> None:
    """Point 23: maximum and relu of zeros of both signs give a zero; which one depends on where it
    stands in a packet.
    """
    w = shared_world(front, build)
    with ours(w) as session:
        assert not session.run(w.relu, {w.f: [-0.0] * 5}).any()
        assert not session.run(w.maximum, {w.f: [-0.0, 0.0] * 3, w.g: [0.0, -0.0] * 3}).any()


@both
def test_cholesky_of_a_matrix_that_has_none(front: str) -> None:
    """Point 27."""
    reference, w = shared_world("tf", build), shared_world(front, build)
    feeds: Call = lambda s, w: s.run(w.cholesky, {w.square: [[1, 2], [2, 1]]})  # noqa: E731
    with theirs(reference) as session:
        expected = outcome(session, reference, feeds)
    assert np.isnan(expected[1][np.tril_indices(2)]).all()
    with ours(w) as session:
        assert np.isnan(feeds(session, w)[np.tril_indices(2)]).all()


# 29: constants whose values are not as many as their shape says


def constant(**fields: Any) -> Any:
    graph_def = tf1.GraphDef()
    node = graph_def.node.add(name="c", op="Const")
    node.attr["dtype"].type = 1
    tensor = node.attr["value"].tensor
    tensor.dtype = 1
    for size in fields.pop("sizes", ()):
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_shape.unknown_rank = fields.pop("unknown_rank", False)
    tensor.float_val.extend(fields.pop("values", ()))
    tensor.tensor_content = fields.pop("content", b"")
    return graph_def


CONSTANTS = {
    "too many values": constant(sizes=[2], values=[1, 2, 3]),
    "one value for all": constant(sizes=[3], values=[7]),
    "no value": constant(sizes=[2]),
    "the last value for the rest": constant(sizes=[4], values=[1, 2]),
    "unknown rank": constant(unknown_rank=True, values=[1]),
    "negative dim": constant(sizes=[-1], values=[1]),
    "short content": constant(sizes=[3], content=b"\0" * 8),
    "long content": constant(sizes=[1], content=b"\0" * 8),
    "right content": constant(sizes=[2], content=np.array([1, 2], "f4").tobytes()),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    graph_def = CONSTANTS[name]

    def imported(api: Any) -> dict[str, Any]:
        api.import_graph_def(graph_def, name="")
        return {}

    def run(make: Any, front: str) -> tuple[str, Any]:
        try:
            w = world(front, imported)
        except Exception as error:
            return "error", error
        with make(w) as session:
            return outcome(session, w, lambda s, w: s.run("c:0"))

    expected = run(theirs, "tf")
    for front in ("tf", "tfjit"):
        kind, got = run(ours, front)
        assert kind == expected[0], got
        if kind == "value":
            agree((kind, got), expected)


@both
def test_constants_of_other_dtypes_are_exact(front: str) -> None:
    w: SimpleNamespace = world(
        front,
        lambda api: {
            "a": api.constant([2**53 + 1], api.int64),
            "b": api.constant([0.1], api.float64),
        },
    )
    with ours(w) as session:
        a, b = session.run([w.a, w.b])
    assert a[0] == 2**53 + 1
    assert b[0] == 0.1
    assert tfjit.int64.as_numpy_dtype is a.dtype.type
