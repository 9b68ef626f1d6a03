"""Define programs on images.

Training of a residual network, a pair of adversaries, a detector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.models.layers import batch_norm, conv, dense, generator, session


def residual_network(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    blocks: int = 3,
    size: int = 32,
    batch: int = 32,
    widths: tuple[int, ...] = (16, 32, 64),
) -> None:
    """Train a residual network on small images.

    With momentum and decay of the weights.
    """
    images = tf.placeholder(tf.float32, [batch, size, size, 3], name="images")
    labels = tf.placeholder(tf.int64, [batch], name="labels")
    x = tf.nn.relu(batch_norm(tf, conv(tf, images, widths[0], "stem"), "stem_norm"))
    for stage, width in enumerate(widths):
        for block in range(blocks):
            with tf.variable_scope(f"stage_{stage}_{block}"):
                stride = 2 if stage and not block else 1
                y = tf.nn.relu(batch_norm(tf, conv(tf, x, width, "conv_1", 3, stride), "norm_1"))
                y = batch_norm(tf, conv(tf, y, width, "conv_2"), "norm_2")
                short = conv(tf, x, width, "short", 1, stride) if stride == 2 else x
                x = tf.nn.relu(y + short)
    logits = dense(tf, tf.reduce_mean(x, [1, 2]), 10, "logits")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    decay = [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name]
    total = loss + 2e-4 * tf.add_n(decay)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.01, step, 100, 0.9, staircase=True)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.MomentumOptimizer(rate, 0.9).minimize(total, global_step=step)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    rng = generator(11)
    means = rng.standard_normal([10, 1, 1, 3], np.float32)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for _ in recorder.steps():
            kind = rng.integers(0, 10, batch)
            noise = rng.standard_normal([batch, size, size, 3], np.float32)
            feed = {images: noise + means[kind], labels: kind}
            recorder.output(run.run([total, right, train], feed)[0])


def adversaries(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    size: int = 28,
    width: int = 32,
    batch: int = 32,
    noise: int = 64,
) -> None:
    """Train a generator and a discriminator in turn.

    Each has its own Adam.
    """
    real = tf.placeholder(tf.float32, [batch, size, size, 1], name="real")
    latent = tf.placeholder(tf.float32, [batch, noise], name="latent")
    quarter = size // 4

    def upsampled(x: Any, channels: int, name: str) -> Any:
        n, h, w, c = x.shape.as_list()
        kernel = tf.get_variable(
            name, [5, 5, channels, c], initializer=tf.random_normal_initializer(stddev=0.02)
        )
        return tf.nn.conv2d_transpose(x, kernel, [n, 2 * h, 2 * w, channels], [1, 2, 2, 1], "SAME")

    def generate(z: Any) -> Any:
        with tf.variable_scope("generator"):
            x = dense(tf, z, quarter * quarter * 2 * width, "project")
            x = tf.reshape(x, [batch, quarter, quarter, 2 * width])
            x = tf.nn.relu(batch_norm(tf, x, "norm_1"))
            x = tf.nn.relu(batch_norm(tf, upsampled(x, width, "up_1"), "norm_2"))
            return tf.tanh(upsampled(x, 1, "up_2"))

    def judge(x: Any) -> Any:
        with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
            x = tf.nn.leaky_relu(conv(tf, x, width, "conv_1", 5, 2))
            x = tf.nn.leaky_relu(conv(tf, x, 2 * width, "conv_2", 5, 2))
            return dense(tf, tf.reshape(x, [batch, quarter * quarter * 2 * width]), 1, "logits")

    fake = generate(latent)
    on_real, on_fake = judge(real), judge(fake)

    def cost(logits: Any, wanted: float) -> Any:
        labels = tf.ones_like(logits) * wanted
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    judge_loss = cost(on_real, 0.9) + cost(on_fake, 0.0)
    fake_loss = cost(on_fake, 1.0)
    judge_train = tf.train.AdamOptimizer(2e-4, 0.5).minimize(
        judge_loss, var_list=tf.trainable_variables("discriminator")
    )
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        fake_train = tf.train.AdamOptimizer(2e-4, 0.5).minimize(
            fake_loss, var_list=tf.trainable_variables("generator")
        )
    rng = generator(12)
    grid = np.linspace(-2, 2, size, dtype=np.float32)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for _ in recorder.steps():
            centre = rng.uniform(-1, 1, [batch, 2, 1]).astype(np.float32)
            rows, columns = (np.exp(-4 * (grid - centre[:, k]) ** 2) for k in range(2))
            picture = (rows[:, :, None] * columns[:, None, :] * 2 - 1)[..., None]
            z = rng.uniform(-1, 1, [batch, noise]).astype(np.float32)
            first, _ = run.run([judge_loss, judge_train], {real: picture, latent: z})
            z = rng.uniform(-1, 1, [batch, noise]).astype(np.float32)
            second, _ = run.run([fake_loss, fake_train], {latent: z})
            recorder.output(first, second)


def detector(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    size: int = 128,
    width: int = 32,
    shapes: int = 6,
    classes: int = 5,
    kept: int = 60,
) -> None:
    """Detect boxes in single images.

    Anchors, non-max suppression, a second stage on crops.
    """
    image = tf.placeholder(tf.float32, [1, size, size, 3], name="image")
    x = image
    for layer, channels in enumerate((width, 2 * width, 2 * width)):
        x = conv(tf, x, channels, f"conv_{layer}", 3, 2)
        x = tf.nn.relu(batch_norm(tf, x, f"norm_{layer}", training=False))
    cells = size // 8
    centres = (np.arange(cells) + 0.5) / cells
    sides = np.linspace(0.1, 0.5, shapes)
    y, z, side = (a.ravel() for a in np.meshgrid(centres, centres, sides, indexing="ij"))
    anchors = tf.constant(np.stack([y, z, side, side], 1).astype(np.float32))
    head = tf.nn.relu(conv(tf, x, 2 * width, "head"))
    offsets = tf.reshape(conv(tf, head, 4 * shapes, "offsets", 1), [-1, 4]) * 0.3
    scores = tf.reshape(conv(tf, head, shapes, "scores", 1), [-1])
    middle = anchors[:, :2] + offsets[:, :2] * anchors[:, 2:]
    extent = anchors[:, 2:] * tf.exp(tf.clip_by_value(offsets[:, 2:], -2.0, 2.0))
    # a box that ends at 1.0 has its last samples in or out of the image by rounding
    boxes = tf.clip_by_value(tf.concat([middle - extent / 2, middle + extent / 2], 1), 0.0, 0.999)
    height, breadth = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    likely = tf.logical_and(scores > tf.reduce_mean(scores), tf.minimum(height, breadth) > 0.05)
    boxes, scores = tf.boolean_mask(boxes, likely), tf.boolean_mask(scores, likely)
    best = tf.nn.top_k(scores, tf.minimum(300, tf.size(scores)))
    boxes = tf.gather(boxes, best.indices)
    chosen = tf.image.non_max_suppression(boxes, best.values, kept, iou_threshold=0.5)
    boxes, scores = tf.gather(boxes, chosen), tf.gather(best.values, chosen)
    crops = tf.image.crop_and_resize(x, boxes, tf.zeros_like(chosen), [7, 7])
    crops = tf.reshape(crops, [-1, 7 * 7 * 2 * width])
    logits = dense(tf, dense(tf, crops, 128, "second", tf.nn.relu), classes, "classes")
    shares = tf.nn.softmax(logits)
    kind = tf.argmax(shares, 1)
    strongest = tf.reduce_max(shares, 1)
    found = tf.where(strongest > tf.reduce_mean(strongest))[:, 0]
    results = [tf.gather(boxes, found), tf.gather(scores, found), tf.gather(kind, found)]
    rng = generator(13)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for _ in recorder.steps():
            picture = rng.standard_normal([1, size // 4, size // 4, 3], np.float32)
            picture = picture.repeat(4, 1).repeat(4, 2)
            found_boxes, found_scores, found_kinds = run.run(results, {image: picture})
            recorder.output(len(found_boxes), found_boxes, found_scores, found_kinds)
