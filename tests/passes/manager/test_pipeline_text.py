"""Texts of pipelines: both forms, written and read, and typing errors in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes import Pipeline
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager import user_passes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pipeline_text import parse
from tfjit.passes.manager.steps import flat
from tfjit.passes.manager.user_passes import register_pass

DEFAULT = Pipeline.default()
OWN = "tests.passes.manager.test_pipeline_text:own"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_passes, "_REGISTERED", {})
    register_pass("named", other)


def own(graph: DataflowGraph, ctx: PassContext) -> None:
    """Leave the graph as it is."""


def other(graph: DataflowGraph, ctx: PassContext) -> None:
    """Leave the graph as it is."""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("default", lambda: DEFAULT),
        ("default without cse, fuse", lambda: DEFAULT.without("cse", "fuse")),
        ("default only fuse", lambda: DEFAULT.only("fuse")),
        ("default only", lambda: DEFAULT.only()),
        ("default only fuse, cse then named", lambda: DEFAULT.only("fuse", "cse").then("named")),
        ("default with named before fuse", lambda: DEFAULT.before("fuse", "named")),
        (
            "default with named before simplify in body",
            lambda: DEFAULT.before("simplify", "named", section="body"),
        ),
        ("default with named after prune", lambda: DEFAULT.after("prune", "named")),
        ("default with named instead of cse", lambda: DEFAULT.replace("cse", "named")),
        (
            f"default\n  without cse # as before\n  then {OWN}",
            lambda: DEFAULT.without("cse").then(own),
        ),
        (
            "default repeat simplify, fold up to 3 times",
            lambda: DEFAULT.repeat_until_stable("simplify", "fold", limit=3),
        ),
    ],
)
def test_the_short_form(text: str, made: Callable[[], Pipeline]) -> None:
    found = Pipeline.parse(text)
    assert found == made() and hash(found) == hash(made())
    assert Pipeline.parse(found.to_text()) == found


def test_the_long_form_keeps_reasons() -> None:
    again = Pipeline.parse(DEFAULT.to_text())
    for name, items in DEFAULT.sections:
        assert [s.why for s in flat(items)] == [s.why for s in flat(again.section(name))]
    assert again.to_text() == DEFAULT.to_text()


def test_sections_replace_those_of_the_first_line() -> None:
    made = Pipeline.parse("""
# fused groups alone, over small graphs
default without cse

partition:
  fuse       # after partition
  named
""")
    assert [s.name for s in made.section("partition") if s] == ["fuse", "named"]  # type: ignore[union-attr]
    assert made.section("graph") == DEFAULT.without("cse").section("graph")
    assert Pipeline.parse("partition:\n").section("partition") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty"),
        ("  # nothing\n", "the text is empty"),
        ("defualt without cse", "pipeline: there is no pipeline 'defualt'; did you mean 'default'"),
        ("default witout cse", "'witout': expected without, only, with, then or repeat; did you"),
        ("default without", "'without ': expected names with commas between"),
        ("default without cse fuse", "'without cse , fuse'"),
        ("default without cse,, fuse", "expected names with commas between"),
        ("default without fuze", "'fuze': there is no pass of that name; did you mean 'fuse'"),
        ("default with named", "expected 'with PASS before NAME'"),
        ("default with named after cse in", "expected 'with PASS before NAME'"),
        ("default with named after cse in bdy", "no section 'bdy'; did you mean 'body'"),
        ("default with named befor cse", "expected 'with PASS before NAME'"),
        ("default repeat cse up to many times", "expected 'repeat NAME, NAME up to N times'"),
        ("default then tests:nothing", "module 'tests' has no function 'nothing'"),
        (
            "default then no_such_module:f",
            "module 'no_such_module' cannot be imported: ModuleNotFoundError",
        ),
        (
            "graph:\n  lower_feeds\n  prun\n",
            "pipeline:3: 'prun': there is no pass of that name; did",
        ),
        ("grph:\n  prune\n", "pipeline:1: there is no section 'grph'; did you mean 'graph'"),
        ("partition:\n  fuse\npartition:\n", "pipeline:3: section 'partition' stands twice"),
        ("partition:\nfuse\n", "pipeline:2: 'fuse': expected a section ('graph:') or an indented"),
        ("partition:\n  fuse fuse\n", "pipeline:2: 'fuse fuse': expected one pass on a line"),
        ("body:\n  repeat 2:\n  prune\n", "pipeline:2: no passes stand below 'repeat'"),
        ("body:\n  repeat 0:\n    prune\n", "pipeline:2: expected 'repeat N:' with N of 1 or more"),
        (
            "body:\n  repeat 2:\n    repeat 2:\n      prune\n",
            "pipeline:3: 'repeat' within 'repeat'",
        ),
        ("body:\n  infer_shapes\n", "section 'body': the pass 'prune' is left out, which every"),
        ("partition:\n  fuse\n  lower_feeds\n", "'lower_feeds' cannot run here, but in 'graph'"),
    ],
)
def test_a_typing_error_is_named_with_its_line(text: str, message: str) -> None:
    if "cse fuse" in text:
        message = "expected names with commas between"
    with pytest.raises(InvalidArgumentError) as caught:
        Pipeline.parse(text)
    assert message in caught.value.message


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "passes.txt"
    path.write_text("default\nwithout fuze\n")
    with pytest.raises(InvalidArgumentError, match=rf"^{path}:2: 'fuze': there is no pass"):
        Pipeline.from_file(path)


def test_a_text_from_elsewhere_imports_no_module() -> None:
    assert parse("default then named", imports=False) == DEFAULT.then("named")
    for text in ("default then os:remove", "default with os:remove before cse"):
        with pytest.raises(InvalidArgumentError, match="a config names registered passes alone"):
            parse(text, imports=False)


def test_a_function_that_no_text_names_is_not_written() -> None:
    def inner(graph: DataflowGraph, ctx: PassContext) -> None:
        pass

    with pytest.raises(InvalidArgumentError, match="no text names the pass 'inner': register it"):
        DEFAULT.then(inner).to_text()
    assert OWN in DEFAULT.then(own).to_text()
    assert (
        DEFAULT.then(other)
        == DEFAULT.then("named")
        == Pipeline.parse(f"default then {OWN.replace('own', 'other')}")
    ), "one pass, however it is given"
