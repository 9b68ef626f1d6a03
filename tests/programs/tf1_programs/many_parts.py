"""A TensorFlow 1 program with what such programs are made of: queue runners, checkpoints,
summaries, monitored sessions, SavedModels.

`python many_parts.py FOLDER` writes into FOLDER and prints one line a section: the same under
TensorFlow and under `python -m tfjit`.
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


def write_data(folder):
    rng = np.random.RandomState(0)
    names = []
    for k in range(3):
        names.append(os.path.join(folder, f"data{k}.csv"))
        with open(names[-1], "w") as file:
            for a, b in rng.randn(40, 2):
                file.write(f"{a:.4f},{b:.4f},{3 * a - 2 * b + 1:.4f}\n")
    records = os.path.join(folder, "records")
    with tf.python_io.TFRecordWriter(records) as writer:
        for k in range(10):
            x = tf.train.Feature(float_list=tf.train.FloatList(value=[k, k + 1.0]))
            y = tf.train.Feature(int64_list=tf.train.Int64List(value=[k]))
            writer.write(
                tf.train.Example(
                    features=tf.train.Features(feature={"x": x, "y": y})
                ).SerializeToString()
            )
    return names, records


def train_from_csv(folder, names, records):
    queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    a, b, c = tf.decode_csv(line, [[0.0]] * 3)
    x, y = tf.train.batch([tf.stack([a, b]), c], 16, capacity=64, allow_smaller_final_batch=True)
    w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
    bias = tf.get_variable("b", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w)[:, 0] + bias - y))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.2, step, 10, 0.9)
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        runs = 0
        try:
            while not coordinator.should_stop():
                session.run(train)
                runs += 1
                if runs % 5 == 0:
                    saver.save(session, os.path.join(folder, "linear"), global_step=step)
        except tf.errors.OutOfRangeError:
            pass
        finally:
            coordinator.request_stop()
        coordinator.join(threads)
        kept = [os.path.basename(path) for path in saver.last_checkpoints]
        return (
            runs,
            int(session.run(step)),
            kept,
            np.round(session.run(w).ravel(), 3).tolist(),
            round(float(session.run(bias)), 3),
        )


def shuffle_records(folder, names, records):
    queue = tf.train.string_input_producer([records], num_epochs=3, shuffle=True, seed=1)
    _, record = tf.TFRecordReader().read(queue)
    parsed = tf.parse_single_example(
        record, {"x": tf.FixedLenFeature([2], tf.float32), "y": tf.FixedLenFeature([], tf.int64)}
    )
    xs, ys = tf.train.shuffle_batch(
        [parsed["x"], parsed["y"]],
        5,
        capacity=30,
        min_after_dequeue=10,
        num_threads=2,
        allow_smaller_final_batch=True,
    )
    seen = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while not coordinator.should_stop():
                x, y = session.run([xs, ys])
                assert (x[:, 1] == y + 1).all()
                seen += y.tolist()
        coordinator.join(threads)
    return sorted(seen) == sorted(list(range(10)) * 3)


def failing_queue_runner(folder, names, records):
    queue = tf.FIFOQueue(3, tf.float32)
    bad = queue.enqueue(tf.check_numerics(tf.constant(np.nan), "bad"))
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [bad] * 2))
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        first = "nothing"
        try:
            session.run(queue.dequeue())
        except tf.errors.OutOfRangeError as error:
            first = error.op.type
        try:
            coordinator.join(threads)
        except tf.errors.InvalidArgumentError as error:
            return first, "bad : Tensor had NaN values" in error.message
    return first, "no error"


class Counter(tf.train.SessionRunHook):
    def __init__(self, tensor):
        self.tensor, self.runs = tensor, 0

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.runs += np.isfinite(run_values.results)


def monitored_training(folder, names, records):
    checkpoints = os.path.join(folder, "monitored")
    w = tf.get_variable("w", [3, 1], initializer=tf.constant_initializer(0.5))
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.random_normal([8, 3], seed=3), w) - 1.0))
    tf.summary.scalar("loss", loss)
    tf.summary.histogram("w", w)
    step = tf.train.get_or_create_global_step()
    averages = tf.train.ExponentialMovingAverage(0.9, step)
    with tf.control_dependencies([tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)]):
        train = averages.apply([w])
    counter = Counter(loss)
    hooks = [tf.train.StopAtStepHook(last_step=25), counter, tf.train.NanTensorHook(loss)]
    hooks.append(tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=100))
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=checkpoints,
        hooks=hooks,
        save_checkpoint_steps=10,
        save_summaries_steps=5,
        log_step_count_steps=10,
    ) as session:
        while not session.should_stop():
            session.run(train)
    latest = tf.train.latest_checkpoint(checkpoints)
    events = [
        os.path.join(checkpoints, name)
        for name in sorted(os.listdir(checkpoints))
        if "tfevents" in name
    ]
    tags = {
        value.tag
        for path in events
        for event in tf.train.summary_iterator(path)
        for value in event.summary.value
    }
    reader = tf.train.load_checkpoint(latest)
    restored = reader.get_tensor("w/ExponentialMovingAverage").shape
    return (
        int(counter.runs),
        os.path.basename(latest),
        sorted(reader.get_variable_to_shape_map()),
        sorted(tags),
        restored,
    )


def supervised(folder, names, records):
    results = []
    for _ in range(2):
        tf.reset_default_graph()
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        step = tf.train.get_or_create_global_step()
        both = tf.group(v.assign_add(1.0), step.assign_add(1))
        tf.summary.scalar("v", v)
        supervisor = tf.train.Supervisor(
            logdir=os.path.join(folder, "supervised"), save_model_secs=0, save_summaries_secs=0
        )
        with supervisor.managed_session() as session:
            for _ in range(5):
                session.run(both)
            supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
            results.append([float(session.run(v)), tf.train.global_step(session, step)])
    tf.reset_default_graph()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    manager = tf.train.SessionManager()
    session, found = manager.recover_session(
        "", saver=tf.train.Saver(), checkpoint_dir=os.path.join(folder, "supervised")
    )
    with session:
        return results, found, float(session.run(v))


def saved_model(folder, names, records):
    model, vocabulary = os.path.join(folder, "model"), os.path.join(folder, "vocabulary.txt")
    with open(vocabulary, "w") as file:
        file.write("a\nb\nc\n")
    x = tf.placeholder(tf.string, [None], name="x")
    asset = tf.constant(vocabulary, name="asset")
    tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
    index = tf.lookup.TextFileIndex
    source = tf.lookup.TextFileInitializer(
        asset, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
    )
    table = tf.lookup.StaticHashTable(source, -1)
    embedding = tf.get_variable(
        "embedding", [4, 2], initializer=tf.random_normal_initializer(seed=2)
    )
    y = tf.gather(embedding, table.lookup(x) + 1, name="y")
    words = {x: ["b", "zz"]}
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        before = session.run(y, words)
        builder = tf.saved_model.Builder(model)
        builder.add_meta_graph_and_variables(
            session,
            [tf.saved_model.tag_constants.SERVING],
            signature_def_map={
                "serving_default": tf.saved_model.predict_signature_def({"x": x}, {"y": y})
            },
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
        )
        builder.save()
    os.remove(vocabulary)  # the model has its own
    with tf.Session(graph=tf.Graph()) as session:
        signature = tf.saved_model.load(session, ["serve"], model).signature_def["serving_default"]
        after = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: ["b", "zz"]})
    return bool(np.array_equal(before, after))


def simple_save(folder, names, records):
    model = os.path.join(folder, "simple")
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.matmul(
        x,
        tf.get_variable(
            "w", [2, 2], use_resource=True, initializer=tf.random_normal_initializer(seed=2)
        ),
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, model, {"x": x}, {"y": y})
        before = session.run(y, {x: np.eye(2)})
    with tf.Session(graph=tf.Graph()) as session:
        signature = tf.saved_model.loader.load(session, ["serve"], model).signature_def[
            "serving_default"
        ]
        after = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: np.eye(2)})
    return bool(np.array_equal(before, after)), tf.saved_model.contains_saved_model(model)


def meta_graph(folder, names, records):
    x = tf.placeholder(tf.float32, name="x")
    tf.multiply(x, tf.get_variable("v", [], initializer=tf.constant_initializer(3.0)), name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, os.path.join(folder, "meta"), global_step=4)
    tf.reset_default_graph()
    with tf.Session() as session:
        saver = tf.train.import_meta_graph(path + ".meta")
        saver.restore(session, tf.train.latest_checkpoint(folder))
        return float(session.run("y:0", {"x:0": 2.0}))


def scaffold(folder, names, records):
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    y = table.lookup(tf.constant(["a", "b"]))
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(tf.train.Scaffold())) as session:
        return [value.tolist() for value in session.run([v, y])]


def interactive(folder, names, records):
    session = tf.InteractiveSession()
    a = tf.constant(2.0)
    values = [a.eval(), tf.py_func(lambda x: x * 3, [a], tf.float32).eval()]
    v = tf.Variable(1.0)
    v.initializer.run()
    v.load(5.0, session)
    mean, update = tf.metrics.mean(v * tf.constant([1.0, 2.0]))
    session.run(tf.local_variables_initializer())
    values += [v.eval(), update.eval(), mean.eval()]
    session.close()
    return [float(value) for value in values]


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names, records = write_data(folder)
    sections = (
        train_from_csv,
        shuffle_records,
        failing_queue_runner,
        monitored_training,
        supervised,
        saved_model,
    )
    for section in (*sections, simple_save, meta_graph, scaffold, interactive):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        print(section.__name__, section(folder, names, records), flush=True)
    print("sessions of", tf.Session.__module__.partition(".")[0], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
