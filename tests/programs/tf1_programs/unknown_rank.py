"""Placeholders of unknown rank, with gradients and optimizers over what is computed from them.

`python unknown_rank.py FOLDER` prints one line for each section.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

VALUES = [
    np.float32(1.5),
    np.array([1, 2, 3], np.float32),
    np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
    np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4),
    np.zeros((0, 3), np.float32),
]


def rounded(values):
    return [(np.round(np.asarray(v, np.float64), 3) + 0.0).tolist() for v in values]  # no -0.0


def gradients(folder):
    x = tf.placeholder(tf.float32, name="x")
    w = tf.constant(0.7)
    results = []
    for make in (
        lambda: tf.reduce_sum(tf.square(x) * w),
        lambda: tf.reduce_mean(tf.tanh(x * w) + x / (2.0 + w)),
        lambda: tf.reduce_sum(tf.reshape(x, [-1]) ** 3 * w),
        lambda: tf.nn.l2_loss(tf.nn.relu(x - w)),
        lambda: tf.reduce_sum(tf.where(x > 0.0, tf.exp(-x), w * x * x)),
        lambda: tf.reduce_logsumexp(tf.concat([tf.reshape(x, [-1]), [w]], 0)),
    ):
        y = make()
        dx, dw = tf.gradients(y, [x, w])
        with tf.Session() as session:
            for value in VALUES:
                results.append(session.run([y, dx, dw], {x: value}))
    total = sum(
        np.abs(part).sum(dtype=np.float64)
        for row in results
        for part in row
        if np.isfinite(part).all()
    )
    return rounded(results[1]), rounded(results[7]), rounded(results[22]), round(float(total), 2)


def optimizers(folder):
    """One graph is trained with batches of every rank."""
    lines = []
    for make in (
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: tf.train.AdamOptimizer(0.1),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.RMSPropOptimizer(0.05),
    ):
        tf.reset_default_graph()
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(0.5))
        b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(w * x + b - y))
        step = tf.train.get_or_create_global_step()
        train = make().minimize(loss, global_step=step)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for i in range(40):
                value = VALUES[i % 4]
                session.run(train, {x: value, y: 2.0 * value + 1.0})
            lines.append(rounded(session.run([w, b])) + [int(session.run(step))])
    return lines


def default_values(folder):
    x = tf.placeholder_with_default(tf.constant([1.0, 2.0]), None)
    scale = tf.placeholder_with_default(2.0, None)
    y = x * scale
    (dx,) = tf.gradients(y, x)
    with tf.Session() as session:
        runs = [session.run([y, dx])]
        runs += [session.run([y, dx], {x: value}) for value in VALUES[:3]]
        runs.append(session.run([y, dx], {x: VALUES[2], scale: [[1.0], [10.0]]}))
    return [rounded(run) for run in runs]


def ranks_and_shapes(folder):
    x = tf.placeholder(tf.float32)
    rank, shape, size = tf.rank(x), tf.shape(x), tf.size(x)
    expanded = tf.expand_dims(x, -1)
    total = tf.reduce_sum(x, axis=-1)
    assert x.shape.ndims is None and expanded.shape.ndims is None
    (gradient,) = tf.gradients(total * 2.0, x)
    results = []
    with tf.Session() as session:
        for value in VALUES[1:]:
            got = session.run([rank, shape, size, tf.shape(expanded), total, gradient], {x: value})
            results.append(
                (
                    int(got[0]),
                    got[1].tolist(),
                    int(got[2]),
                    got[3].tolist(),
                    got[4].shape,
                    got[5].shape,
                )
            )
        try:
            session.run(total, {x: np.float32(3)})
        except tf.errors.InvalidArgumentError:
            results.append("a scalar has no last axis")
    return results


def broadcasts(folder):
    """The gradient of each factor has its shape, whatever was fed."""
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    loss = tf.reduce_sum(a * b + a / (b + 3.0))
    both = tf.gradients(loss, [a, b])
    results = []
    with tf.Session() as session:
        for left in VALUES[:3]:
            for right in (np.float32(2), np.ones(3, np.float32), np.full((2, 1), 0.5, np.float32)):
                try:
                    da, db = session.run(both, {a: left, b: right})
                    assert da.shape == np.shape(left) and db.shape == np.shape(right)
                    results.append(round(float(da.sum() + db.sum()), 3))
                except tf.errors.InvalidArgumentError:
                    results.append("do not fit")
    return results


def loops_and_branches(folder):
    x = tf.placeholder(tf.float32)
    _, halved = tf.while_loop(
        lambda i, v: tf.logical_and(i < 10, tf.reduce_sum(tf.abs(v)) > 1.0),
        lambda i, v: (i + 1, v / 2.0),
        [0, x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)],
    )
    chosen = tf.cond(tf.size(x) > 3, lambda: tf.sin(halved), lambda: halved + 1.0)
    (gradient,) = tf.gradients(tf.reduce_sum(chosen), x)
    with tf.Session() as session:
        return [rounded(session.run([chosen, gradient], {x: value}))[1] for value in VALUES[:4]]


def main(folder):
    for section in (
        gradients,
        optimizers,
        default_values,
        ranks_and_shapes,
        broadcasts,
        loops_and_branches,
    ):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        print(section.__name__, section(folder), flush=True)
    print("sessions of", tf.Session.__module__.partition(".")[0], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
