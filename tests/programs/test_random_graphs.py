"""Random small graphs, drawn by hypothesis and built with TensorFlow: compiled, unfused and
reference results against TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tests.programs.surroundings import environment

tf1 = tf.compat.v1

MODES = {
    "fused": {"TFJIT_JIT": "eager", "TFJIT_VERIFY": "1"},
    "unfused": {"TFJIT_JIT": "eager", "TFJIT_DISABLE": "fuse"},
    "reference": {"TFJIT_JIT": "off"},
    "plain dataflow": {
        "TFJIT_JIT": "off",
        "TFJIT_DISABLE": "straight_line,fuse,simplify,fold_constants,eliminate_common_subexpressions",
    },
}

# bounded functions with bounded slopes: what is compared is the machinery, and errors must not grow
# along a chain
UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "neg": tf.negative,
    "abs": tf.abs,
    "sin": tf.sin,
    "softplus": tf.nn.softplus,
    "elu": tf.nn.elu,
    "half": lambda x: x * 0.5,
    "shift": lambda x: x - 0.25,
    "identity": tf.identity,
    "stop": tf.stop_gradient,
    "through double": lambda x: tf.cast(tf.cast(x, tf.float64), tf.float32),
    "sign of": lambda x: tf.sign(tf.round(x * 4.0)),
    "floor": lambda x: tf.floor(x * 0.99999 + 0.123456),
    "clip": lambda x: tf.clip_by_value(x, -0.75, 0.75),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "rsqrt": lambda x: tf.math.rsqrt(1.0 + x * x),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": lambda x, y: tf.tanh(x) * tf.tanh(y),
    "max": tf.maximum,
    "min": tf.minimum,
    "div": lambda x, y: x / (2.0 + tf.abs(y)),
    "square difference": lambda x, y: tf.math.squared_difference(tf.tanh(x), tf.tanh(y)),
    "select": lambda x, y: tf.where(tf.greater(x, y), x * 0.5, y),
    "less": lambda x, y: tf.cast(
        tf.logical_or(tf.less(x, y), tf.greater_equal(x, 0.5)), tf.float32
    ),
}


@dataclass
class Drawn:
    """A graph being built: values with known shapes, feeds with their arrays, and one line of text
    a node.
    """

    graph: Any
    values: list[Any] = field(default_factory=list)
    feeds: dict[Any, np.ndarray] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)

    def add(self, value: Any, text: str) -> None:
        self.values.append(value)
        self.text.append(f"{len(self.values) - 1}: {text} -> {value.shape}")


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape.as_list())


def draw_value(
    draw: Any, drawn: Drawn, accept: Callable[[tuple[int, ...]], bool] = lambda shape: True
) -> tuple[int, Any] | None:
    possible = [(i, v) for i, v in enumerate(drawn.values) if accept(shape_of(v))]
    return draw(st.sampled_from(possible)) if possible else None


def add_source(draw: Any, drawn: Drawn, shape: tuple[int, ...], kind: str) -> None:
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    array = np.asarray(rng.uniform(-1, 1, shape), "f4")
    if kind == "constant":
        drawn.add(tf.constant(array), f"constant {shape}")
        return
    unknown = draw(st.sampled_from(["known", "rows", "none"]))
    static: Any = (
        list(shape)
        if unknown == "known" or not shape
        else [None, *shape[1:]]
        if unknown == "rows"
        else None
    )
    x = tf1.placeholder(tf.float32, static)
    drawn.feeds[x] = array
    # later choices need the sizes, so the value is told its shape when the placeholder does not
    # know it
    drawn.add(
        x if unknown == "known" else tf.ensure_shape(x, shape), f"placeholder {static} fed {shape}"
    )


def add_node(draw: Any, drawn: Drawn) -> None:
    kind = draw(
        st.sampled_from(
            ["unary"] * 3 + ["binary"] * 4 + ["reduce", "matmul", "array", "array", "rows"]
        )
    )
    i, x = draw_value(draw, drawn)  # type: ignore[misc]
    shape = shape_of(x)
    if kind == "unary":
        name = draw(st.sampled_from(sorted(UNARY)))
        drawn.add(UNARY[name](x), f"{name}({i})")
    elif kind == "binary":
        found = draw_value(draw, drawn, lambda other: _broadcasts(shape, other))
        assert found is not None
        j, y = found
        name = draw(st.sampled_from(sorted(BINARY)))
        drawn.add(BINARY[name](x, y), f"{name}({i}, {j})")
    elif kind == "reduce":
        axes = draw(st.sets(st.integers(0, len(shape) - 1))) if shape else set()
        keep = draw(st.booleans())
        name = draw(st.sampled_from(["sum", "mean", "max", "min", "all"]))
        if name != "sum" and 0 in shape:
            return  # the mean of nothing is nan and its maximum infinite: both end every comparison
        axis = None if name == "all" else sorted(axes)
        function = {
            "sum": tf.reduce_sum,
            "mean": tf.reduce_mean,
            "max": tf.reduce_max,
            "min": tf.reduce_min,
            "all": tf.reduce_sum,
        }[name]
        drawn.add(tf.tanh(function(x, axis=axis, keepdims=keep)), f"{name}({i}, {axis}, {keep})")
    elif kind == "matmul":
        if len(shape) != 2:
            return
        ta, tb = draw(st.booleans()), draw(st.booleans())
        inner = shape[0] if ta else shape[1]
        found = draw_value(
            draw, drawn, lambda other: len(other) == 2 and (other[1] if tb else other[0]) == inner
        )
        if found is None:
            return
        j, y = found
        drawn.add(tf.tanh(tf.matmul(x, y, ta, tb)), f"matmul({i}, {j}, {ta}, {tb})")
    elif kind == "array":
        add_array_op(draw, drawn, i, x, shape)
    elif shape and shape[-1] > 0:
        name = draw(st.sampled_from(["softmax", "log softmax", "bias"]))
        if name == "bias" and len(shape) >= 2:
            drawn.add(
                tf.nn.bias_add(x, tf.constant(np.linspace(-1, 1, shape[-1], dtype="f4"))),
                f"bias({i})",
            )
        elif name == "softmax":
            drawn.add(tf.nn.softmax(x), f"softmax({i})")
        else:
            drawn.add(tf.nn.log_softmax(x) * 0.125, f"log softmax({i})")


def add_array_op(draw: Any, drawn: Drawn, i: int, x: Any, shape: tuple[int, ...]) -> None:
    name = draw(
        st.sampled_from(
            [
                "transpose",
                "reshape",
                "expand",
                "slice",
                "concat",
                "pad",
                "tile",
                "stack",
                "reverse",
                "gather",
                "split",
            ]
        )
    )
    axis = draw(st.integers(0, len(shape) - 1)) if shape else 0
    size = int(np.prod(shape, dtype=int))
    if name == "transpose":
        order = draw(st.permutations(range(len(shape))))
        drawn.add(tf.transpose(x, order), f"transpose({i}, {order})")
    elif name == "reshape":
        new = draw(
            st.sampled_from(
                [[size], [-1] if size else [0], [*shape, 1], [1, *shape], list(reversed(shape))]
            )
        )
        drawn.add(tf.reshape(x, new), f"reshape({i}, {new})")
    elif name == "expand":
        at = draw(st.integers(0, len(shape)))
        drawn.add(tf.expand_dims(x, at), f"expand({i}, {at})")
    elif name == "stack":
        drawn.add(tf.stack([x, x * 0.5], axis=0), f"stack({i})")
    elif not shape:
        return
    elif name == "slice":
        begin = draw(st.integers(0, shape[axis]))
        end = draw(st.integers(begin, shape[axis]))
        stride = draw(st.sampled_from([1, 2, -1]))
        index = [slice(None)] * len(shape)
        index[axis] = slice(begin, end, stride) if stride > 0 else slice(None, None, -1)
        drawn.add(x[tuple(index)], f"slice({i}, {axis}, {begin}, {end}, {stride})")
    elif name == "concat":
        found = draw_value(
            draw,
            drawn,
            lambda other: (
                len(other) == len(shape)
                and all(
                    a == b for k, (a, b) in enumerate(zip(shape, other, strict=True)) if k != axis
                )
            ),
        )
        assert found is not None
        drawn.add(tf.concat([x, found[1], x], axis), f"concat({i}, {found[0]}, {axis})")
    elif name == "pad":
        widths = [[draw(st.integers(0, 2)), draw(st.integers(0, 2))] for _ in shape]
        drawn.add(tf.pad(x, widths, constant_values=0.5), f"pad({i}, {widths})")
    elif name == "tile":
        times = [draw(st.integers(0, 2)) if k == axis else 1 for k in range(len(shape))]
        drawn.add(tf.tile(x, times), f"tile({i}, {times})")
    elif name == "reverse":
        drawn.add(tf.reverse(x, [axis]), f"reverse({i}, {axis})")
    elif name == "gather" and shape[axis]:
        rows = draw(st.lists(st.integers(0, shape[axis] - 1), max_size=4))
        drawn.add(tf.gather(x, np.array(rows, "i4"), axis=axis), f"gather({i}, {rows}, {axis})")
    elif name == "split" and shape[axis]:
        first = draw(st.integers(0, shape[axis]))
        parts = tf.split(x, [first, shape[axis] - first], axis)
        drawn.add(parts[draw(st.integers(0, 1))], f"split({i}, {first}, {axis})")


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return int(np.prod(shape, dtype=int)) <= 4000


@st.composite
def graphs(draw: Any) -> tuple[Drawn, list[Any]]:
    """A graph and what to fetch of it."""
    base = draw(
        st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 17]), max_size=3).filter(
            lambda s: np.prod(s, dtype=int) <= 400
        )
    )
    drawn = Drawn(tf1.Graph())
    with drawn.graph.as_default():
        add_source(draw, drawn, tuple(base), "placeholder")
        for _ in range(draw(st.integers(1, 3))):
            # shapes that broadcast against the first, or multiply with it
            shape = tuple(
                draw(st.sampled_from([d, 1])) for d in base[draw(st.integers(0, len(base))) :]
            )
            shape = draw(st.sampled_from([shape, tuple(base), tuple(reversed(base))]))
            add_source(draw, drawn, shape, draw(st.sampled_from(["placeholder", "constant"])))
        for _ in range(draw(st.integers(1, 14))):
            add_node(draw, drawn)
            if int(np.prod(shape_of(drawn.values[-1]), dtype=int)) > 20_000:
                drawn.values.pop()
                break
    count = draw(st.integers(1, 4))
    fetches = [drawn.values[-1]] + [draw(st.sampled_from(drawn.values)) for _ in range(count - 1)]
    return drawn, fetches


def check(drawn: Drawn, fetches: list[Any], modes: dict[str, dict[str, str]]) -> None:
    with tf1.Session(graph=drawn.graph) as session:
        expected = session.run(fetches, drawn.feeds)
    for name, variables in modes.items():
        with environment(variables), tfjit.Session(graph=drawn.graph) as session:
            for _ in range(2):
                got = session.run(fetches, {x: array.copy() for x, array in drawn.feeds.items()})
                for fetch, a, b in zip(fetches, got, expected, strict=True):
                    where = f"{name}, {fetch.name} of\n" + "\n".join(drawn.text)
                    assert np.shape(a) == np.shape(b), where
                    np.testing.assert_allclose(a, b, rtol=2e-5, atol=4e-6, err_msg=where)


OPTIONS: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
}


@settings(max_examples=150, **OPTIONS)
@given(graphs())
def test_without_compilation(case: tuple[Drawn, list[Any]]) -> None:
    check(*case, {name: MODES[name] for name in ("reference", "plain dataflow")})


@settings(max_examples=60, **OPTIONS)
@given(graphs())
def test_compiled(case: tuple[Drawn, list[Any]]) -> None:
    check(*case, {name: MODES[name] for name in ("fused", "unfused")})


@pytest.mark.parametrize("jit", ["off", "eager"])
def test_every_operation_alone(jit: str) -> None:
    """Each function of the tables above over the shapes that matter: scalar, empty, one row, odd
    sizes, broadcast.
    """
    shapes = [
        ((), ()),
        ((0,), (1,)),
        ((1,), (7,)),
        ((3, 5), (5,)),
        ((2, 1, 4), (3, 1)),
        ((0, 3), (1, 3)),
        ((17, 3), (17, 1)),
    ]
    for first, second in shapes:
        graph = tf1.Graph()
        with graph.as_default():
            x, y = tf1.placeholder(tf.float32, first), tf1.placeholder(tf.float32, second)
            fetches = {name: function(x) for name, function in UNARY.items()}
            fetches |= {name: function(x, y) for name, function in BINARY.items()}
        rng = np.random.default_rng(3)
        feeds = {x: rng.uniform(-1, 1, first), y: rng.uniform(-1, 1, second)}
        with (
            environment({"TFJIT_JIT": jit}),
            tf1.Session(graph=graph) as theirs,
            tfjit.Session(graph=graph) as ours,
        ):
            expected, got = theirs.run(fetches, feeds), ours.run(fetches, feeds)
        for name, value in expected.items():
            assert np.shape(got[name]) == np.shape(value), name
            np.testing.assert_allclose(
                got[name], value, rtol=4e-6, atol=1e-6, err_msg=f"{name} of {first} and {second}"
            )
