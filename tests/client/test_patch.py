"""Unmodified TensorFlow 1 programs on tfjit's sessions: `patch_tensorflow` and `tfjit script.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1

PROGRAM = """
import os, sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [None], name="x")
v = tf.Variable(2.0)
y = x * v
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    print(type(session).__module__, session.run(y, {x: [1, 2]}), y.eval({x: [3]}))
with tf.train.MonitoredTrainingSession() as monitored:
    print(type(monitored._tf_sess()).__module__, monitored.run(y, {x: [1]}))
interactive = tf.InteractiveSession()
print(type(interactive).__module__, tf.constant(3).eval())
interactive.close()
print(sys.argv[1:], __name__, os.path.basename(sys.path[0]))
if "fail" in sys.argv:
    sys.exit(7)
if "raise" in sys.argv:
    raise KeyError("own")
"""
EXPECTED = """tfjit.client.session [2. 4.] [6.]
tfjit.client.session [2.]
tfjit.client.session 3
"""


def test_a_patch_holds_as_long_as_its_block() -> None:
    theirs = tf1.Session, tf1.InteractiveSession
    with tf1.Graph().as_default():
        c = tf.constant(3.0) * 2
        with tfjit.patch_tensorflow():
            assert issubclass(tf1.Session, tfjit.Session)
            assert issubclass(tf1.InteractiveSession, tfjit.InteractiveSession)
            with tf1.Session() as session:
                assert isinstance(session, tfjit.Session)
                assert isinstance(session, tf1.Session)
                assert session.graph is c.graph
                assert session.run(c) == 6
            with tfjit.patch_tensorflow():
                pass
            assert issubclass(tf1.Session, tfjit.Session)
        assert (tf1.Session, tf1.InteractiveSession) == theirs
        patch = tfjit.patch_tensorflow()
        assert issubclass(tf1.Session, tfjit.Session)
        patch.undo()
        patch.undo()
        assert (tf1.Session, tf1.InteractiveSession) == theirs
        with tf1.Session() as session:
            assert not isinstance(session, tfjit.Session)
            assert session.run(c) == 6


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tfjit", *argv], cwd=cwd, capture_output=True, text=True, timeout=240, check=False)


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "program.py").write_text(PROGRAM)
    done = run("folder/program.py", "--flag", "fail", cwd=tmp_path)
    assert done.stdout == EXPECTED + "['--flag', 'fail'] __main__ folder\n", done.stderr
    assert done.returncode == 7
    failed = run("-m", "folder.program", "raise", cwd=tmp_path)
    assert failed.stdout.startswith(EXPECTED), failed.stderr
    assert failed.returncode == 1
    assert "KeyError: 'own'" in failed.stderr


@pytest.mark.parametrize("argv", [("-m",), ("absent.py",)])
def test_nothing_to_run(tmp_path: Path, argv: tuple[str, ...]) -> None:
    done = run(*argv, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("tfjit: ")


def test_patching_before_tensorflow_is_imported(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import tfjit\npatch = tfjit.patch_tensorflow()\n"
        "import sys\nassert 'tensorflow' not in sys.modules\n"
        "import tensorflow as tf\nassert issubclass(tf.compat.v1.Session, tfjit.Session)\n"
        "patch.undo()\nassert not issubclass(tf.compat.v1.Session, tfjit.Session)\nprint('done')\n"
    )
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "done\n", done.stderr
