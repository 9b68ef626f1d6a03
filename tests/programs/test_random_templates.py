"""What has a kernel of its own, drawn with producers and consumers around it: fused and unfused, on
one, two and eight threads.

The graphs of test_random_graphs.py are many small operations; here one large thing stands in the
middle (a softmax along any axis, attention, a product, a convolution, a training step), its
operands transposed, strided, sliced or computed, as is what becomes of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tests.programs.surroundings import environment

tf1 = tf.compat.v1

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70)
# NaN and infinities only where TensorFlow's answer is the same with oneDNN and without: oneDNN's
# softmax of a row with a NaN is 0 in places, its convolutions have NaN in other places, and TopK
# sorts NaN anywhere.
TINY = np.array([-0.0, 0.0, 1e-40, -1e-45], np.float32)
SPECIAL = np.array([*TINY, np.nan, np.inf, -np.inf], np.float32)
MODES = {
    "fused": {"TFJIT_JIT": "eager", "TFJIT_VERIFY": "1"},
    "unfused": {"TFJIT_JIT": "eager", "TFJIT_DISABLE": "fuse"},
}


@dataclass
class Case:
    """A graph being drawn: `draw` is hypothesis', `special` what feeds are sprinkled with, `text`
    says what was drawn.
    """

    draw: Any
    special: np.ndarray | None = None
    graph: Any = field(default_factory=tf1.Graph)
    feeds: dict[Any, np.ndarray] = field(default_factory=dict)
    fetches: list[Any] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def shape(self, rank: int, sizes: Sequence[int] = SIZES, most: int = 60_000) -> list[int]:
        dims: list[int] = []
        for _ in range(rank):
            room = most // max(1, int(np.prod([max(1, d) for d in dims])))
            dims.append(self.pick(*[n for n in sizes if n <= max(1, room)]))
        return dims

    def fed(self, shape: Sequence[int]) -> Any:
        """A placeholder with its array. Some leave their shape open."""
        rng = np.random.default_rng(len(self.feeds))
        array = rng.uniform(-1, 1, tuple(shape)).astype("f4")
        if self.special is not None and array.size:
            where = rng.integers(0, array.size, 1 + array.size // 50)
            array.flat[where] = rng.choice(self.special, where.size)
        known = shape if self.pick(True, True, False) else [None] * len(shape)
        x = tf1.placeholder(tf.float32, known)
        self.feeds[x] = array
        x = tf.ensure_shape(x, shape) if known is not shape and self.pick(True, False) else x
        return x

    def operand(self, shape: Sequence[int]) -> Any:
        """A value of this shape: fed, or made of what is fed by movement or arithmetic."""
        shape = list(shape)
        how = self.pick(
            "fed",
            "fed",
            "transposed",
            "strided",
            "sliced",
            "computed",
            "broadcast",
            "reshaped",
            "reduced",
            "reversed",
            "joined",
        )
        self.text.append(f"{how} {shape}")
        rank = len(shape)
        if how == "transposed" and rank > 1:
            order = self.draw(st.permutations(range(rank)))
            before = [0] * rank
            for k, axis in enumerate(order):
                before[axis] = shape[k]
            return tf.transpose(self.fed(before), order)
        if how in ("strided", "sliced", "reversed") and rank:
            axis = self.draw(st.integers(0, rank - 1))
            step, extra = (2, 0) if how == "strided" else (1, 3)
            if how == "reversed":
                return tf.reverse(self.fed(shape), [axis])
            before = [n * step + extra if k == axis else n for k, n in enumerate(shape)]
            index = [slice(None)] * rank
            index[axis] = slice(extra and 1, (extra and 1) + shape[axis] * step, step)
            return self.fed(before)[tuple(index)]
        if how == "computed":
            return self.chain(self.fed(shape), shape)
        if how == "broadcast" and rank:
            other = [self.pick(n, 1) for n in shape]
            return self.fed(shape) * 0.5 + self.fed(other[self.draw(st.integers(0, rank)) :])
        if how == "reshaped":
            return tf.reshape(self.fed([int(np.prod(shape))]), shape)
        if how == "reduced":
            axis = self.draw(st.integers(0, rank))
            return tf.reduce_mean(self.fed([*shape[:axis], 3, *shape[axis:]]), axis=axis)
        if how == "joined" and rank and shape[-1] > 1:
            first = shape[-1] // 2
            return tf.concat(
                [
                    self.fed([*shape[:-1], first]),
                    tf.nn.relu(self.fed([*shape[:-1], shape[-1] - first])),
                ],
                -1,
            )
        return self.fed(shape)

    def chain(self, x: Any, shape: Sequence[int]) -> Any:
        for _ in range(self.draw(st.integers(1, 3))):
            how = self.pick(
                "relu",
                "tanh",
                "scale",
                "add",
                "bias",
                "select",
                "square",
                "relu6",
                "sigmoid",
                "neg",
            )
            self.text.append(f"  {how}")
            if how == "add":
                x = x + self.fed(shape)
            elif how == "bias":
                x = x + self.fed(shape[-1:])
            elif how == "select":
                x = tf.where(x > 0.1, x, tf.cast(0.25, tf.float32) * x)
            else:
                x = CHAIN[how](x)
        return x

    def consume(self, x: Any) -> None:
        """Fetch a value, or what is made of it."""
        for _ in range(self.draw(st.integers(1, 2))):
            shape = x.shape.as_list() if x.shape.is_fully_defined() else None
            how = self.pick(
                "plain",
                "chain",
                "transposed",
                "sliced",
                "strided",
                "reduced",
                "twice",
                "joined",
                "normalised",
            )
            self.text.append(f"-> {how} {shape}")
            rank = x.shape.rank
            if shape is None or how == "plain" or not rank:
                self.fetches.append(tf.nn.relu(x) if how == "twice" else x)
            elif how == "chain":
                self.fetches.append(self.chain(x, shape))
            elif how == "transposed":
                self.fetches.append(tf.transpose(x, self.draw(st.permutations(range(rank)))))
            elif how in ("sliced", "strided"):
                axis = self.draw(st.integers(0, rank - 1))
                index = [slice(None)] * rank
                index[axis] = (
                    slice(1, None) if how == "sliced" else slice(None, None, self.pick(2, -1))
                )
                self.fetches.append(x[tuple(index)])
            elif how == "reduced":
                axes = sorted(self.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
                self.fetches.append(tf.reduce_sum(x, axes, keepdims=self.pick(True, False)))
            elif how == "joined":
                self.fetches.append(tf.concat([x, x * 0.5], self.draw(st.integers(0, rank - 1))))
            elif how == "normalised" and 0 not in shape:
                self.fetches.append(x - tf.reduce_max(x, -1, keepdims=True))
            else:
                self.fetches.append(x)
                self.fetches.append(x * 2.0 + 1.0)


CHAIN: dict[str, Callable[[Any], Any]] = {
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "scale": lambda x: x * 0.5 - 0.25,
    "square": lambda x: tf.square(tf.tanh(x)),
    "relu6": tf.nn.relu6,
    "sigmoid": tf.sigmoid,
    "neg": tf.negative,
}


def row_wise(case: Case) -> None:
    """Softmax and its kin, and statistics, along any axes."""
    rank = case.draw(st.integers(1, 4))
    shape = case.shape(rank)
    x = case.operand(shape)
    axis = case.draw(st.integers(0, rank - 1))
    how = case.pick(
        "softmax",
        "log_softmax",
        "logsumexp",
        "variance",
        "layer norm",
        "moments",
        "cumsum",
        "max",
        "argmax",
        "l2",
        "cross",
    )
    case.text.append(f"{how} along {axis}")
    if how == "softmax":
        case.consume(tf.nn.softmax(x, axis))
    elif how == "log_softmax":
        case.consume(tf.nn.log_softmax(x, axis))
    elif how == "logsumexp":
        case.consume(tf.reduce_logsumexp(x, axis, keepdims=case.pick(True, False)))
    elif how == "variance":
        mean = tf.reduce_mean(x, axis, keepdims=True)
        case.consume(tf.reduce_mean(tf.math.squared_difference(x, mean), axis))
    elif how == "layer norm":
        centred = x - tf.reduce_mean(x, axis, keepdims=True)
        y = centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis, keepdims=True) + 1e-2)
        case.consume(y * case.fed(shape[-1:]) + case.fed(shape[-1:]))
    elif how == "moments":
        mean, variance = tf.nn.moments(x, sorted({axis, rank - 1}))
        case.fetches += [mean, variance]
    elif how == "cumsum":
        case.consume(
            tf.cumsum(x, axis, exclusive=case.pick(True, False), reverse=case.pick(True, False))
        )
    elif how == "argmax" and shape[axis]:
        case.fetches.append(tf.argmax(tf.round(x * 8.0), axis, output_type=tf.int32))
    elif how == "l2":
        case.consume(tf.nn.l2_normalize(x, axis, epsilon=1e-3))
    elif how == "cross" and rank == 2 and shape[1]:
        labels = tf1.placeholder(tf.int32, [shape[0]])
        case.feeds[labels] = np.arange(shape[0], dtype=np.int32) % shape[1]
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
        case.fetches += [loss, tf.gradients(tf.reduce_sum(loss), x)[0]]
    else:
        case.fetches.append(tf.reduce_max(x, axis))


def product(case: Case) -> None:
    """Matrix products with operands turned either way, and what follows them."""
    m, k, n = case.shape(3, SIZES)
    batch = case.shape(case.draw(st.integers(0, 2)), (1, 2, 3, 5))
    ta, tb = case.pick(True, False), case.pick(True, False)
    a = case.operand([*batch, *((k, m) if ta else (m, k))])
    # Equal batches: TensorFlow 2.21 with oneDNN gives wrong values for BatchMatMulV2 and Add, and
    # crashes, where batches broadcast.
    shape = [*batch, *((n, k) if tb else (k, n))]
    b = (
        tf.constant(np.random.default_rng(5).uniform(-1, 1, shape).astype("f4"))
        if case.pick(True, False)
        else case.operand(shape)
    )
    case.text.append(f"matmul {batch} {m}x{k}x{n} {ta} {tb}")
    y = tf.matmul(a, b, transpose_a=ta, transpose_b=tb)
    if case.pick(True, False):
        y = case.chain(y, [*batch, m, n])
    case.consume(y)


def attention(case: Case) -> None:
    """Products of queries, keys and values with a softmax between, and the heads turned or not."""
    batch, heads = case.pick(1, 2), case.pick(1, 2, 3)
    queries, keys = case.pick(1, 4, 5, 17, 33, 70), case.pick(1, 3, 16, 31, 65, 140)
    depth, width = case.pick(1, 4, 8, 15, 16, 33), case.pick(1, 5, 8, 16, 31)
    turned, adjoint = case.pick(True, False), case.pick(True, False)

    def matrix(rows: int, columns: int) -> Any:
        if not turned:
            return case.operand([batch, heads, rows, columns])
        x = case.operand([batch, rows, heads * columns])
        return tf.transpose(tf.reshape(x, [batch, rows, heads, columns]), [0, 2, 1, 3])

    scores = tf.matmul(
        matrix(queries, depth),
        matrix(keys, depth) if adjoint else matrix(depth, keys),
        transpose_b=adjoint,
    )
    scale, mask = (
        case.pick("none", "mul", "div"),
        case.pick("none", "key", "full", "shared", "causal"),
    )
    case.text.append(
        f"attention {batch} {heads} {queries}x{keys} {depth} {width} {turned} {adjoint} {scale} "
        f"{mask}"
    )
    scores = {"none": scores, "mul": scores * 0.25, "div": scores / 4.0}[scale]
    if mask == "causal":
        ones = tf.linalg.band_part(tf.ones([queries, keys]), -1, 0)
        scores = scores * ones + (1.0 - ones) * -1e9
    elif mask != "none":
        shape = {
            "key": [batch, 1, 1, keys],
            "full": [batch, heads, queries, keys],
            "shared": [queries, keys],
        }[mask]
        scores = scores + case.fed(shape)
    y = tf.matmul(tf.nn.softmax(scores), matrix(keys, width))
    if case.pick(True, False):
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [batch * queries, heads * width])
    case.consume(y)


def convolution(case: Case) -> None:
    """Convolutions (3x3 among them more often), with and without constant filters, and poolings."""
    batch, h, w = (
        case.pick(1, 2, 3),
        case.pick(1, 4, 5, 7, 8, 13, 16),
        case.pick(1, 3, 6, 7, 9, 14, 17),
    )
    ci, co = case.pick(1, 3, 4, 8, 16, 17, 33), case.pick(1, 3, 8, 16, 19, 40)
    k, stride, dilation = case.pick(1, 3, 3, 3, 5, 2), case.pick(1, 1, 1, 2), case.pick(1, 1, 1, 2)
    padding = case.pick("SAME", "VALID", "EXPLICIT")
    if dilation > 1:
        stride = 1
    reach = (k - 1) * dilation + 1
    if padding == "VALID" and min(h, w) < reach:
        padding = "SAME"
    around: Any = padding
    if padding == "EXPLICIT":
        around = [[0, 0], [k // 2 + 1, k // 2], [k - 1, 1 + k // 2], [0, 0]]
        h, w = max(h, reach), max(w, reach)
    x = case.operand([batch, h, w, ci])
    kind = case.pick("conv", "conv", "conv", "depthwise", "max pool", "avg pool", "gradient")
    if kind == "gradient" and padding == "EXPLICIT":
        dilation = 1  # TensorFlow's own gradient refuses both together
    case.text.append(
        f"{kind} {[batch, h, w, ci]} -> {co}, {k}/{stride} dilation {dilation} {around}"
    )
    rng = np.random.default_rng(9)
    if kind.endswith("pool"):
        function = tf.nn.max_pool2d if kind == "max pool" else tf.nn.avg_pool2d
        y = function(x, k, stride, "SAME" if padding == "EXPLICIT" else padding)
    elif kind == "depthwise":
        weights = tf.constant(rng.uniform(-1, 1, (k, k, ci, 1)).astype("f4"))
        stride_all = [1, stride, stride, 1]
        y = tf.nn.depthwise_conv2d(
            x, weights, stride_all, "SAME" if padding == "EXPLICIT" else padding
        )
    else:
        weights = (rng.uniform(-1, 1, (k, k, ci, co)) / np.sqrt(k * k * ci)).astype("f4")
        filters = (
            tf.constant(weights)
            if case.pick(True, False) and kind == "conv"
            else case.fed(weights.shape) * 0.2
        )
        y = tf.nn.conv2d(
            x, filters, [1, stride, stride, 1], around, dilations=[1, dilation, dilation, 1]
        )
        if kind == "gradient":
            case.fetches += tf.gradients(tf.reduce_sum(tf.tanh(y)), [x, filters])
    if y.shape.is_fully_defined() and case.pick(True, False):
        y = case.chain(y, y.shape.as_list())
    case.consume(y)


def rows_by_index(case: Case) -> None:
    """Gathers and scatters."""
    rank = case.draw(st.integers(1, 3))
    shape = case.shape(rank, SIZES[1:])
    x = case.operand(shape)
    axis = case.draw(st.integers(0, rank - 1))
    count = case.pick(0, 1, 3, 8, 40)
    rng = np.random.default_rng(count)
    index = tf1.placeholder(tf.int32, [count])
    case.feeds[index] = rng.integers(0, shape[axis], count).astype("i4")
    how = case.pick(
        "gather", "gather", "gather_nd", "scatter_nd", "segments", "one hot", "top", "gradient"
    )
    if case.special is SPECIAL and how in ("segments", "top"):
        how = "gather"  # which of a NaN and a number is larger is left open
    case.text.append(f"{how} {shape} axis {axis} {count}")
    if how == "gather":
        case.consume(tf.gather(x, index, axis=axis))
    elif how == "gather_nd" and axis == 0:
        case.consume(tf.gather_nd(x, index[:, None]))
    elif how == "scatter_nd" and axis == 0:
        case.consume(tf.scatter_nd(index[:, None], tf.gather(x, index), shape))
    elif how == "segments" and axis == 0:
        reduce = case.pick(
            tf.math.unsorted_segment_sum,
            tf.math.unsorted_segment_max,
            tf.math.unsorted_segment_mean,
        )
        case.fetches.append(reduce(tf.gather(x, index), index, shape[0]))
    elif how == "one hot":
        case.consume(tf.one_hot(index, shape[axis], axis=case.pick(0, -1)))
    elif how == "top":
        values, indices = tf.nn.top_k(tf.round(x * 16.0), case.draw(st.integers(0, shape[-1])))
        case.fetches += [values, indices]
    else:
        loss = tf.reduce_sum(tf.tanh(tf.gather(x, index, axis=axis)))
        case.fetches.append(tf.convert_to_tensor(tf.gradients(loss, x)[0]))


@st.composite
def cases(draw: Any, special: bool) -> Case:
    """A template with its surroundings."""
    case = Case(draw)
    with case.graph.as_default():
        template = case.pick(row_wise, row_wise, product, attention, convolution, rows_by_index)
        if special:
            case.special = SPECIAL if template in (product, rows_by_index) else TINY
        case.text.append(template.__name__)
        template(case)
    return case


def compare(case: Case, threads: int, mode: str) -> None:
    with tf1.Session(graph=case.graph) as session:
        expected = session.run(case.fetches, case.feeds)
    config = tfjit.ConfigProto(intra_op_parallelism_threads=threads)
    with environment(MODES[mode]), tfjit.Session(graph=case.graph, config=config) as session:
        for _ in range(2):
            got = session.run(case.fetches, {x: array.copy() for x, array in case.feeds.items()})
            for fetch, a, b in zip(case.fetches, got, expected, strict=True):
                where = f"{mode}, {threads} threads, {fetch.name} of\n" + "\n".join(case.text)
                assert np.shape(a) == np.shape(b) and a.dtype == b.dtype, where
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=3e-5, err_msg=where)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    # epsilons that keep an almost vanishing gradient's sign from deciding a whole step
    "descent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.05, 0.9),
    "nesterov": lambda: tf1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda: tf1.train.AdamOptimizer(0.01, epsilon=0.01),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.01, momentum=0.5, epsilon=0.01),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.05),
}


@dataclass
class Training:
    """A training step being drawn: feeds of one step, what sets up, what a step runs, and the
    variables.
    """

    graph: Any
    feeds: dict[Any, np.ndarray]
    init: Any
    fetches: list[Any]
    variables: list[Any]
    text: str


@st.composite
def trainings(draw: Any) -> Training:
    """Two layers over features or rows of a table, with any optimizer; a counter assigned beside,
    and read after.
    """
    optimizer, resource = draw(st.sampled_from(sorted(OPTIMIZERS))), draw(st.booleans())
    batch, k, n = (
        draw(st.sampled_from(sizes)) for sizes in ((1, 3, 8, 33), (1, 5, 16, 31), (1, 4, 7, 17))
    )
    table = draw(st.booleans())
    rng, graph = np.random.default_rng(1), tf1.Graph()

    def variable(*shape: int) -> Any:
        return tf1.Variable(
            tf.constant((rng.standard_normal(shape) / 2).astype("f4")), use_resource=resource
        )

    with graph.as_default():
        feeds: dict[Any, np.ndarray] = {}
        if table:
            x = tf1.placeholder(tf.int32, [None])
            feeds[x] = rng.integers(0, 6, batch).astype("i4")
            h = tf.nn.embedding_lookup(variable(6, k), x)
        else:
            h = x = tf1.placeholder(tf.float32, [None, k])
            feeds[x] = rng.uniform(-1, 1, (batch, k)).astype("f4")
        h = tf.tanh(tf.matmul(h, variable(k, n)) + variable(n))
        logits = tf.nn.bias_add(tf.matmul(h, variable(n, 5)), variable(5))
        labels = tf1.placeholder(tf.int32, [None])
        feeds[labels] = (np.arange(batch) % 5).astype("i4")
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        variables = tf1.trainable_variables()
        train = OPTIMIZERS[optimizer]().minimize(loss)
        total = tf1.Variable(tf.zeros([5]), use_resource=resource)
        added = tf1.assign_add(total, tf.reduce_sum(logits, 0))
        values = [v.read_value() for v in [*variables, total]]
        init = tf1.global_variables_initializer()
    return Training(
        graph,
        feeds,
        init,
        [loss, train, added],
        values,
        f"{optimizer} resource={resource} {batch} {k} {n} table={table}",
    )


def trained(session: Any, training: Training) -> list[Any]:
    """The losses of three steps, and the variables after them."""
    session.run(training.init)
    losses = [session.run(training.fetches, training.feeds)[0] for _ in range(3)]
    return [*losses, *session.run(training.variables)]


OPTIONS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
# to look for faults rather than to guard against them
MORE = int(os.environ.get("HYPOTHESIS_EXAMPLES", "0"))


@settings(max_examples=MORE or 25, derandomize=not MORE, **OPTIONS)
@given(cases(special=False), st.sampled_from([1, 2, 8]), st.sampled_from(sorted(MODES)))
def test_templates(case: Case, threads: int, mode: str) -> None:
    compare(case, threads, mode)


@settings(max_examples=MORE or 15, derandomize=not MORE, **OPTIONS)
@given(cases(special=True), st.sampled_from([1, 2, 8]), st.sampled_from(sorted(MODES)))
def test_templates_with_special_values(case: Case, threads: int, mode: str) -> None:
    compare(case, threads, mode)


@settings(max_examples=MORE or 8, derandomize=not MORE, **OPTIONS)
@given(trainings(), st.sampled_from([1, 2, 8]), st.sampled_from(sorted(MODES)))
def test_training_steps(training: Training, threads: int, mode: str) -> None:
    with tf1.Session(graph=training.graph) as session:
        expected = trained(session, training)
    config = tfjit.ConfigProto(intra_op_parallelism_threads=threads)
    with environment(MODES[mode]), tfjit.Session(graph=training.graph, config=config) as session:
        for a, b in zip(trained(session, training), expected, strict=True):
            np.testing.assert_allclose(
                a, b, rtol=2e-4, atol=2e-5, err_msg=f"{mode}, {threads} threads, {training.text}"
            )
