"""Groups at the limits of each template and beyond them: every kernel compiles.

A refused kernel fails any test. The limits of fusion are lifted too, so that groups reach those of
the templates themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tests.programs.big_graphs import BigGraph, theirs
from tests.programs.surroundings import environment
from tfjit.kernels.codegen.intrinsics import MAX_SCOPES
from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS as LOOP_OUTPUTS
from tfjit.kernels.cpu.reduction.reduce_plan import MAX_HEADS
from tfjit.passes.fusion import clusters, fuse, rematerialize, roles

pytestmark = pytest.mark.host
tf1 = tf.compat.v1
Values = list[Any]

INPUTS, OUTPUTS, MEMBERS, PARTS = (
    fuse.MAX_INPUTS,
    fuse.MAX_OUTPUTS,
    clusters.MAX_MEMBERS,
    roles.MAX_PARTS,
)
FAR_BEYOND_SCOPES = 40
"""Arrays of a row program; those beyond MAX_SCOPES share the last alias scope."""


@contextmanager
def fusion_limits(lifted: bool) -> Iterator[None]:
    """Lift the limits of fusion for a block, or leave them."""
    with pytest.MonkeyPatch.context() as patch:
        if lifted:
            for module, name in (
                (fuse, "MAX_INPUTS"),
                (fuse, "MAX_OUTPUTS"),
                (rematerialize, "MAX_COPIED"),
                (roles, "MAX_PARTS"),
            ):
                patch.setattr(module, name, 1000)
            patch.setattr(fuse.fuse, "__defaults__", (1000,))
        yield


def fed(*shape: int) -> Any:
    return tf1.placeholder(tf.float32, shape)


def chain(count: int) -> Values:
    """Return a loop of many members.

    Parts of MEMBERS are alike, so they share a kernel.
    """
    x = fed(6, 40)
    for k in range(count):
        x = (tf.tanh, tf.sigmoid, tf.sin, tf.nn.elu)[k % 4](x)
    return [x]


def loop_inputs(count: int) -> Values:
    x = tf.tanh(fed(6, 40))
    for k in range(count):
        x = tf.tanh(x + fed(*((6, 40), (40,), (6, 1), ())[k % 4]))
    return [x]


def loop_outputs(count: int) -> Values:
    x, found = fed(6, 40), []
    for _ in range(count):
        x = tf.tanh(x) * 1.5
        found.append(x)
    return found


def mixed_dtypes(count: int) -> Values:
    """Return results of several widths from one loop."""
    x, found = tf.tanh(fed(6, 40)), []
    for k in range(count):
        made = tf.cast(x * (k + 1.0), (tf.float64, tf.int32, tf.float32, tf.int8)[k % 4])
        found.append(made)
    return found


def dims(count: int) -> Values:
    """Return a loop whose operands have `count` dims that do not collapse."""
    shape = [2 + k % 2 for k in range(count)]
    x = fed(*shape)
    y = tf.transpose(fed(*shape[::-1]), range(count)[::-1])
    flat = [1 if k % 2 else n for k, n in enumerate(shape)]
    return [tf.tanh(x + y) * fed(*flat), tf.reduce_sum(tf.tanh(x - y), list(range(1, count, 2)))]


def kept_rows(count: int) -> Values:
    """Return a row program that keeps `count` arrays until its end."""
    h = fed(8, 16)
    for k in range(count):
        reduced = (tf.reduce_max, tf.reduce_sum, tf.reduce_mean)[k % 3](h, 1, keepdims=True)
        h = tf.tanh(h) + 1.0 - reduced * 0.01
    return [h]


def kept_to_the_end(count: int) -> Values:
    """Return rows whose arrays are all read again at the end."""
    h, kept = fed(8, 16), []
    for _ in range(count):
        h = tf.exp(-tf.square(h)) - tf.reduce_max(h, 1, keepdims=True) * 0.1
        kept.append(h)
    total = kept[0]
    for one in kept[1:]:
        total = total * 0.5 + one
    return [total - tf.reduce_mean(total, 1, keepdims=True)]


def row_results(count: int) -> Values:
    h, found = fed(8, 16), []
    for k in range(count):
        h = tf.tanh(h - tf.reduce_max(h, 1, keepdims=True) * 0.1)
        found.append(h if k % 2 else tf.reduce_sum(h, 1))
    return found


def row_inputs(count: int) -> Values:
    h = fed(8, 16)
    for k in range(count):
        h = tf.tanh(h + fed(*((8, 16), (16,), (8, 1))[k % 3]))
        if k % 5 == 0:
            h = tf.nn.softmax(h)
    return [h]


def row_width(count: int) -> Values:
    x = fed(3, count)
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return [tf.nn.softmax(tf.tanh(x)), (x - mean) * tf.math.rsqrt(variance + 0.1)]


def heads(count: int) -> Values:
    """Return reductions of one tensor."""
    x = tf.tanh(fed(64, 48))
    kinds = (tf.reduce_sum, tf.reduce_max, tf.reduce_mean, tf.reduce_min)
    return [kinds[k % 4](x * (0.5 + k), 0) for k in range(count)]


def reduced_results(count: int) -> Values:
    """Return values before and after a reduction."""
    x, found = fed(64, 48), []
    for _ in range(count):
        x = tf.tanh(x) * 1.25
        found.append(x)
    y = tf.reduce_sum(x, 0)
    for _ in range(count):
        y = tf.tanh(y * 0.1)
        found.append(y)
    return found


def reduced_inputs(count: int) -> Values:
    x = fed(64, 48)
    for k in range(count):
        x = tf.tanh(x + fed(*((64, 48), (48,), (64, 1))[k % 3]))
    y = tf.reduce_mean(x, 0)
    for _ in range(count):
        y = y * 0.5 + fed(48)
    return [y]


def reduced_width(count: int) -> Values:
    x = fed(9, count)
    return [tf.reduce_sum(tf.square(x), 0), tf.reduce_max(x), tf.math.reduce_variance(x, 0)]


def behind(y: Any, count: int, results: bool) -> Values:
    """Return an epilogue of many operands, or of many results."""
    width, found = int(y.shape[-1]), []
    for k in range(count):
        if not results:
            y = tf.tanh(y + fed(*(tuple(y.shape.as_list()), (width,), ())[k % 3]))
        else:
            y = tf.tanh(y * 1.5)
            found.append(y)
    return found or [y]


def products() -> Iterator[Any]:
    yield tf.matmul(fed(24, 16), tf.constant(np.eye(16, 20, dtype="f4")))
    yield tf.matmul(fed(2, 5, 16), fed(2, 16, 12))
    yield tf.nn.conv2d(fed(1, 6, 6, 8), tf.ones([3, 3, 8, 8]) * 0.01, 1, "SAME")
    yield tf.nn.depthwise_conv2d(fed(1, 6, 6, 8), tf.ones([3, 3, 8, 1]) * 0.1, [1] * 4, "SAME")


def epilogue_operands(count: int) -> Values:
    return [value for y in products() for value in behind(y, count, False)]


def epilogue_results(count: int) -> Values:
    return [value for y in products() for value in behind(y, count, True)]


def attention(queries: int, depth: int, members: int) -> Values:
    q, k, v = fed(2, queries, depth), fed(2, 9, depth), fed(2, 9, 16)
    scores = tf.matmul(q, k, transpose_b=True) / float(np.sqrt(depth))
    for number in range(members):
        scores = tf.tanh(scores) * 1.5 + (fed(2, queries, 9) if number % 2 else fed(9))
    return [tf.nn.relu(tf.matmul(tf.nn.softmax(scores), v))]


def pool_gradient(window: int) -> Values:
    x = fed(1, 24, 24, 8)
    y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.bias_add(x, fed(8))), window, window, "VALID")
    return list(tf.gradients(tf.reduce_sum(tf.sin(y)), [x]))


def parts(count: int) -> Values:
    x = tf.tanh(fed(6, 4 * count))
    return [tf.tanh(one) + 1.0 for one in tf.split(x, count, 1)]


def terms(count: int) -> Values:
    return [tf.tanh(tf.add_n([fed(6, 40) for _ in range(count)]))]


def cases() -> Iterator[Any]:
    """Yield each maker with counts at its limit, one more, and far beyond."""

    def at(make: Callable[..., Values], *limits: int, far: int) -> Iterator[Any]:
        counts = {n + off for n in limits for off in (0, 1)} | {far}
        for count in sorted(counts):
            yield pytest.param(make, (count,), id=f"{make.__name__}-{count}")

    yield from at(chain, MEMBERS, far=2 * MEMBERS)
    yield from at(loop_inputs, INPUTS, far=2 * INPUTS)
    yield from at(loop_outputs, OUTPUTS, LOOP_OUTPUTS, far=2 * LOOP_OUTPUTS)
    yield from at(mixed_dtypes, LOOP_OUTPUTS, far=2 * LOOP_OUTPUTS)
    yield from at(kept_rows, MAX_SCOPES, far=FAR_BEYOND_SCOPES)
    yield from at(kept_to_the_end, MAX_SCOPES, far=FAR_BEYOND_SCOPES)
    yield from at(row_results, LOOP_OUTPUTS - 4, OUTPUTS, far=2 * OUTPUTS)
    yield from at(row_inputs, INPUTS, far=2 * INPUTS)
    yield from at(row_width, 2, 4096, far=9000)
    yield from at(heads, MAX_HEADS, far=2 * MAX_HEADS)
    yield from at(reduced_results, 4, LOOP_OUTPUTS, far=2 * LOOP_OUTPUTS)
    yield from at(reduced_inputs, INPUTS // 2, far=INPUTS)
    yield from at(reduced_width, 2, 1024, 4096, far=9000)
    yield from at(epilogue_operands, INPUTS, far=2 * INPUTS)
    yield from at(epilogue_results, OUTPUTS, LOOP_OUTPUTS, far=2 * LOOP_OUTPUTS)
    yield from at(parts, PARTS, far=3 * PARTS)
    yield from at(terms, INPUTS, far=3 * INPUTS)
    yield from at(pool_gradient, 2, far=6)
    for rank in range(1, 6):
        yield pytest.param(dims, (rank,), id=f"dims-{rank}")
    for queries, depth, members in (
        (3, 16, 0),
        (4, 16, 1),
        (5, 511, 2),
        (5, 512, 2),
        (5, 513, 2),
        (8, 16, 8),
        (8, 16, 20),
    ):
        name = f"attention-{queries}-{depth}-{members}"
        yield pytest.param(attention, (queries, depth, members), id=name)


def compare(graph: Any, fetches: Any, feeds: dict[str, np.ndarray], text: str = "") -> None:
    """Run a graph with the limits of fusion as they are, and lifted."""
    expected = theirs(graph, fetches, feeds)
    for lifted in (False, True):
        told = f"{text}, limits lifted: {lifted}"
        with (
            environment({"TFJIT_JIT": "eager"}),
            fusion_limits(lifted),
            tfjit.Session(graph=graph) as session,
        ):
            for a, b in zip(session.run(fetches, feeds), expected, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape
                if b.dtype.kind == "f":
                    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=told)
                else:  # a sum that is rounded otherwise may cross a number
                    np.testing.assert_allclose(a, b, atol=1, err_msg=told)


@pytest.mark.parametrize(("make", "counts"), list(cases()))
def test_limits(make: Callable[..., Values], counts: tuple[int, ...]) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        fetches = make(*counts)
    rng = np.random.default_rng(0)
    feeds = {
        op.outputs[0].name: rng.uniform(-1, 1, op.outputs[0].shape.as_list()).astype("f4")
        for op in graph.get_operations()
        if op.type == "Placeholder"
    }
    compare(graph, fetches, feeds)


@settings(
    max_examples=2,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 1 << 20), st.integers(200, 500))
def test_random_graphs(seed: int, nodes: int) -> None:
    """Groups grow as they may, to whatever the templates take."""
    drawn = BigGraph(seed, nodes)
    compare(drawn.graph, drawn.fetches, drawn.feeds, drawn.text)
