"""Monitored sessions that run until their data ends, with the hooks that programs use.

`python monitored_sessions.py FOLDER` writes into FOLDER and prints one line for each section.
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


class Calls(tf.train.SessionRunHook):
    """Counts the calls of each method, and asks for a tensor."""

    def __init__(self, tensor=None):
        self.tensor = tensor
        self.counts = {"begin": 0, "created": 0, "before": 0, "after": 0, "end": 0}
        self.values = []

    def begin(self):
        self.counts["begin"] += 1

    def after_create_session(self, session, coord):
        self.counts["created"] += 1

    def before_run(self, run_context):
        self.counts["before"] += 1
        return tf.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.counts["after"] += 1
        self.values.append(run_values.results)

    def end(self, session):
        self.counts["end"] += 1


def linear_model(x, y):
    w = tf.get_variable("w", [], initializer=tf.constant_initializer(0.5))
    loss = tf.reduce_mean(tf.square(w * x - y))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=step)
    return w, loss, train


def run_to_the_end(session, fetches):
    """Run until a hook asks to stop, or the data ends, which leaves the session's block."""
    last = None
    runs = 0
    while not session.should_stop():
        last = session.run(fetches)
        runs += 1
    return runs, last


def epochs_of_a_tensor(folder):
    x = tf.train.limit_epochs(tf.constant([1.0, 2.0, 3.0]), num_epochs=5)
    _, loss, train = linear_model(x, 2.0 * x)
    calls = Calls(loss)
    with tf.train.MonitoredTrainingSession(hooks=[calls, tf.train.NanTensorHook(loss)]) as session:
        run_to_the_end(session, train)
    return calls.counts, [round(float(v), 4) for v in calls.values]


def a_queue_that_is_closed(folder):
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[2]])
    counter = tf.get_local_variable("counter", [], initializer=tf.zeros_initializer())
    batch = tf.train.limit_epochs(tf.ones([4, 2]), num_epochs=3)
    with tf.control_dependencies([counter.assign_add(1.0)]):
        enqueue = queue.enqueue_many([batch])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue]))
    taken = queue.dequeue()
    step = tf.train.get_or_create_global_step()
    both = [taken, step.assign_add(1)]
    with tf.train.MonitoredTrainingSession() as session:
        runs = 0
        total = 0.0
        while not session.should_stop():
            values, _ = session.run(both)
            runs += 1
            total += float(values.sum())
    return runs, total


def files_of_text(folder):
    names = []
    for k in range(2):
        names.append(os.path.join(folder, f"lines{k}.txt"))
        with open(names[-1], "w") as file:
            file.writelines(f"{k},{i}\n" for i in range(5))
    files = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
    _, line = tf.TextLineReader().read(files)
    a, b = tf.decode_csv(line, [[0], [0]])
    first, second = tf.train.batch([a, b], 4, allow_smaller_final_batch=True)
    step = tf.train.get_or_create_global_step()
    increment = step.assign_add(1)
    seen = Calls(tf.stack([first, second]))
    with tf.train.MonitoredTrainingSession(hooks=[seen]) as session:
        run_to_the_end(session, increment)
    table = np.concatenate(seen.values, axis=1)
    return seen.counts, sorted(map(tuple, table.T.tolist()))[:4], table.shape


def shuffled_batches(folder):
    images = np.arange(24, dtype=np.float32).reshape(12, 2)
    labels = np.arange(12, dtype=np.int32)
    image, label = tf.train.slice_input_producer(
        [images, labels], num_epochs=2, shuffle=True, seed=3
    )
    x, y = tf.train.shuffle_batch(
        [image, label],
        5,
        capacity=20,
        min_after_dequeue=5,
        num_threads=2,
        allow_smaller_final_batch=True,
    )
    step = tf.train.get_or_create_global_step()
    increment = step.assign_add(1)
    seen = []
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator()) as session:
        while not session.should_stop():
            a, b, _ = session.run([x, y, increment])
            assert (a[:, 0] == 2 * b).all()
            seen += b.tolist()
    return sorted(seen) == sorted(list(range(12)) * 2)


