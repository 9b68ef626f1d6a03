"""A worker of a cluster as a program: `python -m tests.distributed.training_worker JSON`.

It starts its server, trains in a monitored session, and prints loss and global step of each step.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import tfjit as tf

FEATURES = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
LABELS = FEATURES @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.25


def loss_of(features: np.ndarray, labels: np.ndarray) -> tuple[Any, list[Any]]:
    """Return the loss of a linear model over some rows, and its variables."""
    w = tf.get_variable("w", initializer=np.zeros((3, 1), np.float32), use_resource=True)
    b = tf.get_variable("b", initializer=np.zeros(1, np.float32), use_resource=True)
    errors = tf.matmul(tf.constant(features), w) + b - tf.constant(labels)
    return tf.reduce_mean(tf.square(errors)), [w, b]


def rows_of(task: int, workers: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the worker's part of the data."""
    return FEATURES[task::workers], LABELS[task::workers]


class PrintsSessions(tf.train.SessionRunHook):
    """Prints the global step at the beginning of each session."""

    def __init__(self, step: Any) -> None:
        self._step = step

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Print it."""
        print(json.dumps(["session", int(session.run(self._step))]), flush=True)


def main(
    task: int,
    cluster: dict[str, list[str]],
    sync: bool,
    filters: Sequence[str] = (),
    **arguments: Any,
) -> None:
    """Train as this worker. filters: the tasks that its sessions reach; all, if empty."""
    server = tf.train.Server(cluster, "worker", task)
    workers, last_step = len(cluster["worker"]), arguments.pop("last_step")
    chief = task == 0
    device = tf.train.replica_device_setter(
        worker_device=f"/job:worker/task:{task}", cluster=cluster
    )
    hooks: list[Any] = [tf.train.StopAtStepHook(last_step=last_step)]
    with tf.device(device):
        step = tf.train.get_or_create_global_step()
        loss, _ = loss_of(*rows_of(task, workers))
        optimizer: Any = tf.train.GradientDescentOptimizer(0.1)
        if sync:
            optimizer = tf.train.SyncReplicasOptimizer(optimizer, workers)
        train = optimizer.minimize(loss, global_step=step)
    hooks.append(PrintsSessions(step))
    if sync:
        hooks.append(optimizer.make_session_run_hook(chief, 0))
    with tf.train.MonitoredTrainingSession(
        server.target,
        chief,
        hooks=hooks,
        stop_grace_period_secs=0.1,
        config=tf.ConfigProto(device_filters=filters),
        **arguments,
    ) as session:
        while not session.should_stop():
            value, _, at = session.run([loss, train, step])
            print(json.dumps([float(value), int(at)]), flush=True)
    print("done", flush=True)
    sys.stdin.readline()  # the other worker may still use this task


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
