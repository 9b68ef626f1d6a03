"""Pipelines as values: edits, comparison, and the checks when one is made."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from tfjit.framework.errors import AlreadyExistsError, InvalidArgumentError
from tfjit.passes import Pipeline, register_pipeline
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager import pipeline_spec, user_passes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import OPTIMIZATIONS, PASSES
from tfjit.passes.manager.steps import Fixpoint, Step, flat
from tfjit.passes.manager.user_passes import register_pass

DEFAULT = Pipeline.default()


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_passes, "_REGISTERED", {})
    monkeypatch.setattr(user_passes, "PIPELINES", {})
    monkeypatch.setattr(pipeline_spec, "PIPELINES", user_passes.PIPELINES)


def own(graph: DataflowGraph, ctx: PassContext) -> None:
    """Leave the graph as it is."""


def names(pipeline: Pipeline, section: str = "graph") -> list[str]:
    return [step.name for step in flat(pipeline.section(section))]


def test_an_edit_gives_another_pipeline() -> None:
    without = DEFAULT.without("cse", "fuse")
    assert without != DEFAULT and Pipeline() == DEFAULT and hash(DEFAULT) == hash(Pipeline())
    assert "fuse" in DEFAULT.names and not {"fuse", "eliminate_common_subexpressions"} & set(
        without.names
    )
    assert without == DEFAULT.without("fuse").without("eliminate_common_subexpressions")
    assert {DEFAULT: 1, without: 2}[DEFAULT.without("fuse", "cse")] == 2
    assert DEFAULT.without("fuse").without("fuse") == DEFAULT.without("fuse")
    with pytest.raises(AttributeError):
        DEFAULT.sections = ()  # type: ignore[misc]


@pytest.mark.parametrize("name", [name for name, info in PASSES.items() if not info.required])
def test_each_optional_pass_can_be_left_out_or_kept_alone(name: str) -> None:
    assert name not in DEFAULT.without(name).names
    only = DEFAULT.only(name)
    assert {n for n in only.names if not PASSES[n].required} == {name}
    assert names(only, "cluster") == [
        n for n in names(DEFAULT, "cluster") if PASSES[n].required or n == name
    ]


def test_a_pass_stands_before_behind_or_in_place_of_another() -> None:
    before = names(DEFAULT.before("simplify", own))
    assert before.index("own") == names(DEFAULT).index("simplify")
    after = names(DEFAULT.after("simplify", own))
    assert (
        after[after.index("own") - 1] == "simplify"
        and "simplify" not in after[after.index("own") :]
    )
    assert names(DEFAULT.then(own)) == [*names(DEFAULT), "own"]
    assert names(DEFAULT.before("fuse", own), "partition")[-2:] == ["own", "fuse"]
    assert "own" in names(DEFAULT.before("fuse", own), "region")
    assert names(DEFAULT.before("prune", own, section="body")).count("own") == 0
    replaced = DEFAULT.replace("fold", own)
    assert "fold_constants" not in replaced.names
    assert names(replaced, "fold_body").count("own") == 2
    moved = DEFAULT.without("pad_unique").before("trim_bodies", "pad_unique")
    assert set(moved.names) == set(DEFAULT.names) and moved != DEFAULT


def test_passes_run_until_they_change_nothing() -> None:
    made = DEFAULT.repeat_until_stable("simplify", "fold_constants", limit=4)
    place = names(DEFAULT).index("simplify")
    assert made.section("graph")[place] == Fixpoint((Step("simplify"), Step("fold_constants")), 4)
    assert names(made) == names(DEFAULT), "the steps behind it are part of it"
    assert Pipeline.parse(made.to_text()) == made
    for limit in (0, -1):
        with pytest.raises(InvalidArgumentError, match="expected 1 or more"):
            DEFAULT.repeat_until_stable("simplify", limit=limit)


def test_the_sections_that_follow_from_others() -> None:
    assert names(DEFAULT, "region") == names(DEFAULT, "body") + names(DEFAULT, "partition")
    assert not any(PASSES[name].local for name in names(DEFAULT, "cluster"))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda: DEFAULT.without("fuze"),
            "'fuze': there is no pass of that name; did you mean 'fu",
        ),
        (lambda: DEFAULT.only("simplifyy"), "did you mean 'simplify'"),
        (lambda: DEFAULT.without("prune"), "'prune' is required: a plan cannot do without it"),
        (lambda: DEFAULT.replace("place", own), "the pass 'place' is left out, which every plan"),
        (lambda: DEFAULT.before("lower_feeds", own), "'own' stands before 'lower_feeds'"),
        (lambda: DEFAULT.without("fuse").after("fuse", own), "'fuse' is not in the pipeline"),
        (lambda: DEFAULT.before("fuse", own, section="graph"), "'fuse' is not in section 'graph'"),
        (lambda: DEFAULT.before("fuse", own, section="grahp"), "no section 'grahp'; did you mean "),
        (lambda: DEFAULT.then("fuse"), "'fuse' cannot run here, but in 'partition'"),
        (lambda: DEFAULT.then("_Nothing"), "'_Nothing': there is no pass of that name"),
        (lambda: DEFAULT.then(lambda graph, ctx: None), "a lambda has no name"),
        (lambda: DEFAULT.then(3), "a pass is a function"),  # type: ignore[arg-type]
        (lambda: DEFAULT.with_section("quick", ()), "'lower_feeds' is left out, which every plan"),
    ],
)
def test_a_wrong_edit_is_an_error(edit: Callable[[], Pipeline], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        edit()
    assert message in caught.value.message


def test_a_pass_that_another_needs() -> None:
    register_pass("own", own, needs=("fold_constants", "shapes"))
    made = DEFAULT.after("fold", "own")
    assert "own" in made.names and "own" in DEFAULT.before("fuse", "own").names
    with pytest.raises(InvalidArgumentError, match="'own' stands before 'fold_constants', which"):
        DEFAULT.before("functionalize", "own")
    with pytest.raises(InvalidArgumentError, match="'own' needs 'fold_constants', which is left"):
        made.without("fold")
    assert "own" not in made.without("fold", "own").names
    register_pass("late", own, needs=("fuse",))
    with pytest.raises(InvalidArgumentError, match="needs 'fuse', which runs in another section"):
        DEFAULT.then("late")
    with pytest.raises(InvalidArgumentError, match="pass 'bad' needs 'fuze': there is no pass"):
        register_pass("bad", own, needs=("fuze",))


def test_names_are_given_once() -> None:
    register_pass("own", own)
    register_pipeline("unfused", "default without fuse")
    assert Pipeline.parse("unfused then own") == DEFAULT.without("fuse").then("own")
    for name in ("own", "fuse", "cse", "unfused", "default"):
        with pytest.raises(AlreadyExistsError):
            register_pass(name, own)
    for name in ("unfused", "default", "fuse", "cse", "own"):
        with pytest.raises(AlreadyExistsError):
            register_pipeline(name, DEFAULT)
    for name in ("", "a b", "without", "a:b"):
        with pytest.raises(InvalidArgumentError, match="cannot have the name"):
            register_pass(name, own)


def test_what_is_given_may_be_a_value_a_text_or_a_path(tmp_path: pytest.TempPathFactory) -> None:
    path = tmp_path / "passes.txt"  # type: ignore[operator]
    path.write_text("default\nwithout fuse  # to compare\n")
    assert Pipeline.of(path) == Pipeline.of("default without fuse") == DEFAULT.without("fuse")
    assert Pipeline.of(None) is DEFAULT is Pipeline.of(DEFAULT)
    with pytest.raises(TypeError, match="expected a Pipeline, its text or a path, not a int"):
        Pipeline.of(3)  # type: ignore[arg-type]


def test_a_pipeline_is_shown_by_its_difference() -> None:
    assert repr(DEFAULT) == "<Pipeline: default>"
    assert repr(DEFAULT.without("cse").then(own)) == (
        "<Pipeline: default without eliminate_common_subexpressions, with own in graph>"
    )
    swapped = DEFAULT.without("loop_sums").before("size_slices", "loop_sums")
    assert repr(swapped) == "<Pipeline: default with another order in graph>"
    assert pickle.loads(pickle.dumps(swapped)) == swapped
    assert "graph:" in str(DEFAULT) and "<inner>" in str(DEFAULT.then(_inner()))


def _inner() -> Callable[[DataflowGraph, PassContext], None]:
    def inner(graph: DataflowGraph, ctx: PassContext) -> None:
        pass

    return inner


def test_identities_tell_pipelines_apart() -> None:
    register_pass("own", own, version="1")
    made = [
        DEFAULT,
        DEFAULT.without("fuse"),
        DEFAULT.without(*OPTIMIZATIONS),
        DEFAULT.then("own"),
        DEFAULT.after("prune", "own", section="graph").then("own"),
        DEFAULT.repeat_until_stable("simplify", limit=2),
        DEFAULT.repeat_until_stable("simplify", limit=3),
    ]
    assert len({pipeline.identity() for pipeline in made}) == len(made)
    assert not DEFAULT.then("own").unversioned
    assert DEFAULT.then(_inner()).unversioned == ("inner",)