def hooks_and_checkpoints(folder):
    x = tf.train.limit_epochs(tf.constant([1.0, 2.0]), num_epochs=9)
    w, loss, train = linear_model(x, 3.0 * x)
    tf.summary.scalar("loss", loss)
    scaffold = tf.train.Scaffold(summary_op=tf.summary.merge_all())
    final = tf.train.FinalOpsHook(w)
    calls = Calls()
    place = os.path.join(folder, "hooks")
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=place,
        scaffold=scaffold,
        hooks=[
            tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=5),
            tf.train.StepCounterHook(3),
            calls,
        ],
        chief_only_hooks=[tf.train.StopAtStepHook(last_step=30)],
        save_checkpoint_steps=4,
        save_summaries_steps=2,
    ) as session:
        run_to_the_end(session, train)
    with tf.train.SingularMonitoredSession(hooks=[final], checkpoint_dir=place) as session:
        assert not session.should_stop()
        restored = session.raw_session().run(w)
    tags = set()
    for name in os.listdir(place):
        if "tfevents" in name:
            for event in tf.train.summary_iterator(os.path.join(place, name)):
                tags |= {value.tag for value in event.summary.value if "/sec" not in value.tag}
    latest = os.path.basename(tf.train.latest_checkpoint(place))
    return (
        calls.counts,
        latest,
        sorted(tags),
        round(float(restored), 4),
        round(float(final.final_ops_values), 4),
    )


class Ends(tf.train.SessionRunHook):
    """Raises an error after a number of runs."""

    def __init__(self, error, after):
        self.error, self.left = error, after

    def after_run(self, run_context, run_values):
        self.left -= 1
        if not self.left:
            raise self.error


def ends_of_other_kinds(folder):
    outcomes = []
    step = tf.train.get_or_create_global_step()
    increment = step.assign_add(1)
    out = tf.errors.OutOfRangeError(None, None, "over")
    invalid = tf.errors.InvalidArgumentError(None, None, "wrong")
    for error in (out, StopIteration(), invalid, KeyError("own"), "body", "failing op", "request"):
        hooks = [] if isinstance(error, str) else [Ends(error, 3)]
        runs = 0
        try:
            with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                while not session.should_stop():
                    session.run(increment)
                    runs += 1
                    if error == "body" and runs == 2:
                        raise tf.errors.OutOfRangeError(None, None, "of the body")
                    if error == "failing op" and runs == 2:
                        session.run(tf.get_default_graph().get_tensor_by_name("bad:0"))
                    if error == "request" and runs == 2:
                        session.run_step_fn(lambda step_context: step_context.request_stop())
            outcomes.append((runs, "ended"))
        except Exception as raised:
            outcomes.append((runs, type(raised).__name__))
    return outcomes


def lost_sessions(folder):
    """A session whose worker is gone is made anew from the checkpoint."""
    outcomes = []
    for kind in (tf.errors.AbortedError, tf.errors.UnavailableError):
        tf.reset_default_graph()
        step = tf.train.get_or_create_global_step()
        train = step.assign_add(1, use_locking=True)

        class Loses(tf.train.SessionRunHook):
            def __init__(self, kind, train):
                self.kind, self.train, self.sessions = kind, train, 0

            def after_create_session(self, session, coord):
                self.sessions += 1

            def before_run(self, run_context):
                return tf.train.SessionRunArgs(self.train)

            def after_run(self, run_context, run_values):
                if self.sessions == 1 and run_values.results >= 3:
                    raise self.kind(None, None, "gone")

        loses = Loses(kind, train)
        place = os.path.join(folder, kind.__name__)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=place,
            hooks=[tf.train.StopAtStepHook(last_step=7), loses],
            save_checkpoint_steps=1,
            save_summaries_steps=None,
        ) as session:
            runs, last = run_to_the_end(session, train)
        outcomes.append((loses.sessions, runs, int(last)))
    return outcomes


def make_bad_tensor():
    tf.check_numerics(tf.constant(np.nan), "bad", name="bad")


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    sections = (epochs_of_a_tensor, a_queue_that_is_closed, files_of_text, shuffled_batches)
    for section in (*sections, hooks_and_checkpoints, ends_of_other_kinds, lost_sessions):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        make_bad_tensor()
        print(section.__name__, section(folder), flush=True)
    print("sessions of", tf.Session.__module__.partition(".")[0], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
