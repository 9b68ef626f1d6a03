"""Numerical methods: iterations on vectors, matrices and grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.programs.loop_programs.program import Inputs, program

tf1 = tf.compat.v1
loop = tf1.while_loop


def _times(matrix: Any, vector: Any) -> Any:
    return tf.squeeze(tf.matmul(matrix, vector[:, None]), 1)


@program(8, 128)
def _power_iteration(x: Inputs, n: int) -> Any:
    a = x.uniform(n, n, low=0.1)

    def body(i: Any, v: Any) -> Any:
        w = _times(a, v)
        return i + 1, w / tf.norm(w)

    return loop(lambda i, v: i < 50, body, [0, tf.ones([tf.shape(a)[0]])])[1]


@program(4, 64)
def _least_squares(x: Inputs, n: int) -> Any:
    a, y = x.uniform(4 * n, n), x.uniform(4 * n)

    def body(i: Any, w: Any) -> Any:
        residual = _times(a, w) - y
        return i + 1, w - 0.1 / n * tf.squeeze(tf.matmul(a, residual[:, None], transpose_a=True), 1)

    return loop(lambda i, w: i < 100, body, [0, tf.zeros([n])])[1]


@program(4, 64)
def _conjugate_gradient(x: Inputs, n: int) -> Any:
    half, b = x.uniform(n, n), x.uniform(n)
    a = tf.matmul(half, half, transpose_b=True) / n + tf.eye(n)

    def body(i: Any, u: Any, r: Any, p: Any, rr: Any) -> Any:
        ap = _times(a, p)
        alpha = rr / tf.reduce_sum(p * ap)
        u, r = u + alpha * p, r - alpha * ap
        new = tf.reduce_sum(r * r)
        return i + 1, u, r, r + new / rr * p, new

    start = [0, tf.zeros([n]), b, b, tf.reduce_sum(b * b)]
    return loop(lambda i, u, r, p, rr: tf.logical_and(i < 30, rr > 1e-6), body, start)[1]


@program(8, 128)
def _heat_by_slices(x: Inputs, n: int) -> Any:
    u = x.uniform(n, n)

    def body(i: Any, u: Any) -> Any:
        inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return i + 1, tf.pad(inner, [[1, 1], [1, 1]])

    return loop(lambda i, u: i < 50, body, [0, u])[1]


@program(8, 128)
def _heat_by_roll(x: Inputs, n: int) -> Any:
    u = x.uniform(n, n, static=True)

    def body(i: Any, u: Any) -> Any:
        moved = [tf.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1)]
        return i + 1, u + 0.1 * (tf.add_n(moved) - 4.0 * u)

    return loop(lambda i, u: i < 50, body, [0, u])[1]


@program(16, 4096)
def _heat_in_one_dimension(x: Inputs, n: int) -> Any:
    u = x.uniform(n)

    def body(i: Any, u: Any) -> Any:
        return i + 1, tf.concat([u[:1], 0.5 * u[1:-1] + 0.25 * (u[:-2] + u[2:]), u[-1:]], 0)

    return loop(lambda i, u: i < 100, body, [0, u])[1]


@program(4, 32)
def _jacobi_until_it_converges(x: Inputs, n: int) -> Any:
    a, b = x.uniform(n, n) + n * tf.eye(n), x.uniform(n)
    d = tf.linalg.diag_part(a)

    def body(i: Any, u: Any, moved: Any) -> Any:
        new = u + (b - _times(a, u)) / d
        return i + 1, new, tf.reduce_max(tf.abs(new - u))

    return loop(
        lambda i, u, moved: tf.logical_and(moved > 1e-5, i < 200), body, [0, tf.zeros([n]), 1.0]
    )[1]


@program(4, 32)
def _gauss_seidel(x: Inputs, n: int) -> Any:
    a, b = x.uniform(n, n, static=True) + n * tf.eye(n), x.uniform(n, static=True)

    def row(k: Any, u: Any) -> Any:
        rest = b[k] - tf.reduce_sum(a[k] * u) + a[k, k] * u[k]
        return k + 1, tf.tensor_scatter_nd_update(u, [[k]], [rest / a[k, k]])

    def sweep(i: Any, u: Any) -> Any:
        return i + 1, loop(lambda k, u: k < n, row, [0, u])[1]

    return loop(lambda i, u: i < 10, sweep, [0, tf.zeros([n])])[1]


@program(8, 64, rtol=0, atol=0)
def _game_of_life(x: Inputs, n: int) -> Any:
    board = x.integers(2, n, n)

    def body(i: Any, board: Any) -> Any:
        around = tf.add_n(
            [tf.roll(board, [a, b], [0, 1]) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
        )
        alive = tf.logical_or(
            tf.equal(around, 3), tf.logical_and(tf.equal(board, 1), tf.equal(around, 2))
        )
        return i + 1, tf.cast(alive, tf.int32)

    return loop(lambda i, b: i < 40, body, [0, board])[1]


@program(8, 10_000, "kernel")
def _bisection(x: Inputs, n: int) -> Any:
    a = x.uniform(n, low=0.0, high=100.0)

    def body(i: Any, low: Any, high: Any) -> Any:
        middle = 0.5 * (low + high)
        above = middle * middle * middle > a
        return i + 1, tf.where(above, low, middle), tf.where(above, middle, high)

    return loop(lambda i, *_: i < 40, body, [0, tf.zeros_like(a), 10.0 * tf.ones_like(a)])[1]


@program(3, 3, "kernel")
def _lorenz_by_euler(x: Inputs, n: int) -> Any:
    def body(i: Any, a: Any, b: Any, c: Any) -> Any:
        h = 0.005
        return (
            i + 1,
            a + h * 10.0 * (b - a),
            b + h * (a * (28.0 - c) - b),
            c + h * (a * b - 8.0 / 3.0 * c),
        )

    return loop(
        lambda i, *_: i < 300,
        body,
        [0, x.take(np.float32(1)), x.take(np.float32(1.5)), x.take(np.float32(20))],
    )[1:]


@program(3, 3)
def _lorenz_of_a_vector(x: Inputs, n: int) -> Any:
    def slope(s: Any) -> Any:
        a, b, c = tf.unstack(s, num=3)
        return tf.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c])

    def body(i: Any, s: Any) -> Any:
        h = 0.005
        k1 = slope(s)
        k2 = slope(s + h / 2 * k1)
        k3 = slope(s + h / 2 * k2)
        k4 = slope(s + h * k3)
        return i + 1, s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return loop(lambda i, s: i < 100, body, [0, x.take(np.array([1, 1.5, 20], np.float32))])[1]


@program(4, 64)
def _runge_kutta_of_a_linear_system(x: Inputs, n: int) -> Any:
    a = (x.uniform(n, n, dtype=np.float64)) / n

    def body(t: Any, y: Any) -> Any:
        h = 0.01
        k1 = _times(a, y)
        k2 = _times(a, y + h / 2 * k1)
        k3 = _times(a, y + h / 2 * k2)
        k4 = _times(a, y + h * k3)
        return t + h, y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    zero = tf.zeros([], tf.float64)
    return loop(lambda t, y: t < 1.0, body, [zero, tf.ones([n], tf.float64)])[1]


@program(3, 24)
def _bodies_that_attract(x: Inputs, n: int) -> Any:
    place, speed = x.uniform(n, 2), x.uniform(n, 2)

    def body(i: Any, p: Any, v: Any) -> Any:
        apart = p[None] - p[:, None]
        cubed = tf.pow(tf.reduce_sum(apart * apart, 2) + 0.1, 1.5)
        v = v + 0.01 * tf.reduce_sum(apart / cubed[:, :, None], 1)
        return i + 1, p + 0.01 * v, v

    return loop(lambda i, *_: i < 30, body, [0, place, speed])[1]


@program(4, 64)
def _inverse_by_newton(x: Inputs, n: int) -> Any:
    a = x.uniform(n, n) / n + tf.eye(n)

    def body(i: Any, u: Any) -> Any:
        return i + 1, tf.matmul(u, 2.0 * tf.eye(n) - tf.matmul(a, u))

    return loop(lambda i, u: i < 15, body, [0, tf.eye(n)])[1]


@program(8, 64)
def _sinkhorn(x: Inputs, n: int) -> Any:
    k = tf.exp(-x.uniform(n, n, low=0.0, static=True))

    def body(i: Any, u: Any, v: Any) -> Any:
        v = 1.0 / (n * _times(tf.transpose(k), u))
        return i + 1, 1.0 / (n * _times(k, v)), v

    start = [0, tf.ones([n]), tf.ones([n])]
    return loop(lambda i, *_: i < 50, body, start)[1]


@program(8, 64)
def _sinkhorn_by_reductions(x: Inputs, n: int) -> Any:
    def body(i: Any, p: Any) -> Any:
        p = p / tf.reduce_sum(p, 1, keepdims=True)
        return i + 1, p / tf.reduce_sum(p, 0, keepdims=True)

    return loop(lambda i, p: i < 30, body, [0, x.uniform(n, n, low=0.1)])[1]


@program(8, 128)
def _page_rank(x: Inputs, n: int) -> Any:
    links = x.uniform(n, n, low=0.0, static=True)
    links = links / tf.reduce_sum(links, 0, keepdims=True)

    def body(i: Any, r: Any, moved: Any) -> Any:
        new = 0.15 / n + 0.85 * tf.linalg.matvec(links, r)
        return i + 1, new, tf.reduce_sum(tf.abs(new - r))

    start = [0, tf.fill([n], 1.0 / n), 1.0]
    return loop(lambda i, r, moved: tf.logical_and(moved > 1e-6, i < 100), body, start)[1]


@program(6, 48, rtol=1e-5)
def _floyd_warshall(x: Inputs, n: int) -> Any:
    d = x.uniform(n, n, low=0.0)

    def body(k: Any, d: Any) -> Any:
        return k + 1, tf.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])

    return loop(lambda k, d: k < n, body, [0, d])[1]


@program(4, 32)
def _elimination(x: Inputs, n: int) -> Any:
    a = x.uniform(n, n) + n * tf.eye(n)
    rows = tf.range(n)

    def body(k: Any, a: Any) -> Any:
        factor = tf.where(rows > k, a[:, k] / a[k, k], tf.zeros([n]))
        return k + 1, a - factor[:, None] * a[k][None]

    return loop(lambda k, a: k < n - 1, body, [0, a])[1]


@program(16, 1024)
def _k_means(x: Inputs, n: int) -> Any:
    points, centers = x.uniform(n, 2), x.uniform(4, 2)

    def body(i: Any, c: Any) -> Any:
        nearest = tf.argmin(
            tf.reduce_sum(tf.square(points[:, None] - c[None]), 2), 1, output_type=tf.int32
        )
        total = tf.math.unsorted_segment_sum(points, nearest, 4)
        count = tf.math.unsorted_segment_sum(tf.ones([n]), nearest, 4)
        return i + 1, total / tf.maximum(count, 1.0)[:, None]

    return loop(lambda i, c: i < 20, body, [0, centers])[1]


@program(8, 128, "kernel")
def _mandelbrot_of_complex_numbers(x: Inputs, n: int) -> Any:
    c = tf.complex(x.uniform(n, n), x.uniform(n, n))

    def body(i: Any, z: Any, count: Any) -> Any:
        z = tf.where(tf.abs(z) < 2.0, z * z + c, z)
        return i + 1, z, count + tf.cast(tf.abs(z) < 2.0, tf.int32)

    return loop(lambda i, *_: i < 30, body, [0, tf.zeros_like(c), tf.zeros([n, n], tf.int32)])[2]


@program(16, 4096, "kernel")
def _newton_until_all_are_there(x: Inputs, n: int) -> Any:
    a = x.uniform(n, low=0.5, high=10.0, dtype=np.float64)

    def body(i: Any, u: Any) -> Any:
        return i + 1, 0.5 * (u + a / u)

    return loop(
        lambda i, u: tf.logical_and(i < 100, tf.reduce_any(tf.abs(u * u - a) > 1e-9)),
        body,
        [0, tf.ones_like(a)],
    )


@program(4, 64)
def _adam_of_a_quadratic(x: Inputs, n: int) -> Any:
    a, b = x.uniform(n, n), x.uniform(n)

    def body(t: Any, w: Any, m: Any, v: Any) -> Any:
        g = _times(a, w) - b
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = 1.0 / (1.0 - tf.pow(0.9, t))
        return t + 1.0, w - 0.01 * step * m / (tf.sqrt(v) + 1e-8), m, v

    zero = tf.zeros([n])
    return loop(lambda t, *_: t < 100.0, body, [1.0, zero, zero, zero])[1]


@program(4, 64)
def _gradient_descent_by_gradients_inside(x: Inputs, n: int) -> Any:
    a, y = x.uniform(2 * n, n), x.uniform(2 * n)

    def body(i: Any, w: Any) -> Any:
        loss = tf.reduce_mean(tf.square(_times(a, w) - y))
        return i + 1, w - 0.1 * tf.gradients(loss, w)[0]

    return loop(lambda i, w: i < 50, body, [0, tf.zeros([n])])[1]


@program(4, 64)
def _logistic_regression(x: Inputs, n: int) -> Any:
    data, label = x.uniform(8 * n, n), tf.cast(x.integers(2, 8 * n), tf.float32)

    def body(i: Any, w: Any, b: Any) -> Any:
        p = tf.sigmoid(_times(data, w) + b)
        error = (p - label) / (8.0 * n)
        return i + 1, w - tf.linalg.matvec(data, error, transpose_a=True), b - tf.reduce_sum(error)

    return loop(lambda i, *_: i < 50, body, [0, tf.zeros([n]), 0.0])[1:]
