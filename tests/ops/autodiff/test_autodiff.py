"""`tfjit.gradients` against TensorFlow's: the same program built with both modules, differentiated
and run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import Program, compare, signed, smooth

# name -> (program of a module and the inputs, inputs)
CASES: dict[str, tuple[Program, Sequence[np.ndarray]]] = {}

UNARY = (
    *(
        "negative",
        "abs",
        "square",
        "sqrt",
        "math.rsqrt",
        "exp",
        "math.log",
        "tanh",
        "sigmoid",
        "sin",
        "cos",
        "sign",
        "floor",
        "round",
    ),
    *(
        "math.expm1",
        "math.log1p",
        "math.sinh",
        "math.cosh",
        "math.asinh",
        "math.atanh",
        "math.tan",
        "math.asin",
        "math.acos",
        "math.atan",
    ),
    *(
        "math.erf",
        "math.erfc",
        "math.lgamma",
        "math.digamma",
        "math.reciprocal",
        "math.ceil",
        "math.rint",
    ),
    *(
        "nn.relu",
        "nn.relu6",
        "nn.elu",
        "nn.selu",
        "nn.softplus",
        "nn.softsign",
        "nn.leaky_relu",
        "nn.softmax",
        "nn.log_softmax",
    ),
    *(
        "identity",
        "stop_gradient",
        "nn.l2_loss",
        "reduce_sum",
        "reduce_mean",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
    ),
    *(
        "zeros_like",
        "math.cumsum",
        "math.cumprod",
        "math.reduce_logsumexp",
        "math.log_sigmoid",
        "nn.silu",
    ),
)


def named(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


for _name in UNARY:
    _x = smooth(3, 4) * 0.5 if _name in ("math.atanh", "math.asin", "math.acos") else smooth(3, 4)
    CASES[_name] = (lambda m, x, _n=_name: named(m, _n)(x), [_x])
    if _name.startswith(("nn.", "abs", "tanh", "square", "reduce")):
        CASES[f"{_name} of negatives"] = (lambda m, x, _n=_name: named(m, _n)(x), [signed(3, 4)])
CASES["math.acosh"] = (lambda m, x: m.math.acosh(x + 1.0), [smooth(3)])

BINARY = (
    *(
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "pow",
        "math.squared_difference",
        "math.atan2",
    ),
    *(
        "math.divide_no_nan",
        "math.xlogy",
        "math.xdivy",
        "math.floormod",
        "math.igamma",
        "math.zeta",
    ),
)
for _name in BINARY:
    for _shapes in (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3))):
        _a, _b = smooth(*_shapes[0]), smooth(*_shapes[1])
        if _name == "math.zeta":
            _a = _a + 1.5
        CASES[f"{_name} {_shapes}"] = (lambda m, x, y, _n=_name: named(m, _n)(x, y), [_a, _b])

CASES.update(
    {
        "pow of zero": (lambda m, x: m.pow(x, 2.0), [np.array([0.0, -1.0, 2.0], "f4")]),
        "div": (lambda m, x, y: x / y + 2.0 / x - x / 3.0, [smooth(3), smooth(3)]),
        "where": (lambda m, x, y: m.where(m.greater(x, y), x * x, y), [smooth(3, 4), smooth(3, 4)]),
        "select v2": (
            lambda m, x, y: m.raw_ops.SelectV2(condition=m.greater(x, 1.0), t=x, e=y),
            [smooth(3, 4), smooth(4)],
        ),
        "clip": (lambda m, x: m.clip_by_value(x, 0.5, 1.2), [smooth(3, 4)]),
        "cast": (lambda m, x: m.cast(m.cast(x, m.float64) * 3.0, m.float32), [smooth(3)]),
        "add_n": (lambda m, x, y: m.add_n([x, y, x * y]), [smooth(3), smooth(3)]),
        "the same twice": (lambda m, x: x * x + x, [smooth(3)]),
        "complex": (
            lambda m, x, y: m.abs(m.complex(x, y) * m.complex(y, x)),
            [smooth(3), smooth(3)],
        ),
        "real and imag": (
            lambda m, x: m.math.real(m.complex(x, x * x)) * m.math.imag(m.complex(x, x * x)),
            [smooth(3)],
        ),
        "matmul": (lambda m, a, b: m.matmul(a, b), [smooth(3, 4), smooth(4, 5)]),
        "matmul a^T": (
            lambda m, a, b: m.matmul(a, b, transpose_a=True),
            [smooth(4, 3), smooth(4, 5)],
        ),
        "matmul b^T": (
            lambda m, a, b: m.matmul(a, b, transpose_b=True),
            [smooth(3, 4), smooth(5, 4)],
        ),
        "matmul both": (
            lambda m, a, b: m.matmul(a, b, transpose_a=True, transpose_b=True),
            [smooth(4, 3), smooth(5, 4)],
        ),
        "batch matmul": (lambda m, a, b: m.matmul(a, b), [smooth(2, 3, 4), smooth(2, 4, 5)]),
        "batch matmul, broadcast": (
            lambda m, a, b: m.raw_ops.BatchMatMulV2(x=a, y=b),
            [smooth(2, 1, 3, 4), smooth(3, 4, 5)],
        ),
        "batch matmul, adjoint": (
            lambda m, a, b: m.matmul(a, b, adjoint_a=True, adjoint_b=True),
            [smooth(2, 4, 3), smooth(2, 5, 4)],
        ),
        "einsum": (
            lambda m, a, b: m.einsum("bij,bjk->bik", a, b),
            [smooth(2, 3, 4), smooth(2, 4, 5)],
        ),
        "einsum of one": (
            lambda m, a: m.raw_ops.Einsum(inputs=[a], equation="ij->j"),
            [smooth(3, 4)],
        ),
        "sum over axes": (lambda m, x: m.reduce_sum(x * x, axis=[0, -1]), [smooth(2, 3, 4)]),
        "mean over an axis": (
            lambda m, x: m.reduce_mean(x * x, axis=1, keepdims=True),
            [smooth(2, 3)],
        ),
        "max with ties": (
            lambda m, x: m.reduce_max(x, axis=1),
            [np.array([[1, 2, 2], [3, 3, 3]], "f4")],
        ),
        "prod with zeros": (
            lambda m, x: m.reduce_prod(x, axis=1),
            [np.array([[1, 0, 2], [0, 0, 3]], "f4")],
        ),
        "cumsum": (lambda m, x: m.cumsum(x, axis=1, exclusive=True, reverse=True), [smooth(2, 3)]),
        "cumprod": (lambda m, x: m.math.cumprod(x, axis=1, exclusive=True), [smooth(2, 3)]),
        "reshape": (lambda m, x: m.reshape(x, [-1]) * m.range(12.0), [smooth(3, 4)]),
        "expand and squeeze": (
            lambda m, x: m.squeeze(m.expand_dims(x, 1), [1]) * x,
            [smooth(3, 4)],
        ),
        "transpose": (lambda m, x, y: m.transpose(x, [1, 0]) * y, [smooth(3, 4), smooth(4, 3)]),
        "concat": (lambda m, x, y: m.concat([x, y, x], 1) * 2.0, [smooth(2, 3), smooth(2, 1)]),
        "stack and unstack": (
            lambda m, x: m.stack([v * v for v in m.unstack(x, axis=1)], axis=0),
            [smooth(2, 3)],
        ),
        "split": (lambda m, x: (lambda p: p[0] * p[1])(m.split(x, 2, axis=1)), [smooth(2, 4)]),
        "split in sizes": (
            lambda m, x: m.reduce_sum(m.split(x, [1, 3], axis=1)[1] ** 2),
            [smooth(2, 4)],
        ),
        "slice": (lambda m, x: m.slice(x, [0, 1], [2, 2]) * 3.0, [smooth(3, 4)]),
        "strided slice": (lambda m, x: x[::2, 1] * x[0:2, -1], [smooth(4, 3)]),
        "pad": (lambda m, x: m.pad(x, [[1, 2], [0, 1]]) * 2.0, [smooth(2, 3)]),
        "pad with a value": (
            lambda m, x: m.pad(x, [[1, 2], [0, 1]], constant_values=3.0) * 2.0,
            [smooth(2, 3)],
        ),
        "mirror pad": (lambda m, x: m.pad(x, [[1, 1], [2, 1]], "REFLECT") ** 2, [smooth(2, 3)]),
        "tile": (lambda m, x: m.tile(x, [2, 3]) * m.reshape(m.range(36.0), [4, 9]), [smooth(2, 3)]),
        "broadcast_to": (lambda m, x: m.broadcast_to(x, [4, 2, 3]) ** 2, [smooth(2, 1)]),
        "gather": (lambda m, x: m.gather(x, [2, 0, 2]) ** 2, [smooth(3, 4)]),
        "gather, indices of rank 2": (
            lambda m, x: m.gather(x, [[2, 0], [2, 1]]) ** 2,
            [smooth(3, 4)],
        ),
        "gather along 1": (
            lambda m, x: m.gather(x, [[2, 0], [2, 1]], axis=1) ** 2,
            [smooth(2, 3, 4)],
        ),
        "gather and dense": (
            lambda m, x: m.reduce_sum(m.gather(x, [1, 1])) + m.reduce_sum(x * x),
            [smooth(3, 4)],
        ),
        "gather twice": (
            lambda m, x: m.reduce_sum(m.gather(x, [1, 1]) ** 2) + m.reduce_sum(m.gather(x, [0])),
            [smooth(3, 4)],
        ),
        "gather_nd": (lambda m, x: m.gather_nd(x, [[0, 1], [2, 1]]) ** 2, [smooth(3, 4)]),
        "scatter_nd": (lambda m, x: m.scatter_nd([[1], [1], [3]], x, [5]) ** 2, [smooth(3)]),
        "tensor scatter": (
            lambda m, x, y: m.tensor_scatter_nd_update(x, [[1], [0]], y) ** 2,
            [smooth(3), smooth(2)],
        ),
        "tensor scatter add": (
            lambda m, x, y: m.tensor_scatter_nd_add(x, [[1], [0]], y) ** 2,
            [smooth(3), smooth(2)],
        ),
        "dynamic partition": (
            lambda m, x: m.dynamic_partition(x, [0, 1, 0], 2)[0] ** 2,
            [smooth(3, 2)],
        ),
        "dynamic stitch": (
            lambda m, x, y: m.dynamic_stitch([[0, 2], [1]], [x, y]) ** 2,
            [smooth(2, 2), smooth(1, 2)],
        ),
        "reverse": (lambda m, x: m.reverse(x, [1]) * x, [smooth(2, 3)]),
        "reverse_sequence": (
            lambda m, x: m.reverse_sequence(x, [2, 3], seq_axis=1, batch_axis=0) * x,
            [smooth(2, 3)],
        ),
        "roll": (lambda m, x: m.roll(x, [1], [1]) * x, [smooth(2, 3)]),
        "segment_sum": (lambda m, x: m.math.segment_sum(x, [0, 0, 2]) ** 2, [smooth(3, 2)]),
        "segment_mean": (lambda m, x: m.math.segment_mean(x, [0, 0, 1]) ** 2, [smooth(3, 2)]),
        "segment_max": (lambda m, x: m.math.segment_max(x, [0, 0, 1]) ** 2, [smooth(3, 2)]),
        "unsorted_segment_sum": (
            lambda m, x: m.math.unsorted_segment_sum(x, [2, -1, 2], 4) ** 2,
            [smooth(3, 2)],
        ),
        "unsorted_segment_max": (
            lambda m, x: m.math.unsorted_segment_max(x, [1, 0, 1], 2) ** 2,
            [smooth(3, 2)],
        ),
        "top_k": (lambda m, x: m.nn.top_k(x, 2)[0] ** 2, [smooth(3, 4)]),
        "diag": (
            lambda m, x: m.linalg.tensor_diag(x) ** 2 if hasattr(m, "linalg") else m.diag(x) ** 2,
            [smooth(3)],
        ),
        "band": (
            lambda m, x: m.raw_ops.MatrixBandPart(input=x, num_lower=1, num_upper=0) ** 2,
            [smooth(3, 3)],
        ),
        "fill": (lambda m, x: m.fill([3, 2], x[0]) ** 2, [smooth(1)]),
        "inverse": (
            lambda m, x: m.raw_ops.MatrixInverse(input=x + 3.0 * np.eye(3, dtype="f4")),
            [smooth(3, 3)],
        ),
        "determinant": (
            lambda m, x: m.raw_ops.MatrixDeterminant(input=x + 3.0 * np.eye(3, dtype="f4")),
            [smooth(3, 3)],
        ),
        "solve": (
            lambda m, x, y: m.raw_ops.MatrixSolve(matrix=x + 3.0 * np.eye(3, dtype="f4"), rhs=y),
            [smooth(3, 3), smooth(3, 2)],
        ),
        "triangular solve": (
            lambda m, x, y: m.raw_ops.MatrixTriangularSolve(
                matrix=x + 3.0 * np.eye(3, dtype="f4"), rhs=y
            ),
            [smooth(3, 3), smooth(3, 2)],
        ),
        "cholesky": (
            lambda m, x: m.raw_ops.Cholesky(
                input=m.matmul(x, x, transpose_b=True) + 3.0 * np.eye(3, dtype="f4")
            ),
            [smooth(3, 3)],
        ),
        "cross": (lambda m, x, y: m.raw_ops.Cross(a=x, b=y), [smooth(2, 3), smooth(2, 3)]),
        "bias_add": (lambda m, x, b: m.nn.bias_add(x, b) ** 2, [smooth(2, 3, 3, 4), smooth(4)]),
        "cross entropy": (
            lambda m, x: m.nn.softmax_cross_entropy_with_logits(
                labels=np.eye(3, 4, dtype="f4"), logits=x
            ),
            [smooth(3, 4)],
        ),
        "sparse cross entropy": (
            lambda m, x: m.nn.sparse_softmax_cross_entropy_with_logits(
                labels=np.array([1, 0, 3]), logits=x
            ),
            [smooth(3, 4)],
        ),
        "sigmoid cross entropy": (
            lambda m, x: m.nn.sigmoid_cross_entropy_with_logits(
                labels=m.sigmoid(x * 0.3), logits=x
            ),
            [signed(3, 4)],
        ),
        "conv2d": (
            lambda m, x, w: m.nn.conv2d(x, w, strides=[1, 2, 2, 1], padding="SAME") ** 2,
            [smooth(2, 5, 5, 3), signed(3, 3, 3, 4)],
        ),
        "depthwise": (
            lambda m, x, w: m.nn.depthwise_conv2d(x, w, strides=[1, 1, 1, 1], padding="VALID") ** 2,
            [smooth(2, 5, 5, 3), signed(3, 3, 3, 2)],
        ),
        "max_pool": (
            lambda m, x: m.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME") ** 2,
            [smooth(2, 5, 5, 3)],
        ),
        "avg_pool": (
            lambda m, x: m.nn.avg_pool(x, [1, 2, 2, 1], [1, 1, 1, 1], "SAME") ** 2,
            [smooth(2, 5, 5, 3)],
        ),
        "batch norm": (
            lambda m, x, s, o: (
                m.raw_ops.FusedBatchNormV3(
                    x=x, scale=s, offset=o, mean=[], variance=[], is_training=True
                )[0]
                ** 2
            ),
            [smooth(2, 3, 3, 4), smooth(4), smooth(4)],
        ),
        "batch norm, inference": (
            lambda m, x, s, o: (
                m.raw_ops.FusedBatchNormV3(
                    x=x,
                    scale=s,
                    offset=o,
                    mean=s * 0.0 + 0.5,
                    variance=s * 0.0 + 2.0,
                    is_training=False,
                )[0]
                ** 2
            ),
            [smooth(2, 3, 3, 4), smooth(4), smooth(4)],
        ),
        "lrn": (
            lambda m, x: m.nn.local_response_normalization(x, depth_radius=2) ** 2,
            [smooth(1, 2, 2, 5)],
        ),
        "space to depth": (lambda m, x: m.nn.space_to_depth(x, 2) ** 2, [smooth(1, 4, 4, 2)]),
        "batch to space": (
            lambda m, x: m.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]) ** 2,
            [smooth(1, 4, 4, 2)],
        ),
        "a network": (
            lambda m, x, w, v: m.nn.softmax(
                m.matmul(m.tanh(m.matmul(x, w) + v), w, transpose_b=True)
            ),
            [smooth(4, 3), signed(3, 5), smooth(5)],
        ),
    }
)


def check(name: str, unknown: bool = False, second: bool = False) -> None:
    compare(*CASES[name], unknown=unknown, second=second)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    check(name)


UNKNOWN = (
    "add ((3, 4), (4,))",
    "divide ((3, 1), (1, 4))",
    "sum over axes",
    "mean over an axis",
    "concat",
    "gather along 1",
    "tile",
    "pad",
)


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_shapes(name: str) -> None:
    check(name, unknown=True)


SECOND = (
    *(
        "square",
        "exp",
        "tanh",
        "sigmoid",
        "sqrt",
        "math.rsqrt",
        "math.reciprocal",
        "multiply ((3, 4), (4,))",
        "divide ((3, 4), (4,))",
    ),
    *(
        "pow of zero",
        "matmul",
        "nn.softplus",
        "nn.softmax",
        "sum over axes",
        "gather",
        "bias_add",
        "conv2d",
        "strided slice",
        "a network",
    ),
)


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    check(name, second=True)
