"""Unmodified TensorFlow 1 programs on tfjit's sessions: `patch_tensorflow` and `tfjit
script.py`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfjit
from tests.forked_processes import Processes

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
EXPECTED = """tfjit.client.session.session [2. 4.] [6.]
tfjit.client.session.session [2.]
tfjit.client.session.session 3
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


def test_a_script(tmp_path: Path, tensorflow_processes: Processes) -> None:
    """The first imports TensorFlow itself, the second finds it imported."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tfjit", "folder/program.py", "--flag", "fail"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == EXPECTED + "['--flag', 'fail'] __main__ folder\n", done.stderr
    assert done.returncode == 7
    failed = tensorflow_processes.run("-m", "tfjit", "-m", "folder.program", "raise", cwd=tmp_path)
    assert failed.stdout.startswith(EXPECTED), failed.stderr
    assert failed.returncode == 1
    assert "KeyError: 'own'" in failed.stderr


@pytest.mark.parametrize("argv", [("-m",), ("absent.py",)])
def test_nothing_to_run(
    tmp_path: Path, tensorflow_processes: Processes, argv: tuple[str, ...]
) -> None:
    done = tensorflow_processes.run("-m", "tfjit", *argv, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("tfjit: ")


@pytest.mark.usefixtures("usual_collections")
def test_other_threads_may_import_meanwhile() -> None:
    """Modules come and go while patches begin and end, and finalizers let other threads run."""
    theirs = tf1.Session
    stop = threading.Event()

    class Finalized:
        def __del__(self) -> None:
            for _ in range(3):
                pass

    def import_modules() -> None:
        names = [f"tensorflow.made_by_{threading.get_ident()}_{k}" for k in range(50)]
        while not stop.is_set():
            for name in names:
                module: Any = types.ModuleType(name)
                module.ring = module, Finalized()
                sys.modules[name] = module
            for name in names:
                del sys.modules[name]

    threads = [threading.Thread(target=import_modules) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.modules.update((f"a_test_{k}", types.ModuleType("filling")) for k in range(2000))
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(30):
            with tfjit.patch_tensorflow():
                assert issubclass(tf1.Session, tfjit.Session)
            assert tf1.Session is theirs
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        for thread in threads:
            thread.join()
        for k in range(2000):
            del sys.modules[f"a_test_{k}"]


def test_a_patch_is_whole_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that refuses its new class leaves no other one changed, and later patches work."""
    from tensorflow.python.client import session as home

    class Refusing(types.ModuleType):
        refuses = True

        def __setattr__(self, name: str, value: object) -> None:
            if self.refuses and name == "InteractiveSession":
                raise RuntimeError("this module does not change")
            super().__setattr__(name, value)

    theirs = tf1.Session, tf1.InteractiveSession, home.Session
    module = Refusing("tensorflow.refusing")
    vars(module)["InteractiveSession"] = tf1.InteractiveSession
    monkeypatch.setitem(sys.modules, "tensorflow.refusing", module)
    with pytest.raises(RuntimeError, match="does not change"):
        tfjit.patch_tensorflow()
    assert (tf1.Session, tf1.InteractiveSession, home.Session) == theirs
    Refusing.refuses = False
    with tfjit.patch_tensorflow() as patch:
        assert issubclass(tf1.Session, tfjit.Session)
        Refusing.refuses = True
        with pytest.raises(RuntimeError, match="does not change"):
            patch.undo()
        assert issubclass(tf1.Session, tfjit.Session)
        assert issubclass(home.InteractiveSession, tfjit.InteractiveSession)
        Refusing.refuses = False
    assert (tf1.Session, tf1.InteractiveSession, home.Session) == theirs


def test_patching_before_tensorflow_is_imported(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import tfjit\npatch = tfjit.patch_tensorflow()\n"
        "import sys\nassert 'tensorflow' not in sys.modules\n"
        "import tensorflow as tf\nassert issubclass(tf.compat.v1.Session, tfjit.Session)\n"
        "patch.undo()\nassert not issubclass(tf.compat.v1.Session, tfjit.Session)\nprint('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr


def test_patching_while_another_thread_imports_tensorflow(tmp_path: Path) -> None:
    """At any moment of the import, the patch waits for what it needs, and holds afterwards."""
    (tmp_path / "program.py").write_text(
        "import sys, threading, time\nimport tfjit\n"
        "importing = threading.Thread(target=__import__, args=('tensorflow',))\nimporting.start()\n"
        "home = 'tensorflow.python.client.session'\n"
        "while home not in sys.modules: time.sleep(0)\n"
        "tfjit.patch_tensorflow()\nimporting.join()\nimport tensorflow as tf\n"
        "assert issubclass(tf.compat.v1.Session, tfjit.Session)\nprint('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
