"""What TF1 programs have around their graph: flags, main functions, files, messages."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import tfjit
from tfjit.client import flags

PROGRAM = """
import tfjit as tf

tf.app.flags.DEFINE_integer("steps", 3, "how many")
tf.flags.DEFINE_boolean("loud", True, "whether")
FLAGS = tf.flags.FLAGS

def main(argv):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.logging.info("steps %d", FLAGS.steps)
    with tf.Session() as session:
        print(session.run(tf.constant(2) * FLAGS.steps), FLAGS.loud, argv[1:])
    return 4

if __name__ == "__main__":
    tf.app.run()
"""


def test_a_program_with_flags(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, program, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    run = call("--steps=5", "--noloud", "rest")
    assert (run.returncode, run.stdout) == (4, "10 False ['rest']\n"), run.stderr
    assert "INFO:tensorflow:steps 5" in run.stderr
    wrong = call("--steps", "many")
    assert wrong.returncode == 1 and "flag --steps=many" in wrong.stderr
    assert "--steps: how many (default: 3)" in call("--help").stdout


def test_flags() -> None:
    values = flags.FlagValues()
    flags.DEFINE_string("name", None, "a name", flag_values=values)
    flags.DEFINE_float("rate", 1, "a rate", lower_bound=0.0, flag_values=values)
    flags.DEFINE_list("parts", "a,b", "parts", flag_values=values)
    flags.DEFINE_enum("kind", "x", ["x", "y"], "kind", flag_values=values)
    flags.DEFINE_bool("on", False, "on", flag_values=values)
    assert values(["p", "--rate=0.5", "-on", "--parts=c, d", "one", "--", "--kind=y"]) == [
        "p",
        "one",
        "--kind=y",
    ]
    assert values.flag_values_dict() == {
        "name": None,
        "rate": 0.5,
        "parts": ["c", "d"],
        "kind": "x",
        "on": True,
    }
    values.name = "set"
    assert values.name == "set" and "name" in values and values.is_parsed()
    for words, text in (
        (["--rate=-1"], "is not between"),
        (["--kind=z"], "one of <x|y>".replace("|", r"\|")),
        (["--on=maybe"], "Non-boolean"),
        (["--name"], "Missing value"),
        (["--other"], "Unknown command line flag 'other'"),
    ):
        with pytest.raises(flags.Error, match=text):
            values(["p", *words])
    with pytest.raises(flags.DuplicateFlagError, match="The flag 'name' is defined twice"):
        flags.DEFINE_string("name", "", "again", flag_values=values)
    with pytest.raises(AttributeError):
        values.nothing  # noqa: B018
    flags.DEFINE_string("needed", None, "needed", flag_values=values)
    flags.mark_flag_as_required("needed", values)
    with pytest.raises(flags.IllegalFlagValueError, match="--needed must have a value"):
        values(["p"])


def test_files(tmp_path: Path) -> None:
    gfile = tfjit.gfile
    folder = tmp_path / "a" / "b"
    gfile.MakeDirs(folder)
    with gfile.GFile(folder / "f", "w") as file:
        file.write("one\ntwo\n")
    with gfile.Open(str(folder / "f"), "rb") as file:
        assert (
            file.size() == 8
            and file.readline() == b"one\n"
            and file.tell() == 4
            and file.readlines() == [b"two\n"]
        )
        file.seek(0)
        assert file.read(3) == b"one" and list(gfile.FastGFile(folder / "f")) == ["one\n", "two\n"]
    gfile.Copy(folder / "f", folder / "g")
    assert gfile.ListDirectory(tmp_path / "a") == ["b"] and gfile.Stat(folder / "g").length == 8
    assert gfile.Glob(str(folder / "*")) == [
        str(folder / "f"),
        str(folder / "g"),
    ] and gfile.IsDirectory(folder)
    with pytest.raises(tfjit.errors.AlreadyExistsError):
        gfile.Rename(folder / "f", folder / "g")
    gfile.Rename(folder / "f", folder / "g", overwrite=True)
    assert not gfile.Exists(folder / "f") and [w[2] for w in gfile.Walk(tmp_path)] == [
        [],
        [],
        ["g"],
    ]
    gfile.Remove(folder / "g")
    with pytest.raises(tfjit.errors.NotFoundError, match="No such file or directory"):
        gfile.GFile(folder / "g").read()
    with pytest.raises(tfjit.errors.NotFoundError):
        gfile.MkDir(tmp_path / "none" / "x")
    with pytest.raises(tfjit.errors.AlreadyExistsError):
        gfile.MkDir(folder)
    gfile.DeleteRecursively(tmp_path / "a")
    assert not gfile.Exists(folder)


def test_messages(caplog: pytest.LogCaptureFixture) -> None:
    before = tfjit.logging.get_verbosity()
    try:
        tfjit.logging.set_verbosity(tfjit.logging.INFO)
        with caplog.at_level(logging.INFO, "tensorflow"):
            tfjit.logging.info("shown %d", 1)
            tfjit.logging.debug("not shown")
            for _ in range(5):
                tfjit.logging.log_every_n(tfjit.logging.WARN, "every", 3)
                tfjit.logging.log_first_n(tfjit.logging.ERROR, "first", 2)
        texts = [record.getMessage() for record in caplog.records]
        assert (
            texts.count("every") == 2
            and texts.count("first") == 2
            and "shown 1" in texts
            and "not shown" not in texts
        )
    finally:
        tfjit.logging.set_verbosity(before)
