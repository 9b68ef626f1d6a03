"""Tabulate matmul, convolution and pooling cases.

The tests of reference and compiled kernels share the table. Sizes differ in every dimension; empty
and one-element axes are among them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tests import oracle
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import NodeSpec, TensorSpec


@dataclass(frozen=True)
class Case:
    """Describe one node.

    Op type, input arrays (by seed, built in `arrays`), attrs as TensorFlow's raw op takes them.
    """

    op: str
    shapes: tuple[tuple[int, ...], ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    ints: tuple[int, ...] = ()  # inputs that are int32 vectors holding `shapes[i]` itself

    def __str__(self) -> str:
        parts = [self.op, *("x".join(map(str, s)) or "scalar" for s in self.shapes)]
        parts += [
            f"{k}={v}" for k, v in self.attrs.items() if k not in ("data_format",) or v != "NHWC"
        ]
        return "-".join(parts + ([self.dtype] if self.dtype != "float32" else [])).replace(" ", "")

    @property
    def terms(self) -> int:
        """Return the number of products summed for one element.

        It is an upper bound.
        """
        if "MatMul" in self.op:
            return self.shapes[0][
                -2 if self.attrs.get("transpose_a") or self.attrs.get("adj_x") else -1
            ]
        if "Pool" in self.op:
            return int(np.prod(self.attrs["ksize"]))
        if "Filter" in self.op:
            return int(np.prod(self.shapes[2][:3]))
        w = self.shapes[1]
        if "Depthwise" in self.op:
            return w[0] * w[1] * w[3]
        return w[0] * w[1] * (w[3] if "Input" in self.op else w[2])

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """Random inputs, the same for every caller."""
        rng = np.random.default_rng([seed, *self.op.encode()])
        made = []
        for i, shape in enumerate(self.shapes):
            if i in self.ints:
                made.append(np.array(shape, np.int32))
            else:
                dtype = dtypes.as_dtype(self.dtype).as_numpy_dtype
                made.append(
                    rng.standard_normal(shape).astype(np.float64).astype(dtype)
                    if dtype != np.int32
                    else rng.integers(-9, 9, shape, dtype)
                )
        return made


NAMES: dict[str, tuple[str, ...]] = {
    "MatMul": ("a", "b"),
    "BatchMatMul": ("x", "y"),
    "BatchMatMulV2": ("x", "y"),
    "BatchMatMulV3": ("x", "y"),
    "Conv2D": ("input", "filter"),
    "Conv2DBackpropInput": ("input_sizes", "filter", "out_backprop"),
    "Conv2DBackpropFilter": ("input", "filter_sizes", "out_backprop"),
    "DepthwiseConv2dNative": ("input", "filter"),
    "DepthwiseConv2dNativeBackpropInput": ("input_sizes", "filter", "out_backprop"),
    "DepthwiseConv2dNativeBackpropFilter": ("input", "filter_sizes", "out_backprop"),
    "MaxPool": ("input",),
    "MaxPoolV2": ("input", "ksize", "strides"),
    "AvgPool": ("value",),
    "MaxPoolGrad": ("orig_input", "orig_output", "grad"),
    "AvgPoolGrad": ("orig_input_shape", "grad"),
}


def run_tensorflow(op: str, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    """TensorFlow's answer; without it, as on a lent GPU, that of the host's references."""
    if importlib.util.find_spec("tensorflow") is None:
        return run_reference(op, arrays, attrs)
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        # Placeholders, or TensorFlow folds the node away; a graph, because eager kernels differ
        # where NaN meets a maximum.
        holders = [tf.compat.v1.placeholder(a.dtype, a.shape) for a in arrays]
        # TensorFlow works on sizes while it builds the node, so an integer vector stays a constant.
        fed = [
            tf.constant(a) if a.dtype == np.int32 and a.ndim == 1 else h
            for a, h in zip(arrays, holders, strict=True)
        ]
        out = getattr(tf.raw_ops, op)(**dict(zip(NAMES[op], fed, strict=True)), **attrs)
        try:
            result = session.run(out, dict(zip(holders, arrays, strict=True)))
        except tf.errors.OpError as error:
            if not oracle.refused(error.message):
                raise
            result = ask_onednn(out.graph, [out], dict(zip(holders, arrays, strict=True)))[0]
    return np.asarray(result)


def run_reference(op: str, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    """The answer of tfjit's references, which other tests compare with TensorFlow's."""
    import tfjit

    config = tfjit.ConfigProto(device_count={"GPU": 0})
    config.graph_options.optimizer_options.global_jit_level = -1
    with tfjit.Graph().as_default() as graph, tfjit.Session(graph=graph, config=config) as session:
        fed = [tfjit.constant(np.array(a)) for a in arrays]
        out = getattr(tfjit.raw_ops, op)(**dict(zip(NAMES[op], fed, strict=True)), **attrs)
        return np.asarray(session.run(out))


def ask_onednn(
    graph: Any, fetches: Sequence[Any], feeds: Mapping[Any, np.ndarray]
) -> list[np.ndarray]:
    """Compute tensors of a tf.Graph by TensorFlow with oneDNN.

    For cases that its modes answer differently.
    """
    given = {holder.name: value for holder, value in feeds.items()}
    answer = oracle.ask(
        "oneDNN",
        graph.as_graph_def().SerializeToString(),
        [tensor.name for tensor in fetches],
        given,
    )
    assert not isinstance(answer, oracle.Failure), answer
    return answer


def run_tensorflow_pool_and_grad(
    x: np.ndarray, attrs: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """MaxPool of x, which may hold NaN, and its gradient for ones.

    In one graph, where TensorFlow's pair of kernels agrees on the place of the maximum.
    """
    if importlib.util.find_spec("tensorflow") is None:
        y = run_reference("MaxPool", [x], attrs)
        return y, run_reference("MaxPoolGrad", [x, y, np.ones_like(y)], attrs)
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        holder = tf.compat.v1.placeholder(x.dtype, x.shape)
        y = tf.raw_ops.MaxPool(input=holder, **attrs)
        grad = tf.raw_ops.MaxPoolGrad(
            orig_input=holder, orig_output=y, grad=tf.ones_like(y), **attrs
        )
        pair = ask_onednn(graph, [y, grad], {holder: x})
    return pair[0], pair[1]


def node_spec(
    op: str,
    arrays: Sequence[np.ndarray],
    attrs: dict[str, Any],
    out: np.ndarray,
    constants: Sequence[int] = (),
) -> NodeSpec:
    """Return the NodeSpec of a node with those inputs and that output.

    `constants` are input indices known while planning.
    """
    held = {
        k: dtypes.as_dtype(v)
        if k == "Tout"
        else v.encode()
        if isinstance(v, str)
        else tuple(v)
        if isinstance(v, list)
        else v
        for k, v in attrs.items()
    }

    def spec(a: np.ndarray) -> TensorSpec:
        return TensorSpec(dtypes.as_dtype(a.dtype), tuple(a.shape))

    return NodeSpec(
        "node",
        op,
        held,
        tuple(spec(a) for a in arrays),
        (spec(out),),
        {i: arrays[i] for i in constants},
    )


def pooled(grad_shape_of: Sequence[int], attrs: dict[str, Any]) -> tuple[int, ...]:
    """Output shape of pooling or convolving spatially."""
    b, h, w, c = grad_shape_of
    _, kh, kw, _ = attrs["ksize"]
    _, sh, sw, _ = attrs["strides"]
    if attrs["padding"] == "SAME":
        return (b, -(-h // sh), -(-w // sw), c)
    return (b, (h - kh) // sh + 1, (w - kw) // sw + 1, c)


MATMUL_SIZES = (
    (1, 1, 1), (1, 128, 64), (5, 7, 3), (21, 50, 2), (9, 800, 1), (13, 33, 17),
    (37, 65, 70), (2, 500, 33), (100, 3, 1), (3, 900, 40),
)  # fmt: skip


@cache
def matmul_cases() -> tuple[Case, ...]:
    """Matrix products, with every transposition, odd sizes and empty axes."""
    found = [
        Case(
            "MatMul",
            ((m, k) if not ta else (k, m), (k, n) if not tb else (n, k)),
            {"transpose_a": ta, "transpose_b": tb},
            dtype,
        )
        for m, k, n in MATMUL_SIZES
        for ta in (False, True)
        for tb in (False, True)
        for dtype in ("float32", "float64")
    ]
    # A is transposed first
    found += [
        Case("MatMul", ((k, m), (k, 260)), {"transpose_a": True}, dtype)
        for m, k, dtype in ((70, 389, "float32"), (512, 800, "float32"), (9, 400, "float64"))
    ]
    found += [Case("MatMul", s) for s in (((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)))]
    found += [
        Case("BatchMatMulV2", ((2, 3, 5, 7), (2, 3, 7, 4))),
        Case("BatchMatMulV2", ((2, 1, 5, 7), (3, 7, 40)), {"adj_x": False, "adj_y": False}),
        Case("BatchMatMulV2", ((2, 3, 7, 5), (2, 1, 4, 7)), {"adj_x": True, "adj_y": True}),
        Case("BatchMatMulV2", ((4, 5, 7), (7, 4)), {"adj_x": False, "adj_y": False}, "float64"),
        Case("BatchMatMulV2", ((0, 5, 7), (7, 4))),
        Case("BatchMatMul", ((3, 14, 70), (3, 70, 33))),
        Case("BatchMatMulV2", ((3, 2, 20), (3, 20, 300))),
        Case("BatchMatMulV2", ((3, 20, 1), (3, 20, 300)), {"adj_x": True, "adj_y": False}),
        Case("BatchMatMulV2", ((4, 20, 1), (20, 70)), {"adj_x": True, "adj_y": False}),
        Case("BatchMatMulV3", ((3, 14, 70), (1, 33, 70)), {"adj_y": True, "Tout": "float32"}),
        Case("BatchMatMulV2", ((5, 7), (7, 4))),
    ]
    return tuple(found)


def conv_attrs(
    strides: tuple[int, int],
    padding: str,
    dilations: tuple[int, int] = (1, 1),
    explicit: Sequence[int] = (),
) -> dict[str, Any]:
    """Attrs of a convolution in NHWC."""
    attrs: dict[str, Any] = {
        "strides": [1, *strides, 1],
        "padding": padding,
        "dilations": [1, *dilations, 1],
    }
    if explicit:
        attrs["explicit_paddings"] = [0, 0, *explicit, 0, 0]
    return attrs


CONV_SHAPES = (
    # input, filter, strides, padding, dilations, explicit
    ((1, 8, 8, 1), (3, 3, 1, 16), (1, 1), "SAME", (1, 1), ()),
    ((3, 4, 4, 16), (3, 3, 16, 32), (1, 1), "SAME", (1, 1), ()),
    ((2, 9, 7, 3), (3, 2, 3, 5), (1, 1), "VALID", (1, 1), ()),
    ((1, 13, 17, 3), (3, 3, 3, 16), (2, 2), "SAME", (1, 1), ()),
    ((2, 11, 10, 4), (5, 3, 4, 40), (2, 3), "SAME", (1, 1), ()),
    ((2, 6, 5, 8), (1, 1, 8, 48), (1, 1), "SAME", (1, 1), ()),
    ((2, 7, 5, 8), (1, 1, 8, 20), (2, 2), "VALID", (1, 1), ()),
    ((1, 9, 12, 5), (3, 3, 5, 7), (1, 1), "EXPLICIT", (1, 1), (0, 2, 1, 3)),
    ((1, 3, 30, 2), (3, 3, 2, 65), (1, 1), "SAME", (1, 1), ()),
    ((1, 2, 2, 3), (5, 5, 3, 4), (1, 1), "SAME", (1, 1), ()),
    ((2, 9, 10, 6), (3, 3, 6, 1), (1, 1), "SAME", (1, 1), ()),
    ((1, 11, 10, 9), (3, 3, 9, 3), (2, 1), "VALID", (1, 1), ()),
)
DILATED_SHAPES = (
    ((2, 12, 11, 4), (3, 3, 4, 6), (1, 1), "SAME", (2, 3), ()),
    ((1, 12, 11, 3), (2, 3, 3, 6), (1, 1), "VALID", (3, 2), ()),
)
GROUPED_SHAPES = (
    ((2, 6, 7, 6), (3, 3, 2, 9), (1, 1), "SAME", (1, 1), ()),
    ((1, 6, 7, 4), (1, 1, 2, 40), (2, 1), "VALID", (1, 1), ()),
)


def _conv_grads(
    x: tuple[int, ...],
    w: tuple[int, ...],
    attrs: dict[str, Any],
    out: tuple[int, ...],
    prefix: str,
    dtype: str,
) -> list[Case]:
    return [
        Case(prefix + "BackpropInput", (x, w, out), attrs, dtype, ints=(0,)),
        Case(prefix + "BackpropFilter", (x, w, out), attrs, dtype, ints=(1,)),
    ]


def _conv_out(
    x: tuple[int, ...],
    k: Sequence[int],
    strides: Sequence[int],
    padding: str,
    dil: Sequence[int],
    ex: Sequence[int],
) -> tuple[int, int]:
    pads = ex or (0, 0, 0, 0)
    if padding == "SAME":
        return (-(-x[1] // strides[0]), -(-x[2] // strides[1]))
    return tuple(
        (x[1 + i] + pads[2 * i] + pads[2 * i + 1] - (k[i] - 1) * dil[i] - 1) // strides[i] + 1
        for i in (0, 1)
    )  # type: ignore[return-value]


@cache
def conv_cases() -> tuple[Case, ...]:
    """Forward convolutions, dense and grouped."""
    found = [
        Case("Conv2D", (x, w), conv_attrs(s, p, d, e), dtype)
        for x, w, s, p, d, e in CONV_SHAPES + DILATED_SHAPES + GROUPED_SHAPES
        for dtype in ("float32", "float64")
    ]
    found.append(Case("Conv2D", ((0, 5, 5, 3), (3, 3, 3, 3)), conv_attrs((1, 1), "SAME")))
    return tuple(found)


DEPTHWISE_SHAPES = (
    ((1, 7, 9, 16), (3, 3, 16, 1), (1, 1), "SAME", (1, 1), ()),
    ((2, 9, 9, 24), (3, 3, 24, 1), (2, 2), "VALID", (1, 1), ()),
    ((2, 8, 11, 5), (3, 3, 5, 1), (2, 2), "SAME", (1, 1), ()),
    ((1, 3, 3, 40), (3, 3, 40, 1), (1, 1), "SAME", (1, 1), ()),
    ((1, 12, 9, 20), (5, 5, 20, 1), (1, 1), "SAME", (1, 1), ()),
    ((2, 8, 7, 6), (3, 2, 6, 3), (1, 1), "SAME", (1, 1), ()),
    ((1, 8, 7, 1), (3, 3, 1, 8), (1, 1), "SAME", (1, 1), ()),
    ((1, 12, 13, 18), (3, 3, 18, 1), (1, 1), "SAME", (2, 2), ()),
    ((1, 9, 8, 17), (3, 3, 17, 1), (1, 1), "EXPLICIT", (1, 1), (2, 0, 1, 1)),
)


@cache
def depthwise_cases() -> tuple[Case, ...]:
    """Forward depthwise convolutions."""
    return tuple(
        Case("DepthwiseConv2dNative", (x, w), conv_attrs(s, p, d, e), dtype)
        for x, w, s, p, d, e in DEPTHWISE_SHAPES
        for dtype in ("float32", "float64")
        if dtype == "float32" or d == (1, 1)  # TensorFlow dilates float32 only
    )


@cache
def conv_grad_cases() -> tuple[Case, ...]:
    """Gradients of dense and depthwise convolutions."""
    found: list[Case] = []
    for x, w, s, p, d, e in CONV_SHAPES + GROUPED_SHAPES:
        out = (x[0], *_conv_out(x, w, s, p, d, e), w[3])
        found += _conv_grads(x, w, conv_attrs(s, p, d, e), out, "Conv2D", "float32")
    x, w, s, p, d, e = CONV_SHAPES[4]
    found += _conv_grads(
        x,
        w,
        conv_attrs(s, p, d, e),
        (x[0], *_conv_out(x, w, s, p, d, e), w[3]),
        "Conv2D",
        "float64",
    )
    for x, w, s, p, d, e in DEPTHWISE_SHAPES:
        if s[0] == s[1] and not e and d == (1, 1):
            out = (x[0], *_conv_out(x, w, s, p, d, e), w[2] * w[3])
            found += _conv_grads(
                x, w, conv_attrs(s, p, d, e), out, "DepthwiseConv2dNative", "float32"
            )
    return tuple(found)


POOLS = (
    ((2, 8, 8, 16), (2, 2), (2, 2), "SAME"),
    ((3, 4, 4, 32), (2, 2), (2, 2), "SAME"),
    ((2, 7, 9, 5), (3, 2), (2, 2), "SAME"),
    ((1, 10, 8, 20), (3, 3), (1, 1), "VALID"),
    ((1, 10, 8, 33), (3, 3), (2, 3), "SAME"),
    ((1, 7, 7, 40), (7, 7), (7, 7), "VALID"),
    ((2, 5, 6, 3), (2, 3), (3, 4), "VALID"),
    ((1, 4, 3, 2), (1, 1), (2, 2), "SAME"),
)


@cache
def pool_cases() -> tuple[Case, ...]:
    """Maximum and mean pooling."""
    return tuple(
        Case(op, (x,), {"ksize": [1, *k, 1], "strides": [1, *s, 1], "padding": p}, dtype)
        for op in ("MaxPool", "AvgPool")
        for x, k, s, p in POOLS
        for dtype in ("float32", "float64")
    )


@cache
def pool_grad_cases() -> tuple[Case, ...]:
    """Gradients of pooling; MaxPoolGrad's orig_output is filled in by the tests."""
    found = []
    for x, k, s, p in POOLS:
        attrs = {"ksize": [1, *k, 1], "strides": [1, *s, 1], "padding": p}
        out = pooled(x, attrs)
        found.append(Case("MaxPoolGrad", (x, out, out), attrs))
        found.append(Case("AvgPoolGrad", (x, out), attrs, ints=(0,)))
    x, k, s, p = POOLS[2]
    attrs = {"ksize": [1, *k, 1], "strides": [1, *s, 1], "padding": p}
    found.append(Case("MaxPoolGrad", (x, pooled(x, attrs), pooled(x, attrs)), attrs, "float64"))
    found.append(Case("AvgPoolGrad", (x, pooled(x, attrs)), attrs, "float64", ints=(0,)))
    return tuple(found)


def case_arrays(case: Case) -> list[np.ndarray]:
    """Return the inputs of a case.

    For MaxPoolGrad orig_output is TensorFlow's own pooling of orig_input.
    """
    arrays = case.arrays()
    if case.op == "MaxPoolGrad":
        arrays[1] = run_tensorflow("MaxPool", arrays[:1], case.attrs)
    return arrays


def assert_near(found: np.ndarray, wanted: np.ndarray, terms: int) -> None:
    """Assert the same shape and dtype, and values within rounding.

    The rounding is of a sum of `terms` products of values around 1.
    """
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    eps = float(np.finfo(found.dtype).eps)
    # partial sums grow with the root of their length, and so does the number of their rounding
    # errors that add up
    np.testing.assert_allclose(found, wanted, rtol=8 * eps, atol=2 * eps * max(1, terms))
