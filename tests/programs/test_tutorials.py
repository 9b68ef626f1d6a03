"""Small TF1 programs as users write them, run by TensorFlow and by tfjit through the
same function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1
Program = Callable[[Any], Any]


@pytest.fixture(autouse=True, scope="module")
def tensorflow_one() -> Iterator[None]:
    """TensorFlow as version 1 was: reference variables, and control flow of Switch and Merge."""
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()
    yield
    tf1.enable_control_flow_v2()
    tf1.enable_resource_variables()


def basic_constants(tf: Any) -> Any:
    a, b = tf.constant(2), tf.constant(3)
    with tf.Session() as sess:
        return [
            sess.run(a + b),
            sess.run(a * b),
            sess.run([tf.subtract(a, b), a // b, a % b, a**b]),
            str(a),
            repr(b),
        ]


def fed_placeholders(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, shape=[None, 3], name="x")
    y = tf.placeholder(tf.float32, shape=(3, 2), name="y")
    product = tf.matmul(x, y)
    scaled = tf.multiply(product, tf.constant([10.0, 100.0]), name="scaled")
    feeds = {x: np.arange(6).reshape(2, 3), y: [[1, 2], [3, 4], [5, 6]]}
    with tf.Session() as sess:
        first = sess.run(product, feed_dict=feeds)
        second = sess.run({"scaled": scaled, "both": (product, "scaled:0")}, feed_dict=feeds)
        third = sess.run(scaled, feed_dict={product: [[1.0, 1.0]]})
        return [first, second, third, scaled.eval(feed_dict=feeds), scaled.shape.as_list()]


def linear_algebra(tf: Any) -> Any:
    matrix1 = tf.constant([[3.0, 3.0]])
    matrix2 = tf.constant([[2.0], [2.0]])
    product = tf.matmul(matrix1, matrix2)
    square = tf.constant(np.arange(1, 10, dtype="f4").reshape(3, 3))
    made = [
        product,
        tf.transpose(square),
        tf.eye(3) + square,
        tf.matmul(square, square, transpose_b=True),
        tf.reduce_sum(square, axis=0),
        tf.reduce_mean(square, axis=1, keepdims=True),
        tf.argmax(square, 1),
        tf.diag_part(square),
        tf.tensordot(square, square, axes=1),
        tf.einsum("ij,jk->ik", square, square),
        square @ square,
        tf.reshape(square, [-1]),
        tf.concat([square, square], axis=1),
        tf.stack([square[0], square[:, 1], square[-1, ::-1]]),
        tf.split(square, 3, axis=1)[1],
        tf.tile(tf.expand_dims(square[0], 0), [2, 1]),
        tf.cast(square, tf.int32),
        tf.one_hot([0, 2], 3),
        tf.zeros_like(square),
        tf.fill([2, 2], 7),
        tf.range(3, 18, 3),
        tf.linspace(0.0, 1.0, 5),
        tf.squeeze(tf.ones([1, 2, 1])),
        tf.gather(square, [2, 0]),
        tf.nn.l2_normalize(square, 1),
        tf.shape(square),
        tf.size(square),
        tf.rank(square),
    ]
    with tf.Session() as sess:
        return sess.run(made)


def counter(tf: Any) -> Any:
    state = tf.Variable(0, name="counter")
    new_value = tf.add(state, tf.constant(1))
    update = tf.assign(state, new_value)
    init_op = tf.global_variables_initializer()
    seen = []
    with tf.Session() as sess:
        sess.run(init_op)
        seen.append(sess.run(state))
        for _ in range(3):
            sess.run(update)
            seen.append(state.eval())
        seen.append(sess.run(state, {state: 40}))
        state.load(100, sess)
        seen.append(sess.run([state, new_value]))
        seen.append(sess.run(update.op))
        seen.append(sess.run(state))
    return seen


def resource_counter(tf: Any) -> Any:
    with tf.variable_scope("", use_resource=True):
        total = tf.get_variable(
            "total", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer()
        )
        rows = tf.get_variable(
            "rows", [3, 2], initializer=tf.constant_initializer([[1, 2], [3, 4]])
        )
    step = total.assign_add(2)
    scattered = tf.scatter_add(rows, [0, 2], [[10.0, 10.0], [20.0, 20.0]])
    seen = []
    with tf.Session() as sess:
        seen.append(sess.run(tf.report_uninitialized_variables()))
        sess.run(tf.global_variables_initializer())
        seen.append(sess.run(tf.report_uninitialized_variables()))
        seen.append(sess.run([step, total.read_value() * 0]))
        seen += [
            sess.run(step),
            sess.run(total),
            sess.run(tf.identity(step)),
            sess.run(scattered),
            sess.run(rows * 2.0),
        ]
        total.load(7, sess)
        seen.append(total.eval())
    return seen


def interactive(tf: Any) -> Any:
    sess = tf.InteractiveSession()
    try:
        x = tf.Variable([1.0, 2.0])
        a = tf.constant([3.0, 3.0])
        x.initializer.run()
        sub = tf.subtract(x, a)
        return [
            sub.eval(),
            tf.is_variable_initialized(x).eval(),
            x.eval(),
            x.assign(a).eval(),
            sub.eval(),
        ]
    finally:
        sess.close()


def name_scopes_and_collections(tf: Any) -> Any:
    with tf.name_scope("hidden") as scope:
        a = tf.constant(5.0, name="alpha")
        weights = tf.Variable(tf.ones([2, 1]), name="weights")
        with tf.name_scope("inner"):
            b = tf.multiply(a, 2.0, name="beta")
    with tf.name_scope("hidden"):
        again = tf.constant(1.0, name="alpha")
    with tf.name_scope(scope):
        back = tf.constant(2.0, name="gamma")
    tf.add_to_collection("outputs", b)
    tf.add_to_collection("outputs", again)
    graph = tf.get_default_graph()
    names = [
        a.name,
        weights.name,
        b.op.name,
        again.name,
        back.name,
        scope,
        [v.name for v in tf.trainable_variables()],
    ]
    with tf.Session() as sess:
        values = sess.run(tf.get_collection("outputs"))
        by_name = sess.run("hidden/inner/beta:0")
    return [
        names,
        values,
        by_name,
        [op.name for op in graph.get_operations()],
        graph.get_tensor_by_name("hidden/alpha:0") is a,
    ]


def control_dependencies(tf: Any) -> Any:
    x = tf.Variable(1.0)
    log = tf.Variable([0.0, 0.0])
    double = x.assign(x * 2.0)
    with tf.control_dependencies([double]):
        after = tf.identity(x.read_value() + 0.5)
        with tf.control_dependencies([tf.assign_add(log, [1.0, 1.0])]):
            done = tf.no_op(name="done")
        with tf.control_dependencies(None):
            free = tf.constant(3.0)
    both = tf.group(double, done, name="both")
    gated = tf.tuple([after, free])
    seen = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for fetch in (after, done, x, log, both, x, log, gated, x, free):
            seen.append(sess.run(fetch))
    return seen


def queue_loop(tf: Any) -> Any:
    queue = tf.FIFOQueue(3, "float")
    init = queue.enqueue_many(([0.0, 1.0, 2.0],))
    x = queue.dequeue()
    y = x + 1
    q_inc = queue.enqueue([y])
    seen = []
    with tf.Session() as sess:
        init.run()
        for _ in range(5):
            q_inc.run()
        size = sess.run(queue.size())
        for _ in range(size):
            seen.append(sess.run(x))
        sess.run(queue.close())
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(x)
    return [size, *seen]


def batches_from_queues(tf: Any) -> Any:
    pairs = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[2], []], name="pairs")
    fill = pairs.enqueue_many([np.arange(10).reshape(5, 2), ["a", "b", "c", "d", "e"]])
    ragged = tf.PaddingFIFOQueue(10, [tf.float32], shapes=[[None]])
    data = tf.placeholder(tf.float32, [None])
    put = ragged.enqueue([data])
    first = tf.PriorityQueue(10, [tf.string], shapes=[[]])
    order = first.enqueue_many([np.array([3, 1, 2]), ["third", "first", "second"]])
    numbers, letters = pairs.dequeue_many(2)
    with tf.Session() as sess:
        sess.run([fill, order])
        for size in (1, 3, 2):
            sess.run(put, {data: np.ones(size)})
        out = [
            sess.run([numbers * 2, letters]),
            sess.run(ragged.dequeue_many(3)),
            sess.run(first.dequeue_many(3)),
        ]
        sess.run(pairs.close())
        out.append(sess.run(pairs.dequeue_up_to(10)))
        return out


def moving_average(tf: Any) -> Any:
    raw = np.random.RandomState(0).normal(10, 1, 100).astype("f4")
    alpha = tf.constant(0.05)
    current = tf.placeholder(tf.float32)
    previous = tf.Variable(0.0)
    update = alpha * current + (1 - alpha) * previous
    seen = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in raw:
            average = sess.run(update, feed_dict={current: value})
            sess.run(tf.assign(previous, average))  # a new node each time, as the tutorial has it
            seen.append(average)
    return seen


def mandelbrot(tf: Any) -> Any:
    y, x = np.mgrid[-1.3:1.3:0.05, -2:1:0.05]
    z = x + 1j * y
    sess = tf.InteractiveSession()
    try:
        xs = tf.constant(z.astype(np.complex64))
        zs = tf.Variable(xs)
        ns = tf.Variable(tf.zeros_like(xs, tf.float32))
        tf.global_variables_initializer().run()
        new_zs = zs * zs + xs
        not_diverged = tf.abs(new_zs) < 4
        step = tf.group(zs.assign(new_zs), ns.assign_add(tf.cast(not_diverged, tf.float32)))
        for _ in range(20):
            step.run()
        return ns.eval()
    finally:
        sess.close()


def heat(tf: Any) -> Any:
    """Drops on a pond: the Laplacian as a convolution, two variables stepped together."""
    size = 24

    def laplace(x: Any) -> Any:
        kernel = tf.constant(
            np.array([[0.5, 1.0, 0.5], [1.0, -6.0, 1.0], [0.5, 1.0, 0.5]], "f4").reshape(3, 3, 1, 1)
        )
        return tf.nn.depthwise_conv2d(
            tf.expand_dims(tf.expand_dims(x, 0), -1), kernel, [1, 1, 1, 1], padding="SAME"
        )[0, :, :, 0]

    start = np.zeros([size, size], dtype=np.float32)
    rng = np.random.RandomState(1)
    for _ in range(6):
        a, b = rng.randint(0, size, 2)
        start[a, b] = rng.uniform()
    eps = tf.placeholder(tf.float32, shape=())
    damping = tf.placeholder(tf.float32, shape=())
    u, ut = tf.Variable(start), tf.Variable(np.zeros_like(start))
    step = tf.group(u.assign(u + eps * ut), ut.assign(ut + eps * (laplace(u) - damping * ut)))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        # Both assignments read and write u, in no order that the graph gives: what is compared must
        # not depend on it.
        before = sess.run([u + 0.0, laplace(u)])
        sess.run(step, {eps: 0.0, damping: 0.04})
        return [*before, sess.run(u), sess.run(ut)]


def game_of_life(tf: Any) -> Any:
    board = (np.random.RandomState(3).uniform(size=(16, 16)) < 0.4).astype(np.int32)
    cells = tf.placeholder(tf.int32, [16, 16])
    kernel = tf.reshape(tf.ones([3, 3]), [3, 3, 1, 1])
    image = tf.reshape(tf.cast(cells, tf.float32), [1, 16, 16, 1])
    around = (
        tf.cast(
            tf.reshape(tf.nn.conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME"), [16, 16]),
            tf.int32,
        )
        - cells
    )
    survives = tf.logical_and(tf.equal(cells, 1), tf.equal(around, 2))
    alive = tf.logical_or(survives, tf.equal(around, 3))
    following = tf.where(alive, tf.ones_like(cells), tf.zeros_like(cells))
    seen = []
    with tf.Session() as sess:
        for _ in range(8):
            board = sess.run(following, feed_dict={cells: board})
            seen.append(board)
    return seen


def device_pinning(tf: Any) -> Any:
    with tf.device("/cpu:0"):
        a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
        v = tf.Variable(tf.zeros([2, 2]), name="v")
    with tf.device("/cpu:1"):
        b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2], name="b")
        c = tf.matmul(a, b)
        w = tf.get_variable("w", initializer=tf.ones([2, 2]))
    with tf.device("/device:GPU:0"):
        d = c + v + w
    with tf.device(lambda op: "/cpu:1" if op.type == "Mul" else ""):
        e = d * 2.0
    config = tf.ConfigProto(
        device_count={"CPU": 2}, allow_soft_placement=True, log_device_placement=False
    )
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        names = [d.name for d in sess.list_devices()]
        return [
            sess.run([c, d, e]),
            [t.device for t in (a, b, c, d, e, v.op, w.initializer)],
            names[:2],
        ]


def softmax_inference(tf: Any) -> Any:
    """A classifier whose weights come from outside, by `load` and by an assign with a fed value."""
    rng = np.random.RandomState(5)
    weights, bias, images = (
        rng.normal(size=(20, 4)).astype("f4"),
        rng.normal(size=4).astype("f4"),
        rng.normal(size=(7, 20)).astype("f4"),
    )
    labels = np.eye(4, dtype="f4")[rng.randint(0, 4, 7)]
    x = tf.placeholder(tf.float32, [None, 20])
    y_ = tf.placeholder(tf.float32, [None, 4])
    w = tf.Variable(tf.zeros([20, 4]), name="W")
    b = tf.Variable(tf.zeros([4]), name="b")
    logits = tf.matmul(x, w) + b
    y = tf.nn.softmax(logits)
    loss = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), axis=[1]))
    stable = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=logits))
    correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    new_bias = tf.placeholder(tf.float32, [4])
    set_bias = b.assign(new_bias)
    feeds = {x: images, y_: labels}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run([y, loss, accuracy], feeds)
        w.load(weights, sess)
        sess.run(set_bias, {new_bias: bias})
        return [before, sess.run([y, loss, stable, accuracy], feeds)]


def convolutional_inference(tf: Any) -> Any:
    """The MNIST tutorial's network up to its logits, in a deep_nn function as the
    tutorial has it.
    """

    def weight_variable(shape: Any) -> Any:
        return tf.Variable(tf.truncated_normal(shape, stddev=0.1, seed=shape[-1]))

    def bias_variable(shape: Any) -> Any:
        return tf.Variable(tf.constant(0.1, shape=shape))

    def conv2d(x: Any, w: Any) -> Any:
        return tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")

    def max_pool_2x2(x: Any) -> Any:
        return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")

    x = tf.placeholder(tf.float32, [None, 64])
    keep_prob = tf.placeholder_with_default(1.0, shape=())
    with tf.name_scope("conv1"):
        h1 = max_pool_2x2(
            tf.nn.relu(
                conv2d(tf.reshape(x, [-1, 8, 8, 1]), weight_variable([5, 5, 1, 4]))
                + bias_variable([4])
            )
        )
    with tf.name_scope("conv2"):
        h2 = max_pool_2x2(
            tf.nn.relu(conv2d(h1, weight_variable([3, 3, 4, 6])) + bias_variable([6]))
        )
    with tf.name_scope("fc"):
        flat = tf.reshape(h2, [-1, 2 * 2 * 6])
        h3 = tf.nn.relu(tf.matmul(flat, weight_variable([24, 16])) + bias_variable([16]))
        dropped = tf.nn.dropout(h3, keep_prob=keep_prob)
    logits = tf.nn.xw_plus_b(dropped, weight_variable([16, 10]), bias_variable([10]))
    images = np.random.RandomState(2).uniform(size=(3, 64))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return [
            sess.run(logits, {x: images}),
            logits.shape.as_list(),
            len(tf.trainable_variables()),
        ]


def trained_by_differences(tf: Any) -> Any:
    """A linear model fitted with slopes measured by finite differences: everything of training but
    gradients.
    """
    rng = np.random.RandomState(0)
    train_x = rng.uniform(0, 10, 17).astype("f4")
    train_y = (2.0 * train_x + 1.0 + rng.normal(0, 0.1, 17)).astype("f4")
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    with tf.variable_scope("model"):
        w = tf.get_variable("weight", [], initializer=tf.constant_initializer(0.1))
        b = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()

    def cost(weight: Any, bias: Any) -> Any:
        return tf.reduce_sum(tf.pow(weight * x + bias - y, 2)) / (2 * 17.0)

    eps, rate = 0.125, 0.02
    slope_w = (cost(w + eps, b) - cost(w - eps, b)) / (2 * eps)
    slope_b = (cost(w, b + eps) - cost(w, b - eps)) / (2 * eps)
    # In a run of their own: TensorFlow's graph optimizer drops what tf.tuple would order, and an
    # update may overtake a read of w.
    down_w, down_b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    train = tf.group(
        w.assign_sub(rate * down_w), b.assign_sub(rate * down_b), tf.assign_add(step, 1)
    )
    now = cost(w, b)
    costs = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(60):
            slopes = sess.run([slope_w, slope_b], {x: train_x, y: train_y})
            sess.run(train, {down_w: slopes[0], down_b: slopes[1]})
            costs.append(sess.run(now, {x: train_x, y: train_y}))
        return [costs, sess.run([w, b]), tf.train.global_step(sess, step)]


def shared_layers(tf: Any) -> Any:
    """get_variable and variable_scope sharing a layer between two inputs, with a regularization
    loss.
    """

    def layer(x: Any, size: int) -> Any:
        w = tf.get_variable(
            "w", [x.shape[-1], size], initializer=tf.glorot_normal_initializer(seed=11)
        )
        b = tf.get_variable("b", [size], initializer=tf.constant_initializer(0.25))
        return tf.nn.tanh(tf.nn.bias_add(tf.matmul(x, w), b))

    a = tf.constant(np.arange(6).reshape(2, 3) / 6.0, tf.float32)
    with tf.variable_scope(
        "net", regularizer=lambda v: tf.nn.l2_loss(v) * 0.01, reuse=tf.AUTO_REUSE
    ):
        first = layer(a, 4)
        second = layer(a + 1.0, 4)
    with tf.variable_scope("net", reuse=True):
        third = layer(-a, 4)
    total = tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return [[v.name for v in tf.global_variables()], sess.run([first, second, third, total])]


def k_means(tf: Any) -> Any:
    rng = np.random.RandomState(7)
    points = np.concatenate([rng.normal(c, 0.3, (20, 2)) for c in ([0, 0], [3, 3], [0, 4])]).astype(
        "f4"
    )
    vectors = tf.constant(points)
    centroids = tf.Variable(tf.slice(vectors, [0, 0], [3, -1]))
    expanded = tf.subtract(tf.expand_dims(vectors, 0), tf.expand_dims(centroids, 1))
    assignments = tf.argmin(tf.reduce_sum(tf.square(expanded), 2), 0)
    means = [
        tf.reduce_mean(
            tf.gather(vectors, tf.reshape(tf.where(tf.equal(assignments, c)), [1, -1])), axis=[1]
        )
        for c in range(3)
    ]
    update = tf.assign(
        centroids,
        tf.where(
            tf.is_nan(tf.concat(means, 0)), centroids.initialized_value(), tf.concat(means, 0)
        ),
    )
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            _, centers, found = sess.run([update, centroids, assignments])
        return [sess.run(centroids), found, centers.shape]


def graph_files(tf: Any, folder: Path) -> Any:
    """A graph written out, read back below a name, and run with a replaced input."""
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [None], name="x")
        tf.identity(x * 2.0 + 1.0, name="y")
        data = g.as_graph_def().SerializeToString()
    path = folder / "graph.pb"
    path.write_bytes(data)
    graph_def = tf.GraphDef()
    graph_def.ParseFromString(path.read_bytes())
    start = tf.constant([1.0, 2.0])
    (y,) = tf.import_graph_def(
        graph_def, input_map={"x:0": start}, return_elements=["y:0"], name="loaded"
    )
    with tf.Session() as sess:
        return [sess.run(y), y.name, sess.run("loaded/y:0", {start: [5.0, 6.0]})]


PROGRAMS = [
    basic_constants,
    fed_placeholders,
    linear_algebra,
    counter,
    resource_counter,
    interactive,
    name_scopes_and_collections,
    control_dependencies,
    queue_loop,
    batches_from_queues,
    moving_average,
    mandelbrot,
    heat,
    game_of_life,
    device_pinning,
    softmax_inference,
    convolutional_inference,
    trained_by_differences,
    shared_layers,
    k_means,
]


def same(ours: Any, theirs: Any, rtol: float, where: str = "result") -> None:
    """Equal structures, types and dtypes; floats within rtol."""
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, rtol, f"{where}[{i}]")
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            same(ours[key], theirs[key], rtol, f"{where}[{key!r}]")
    elif isinstance(theirs, (np.ndarray, np.generic)):
        assert type(ours) is type(theirs), where
        assert ours.dtype == theirs.dtype, where
        if theirs.dtype.kind in "fc":
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol, err_msg=where)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=where)
    else:
        assert ours == theirs, where


# Finite differences divide the rounding of sums of about 30 by 0.25.
TOLERANCES = {trained_by_differences: 5e-5}


@functools.lru_cache(maxsize=2)  # the modes of a program follow one another
def in_tensorflow(program: Program) -> Any:
    with tf1.Graph().as_default():
        return program(tf1)


@pytest.mark.parametrize("jit", ["lazy", "eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Program, jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as programs run at first, by references and whatever is compiled by then, once by
    compiled kernels alone.
    """
    monkeypatch.setenv("TFJIT_JIT", jit)
    with tfjit.Graph().as_default():
        result = program(tfjit)
    same(result, in_tensorflow(program), TOLERANCES.get(program, 2e-6))


def test_graph_files(tmp_path: Path) -> None:
    results = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            results.append(graph_files(tf, tmp_path))
    same(results[1], results[0], rtol=0)
