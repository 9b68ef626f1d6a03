"""Jacobians from gradients and from differences, which tests of gradients compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.client.session.default_session import get_default_session
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.arrays.array import identity
from tfjit.ops.autodiff.backprop import gradients
from tfjit.ops.core.convert import constant

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import FeedDict, Structure

_FLOATS: Final = (
    *(dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64),
    *(dtypes.complex64, dtypes.complex128),
)
_Jacobians = tuple[np.ndarray, np.ndarray]


def compute_gradient(
    x: Tensor | list[Tensor],
    x_shape: Structure,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Structure = None,
    delta: float = 1e-3,
    init_targets: Sequence[Operation] | None = None,
    extra_feed_dict: FeedDict | None = None,
) -> _Jacobians | list[_Jacobians]:
    """Return the Jacobian of y by gradients and by differences.

    Both are computed in the default session.

    Each is [elements of x, elements of y]; a complex number counts as two. x: a tensor, or a list
    of such with lists of shapes and values; the result then is a list. x_init_value: the point,
    drawn from [0, 1) by default. delta: the step of the differences. init_targets: operations to
    run first. extra_feed_dict: feeds of all runs. Raises AssertionError for dtypes that are no
    floats and for a point of another shape, ValueError for an empty y with a gradient.
    """
    many = isinstance(x, list)
    points = x if isinstance(x, list) else [x]
    shapes = x_shape if many else [x_shape]
    values = (x_init_value if many else [x_init_value]) if x_init_value is not None else None
    slopes = [_slope(point, y, y_shape) for point in points]
    for target in init_targets or ():
        target.run()
    feeds = dict(extra_feed_dict or {})
    found = []
    for k, (point, shape) in enumerate(zip(points, shapes, strict=True)):
        for name, value in (("x", point), ("y", y)):
            assert value.dtype.base_dtype in _FLOATS, (
                f"Don't support type {value.dtype.name} for {name}"
            )
        given = None if values is None else values[k]
        data = _drawn(point, shape) if given is None else given
        assert list(data.shape) == list(shape), f"x_shape = {shape}, init_data shape = {data.shape}"
        dx, dy = slopes[k]
        by_gradient = _by_gradient(point, data, dy, y_shape, dx, feeds)
        found.append((by_gradient, _by_difference(point, data, y, y_shape, delta, feeds)))
    return found if many else found[0]


def compute_gradient_error(
    x: Tensor | list[Tensor],
    x_shape: Structure,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Structure = None,
    delta: float = 1e-3,
    init_targets: Sequence[Operation] | None = None,
    extra_feed_dict: FeedDict | None = None,
) -> float:
    """Return the largest difference of the two Jacobians of `compute_gradient`."""
    found = compute_gradient(
        x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict
    )
    pairs = found if isinstance(found, list) else [found]
    errors = [np.fabs(a - b).max() for a, b in pairs if a.size or b.size]
    return max(errors, default=0)


def _drawn(x: Tensor, shape: Sequence[int]) -> np.ndarray:
    drawn = np.random.random_sample(shape).astype(x.dtype.as_numpy_dtype)
    if x.dtype.is_complex:
        drawn.imag = np.random.random_sample(shape)
    return drawn


def _slope(x: Tensor, y: Tensor, y_shape: Sequence[int]) -> tuple[Structure, Tensor]:
    """Return the gradients of x and y.

    The latter is behind an Identity, so that it can be fed where it is the gradient of x, too.
    """
    with x.graph.as_default():
        dy = constant(1.0, shape=y_shape, dtype=y.dtype)
        (dx,) = gradients(y, x, identity(dy))
    return dx, dy


def _run(fetches: Structure, feeds: Mapping[object, object]) -> Structure:
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient needs a default session")
    return session.run(fetches, feed_dict=feeds)


def _flat(values: np.ndarray) -> np.ndarray:
    """Return all numbers, complex ones as two."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def _by_gradient(
    x: Tensor,
    data: np.ndarray,
    dy: Tensor,
    y_shape: Sequence[int],
    dx: Structure,
    feeds: Mapping[object, object],
) -> np.ndarray:
    outputs = np.zeros(y_shape, dy.dtype.as_numpy_dtype)
    numbers = _flat(outputs)  # a view
    jacobian = np.zeros((_flat(data).size, numbers.size), x.dtype.real_dtype.as_numpy_dtype)
    row_size = math.prod(data.shape[1:]) * (2 if x.dtype.is_complex else 1)
    for column in range(numbers.size):
        numbers[column] = 1
        if isinstance(dx, IndexedSlices):
            rows, values = _run([dx.indices, dx.values], {**feeds, x: data, dy: outputs})
            for row, value in zip(rows, values, strict=True):
                jacobian[row * row_size : (row + 1) * row_size, column] += _flat(value)
        else:
            jacobian[:, column] = _flat(_run(dx, {**feeds, x: data, dy: outputs}))
        numbers[column] = 0
    if not numbers.size:
        found = _run(dx, {**feeds, x: data, dy: outputs})
        if found.shape != data.shape:
            raise ValueError(
                f"Empty gradient has wrong shape: expected {data.shape}, got {found.shape}"
            )
        if np.any(found):
            raise ValueError("Empty tensor with nonzero gradients")
    return jacobian


def _by_difference(
    x: Tensor,
    data: np.ndarray,
    y: Tensor,
    y_shape: Sequence[int],
    delta: float,
    feeds: Mapping[object, object],
) -> np.ndarray:
    # bfloat16 is too coarse for a step.
    if x.dtype.base_dtype is dtypes.bfloat16:
        x, data = cast(x, dtypes.float32), data.astype(np.float32)
    if y.dtype.base_dtype is dtypes.bfloat16:
        y = cast(y, dtypes.float32)
    kind = y.dtype.real_dtype.as_numpy_dtype
    count = math.prod(y_shape) * (2 if y.dtype.is_complex else 1)
    data = np.array(data, x.dtype.as_numpy_dtype)
    jacobian = np.zeros((_flat(data).size, count), x.dtype.real_dtype.as_numpy_dtype)
    for row in range(len(jacobian)):
        ends = []
        for step in (delta, -delta):
            moved = data.copy()
            _flat(moved)[row] += step
            ends.append(_run(y, {**feeds, x: moved}))
        jacobian[row] = _flat(
            np.asarray((ends[0] - ends[1]) / kind(2 * delta), y.dtype.as_numpy_dtype)
        )
    return jacobian
