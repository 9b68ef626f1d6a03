"""An Estimator over an input_fn of queues: train, evaluate, predict, and train on.

TensorFlow 2.21 has no `tf.estimator`. So the program has an Estimator of its own with the same
parts: model_fn, EstimatorSpec, ModeKeys, Scaffold, hooks, and the same loops over MonitoredSession.
`python estimator_style.py FOLDER` writes into FOLDER and prints one line for each call.
"""

import collections
import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

TRAIN, EVAL, PREDICT = "train", "eval", "infer"
EstimatorSpec = collections.namedtuple(
    "EstimatorSpec", "mode predictions loss train_op eval_metric_ops scaffold training_hooks"
)


def spec(mode, predictions=None, loss=None, train_op=None, metrics=None, scaffold=None, hooks=()):
    return EstimatorSpec(mode, predictions, loss, train_op, metrics or {}, scaffold, list(hooks))


class Estimator:
    """Builds a graph for each call and keeps what it learns in checkpoints."""

    def __init__(self, model_fn, model_dir, params):
        self.model_fn, self.model_dir, self.params = model_fn, model_dir, params

    def _build(self, input_fn, mode):
        tf.set_random_seed(7)
        features, labels = input_fn()
        return self.model_fn(features, labels, mode, self.params)

    def train(self, input_fn, hooks=(), steps=None):
        with tf.Graph().as_default():
            tf.train.get_or_create_global_step()
            made = self._build(input_fn, TRAIN)
            tf.summary.scalar("loss", made.loss)
            every = [tf.train.NanTensorHook(made.loss), *made.training_hooks, *hooks]
            if steps is not None:
                every.append(tf.train.StopAtStepHook(num_steps=steps))
            loss = None
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=self.model_dir,
                scaffold=made.scaffold,
                hooks=every,
                save_checkpoint_steps=20,
                save_summaries_steps=10,
                log_step_count_steps=10,
            ) as session:
                while not session.should_stop():
                    _, loss = session.run([made.train_op, made.loss])
            return round(float(loss), 4)

    def evaluate(self, input_fn, steps=None, hooks=()):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            made = self._build(input_fn, EVAL)
            values = {name: value for name, (value, _) in made.eval_metric_ops.items()}
            mean, update = tf.metrics.mean(made.loss)
            updates = tf.group(update, *[update for _, update in made.eval_metric_ops.values()])
            final = tf.train.FinalOpsHook({**values, "loss": mean, "global_step": step})
            evaluated = tf.get_variable(
                "evals",
                [],
                tf.int64,
                tf.zeros_initializer(),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
            )
            count = evaluated.assign_add(1)
            creator = tf.train.ChiefSessionCreator(
                scaffold=made.scaffold,
                checkpoint_filename_with_path=tf.train.latest_checkpoint(self.model_dir),
            )
            done = 0
            with tf.train.MonitoredSession(creator, hooks=[*hooks, final]) as session:
                while not session.should_stop() and (steps is None or done < steps):
                    _, done = session.run([updates, count])
            return {
                name: np.round(value, 4).item()
                for name, value in sorted(final.final_ops_values.items())
            }

    def predict(self, input_fn):
        with tf.Graph().as_default():
            made = self._build(input_fn, PREDICT)
            creator = tf.train.ChiefSessionCreator(
                scaffold=made.scaffold,
                checkpoint_filename_with_path=tf.train.latest_checkpoint(self.model_dir),
            )
            with tf.train.MonitoredSession(creator) as session:
                while not session.should_stop():
                    batch = session.run(made.predictions)
                    for i in range(len(batch["classes"])):
                        yield {name: value[i] for name, value in batch.items()}


def model_fn(features, labels, mode, params):
    x = features["x"]
    for i, units in enumerate(params["hidden"]):
        with tf.variable_scope(f"hidden_{i}"):
            size = x.shape[-1].value
            w = tf.get_variable(
                "kernel", [size, units], initializer=tf.glorot_uniform_initializer()
            )
            b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
            x = tf.nn.relu(tf.matmul(x, w) + b)
            if mode == TRAIN:
                x = tf.nn.dropout(x, rate=0.1, seed=3)
    w = tf.get_variable(
        "logits", [x.shape[-1].value, 3], initializer=tf.glorot_uniform_initializer()
    )
    logits = tf.matmul(x, w)
    classes = tf.argmax(logits, 1)
    predictions = {"classes": classes, "probabilities": tf.nn.softmax(logits)}
    if mode == PREDICT:
        return spec(mode, predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
        return spec(mode, predictions, loss, metrics=metrics)
    step = tf.train.get_global_step()
    rate = tf.train.piecewise_constant(step, [30, 60], [0.1, 0.05, 0.01])
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
    train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    scaffold = tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=2))
    return spec(mode, predictions, loss, train_op, scaffold=scaffold)


def data(seed, count=60):
    rng = np.random.RandomState(seed)
    labels = np.arange(count) % 3
    points = np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[labels] + 0.3 * rng.randn(count, 2)
    return points.astype(np.float32), labels.astype(np.int32)


def input_fn_of_queues(seed, epochs, shuffle):
    def input_fn():
        points, labels = data(seed)
        x, y = tf.train.slice_input_producer([points, labels], num_epochs=epochs, shuffle=False)
        if shuffle:
            x, y = tf.train.shuffle_batch([x, y], 12, capacity=60, min_after_dequeue=24, seed=5)
        else:
            x, y = tf.train.batch([x, y], 12, capacity=24, allow_smaller_final_batch=True)
        return {"x": x}, y

    return input_fn


class Losses(tf.train.SessionRunHook):
    """Counts runs by what a hook sees of the global step."""

    def begin(self):
        self.step = tf.train.get_global_step()
        self.first = self.last = None

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.step)

    def after_run(self, run_context, run_values):
        self.first = run_values.results if self.first is None else self.first
        self.last = run_values.results


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    estimator = Estimator(model_fn, os.path.join(folder, "model"), {"hidden": [16, 8]})
    ordered = input_fn_of_queues(1, 8, False)
    losses = Losses()
    print("train to the end", estimator.train(ordered, hooks=[losses]), int(losses.last))
    print("evaluate", estimator.evaluate(input_fn_of_queues(2, 1, False)))
    print(
        "train on",
        estimator.train(ordered, hooks=[losses], steps=15),
        int(losses.first),
        int(losses.last),
    )
    print("evaluate 3 steps", estimator.evaluate(input_fn_of_queues(2, None, False), steps=3))
    predictions = list(estimator.predict(input_fn_of_queues(3, 1, False)))
    right = np.mean([p["classes"] == label for p, label in zip(predictions, data(3)[1])])
    print(
        "predict",
        len(predictions),
        round(float(right), 3),
        predictions[0]["probabilities"].round(3).tolist(),
    )
    first = next(estimator.predict(input_fn_of_queues(3, 1, False)))
    print("first prediction", int(first["classes"]))
    shuffled = Estimator(model_fn, os.path.join(folder, "shuffled"), {"hidden": [4]})
    shuffled.train(input_fn_of_queues(1, 6, True))
    print("shuffled", shuffled.evaluate(input_fn_of_queues(2, 1, False))["global_step"])
    print(sorted(name for name in os.listdir(estimator.model_dir) if name.endswith(".index")))
    print("sessions of", tf.Session.__module__.partition(".")[0], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
