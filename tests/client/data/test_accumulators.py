"""Accumulators of gradients, beside TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
def test_dense_gradients(reduction: str) -> None:
    seen = []
    for m in (tf1, tfjit):
        with m.Graph().as_default():
            made = m.ConditionalAccumulator(m.float32, (2,), "mine", "acc", reduction)
            same = m.ConditionalAccumulator(m.float32, (2,), "mine", "other", reduction)
            add = [made.apply_grad([1.0, 2.0], 1), same.apply_grad([5, 2], local_step=1)]
            late, taken = made.set_global_step(m.constant(3)), made.take_grad(2)
            count = same.num_accumulated()
            names = [
                made.name,
                made.dtype.name,
                taken.shape.as_list(),
                taken.op.type,
                count.op.name,
            ]
            with pytest.raises(ValueError):
                made.apply_grad([1.0])
            with m.Session() as session:
                session.run(add)
                names.append(int(session.run(count)))
                names.append(session.run(taken).tolist())
                session.run(late)
                session.run(add)
                names.append(int(session.run(count)))
        seen.append(names)
    assert seen[0] == seen[1]


def test_sparse_gradients() -> None:
    seen = []
    for m in (tf1, tfjit):
        with m.Graph().as_default():
            made = m.SparseConditionalAccumulator(m.float32, (None, 2))
            add = [
                made.apply_grad([0, 2], np.ones((2, 2), np.float32), [3, 2], local_step=9),
                made.apply_indexed_slices_grad(
                    m.IndexedSlices(m.constant([[4.0, 6.0]]), m.constant([2])), local_step=9
                ),
            ]
            taken, count = made.take_indexed_slices_grad(2), made.num_accumulated()
            raw, step = made.take_grad(1), made.set_global_step(7)
            with m.Session() as session:
                session.run(add[0])
                session.run(add[1])
                found = [int(session.run(count)), *session.run(taken)]
                session.run(add[0])
                found += list(session.run(raw))
                session.run(step)
                session.run(add)
                found.append(int(session.run(count)))
        seen.append([np.asarray(value).tolist() for value in found])
    assert seen[0] == seen[1]
