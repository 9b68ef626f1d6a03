"""Updates of one optimizer are one launch, with the values of separate launches."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.framework.types.dtypes import float32
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.registry import NativeCall
from tfjit.kernels.source import KernelSource
from tfjit.runtime.lowering.lowering import Value
from tfjit.runtime.offload import launch_batching

SHAPES = ((), (3,), (0, 4), (5, 7), (1,), (4, 2), (300,), (2, 2, 2))


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


class Names:
    """Values and instructions by name: `v` is a variable, `b` a buffer."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._variables: dict[str, Any] = {}

    def value(self, name: str, storage: Any) -> Value:
        variable = None
        if name.startswith("v"):
            variable = self._variables.setdefault(name, SimpleNamespace(name=name))
        key = f"{name} {storage}"
        if key not in self._values:
            made = Value(len(self._values), float32, (3,), storage, variable=variable)
            self._values[key] = made
        return self._values[key]

    def step(self, text: str, kernel: str = "", nbytes: int = 12) -> Any:
        """Return the instruction "written <- read read", an update if it has a kernel."""
        written, _, read = text.partition(" <- ")
        place = "handle" if written.startswith("v") else "buffer"
        target = [self.value(written, place)]
        inputs = [
            self.value(name, "variable" if name.startswith("v") else "buffer")
            for name in read.split()
        ]
        updated = target if place == "handle" else []
        instruction = SimpleNamespace(text=text, inputs=[*updated, *inputs], outputs=target)
        form = KernelSource(kernel) if kernel else None
        launch = CudaLaunch(KernelSource("one"), (), table_form=form)
        return instruction, NativeCall((launch,), bytes_moved=nbytes)


def joined(*steps: tuple[Any, ...]) -> list[list[str]]:
    names = Names()
    groups = launch_batching.bundle_launches([names.step(*step) for step in steps])
    return [[one.text for one, _ in group] for group in groups]  # type: ignore[attr-defined]


def test_independent_updates_join_at_the_last_one() -> None:
    found = joined(("v1 <- b1", "adam"), ("b2 <- b0",), ("v2 <- b2", "adam"), ("b3 <- b0",))
    assert found == [["b2 <- b0"], ["v1 <- b1", "v2 <- b2"], ["b3 <- b0"]]


@pytest.mark.parametrize("between", ["b2 <- v1", "b1 <- b0", "v1 <- b0", "v9 <- b0"])
def test_an_instruction_between_that_needs_the_order(between: str) -> None:
    """It reads what the update writes, writes what that reads, or writes the same."""
    steps = (("v1 <- b1 v9", "adam"), (between,), ("v2 <- b4", "adam"), ("v3 <- b5", "adam"))
    assert joined(*steps) == [["v1 <- b1 v9"], [between], ["v2 <- b4", "v3 <- b5"]]


@pytest.mark.parametrize("second", ["v1 <- b2", "v2 <- v1", "v9 <- b2"])
def test_updates_that_need_each_other(second: str) -> None:
    steps = (("v1 <- b1 v9", "adam"), (second, "adam"), ("v4 <- b4", "adam"))
    assert joined(*steps) == [["v1 <- b1 v9"], [second, "v4 <- b4"]]


def test_kernels_and_large_variables_apart() -> None:
    large = launch_batching.LARGEST_BYTES + 1
    steps = (
        *(("v1 <- b1", "adam"), ("v2 <- b2", "ftrl"), ("v3 <- b3", "adam", large)),
        *(("v4 <- b4", "adam"), ("v5 <- b5", "ftrl"), ("b6 <- b0", "adam")),
    )
    assert joined(*steps) == [
        *(["v3 <- b3"], ["v1 <- b1", "v4 <- b4"], ["v2 <- b2", "v5 <- b5"], ["b6 <- b0"]),
    ]


def trained(optimizer: Any, dtype: Any = np.float32) -> tuple[list[np.ndarray], str]:
    """Return all variables after three steps, and the paragraph of the step's program."""
    rng = np.random.default_rng(2)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(dtype, [])
        with tf.device("/device:GPU:0"):
            values = [rng.normal(size=shape).astype(dtype) for shape in SHAPES]
            variables = [tf.get_variable(f"v{k}", initializer=v) for k, v in enumerate(values)]
            loss = tf.add_n(
                [tf.reduce_sum(tf.square(v) * (x + k)) for k, v in enumerate(variables)]
            )
            train = optimizer().minimize(loss)
        init = tf.global_variables_initializer()
        everything = tf.global_variables()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for step in range(3):
            session.run(train, {x: 0.5 + step})
            assert session.wait_until_compiled(300)
        nodes = session.explain(train, {x: ()}).nodes
        text = "\n".join(node.group for node in nodes if node.op == "_Offload")
        return session.run(everything), text


@pytest.mark.parametrize(
    ("optimizer", "title"),
    [
        (lambda: tf.train.AdamOptimizer(0.1), "Adam update f32"),
        (lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), "use_nesterov"),
        (lambda: tf.train.GradientDescentOptimizer(0.1), "GradientDescent update f32"),
    ],
)
def test_values_are_those_of_separate_launches(
    optimizer: Any, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, text = trained(optimizer)
    monkeypatch.setattr(launch_batching, "LARGEST_BYTES", -1)
    expected, separate = trained(optimizer)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert text.count(f"{title}, in one launch with 6 more") == 7  # one variable is empty
    assert separate.count(title) == 7 and "in one launch" not in separate

    def launches(paragraph: str) -> int:
        return int(paragraph.partition(" launches")[0].rpartition(" ")[2])

    assert launches(text) == launches(separate) - 6


def test_float64() -> None:
    _, text = trained(lambda: tf.train.AdamOptimizer(0.1), np.float64)
    assert text.count("Adam update f64, in one launch with 6 more") == 7


def ordered(device: str) -> list[np.ndarray]:
    """Return variables after updates that have to keep their order."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4])
        with tf.device(device):
            a = tf.get_variable("a", initializer=np.arange(4, dtype=np.float32))
            b = tf.get_variable("b", initializer=np.ones(4, np.float32))
            rate = tf.get_variable("rate", initializer=np.float32(0.5))

            def update(variable: Any, delta: Any) -> Any:
                return tf.raw_ops.ApplyGradientDescent(
                    var=variable.op.outputs[0], alpha=rate.op.outputs[0], delta=delta
                )

            last = update(a, x)
            for make in (
                lambda: update(b, a.read_value() * 2.0),  # reads what is written
                lambda: tf.assign(rate, rate.read_value() * 0.5),  # writes what is read
                lambda: update(b, x),
                lambda: update(b, a.read_value()),  # writes what is written
                lambda: update(a, b.read_value()),
            ):
                with tf.control_dependencies([last]):
                    last = make()
        init = tf.global_variables_initializer()
    found = []
    with tf.Session(graph=graph) as session:
        session.run(init)
        for step in range(3):
            session.run(last, {x: np.float32([1, -2, 3, 4 + step])})
            found += session.run([a, b, rate])
            assert session.wait_until_compiled(300)
    return found


def test_orders_that_stay() -> None:
    for ours, theirs in zip(ordered("/device:GPU:0"), ordered("/device:CPU:0"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
