"""The TFJIT_* variables."""

from __future__ import annotations

import logging
import re
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit import cli
from tfjit.framework import settings
from tfjit.framework.env import Env
from tfjit.passes.text.text_format import parse_graph


def test_read_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFJIT_JIT", raising=False)
    assert settings.text("TFJIT_JIT") == "lazy"
    monkeypatch.setenv("TFJIT_JIT", "eager")
    assert settings.text("TFJIT_JIT") == "eager"
    monkeypatch.setenv("TFJIT_JIT", "sometimes")
    with pytest.raises(ValueError, match="TFJIT_JIT='sometimes': expected one of off, lazy, eager"):
        settings.text("TFJIT_JIT")


READ = re.compile(r'(?:text|flag|integer|names|path|get|is_set)\("(TFJIT_[A-Z_]+)"')


def test_every_setting_is_read_and_every_one_that_is_read_is_listed(root: Path) -> None:
    """Nothing is promised that has no effect, in the list or in the documents."""
    listed = {setting.name for setting in settings.SETTINGS}
    folders = [root / name for name in ("tfjit", "kernels", "passes")]
    sources = [p for folder in folders for p in folder.rglob("*.py")]
    read = {name for p in sources for name in READ.findall(p.read_text("utf-8"))}
    assert read <= listed
    for document in ("README.md", "ARCHITECTURE.md"):
        named = re.findall(r"\bTFJIT_[A-Z]+(?:_[A-Z]+)*\b", (root / document).read_text("utf-8"))
        assert set(named) <= listed


def test_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    monkeypatch.setenv("TFJIT_COMPARE", "off")
    monkeypatch.setenv("TFJIT_THREADS", "3")
    monkeypatch.setenv("TFJIT_DISABLE", "fuse, simplify,")
    monkeypatch.setenv("TFJIT_DUMP", "/tmp/somewhere")
    assert settings.flag("TFJIT_VERIFY") and not settings.flag("TFJIT_COMPARE")
    assert settings.integer("TFJIT_THREADS") == 3
    assert settings.names("TFJIT_DISABLE") == {"fuse", "simplify"}
    assert settings.path("TFJIT_DUMP") == Path("/tmp/somewhere")
    monkeypatch.delenv("TFJIT_DUMP")
    assert settings.path("TFJIT_DUMP") is None
    monkeypatch.setenv("TFJIT_THREADS", "many")
    with pytest.raises(ValueError, match="TFJIT_THREADS='many': expected a number"):
        settings.integer("TFJIT_THREADS")
    with pytest.raises(KeyError):
        settings.text("TFJIT_UNKNOWN")


