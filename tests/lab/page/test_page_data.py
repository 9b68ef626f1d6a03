"""The contents of a page, of a small graph and of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import tfjit
from tests.lab.page.stories import page_of_story
from tfjit.lab.page.frames import Frame, NodeRecord, PassRun
from tfjit.lab.page.history_runs import GraphStory
from tfjit.lab.page.view import page_of, view
from tfjit.protos import GraphDef
from tfjit.runtime.profiling.explain import ExplainedNode


def test_names_and_texts_stand_once() -> None:
    first = NodeRecord("s/a", "Placeholder", text="-> float32<2>")
    second = NodeRecord("s/b", "Neg", (("s/a", 0),), ("s/a",), "-> float32<2>")
    runs = (
        PassRun("given", (Frame(added=(first, second)),)),
        PassRun("prune", (Frame("s/b", "gone", removed=("s/b",)),), "", 12.34, (("", "said"),)),
    )
    told = ExplainedNode("s/a", "Placeholder", "feed")
    data = page_of_story(GraphStory(runs, (first,)), (told,)).data
    assert data["names"] == ["s/a", "s/b"]
    assert data["ops"] == ["Placeholder", "Neg"]
    assert data["texts"] == ["", "-> float32<2>", "gone", "said"]
    assert data["passes"] == [
        ["given", "", 0.0, [[-1, 0, [[0, 0, [], [], 1], [1, 1, [0, 0], [0], 1]], [], []]], []],
        ["prune", "", 12.3, [[1, 2, [], [1], []]], [[-1, 3]]],
    ]
    assert data["nodes"] == [{"n": 0, "o": 0, "how": "feed"}]
    assert data["groups"] == data["sources"] == []
    assert data["measured"] is data["limits"] is None


def test_kernels_have_times_limits_and_sources(demo_dir: Path) -> None:
    graph = GraphDef.FromString((demo_dir / "digits_cnn.pb").read_bytes())
    with tfjit.Session(graph=graph) as session:
        shown = view(session, "probs:0", {"images:0": (4, 8, 8, 1)}, measure=True)
    data = json.loads(json.dumps(shown.data))
    native = [node for node in data["nodes"] if node["how"] == "native"]
    assert native and data["measured"]["runs"] > 0 and data["limits"]["fma"] > 0
    for node in native:
        assert node["took"] > 0 and node["us"] > 0 and node["limit"][1] in ("bytes", "flops")
        for k in node["sources"]:
            assert "def " in data["sources"][k]["text"]
            assert data["sources"][k]["writer"].startswith("kernels/")
    members = {data["names"][k] for node in native for k in node.get("members", [])}
    fused = {
        data["names"][name]: [data["ops"][op] for op in ops] for name, _, ops in data["groups"]
    }
    assert any("Conv2D" in ops for ops in fused.values())
    assert members, "fused nodes name those that they represent"
    assert data["title"] == data["signature"]


def test_a_plan_from_disk_has_the_same_page() -> None:
    """Its lowered partition has no graph of its own."""

    def names() -> set[str]:
        with tfjit.Graph().as_default(), tfjit.Session() as session:
            x = tfjit.placeholder(tfjit.float32, [3, 5], name="x")
            y = tfjit.while_loop(
                lambda k, a: k < 3, lambda k, a: (k + 1, tfjit.sin(a) * 2.0), [0, x], name="loop"
            )[1]
            session.run(y, {x: np.ones((3, 5), np.float32)})
            session.wait_until_compiled()
            return set(page_of(session.explain(y, {x: (3, 5)})).data["names"])

    assert names() == names()


def test_the_page_of_the_dataflow_executor() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [6], name="x")
        y = tfjit.reduce_sum(tfjit.where(x > 0.5), name="y")
        shown = view(session, y)
    assert "dataflow" in str(shown.data["executor"])
    assert "y" in shown.data["names"]
    assert "where" in str(shown.data["summary"]).lower()
