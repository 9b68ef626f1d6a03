"""A program that learns from its own actions: deep Q-learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.models.layers import dense, generator, session


class _Pole:
    """A pole on a cart; the state is (place, speed, angle, turn)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.state = np.zeros(4)

    def reset(self) -> np.ndarray:
        """Return a new first state."""
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        """Return (state, reward, whether the pole fell)."""
        place, speed, angle, turn = self.state
        push = 10.0 if action else -10.0
        inner = (push + 0.05 * turn**2 * np.sin(angle)) / 1.1
        bend = (9.8 * np.sin(angle) - np.cos(angle) * inner) / (
            0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
        )
        pull = inner - 0.05 * bend * np.cos(angle) / 1.1
        self.state = np.array(
            [place + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * turn, turn + 0.02 * bend]
        )
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state, 1.0, bool(fell)


def q_learning(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    units: int = 64,
    batch: int = 32,
    memory: int = 5000,
    before: int = 64,
    copied_every: int = 100,
) -> None:
    """Act, remember and learn: an online and a target network, double Q-learning.

    The action is the network's only where its two values differ by more than rounding can change,
    so that the same course is taken on every library.
    """
    states = tf.placeholder(tf.float32, [None, 4], name="states")
    nexts = tf.placeholder(tf.float32, [None, 4], name="nexts")
    actions = tf.placeholder(tf.int32, [None], name="actions")
    rewards = tf.placeholder(tf.float32, [None], name="rewards")
    falls = tf.placeholder(tf.float32, [None], name="falls")

    def network(x: Any, name: str) -> Any:
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            for layer in range(2):
                x = dense(tf, x, units, f"layer_{layer}", tf.nn.relu)
            value = dense(tf, x, 1, "value")
            gains = dense(tf, x, 2, "gains")
            return value + gains - tf.reduce_mean(gains, 1, keepdims=True)

    values = network(states, "online")
    next_online, next_target = network(nexts, "online"), network(nexts, "target")
    rows = tf.range(tf.shape(actions)[0])
    taken = tf.gather_nd(values, tf.stack([rows, actions], 1))
    best = tf.cast(tf.argmax(next_online, 1), tf.int32)
    future = tf.gather_nd(next_target, tf.stack([rows, best], 1))
    wanted = tf.stop_gradient(rewards + 0.97 * (1.0 - falls) * future)
    error = wanted - taken
    huber = tf.where(tf.abs(error) < 1.0, tf.square(error) * 0.5, tf.abs(error) - 0.5)
    loss = tf.reduce_mean(huber)
    optimizer = tf.train.RMSPropOptimizer(5e-4)
    gradients = optimizer.compute_gradients(loss, tf.trainable_variables("online"))
    train = optimizer.apply_gradients([(tf.clip_by_norm(g, 10.0), v) for g, v in gradients])
    copy = tf.group(
        *(
            tf.assign(target, online)
            for online, target in zip(
                tf.trainable_variables("online"), tf.trainable_variables("target")
            )
        )
    )
    rng = generator(14)
    pole = _Pole(rng)
    kept: list[tuple[Any, ...]] = []
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        run.run(copy)
        state = pole.reset()
        for step in recorder.steps():
            left, right = run.run(values, {states: state[None]})[0]
            explore = rng.random() < max(0.05, 1 - step / 500)
            action = int(rng.integers(2))
            if not explore and abs(left - right) > 1e-2 * (abs(left) + abs(right)):
                action = int(right > left)
            new, reward, fell = pole.step(action)
            kept.append((state, action, reward, new, float(fell)))
            del kept[:-memory]
            state = pole.reset() if fell else new
            recorder.output(left, right)
            if len(kept) >= before:
                picks = [kept[k] for k in rng.integers(0, len(kept), batch)]
                columns = [np.array(column) for column in zip(*picks)]
                feed = dict(zip((states, actions, rewards, nexts, falls), columns))
                recorder.output(run.run([loss, train], feed)[0])
            if step % copied_every == copied_every - 1:
                run.run(copy)