def test_cache_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_CACHE_DIR", "/a/b")
    assert settings.cache_dir() == Path("/a/b")
    monkeypatch.delenv("TFJIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert settings.cache_dir() == Path("/c/tfjit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert settings.cache_dir() == Path.home() / ".cache" / "tfjit"


def test_description_names_all() -> None:
    text = settings.describe()
    assert all(setting.name in text for setting in settings.SETTINGS)


def test_every_setting_is_read_and_tested(root: Path) -> None:
    """Code reads it by a function of `settings`, and some test but this one names it."""
    sources = [
        path for folder in ("tfjit", "kernels", "passes") for path in (root / folder).rglob("*.py")
    ]
    code = "".join(
        path.read_text(encoding="utf-8") for path in sources if path.name != "settings.py"
    )
    own = (root / "tfjit" / "framework" / "settings.py").read_text(encoding="utf-8")
    tests = "".join(path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.py"))
    for setting in settings.SETTINGS:
        read = re.compile(rf'\b(text|flag|integer|names|path|is_set)\(\s*"{setting.name}"')
        assert read.search(code) or len(read.findall(own)) > 0, f"nothing reads {setting.name}"
        assert setting.name in tests, f"no test sets {setting.name}"
    for subject in settings.LOG_SUBJECTS:
        assert re.search(rf'\b(logs|say)\(\s*"{subject}"', code), f"nothing logs {subject}"


X = np.asarray([[1.0, 2.0], [3.0, 4.0]], "f4")


def program() -> tuple[tfjit.Graph, Any]:
    """A product in a loop and one outside, on two devices."""
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [2, 2], name="x")
        h = tfjit.while_loop(
            lambda i, _: i < 3, lambda i, h: (i + 1, tfjit.tanh(tfjit.matmul(h, h))), [0, x]
        )[1]
        with tfjit.device("/cpu:1"):
            return graph, tfjit.add(tfjit.sin(h), 1.0, name="y")


def run(variables: dict[str, str], devices: int = 1) -> None:
    graph, y = program()
    options = tfjit.SessionOptions(env=Env(variables={"TFJIT_JIT": "eager", **variables}))
    config = tfjit.ConfigProto(device_count={"CPU": devices}, allow_soft_placement=True)
    with tfjit.Session(graph=graph, config=config, options=options) as session:
        for _ in range(3):
            session.run(y, {"x:0": X})


def test_dumps_have_kernels_and_bodies(tmp_path: Path) -> None:
    run({"TFJIT_DUMP": str(tmp_path), "TFJIT_DISABLE": "compile_loops"})
    (plan,) = tmp_path.glob("plan_*")
    kernels = {path.name: path.read_text() for path in (plan / "kernels").iterdir()}
    assert len(kernels) >= 2
    assert any("matmul" in name.lower() for name in kernels)
    heads = [text.split("serves:")[1].split("\n\n")[0] for text in kernels.values()]
    assert any("/MatMul" in head or "MatMul (" in head for head in heads), heads
    assert any("y (" in head for head in heads), heads
    assert all("def " in text for text in kernels.values())
    assert "def make(placement):" in (plan / "step.py").read_text()
    bodies = [path.read_text() for path in plan.glob("*.body_*.txt")]
    assert any("MatMul(" in text for text in bodies)
    for text in bodies:
        parse_graph(text)


def test_dumps_have_the_kernels_of_nodes_in_the_dataflow_executor(tmp_path: Path) -> None:
    until = time.monotonic() + 60.0  # kernels are compiled behind the runs
    texts: list[str] = []
    while not any("MatMul (MatMul)" in text for text in texts) and time.monotonic() < until:
        run({"TFJIT_DUMP": str(tmp_path), "TFJIT_DISABLE": "straight_line,functionalize,fuse"})
        texts = [path.read_text() for path in tmp_path.glob("nodes/kernels/*.py")]
    assert any("MatMul (MatMul)" in text for text in texts)


@pytest.mark.parametrize(
    ("subject", "devices", "disabled", "text"),
    [
        ("kernels", 1, "", r"y \(.*\): native "),
        ("kernels", 1, "", r"plan .*: while.*/.*: native .*matmul"),
        ("executor", 2, "", r"plan .*: run by the dataflow executor: 2 partitions"),
        ("rendezvous", 2, "", r"send /job:localhost.*CPU:0;.*CPU:1;edge_"),
        ("rendezvous", 2, "", r"receive /job:localhost"),
        ("placement", 1, "", r"y"),
        ("passes", 1, "", r"prune: "),
    ],
)
def test_log_subjects(
    subject: str, devices: int, disabled: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    run({"TFJIT_LOG": "", "TFJIT_DISABLE": disabled}, devices)
    assert not [
        record
        for record in caplog.records
        if record.name == f"tfjit.{subject}" and record.levelno >= logging.WARNING
    ]
    run({"TFJIT_LOG": subject, "TFJIT_DISABLE": disabled}, devices)
    texts = [record.getMessage() for record in caplog.records if record.name == f"tfjit.{subject}"]
    assert any(re.search(text, line) for line in texts), texts
    with pytest.raises(KeyError):
        settings.logs("everything")


@pytest.mark.parametrize("full", [False, True])
def test_frames_of_tracebacks(full: bool) -> None:
    """By default an error of a run shows the caller and the session alone; on request what it came
    from too.
    """
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.int32, [2], name="x")
        y = tfjit.floordiv(x, [1, 0])
    options = tfjit.SessionOptions(
        env=Env(variables={"TFJIT_FULL_TRACEBACK": "1" if full else "0"})
    )
    with tfjit.Session(graph=graph, options=options) as session:
        call = session.make_callable(y, [x])
        for attempt in (lambda: session.run(y, {x: [1, 2]}), lambda: call([1, 2])):
            for _ in range(2):  # the second goes through what the session keeps of the first
                with pytest.raises(tfjit.errors.InvalidArgumentError) as caught:
                    attempt()
                text = "".join(traceback.format_exception(caught.value))
                assert ("tfjit/runtime/" in text) == full
                assert "tfjit/client/" in text


def test_the_command_line_shows_tracebacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], demo_dir: Path
) -> None:
    for value, shown in (("0", False), ("1", True), ("yes", True)):
        monkeypatch.setenv("TFJIT_FULL_TRACEBACK", value)
        assert (
            cli.main(["explain", str(demo_dir / "digits_cnn.pb"), "--fetch", "nothing_there"]) != 0
        )
        assert ("Traceback" in capsys.readouterr().err) == shown


def test_a_program_that_logs_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """The level of the root logger is for the program's own messages."""
    with caplog.at_level(logging.INFO):
        settings.say("cache", "of no interest")
    with caplog.at_level(logging.INFO, "tfjit"):
        settings.say("cache", "asked for by all")
    with caplog.at_level(logging.INFO, "tfjit"), caplog.at_level(logging.ERROR, "tfjit.cache"):
        settings.say("cache", "not asked for")
    with caplog.at_level(logging.DEBUG, "tfjit.cache"):
        settings.say("cache", "asked for")
    assert [record.message for record in caplog.records] == ["asked for by all", "asked for"]
