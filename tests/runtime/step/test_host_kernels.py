"""Python kernels of a step: a reference output is the variable, and nothing copies it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tfjit.compat.v1 as tf1
from tfjit.runtime.step import host_kernels


@pytest.mark.parametrize("use_resource", [False, True])
def test_scatters_copy_no_variable(use_resource: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    copy_aliased, copied = host_kernels._copy_aliased, list[int]()

    def counted(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        found = copy_aliased(outputs, inputs)
        copied.extend(o.size for o, given in zip(found, outputs) if o is not given)
        return found

    monkeypatch.setattr(host_kernels, "_copy_aliased", counted)
    with tf1.Graph().as_default():
        table = tf1.get_variable(
            "table", [5, 3], initializer=tf1.zeros_initializer(), use_resource=use_resource
        )
        ids = tf1.placeholder(tf1.int32, [4])
        add = tf1.scatter_add(table, ids, tf1.ones([4, 3]))
        twice = tf1.scatter_sub(table, ids, tf1.fill([4, 3], 0.5))
        session = tf1.Session()
        session.run(table.initializer)
    feeds = {ids: [0, 4, 4, 2]}
    wanted = np.zeros((5, 3), np.float32)
    np.add.at(wanted, feeds[ids], 1)
    found = session.run(add, feeds)
    np.testing.assert_array_equal(found, wanted)
    found[...] = 9  # the caller's own
    np.testing.assert_array_equal(session.run(table), wanted)
    np.testing.assert_array_equal(session.run(twice, feeds), wanted / 2)
    assert not copied
    session.close()
