"""Synchronous replicas in one process, beside TensorFlow's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


def ending(m: Any, train: Any, gradients: int, feed: Any = None) -> Any:
    """Return a hook that ends the chief's runner, which waits for gradients: it gives them."""

    class Ending(m.train.SessionRunHook):  # type: ignore[misc, name-defined]
        def after_create_session(self, session: Any, coord: Any) -> None:
            self._coordinator = coord

        def end(self, session: Any) -> None:
            self._coordinator.request_stop()  # which closes the queue of tokens
            for _ in range(gradients):
                try:
                    session.run(train, feed)
                except (m.errors.OutOfRangeError, m.errors.CancelledError):
                    continue

    return Ending()


def trained(m: Any, replicas: int, total: int, resource: bool, sparse: bool) -> list[Any]:
    """Return the variables after 3 updates from the gradients of `total` threads."""
    with m.Graph().as_default():
        step = m.train.get_or_create_global_step()
        w = m.get_variable("w", initializer=np.ones((3, 2), np.float32), use_resource=resource)
        unused = m.get_variable("unused", initializer=np.float32(1), use_resource=resource)
        rows = m.placeholder(m.int32, (2,))
        used = m.nn.embedding_lookup(w, rows) if sparse else w * m.cast(rows, m.float32)
        optimizer = m.train.SyncReplicasOptimizer(
            m.train.MomentumOptimizer(0.1, 0.9), replicas, total
        )
        pairs = optimizer.compute_gradients(m.reduce_sum(m.square(used)), [w, unused])
        train = optimizer.apply_gradients(pairs, global_step=step)
        hook = optimizer.make_session_run_hook(True, 0 if replicas == total else -1)
        hooks = [hook, ending(m, train, replicas, {rows: [0, 1]})]
        with m.train.MonitoredSession(hooks=hooks) as session:
            for number in range(3):
                feeds = [{rows: [number, (number + k) % 3]} for k in range(replicas)]
                threads = [
                    threading.Thread(target=session.run, args=(train, feed)) for feed in feeds
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(60)
                    assert not thread.is_alive()
            seen = session.run_step_fn(
                lambda step_context: step_context.session.run(
                    [w, optimizer.get_slot(w, "momentum"), step]
                )
            )
        assert optimizer.get_slot_names() == ["momentum"]
        assert [v.op.name for v in optimizer.variables()] == ["w/Momentum"]
    return [np.asarray(value).round(4).tolist() for value in seen]


@pytest.mark.parametrize("resource", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_means_of_gradients(resource: bool, sparse: bool) -> None:
    assert trained(tfjit, 2, 2, resource, sparse) == trained(tf1, 2, 2, resource, sparse)


def test_more_gradients_than_workers() -> None:
    found = trained(tfjit, 1, 1, True, False)
    assert found == trained(tf1, 1, 1, True, False) and found[2] == 3


def optimizer(m: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    step = m.train.get_or_create_global_step()
    w = m.get_variable("w", initializer=1.0)
    made = m.train.SyncReplicasOptimizer(m.train.GradientDescentOptimizer(0.1), 3, 1, **kwargs)
    return made, w, step


@pytest.mark.parametrize(
    "use",
    [
        lambda made, w, step: made.apply_gradients([]),
        lambda made, w, step: made.apply_gradients([(w, w)]),
        lambda made, w, step: made.minimize(w * w),
        lambda made, w, step: made.apply_gradients([("g", w)], step),
        lambda made, w, step: made.get_chief_queue_runner(),
        lambda made, w, step: made.get_init_tokens_op(),
        lambda made, w, step: made.make_session_run_hook(False).begin(),
        lambda made, w, step: (
            made.minimize(w * w, global_step=step),
            made.get_init_tokens_op(1),
        ),
    ],
)
def test_errors(use: Callable[..., Any]) -> None:
    seen = []
    for m in (tf1, tfjit):
        with m.Graph().as_default(), pytest.raises((ValueError, TypeError)) as caught:
            use(*optimizer(m))
        seen.append((type(caught.value), str(caught.value)))
    assert seen[0] == seen[1]


def test_variable_averages_follow_each_update() -> None:
    for m in (tf1, tfjit):
        with m.Graph().as_default():

            class Averages:
                def apply(self, variables: Any, m: Any = m) -> Any:
                    return m.assign_add(variables[0], 1.0).op

            count = m.get_variable("count", initializer=0.0, use_resource=True)
            step = m.train.get_or_create_global_step()
            w = m.get_variable("w", initializer=1.0, use_resource=True)
            made = m.train.SyncReplicasOptimizer(
                m.train.GradientDescentOptimizer(0.1),
                1,
                variable_averages=Averages(),
                variables_to_average=[count],
            )
            train = made.minimize(w * w, global_step=step)
            hook = made.make_session_run_hook(True)
            with m.train.MonitoredSession(hooks=[hook, ending(m, train, 1)]) as session:
                for _ in range(3):
                    session.run(train)
                assert session.run([train, step])[1] >= 2
