"""A classifier trained from files through queue runners and a Coordinator, and trained on later.

It has what such scripts have: flags by constants, readers and shuffled batches, batch normalisation
with update ops, learning rate decay, moving averages, summaries of several kinds, a Saver that
keeps checkpoints, an evaluation in a second graph, and a second start from the checkpoint.
`python coordinated_training.py FOLDER` writes into FOLDER and prints one line for each part.
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

SIDE, CLASSES, BATCH, EXAMPLES, FILES = 8, 3, 10, 30, 3


def write_records(folder):
    rng = np.random.RandomState(0)
    patterns = rng.rand(CLASSES, SIDE, SIDE)
    names = []
    for k in range(FILES):
        names.append(os.path.join(folder, f"images-{k}.tfrecord"))
        with tf.python_io.TFRecordWriter(names[-1]) as writer:
            for i in range(EXAMPLES):
                label = (i + k) % CLASSES
                image = (200 * patterns[label] + 50 * rng.rand(SIDE, SIDE)).astype(np.uint8)
                feature = {
                    "image": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[image.tobytes()])
                    ),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(
                    tf.train.Example(
                        features=tf.train.Features(feature=feature)
                    ).SerializeToString()
                )
    return names


def read_batches(names, epochs, shuffle):
    with tf.name_scope("input"):
        files = tf.train.string_input_producer(names, num_epochs=epochs, shuffle=False)
        _, record = tf.TFRecordReader().read(files)
        parsed = tf.parse_single_example(
            record,
            {"image": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)},
        )
        image = tf.reshape(tf.decode_raw(parsed["image"], tf.uint8), [SIDE, SIDE, 1])
        image = tf.cast(image, tf.float32) / 255.0 - 0.5
        label = tf.cast(parsed["label"], tf.int32)
        if shuffle:
            return tf.train.shuffle_batch([image, label], BATCH, 60, 20, num_threads=2, seed=3)
        return tf.train.batch([image, label], BATCH, capacity=40, allow_smaller_final_batch=True)


def batch_norm(x, training):
    size = x.shape[-1].value
    with tf.variable_scope("norm"):
        scale = tf.get_variable("scale", [size], initializer=tf.ones_initializer())
        offset = tf.get_variable("offset", [size], initializer=tf.zeros_initializer())
        mean = tf.get_variable("mean", [size], initializer=tf.zeros_initializer(), trainable=False)
        variance = tf.get_variable(
            "variance", [size], initializer=tf.ones_initializer(), trainable=False
        )
    if not training:
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)
    now, spread = tf.nn.moments(x, [0, 1, 2])
    for variable, value in ((mean, now), (variance, spread)):
        tf.add_to_collection(
            tf.GraphKeys.UPDATE_OPS, tf.assign_sub(variable, 0.1 * (variable - value))
        )
    return tf.nn.batch_normalization(x, now, spread, offset, scale, 1e-3)


def network(images, training):
    kernel = tf.get_variable(
        "conv", [3, 3, 1, 4], initializer=tf.truncated_normal_initializer(stddev=0.3, seed=11)
    )
    x = tf.nn.relu(batch_norm(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME"), training))
    x = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    x = tf.reshape(x, [-1, SIDE * SIDE])
    w = tf.get_variable(
        "dense",
        [SIDE * SIDE, CLASSES],
        initializer=tf.truncated_normal_initializer(stddev=0.1, seed=12),
    )
    b = tf.get_variable("bias", [CLASSES], initializer=tf.zeros_initializer())
    return tf.matmul(x, w) + b


def train(folder, names, epochs, shuffle):
    """Train for the epochs, from the latest checkpoint if there is one."""
    tf.reset_default_graph()
    tf.set_random_seed(1)
    place = os.path.join(folder, "shuffled" if shuffle else "training")
    os.makedirs(place, exist_ok=True)
    images, labels = read_batches(names, epochs, shuffle)
    logits = network(images, True)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    decay = 1e-3 * tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "norm" not in v.name]
    )
    loss = tf.reduce_mean(losses) + decay
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.2, step, 9, 0.7, staircase=True)
    optimizer = tf.train.MomentumOptimizer(rate, 0.8)
    averages = tf.train.ExponentialMovingAverage(0.8, step)
    pairs = optimizer.compute_gradients(loss)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        applied = optimizer.apply_gradients(pairs, global_step=step)
    with tf.control_dependencies([applied]):
        train_op = averages.apply(tf.trainable_variables())
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("rate", rate)
    tf.summary.image("images", images, max_outputs=1)
    for gradient, variable in pairs:
        tf.summary.histogram(variable.op.name + "/gradient", gradient)
    summaries = tf.summary.merge_all()
    saver = tf.train.Saver(max_to_keep=3)
    last, runs, rates = None, 0, []
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        latest = tf.train.latest_checkpoint(place)
        if latest:
            saver.restore(session, latest)
        begin = int(session.run(step))
        # Files are named by the second; two writers of one second would share one.
        writer = tf.summary.FileWriter(place, session.graph, filename_suffix=f".{begin:03}")
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while not coordinator.should_stop():
                _, last, now = session.run([train_op, loss, step])
                runs += 1
                if runs % 6 == 0:
                    text, value = session.run([summaries, rate])
                    writer.add_summary(text, now)
                    rates.append(round(float(value), 4))
                if runs % 7 == 0:
                    saver.save(session, os.path.join(place, "model"), global_step=step)
        except tf.errors.OutOfRangeError:
            pass
        finally:
            coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
        end = int(session.run(step))
        saver.save(session, os.path.join(place, "model"), global_step=step)
        writer.close()
    kept = [os.path.basename(path) for path in saver.last_checkpoints]
    if shuffle:
        return begin, end, runs, len(rates), kept[-1]
    return begin, end, runs, rates, kept, round(float(last), 3)


def evaluate(folder, names, averaged):
    tf.reset_default_graph()
    images, labels = read_batches(names, 1, False)
    logits = network(images, False)
    right = tf.nn.in_top_k(logits, labels, 1)
    confusion = tf.math.confusion_matrix(labels, tf.argmax(logits, 1), CLASSES)
    variables = None
    if averaged:
        variables = tf.train.ExponentialMovingAverage(0.8).variables_to_restore()
    saver = tf.train.Saver(variables)
    total, count, table = 0, 0, np.zeros((CLASSES, CLASSES), np.int64)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        saver.restore(session, tf.train.latest_checkpoint(os.path.join(folder, "training")))
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while not coordinator.should_stop():
                hits, matrix = session.run([right, confusion])
                total, count, table = total + int(hits.sum()), count + len(hits), table + matrix
        coordinator.join(threads, stop_grace_period_secs=60)
    return total, count, table.sum(1).tolist()


def events(folder):
    tags, steps = set(), []
    place = os.path.join(folder, "training")
    for name in sorted(os.listdir(place)):
        if "tfevents" in name:
            for event in tf.train.summary_iterator(os.path.join(place, name)):
                tags |= {value.tag for value in event.summary.value}
                steps += [event.step] if event.summary.value else []
    return sorted(tags), steps


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names = write_records(folder)
    print("train", train(folder, names, 2, False), flush=True)
    print("evaluate", evaluate(folder, names, False), evaluate(folder, names, True), flush=True)
    print("train on", train(folder, names, 1, False), flush=True)
    print("evaluate", evaluate(folder, names, False), flush=True)
    print("events", events(folder), flush=True)
    print("shuffled", train(folder, names, 2, True), flush=True)
    print("sessions of", tf.Session.__module__.partition(".")[0], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
