"""Loops over numbers: counting, searching, sorting, strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.programs.loop_programs.program import Inputs, program

tf1 = tf.compat.v1
loop = tf1.while_loop
EXACT = {"rtol": 0, "atol": 0}


@program(27, 837_799, "kernel", **EXACT)
def _collatz(x: Inputs, n: int) -> Any:
    def body(k: Any, count: Any) -> Any:
        return tf.cond(tf.equal(k % 2, 0), lambda: k // 2, lambda: 3 * k + 1), count + 1

    return loop(lambda k, count: k > 1, body, [x.take(np.int64(n)), 0])[1]


@program(12, 1_134_903_170, "kernel", **EXACT)
def _greatest_common_divisor(x: Inputs, n: int) -> Any:
    return loop(
        lambda a, b: b > 0,
        lambda a, b: (b, a % b),
        [x.take(np.int32(n)), x.take(np.int32(701_408_733))],
    )[0]


@program(20, 90, "python", **EXACT)
def _fibonacci_numbers(x: Inputs, n: int) -> Any:
    count = x.take(np.int32(n))
    one = tf.constant(1, tf.int64)

    def body(i: Any, a: Any, b: Any, found: Any) -> Any:
        return i + 1, b, a + b, found.write(i, a)

    return loop(lambda i, *_: i < count, body, [0, one, one, tf.TensorArray(tf.int64, count)])[
        3
    ].stack()


@program(10, 1000, "kernel")
def _branches_in_a_loop(x: Inputs, n: int) -> Any:
    count = x.take(np.int32(n))

    def body(i: Any, a: Any, b: Any) -> Any:
        a, b = tf.cond(a > b, lambda: (a * 0.5, b + 1.0), lambda: (a + 0.3, b * 0.9))
        return i + 1, a, b

    return loop(lambda i, *_: i < count, body, [0, 1.0, 0.5])[1:]


@program(4, 64)
def _branches_of_arrays(x: Inputs, n: int) -> Any:
    m = x.uniform(n, n, static=True) / n

    def body(i: Any, v: Any) -> Any:
        return i + 1, tf.cond(
            tf.reduce_sum(v) > 0.0, lambda: tf.matmul(m, v), lambda: tf.nn.softmax(v, 0) - 0.1
        )

    return loop(lambda i, v: i < 50, body, [0, tf.ones([n, 1])])[1]


@program(5, 200, "kernel", **EXACT)
def _switch_case_in_a_loop(x: Inputs, n: int) -> Any:
    codes = x.integers(5, n)

    def body(i: Any, a: Any) -> Any:
        branches = [lambda: a + 1, lambda: a * 2, lambda: a - 3, lambda: tf.abs(a)]
        return i + 1, tf.switch_case(codes[i], branches) % 1000

    return loop(lambda i, a: i < n, body, [0, 1])[1]


@program(6, 40, **EXACT)
def _bubble_sort(x: Inputs, n: int) -> Any:
    values = x.uniform(n, static=True)

    def inner(j: Any, v: Any) -> Any:
        a, b = v[j], v[j + 1]
        v = tf.cond(
            a > b, lambda: tf.tensor_scatter_nd_update(v, [[j], [j + 1]], [b, a]), lambda: v
        )
        return j + 1, v

    def outer(i: Any, v: Any) -> Any:
        return i + 1, loop(lambda j, v: j < n - 1 - i, inner, [0, v])[1]

    return loop(lambda i, v: i < n, outer, [0, values])[1]


@program(3, 12, "jumps")
def _product_of_matrices_by_loops(x: Inputs, n: int) -> Any:
    a, b = x.uniform(n, n), x.uniform(n, n)

    def element(i: Any, j: Any) -> Any:
        return loop(lambda k, s: k < n, lambda k, s: (k + 1, s + a[i, k] * b[k, j]), [0, 0.0])[1]

    def body(t: Any, found: Any) -> Any:
        return t + 1, found.write(t, element(t // n, t % n))

    return loop(lambda t, _: t < n * n, body, [0, tf.TensorArray(tf.float32, n * n)])[1].stack()


@program(30, 1000, "python", **EXACT)
def _sieve(x: Inputs, n: int) -> Any:
    numbers = tf.range(x.take(np.int32(n)))

    def body(p: Any, prime: Any) -> Any:
        crossed = tf.logical_and(tf.equal(numbers % p, 0), numbers > p)
        return p + 1, tf.logical_and(prime, tf.logical_not(crossed))

    return loop(lambda p, _: p * p <= n, body, [2, numbers > 1])[1]


@program(10, 1000, "kernel", **EXACT)
def _search_that_ends_early(x: Inputs, n: int) -> Any:
    values = x.integers(1000, n)
    wanted = tf.reduce_max(values)

    def more(i: Any, found: Any) -> Any:
        return tf.logical_and(i < n, tf.logical_not(found))

    return loop(more, lambda i, found: (i + 1, tf.equal(tf.gather(values, i), wanted)), [0, False])


@program(10, 2000, "kernel", **EXACT)
def _pointers_followed(x: Inputs, n: int) -> Any:
    following = x.integers(n, n)
    return loop(lambda i, at: i < n, lambda i, at: (i + 1, following[at]), [0, 0])[1]


@program(8, 500, "kernel")
def _horner(x: Inputs, n: int) -> Any:
    factors, at = x.uniform(n), x.uniform(64)
    return loop(
        lambda i, y: i < n, lambda i, y: (i + 1, y * at + factors[i]), [0, tf.zeros_like(at)]
    )[1]


@program(5, 100, "kernel", **EXACT)
def _digits_of_numbers(x: Inputs, n: int) -> Any:
    def digits(k: Any) -> Any:
        return loop(lambda k, s: k > 0, lambda k, s: (k // 10, s + k % 10), [k, 0])[1]

    return loop(lambda i, s: i < n, lambda i, s: (i + 1, s + digits(i * 37)), [0, 0])[1]


@program(5, 40, "python", **EXACT)
def _strings_joined(x: Inputs, n: int) -> Any:
    words = tf.constant(["a", "bc", "d"])
    return loop(
        lambda i, s: i < n, lambda i, s: (i + 1, tf.strings.join([s, words[i % 3]])), [0, ""]
    )[1]


@program(16, 2000, **EXACT)
def _histogram(x: Inputs, n: int) -> Any:
    values = x.integers(8, n)

    def body(i: Any, counts: Any) -> Any:
        return i + 1, tf.tensor_scatter_nd_add(counts, [[values[i]]], [1])

    return loop(lambda i, c: i < n, body, [0, tf.zeros([8], tf.int32)])[1]


@program(8, 64)
def _shift_register(x: Inputs, n: int) -> Any:
    taps = x.uniform(n)

    def body(i: Any, r: Any) -> Any:
        return i + 1, tf.concat([r[1:], [tf.tanh(tf.reduce_sum(r * taps))]], 0)

    return loop(lambda i, r: i < 100, body, [0, tf.ones([n])])[1]


@program(4, 200, "kernel")
def _sum_of_squares_in_double(x: Inputs, n: int) -> Any:
    values = x.uniform(n, dtype=np.float64)
    return loop(
        lambda i, s: i < n, lambda i, s: (i + 1, s + values[i] ** 2), [0, tf.zeros([], tf.float64)]
    )[1]
