"""Recurrent networks: variables, shapes, values and gradients of TensorFlow's, in both forms of
control flow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

# where TensorFlow 2.21 keeps TF1's cells
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl

import tfjit
from tests.programs.control_flow_programs import form

tf1 = tf.compat.v1
MODULES = ((tf1, rnn_cell_impl), (tfjit, tfjit.nn.rnn_cell))
BATCH, TIME, DEPTH = 3, 4, 5


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TFJIT_JIT", "off")  # what the graphs are is looked at; one test compiles
    tf1.disable_tensor_equality()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    tf1.enable_tensor_equality()


def run(build: Callable[[Any, Any, Any], Any], v2: bool) -> None:
    """The same under both: variables by name and shape, fetches' shapes, values and gradients by
    variables and inputs.
    """
    rng = np.random.default_rng(3)
    data = rng.normal(size=(BATCH, TIME, DEPTH)).astype("f4")
    found: list[Any] = []
    for m, cells in MODULES:
        with (
            form(v2),
            m.Graph().as_default() as graph,
            m.variable_scope("net", initializer=m.constant_initializer(0.1)),
        ):
            x = m.placeholder(m.float32, [BATCH, TIME, DEPTH], "x")
            fetches = tf.nest.flatten(build(m, cells, x))
            variables = sorted(m.global_variables(), key=lambda variable: variable.name)
            loss = m.add_n([m.reduce_sum(m.sin(fetch)) for fetch in fetches])
            gradients = [m.convert_to_tensor(g) for g in m.gradients(loss, [x, *variables])]
            shapes = [fetch.shape.as_list() for fetch in fetches]
            with m.Session(graph=graph) as session:
                start = np.random.default_rng(4)
                initial = {
                    v.initializer.inputs[1]: start.normal(size=v.shape.as_list()).astype("f4") * 0.5
                    for v in variables
                }
                session.run([v.initializer for v in variables], initial)  # in one step
                values = session.run([*fetches, *gradients], {x: data})
            found.append(
                ([(v.name, v.shape.as_list(), v.trainable) for v in variables], shapes, values)
            )
    (names, shapes, values), (our_names, our_shapes, ours) = found
    assert our_names == names
    assert our_shapes == shapes
    for one, two in zip(ours, values, strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)


CELLS: dict[str, Callable[[Any], Any]] = {
    "basic rnn": lambda c: c.BasicRNNCell(6),
    "basic rnn of a name": lambda c: c.BasicRNNCell(6, name="mine"),
    "gru": lambda c: c.GRUCell(6),
    "basic lstm": lambda c: c.BasicLSTMCell(6, forget_bias=0.5),
    "basic lstm with one state": lambda c: c.BasicLSTMCell(6, state_is_tuple=False),
    "lstm": lambda c: c.LSTMCell(6),
    "lstm with all": lambda c: c.LSTMCell(
        6, use_peepholes=True, cell_clip=0.4, num_proj=2, proj_clip=0.3
    ),
    "lstm with one state": lambda c: c.LSTMCell(6, num_proj=3, state_is_tuple=False),
    "stacked": lambda c: c.MultiRNNCell([c.BasicLSTMCell(6), c.GRUCell(2), c.BasicRNNCell(3)]),
    "stacked with one state": lambda c: c.MultiRNNCell(
        [c.GRUCell(2), c.BasicRNNCell(3)], state_is_tuple=False
    ),
    "residual": lambda c: c.ResidualWrapper(c.GRUCell(DEPTH)),
    "on a device": lambda c: c.DeviceWrapper(c.GRUCell(2), "/cpu:0"),
}


@pytest.mark.parametrize(
    ("name", "v2"),
    [*((name, True) for name in CELLS), ("lstm with all", False), ("stacked", False)],
)
def test_cells_in_a_loop(name: str, v2: bool) -> None:
    run(lambda m, c, x: m.nn.dynamic_rnn(CELLS[name](c), x, dtype=m.float32), v2)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_a_compiled_loop(v2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    run(lambda m, c, x: m.nn.dynamic_rnn(c.LSTMCell(6), x, dtype=m.float32), v2)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_lengths_directions_and_states(v2: bool) -> None:
    def build(m: Any, c: Any, x: Any) -> Any:
        lengths = m.constant([4, 0, 2])
        state = c.LSTMStateTuple(m.ones([BATCH, 2]) * 0.3, m.ones([BATCH, 2]) * 0.2)
        major = m.transpose(x, [1, 0, 2])
        return [
            m.nn.dynamic_rnn(c.LSTMCell(2), x, lengths, dtype=m.float32, scope="a"),
            m.nn.dynamic_rnn(
                c.LSTMCell(2), major, lengths, initial_state=state, time_major=True, scope="b"
            ),
            m.nn.bidirectional_dynamic_rnn(
                c.GRUCell(2), c.BasicRNNCell(3), x, lengths, dtype=m.float32
            ),
            m.nn.bidirectional_dynamic_rnn(
                c.GRUCell(2), c.BasicRNNCell(3), x, dtype=m.float32, scope="c"
            ),
        ]

    run(build, v2)


def test_step_by_step() -> None:
    def build(m: Any, c: Any, x: Any) -> Any:
        steps, lengths = m.unstack(x, axis=1), m.constant([3, 1, 2])
        return [
            m.nn.static_rnn(c.LSTMCell(2), steps, dtype=m.float32),
            m.nn.static_rnn(
                c.BasicLSTMCell(2), steps, dtype=m.float32, sequence_length=lengths, scope="a"
            ),
            m.nn.static_bidirectional_rnn(
                c.GRUCell(2), c.GRUCell(2), steps, dtype=m.float32, sequence_length=lengths
            ),
        ]

    run(build, True)


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_a_loop_of_ones_own(v2: bool) -> None:
    def build(m: Any, c: Any, x: Any) -> Any:
        cell, lengths = c.LSTMCell(2), m.constant([3, 1, 2])
        rows = m.TensorArray(m.float32, TIME, clear_after_read=False).unstack(
            m.transpose(x, [1, 0, 2])
        )

        def plain(time: Any, output: Any, state: Any, _: Any) -> Any:
            state = cell.zero_state(BATCH, m.float32) if output is None else state
            done = m.greater_equal(time, lengths)
            row = m.cond(
                m.reduce_all(done), lambda: m.zeros([BATCH, DEPTH]), lambda: rows.read(time)
            )
            return done, row, state, output, None

        def emitting(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
            if output is None:
                return (
                    m.greater_equal(time, lengths),
                    x[:, 0],
                    cell.zero_state(BATCH, m.float32),
                    (m.zeros([]), m.zeros([2, 1])),
                    m.ones([BATCH]),
                )
            emit = (m.reduce_sum(output, 1), m.reshape(output, [BATCH, 2, 1]))
            return (
                m.greater_equal(time, lengths),
                x[:, 1] * output[:, :1],
                state,
                emit,
                loop_state * 2.0,
            )

        outputs, state, nothing = m.nn.raw_rnn(cell, plain)
        assert nothing is None
        (sums, columns), last, loop_state = m.nn.raw_rnn(cell, emitting, scope="again")
        return [
            outputs.stack() * 1.0,
            state,
            sums.stack() * 1.0,
            columns.stack() * 1.0,
            last,
            loop_state * 1.0,
        ]

    run(build, v2)


def test_a_cell_of_ones_own_and_variables_that_are_shared() -> None:
    def build(m: Any, c: Any, x: Any) -> Any:
        class Gate(c.RNNCell):  # type: ignore[misc]
            state_size = output_size = 2

            def call(self, inputs: Any, state: Any) -> Any:
                w = m.get_variable("w", [DEPTH, 2])
                with m.variable_scope("inner"):
                    u = m.get_variable("u", [2, 2])
                new = m.tanh(m.matmul(inputs, w) + m.matmul(state, u))
                return new * 2.0, new

        cell = Gate()
        first = m.nn.dynamic_rnn(cell, x, dtype=m.float32)
        with m.variable_scope("again", reuse=m.AUTO_REUSE):
            shared = [
                m.nn.dynamic_rnn(c.GRUCell(2, reuse=m.AUTO_REUSE), x, dtype=m.float32)
                for _ in range(2)
            ]
        return [first, shared, m.nn.dynamic_rnn(cell, x * 2.0, dtype=m.float32)]

    run(build, True)


def test_dropout() -> None:
    """What is dropped, in both modules: one mask for all steps where that is asked for, and as much
    as the probability says.
    """
    for m, cells in MODULES:
        with form(True), m.Graph().as_default(), m.Session() as session:
            m.set_random_seed(7)
            one_mask = {
                "variational_recurrent": True,
                "input_size": DEPTH,
                "dtype": m.float32,
                "seed": 3,
            }
            cell = cells.DropoutWrapper(cells.BasicLSTMCell(6), 0.5, 0.7, 0.9, **one_mask)
            outputs, state = m.nn.dynamic_rnn(cell, m.ones([BATCH, TIME, DEPTH]), dtype=m.float32)
            session.run(m.global_variables_initializer())
            got = session.run([outputs, *state])
            dropped = got[0] == 0.0
            assert dropped.any() and (dropped == dropped[:1, :1]).all() and (got[1] != 0.0).all()
            keep = m.placeholder_with_default(np.float32(1.0), [])
            plain = cells.DropoutWrapper(cells.GRUCell(6), output_keep_prob=keep)
            outputs, _ = m.nn.dynamic_rnn(
                plain, m.ones([BATCH, TIME, DEPTH]), dtype=m.float32, scope="b"
            )
            session.run(m.global_variables_initializer())
            assert (session.run(outputs) != 0.0).all()
            zeros = session.run(outputs, {keep: 0.2}) == 0.0
            assert 0.5 < zeros.mean() < 1.0
            with pytest.raises(ValueError, match="must be between 0 and 1"):
                cells.DropoutWrapper(cells.GRUCell(6), 1.5)


def spoiled(m: Any, c: Any) -> dict[str, Callable[[], Any]]:
    x = m.placeholder(m.float32, [BATCH, TIME, DEPTH])
    return {
        "no cell": lambda: m.nn.dynamic_rnn(3, x, dtype=m.float32),
        "no dtype": lambda: m.nn.dynamic_rnn(c.GRUCell(2), x),
        "lengths of a matrix": lambda: m.nn.dynamic_rnn(
            c.GRUCell(2), x, m.ones([2, 2]), dtype=m.float32
        ),
        "no depth": lambda: m.nn.dynamic_rnn(
            c.GRUCell(2), m.placeholder(m.float32, [BATCH, TIME, None]), dtype=m.float32
        ),
        "no inputs": lambda: m.nn.static_rnn(c.GRUCell(2), [], dtype=m.float32),
        "a tensor for a list": lambda: m.nn.static_rnn(c.GRUCell(2), x, dtype=m.float32),
        "no cells": lambda: c.MultiRNNCell([]),
        "tuples in one state": lambda: c.MultiRNNCell([c.LSTMCell(2)], state_is_tuple=False),
        "variational without a dtype": lambda: c.DropoutWrapper(
            c.GRUCell(2), variational_recurrent=True
        ),
    }


@pytest.mark.parametrize("name", spoiled(tfjit, tfjit.nn.rnn_cell))
def test_an_error(name: str) -> None:
    told = []
    for m, cells in MODULES:
        with m.Graph().as_default(), pytest.raises((TypeError, ValueError)) as caught:
            spoiled(m, cells)[name]()
        text = str(caught.value).partition("Received")[0].partition("input=")[0]
        told.append((type(caught.value), text))
    assert told[0] == told[1]
