"""A script's bisection, by its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjit.lab import bisect_script

_SCRIPT = """
import sys
import numpy as np
import tfjit as tf
from tfjit.passes.manager import pass_registry

found = pass_registry._function
def wrong(graph, ctx):
    found("canonicalize.cse", "eliminate_common_subexpressions")(graph, ctx)
    for node in list(graph.op_nodes()):
        if node.op == "Tanh" and ctx.may_rewrite():
            graph.change_op(node.name, "Sin", graph.inputs(node.name), {"T": node.attrs["T"]})
            ctx.rewrote(node.name, "planted")
pass_registry._function = lambda home, name: (
    wrong if name == "eliminate_common_subexpressions" else found(home, name)
)
x = tf.placeholder(tf.float32, [3], name="x")
y = tf.tanh(tf.identity(x), name="y")
with tf.Session() as session:
    value = session.run(y, {x: np.ones(3, np.float32)})
sys.exit(0 if np.allclose(value, np.tanh(1.0)) or "--fine" in sys.argv else 3)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFJIT_JIT", "off")
    path = tmp_path / "program.py"
    path.write_text(_SCRIPT)
    return path


def test_a_failing_script_is_bisected(script: Path) -> None:
    found = bisect_script(script)
    assert found.culprit is not None, found
    assert found.culprit.pass_name == "eliminate_common_subexpressions"
    assert (found.culprit.node, found.culprit.reason) == ("y", "planted")
    assert "- y = Tanh" in found.culprit.changes and "+ y = Sin" in found.culprit.changes
    assert "exit status 3" in str(found)


def test_a_script_that_succeeds_has_no_culprit(script: Path) -> None:
    found = bisect_script(script, ["--fine"])
    assert found.culprit is None and found.note.startswith("nothing to find: with all ")


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no script"):
        bisect_script(tmp_path / "none.py")
