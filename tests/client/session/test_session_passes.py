"""Sessions with pipelines: given as values, texts, files and by configs; plans kept apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.framework.types import dtypes
from tfjit.passes import Pipeline, register_pass, register_pipeline
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager import pipeline_spec, user_passes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.protos import ConfigProto
from tfjit.runtime.plan import first_run, variant

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
PLAIN = np.tanh(X) * 2 + np.exp(X)
WITH_SIN = np.sin(X) * 2 + np.exp(X)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    monkeypatch.setattr(user_passes, "_REGISTERED", {})
    monkeypatch.setattr(user_passes, "PIPELINES", {})
    monkeypatch.setattr(pipeline_spec, "PIPELINES", user_passes.PIPELINES)


@pytest.fixture(scope="module")
def graph() -> tfjit.Graph:
    with tfjit.Graph().as_default() as made:
        x = tfjit.placeholder(tfjit.float32, [2, 3], name="x")
        tfjit.add(tfjit.tanh(x) * 2.0, tfjit.exp(x), name="y")
    return made


def tanh_to_sin(graph: DataflowGraph, ctx: PassContext) -> None:
    """Replace each Tanh by Sin."""
    for node in list(graph.op_nodes()):
        if node.op == "Tanh":
            graph.change_op(node.name, "Sin", graph.inputs(node.name), {"T": dtypes.float32})


def check(session: Any, expected: np.ndarray = PLAIN) -> set[str]:
    """Check the result; return the names of the passes that ran."""
    np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-6)
    return {entry.name for entry in session.explain("y:0").report.passes}


def named(name: str, text: str = "") -> ConfigProto:
    """Return a config that names an optimizer, or holds the text of a pipeline."""
    made = ConfigProto()
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name=name)
    if text:
        entry.parameter_map["text"].s = text.encode()
    return made


def test_a_session_is_given_its_pipeline(graph: tfjit.Graph, tmp_path: Path) -> None:
    path = tmp_path / "passes.txt"
    path.write_text(Pipeline.default().without("fuse", "cse").to_text())
    given: list[Any] = [
        "default without fuse, cse",
        path,
        Pipeline.parse("default without cse, fuse"),
    ]
    for passes in given:
        with tfjit.Session(graph=graph, passes=passes) as session:
            ran = check(session)
        assert "simplify" in ran and not {"fuse", "eliminate_common_subexpressions"} & ran
    with tfjit.Session(graph=graph, passes=Pipeline.default().then(tanh_to_sin)) as session:
        assert "tanh_to_sin" in check(session, WITH_SIN)
    options = tfjit.SessionOptions(passes="default only")
    for kind in (tfjit.Session, tfjit.InteractiveSession):
        session = kind(graph=graph, options=options)
        assert "simplify" not in check(session)
        session.close()


def test_a_wrong_pipeline_is_an_error_at_once(graph: tfjit.Graph) -> None:
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="did you mean 'fuse'"):
        tfjit.Session(graph=graph, passes="default without fuze")
    with pytest.raises(TypeError, match="expected a Pipeline, its text or a path, not a list"):
        tfjit.Session(graph=graph, passes=["fuse"])  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        tfjit.Session(graph=graph, passes=Path("no/such/file"))


def test_a_config_names_a_pipeline(graph: tfjit.Graph) -> None:
    register_pipeline("unfused", "default without fuse")
    register_pass("to_sin", tanh_to_sin)
    by_optimizers = ConfigProto()
    by_optimizers.graph_options.rewrite_options.optimizers.append("unfused")
    for config in (by_optimizers, named("unfused"), named("pipeline", "unfused")):
        with tfjit.Session(graph=graph, config=config) as session:
            ran = check(session)
        assert "fuse" not in ran and "simplify" in ran
    both = named("pipeline", "unfused then to_sin")
    both.graph_options.rewrite_options.constant_folding = 2  # OFF
    with tfjit.Session(graph=graph, config=both) as session:
        assert not {"fuse", "fold_constants"} & check(session, WITH_SIN)
    with tfjit.Session(graph=graph, config=named("to_sin"), passes="default only") as session:
        assert check(session, WITH_SIN) >= {"to_sin", "prune"}, "the config adds to it"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: named("pipeline"), "expected one parameter 'text'"),
        (lambda: named("pipeline", "default without fuze"), "did you mean 'fuse'"),
        (lambda: named("pipeline", "default then os:remove"), "registered passes alone"),
        (lambda: named("unfuse"), "names 'unfuse', which is no optimizer"),
    ],
)
def test_a_config_with_a_wrong_pipeline(
    graph: tfjit.Graph, config: Callable[[], ConfigProto], message: str
) -> None:
    with pytest.raises(tfjit.errors.InvalidArgumentError, match=message):
        tfjit.Session(graph=graph, config=config())


def test_a_config_has_one_pipeline(graph: tfjit.Graph) -> None:
    register_pipeline("unfused", "default without fuse")
    config = named("pipeline", "default")
    config.graph_options.rewrite_options.optimizers.append("unfused")
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="several pipelines: unfused, def"):
        tfjit.Session(graph=graph, config=config)


def test_the_environment_leaves_passes_out_of_it(
    graph: tfjit.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", "cse,tanh_to_sin")
    with tfjit.Session(graph=graph, passes=Pipeline.default().then(tanh_to_sin)) as session:
        assert not {"eliminate_common_subexpressions", "tanh_to_sin"} & check(session)
    register_pass("to_sin", tanh_to_sin, needs=("fold_constants",))
    monkeypatch.setenv("TFJIT_DISABLE", "fold_constants")
    with (
        tfjit.Session(graph=graph, passes="default then to_sin") as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="'to_sin' needs 'fold_constants'"),
    ):
        session.run("y:0", {"x:0": X})


def test_the_first_run_of_a_big_graph_has_the_users_passes(
    graph: tfjit.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    monkeypatch.setattr(variant, "QUICK_NODES", 1)
    monkeypatch.setattr(first_run, "record_pays", lambda *of: False)
    monkeypatch.setattr(first_run, "passes_pay", lambda *of: False)
    with tfjit.Session(graph=graph, passes=Pipeline.default().then(tanh_to_sin)) as session:
        check(session, WITH_SIN)
