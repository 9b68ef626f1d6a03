"""The page in a browser: what it draws, what its keys do, and how long that takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tfjit
from tests.lab.page.browser import look, needs_browser
from tests.lab.page.stories import big_story, page_of_story
from tfjit.lab.page.frames import Frame, NodeRecord, PassRun
from tfjit.lab.page.history_runs import GraphStory
from tfjit.lab.page.html_text import SCRIPTS
from tfjit.lab.page.view import View, view
from tfjit.runtime.profiling.explain import ExplainedNode

pytestmark = needs_browser

KEYS = """
const press = (key, more) => document.dispatchEvent(new KeyboardEvent("keydown", { key, ...more }));
const moment = () => document.getElementById("moment").textContent;
"""


@pytest.fixture(scope="module")
def shown() -> View:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [4, 8], name="x")
        with tfjit.name_scope("dense"):
            w = tfjit.constant(np.ones((8, 3), np.float32), name="w")
            y = tfjit.nn.relu(tfjit.matmul(x, w) + 1.0 * tfjit.identity(2.0, name="two"))
        return view(session, tfjit.nn.softmax(y, name="out"), {x: (4, 8)}, title="two layers")


def test_the_page_shows_what_the_plan_has(shown: View, tmp_path: Path) -> None:
    found = look(
        shown.html(),
        """
        page.select(page.history.names.indexOf("out"), true);
        return { title: document.title, figures: document.getElementById("figures").textContent,
          passes: page.history.passes.map((pass) => [pass.name, pass.counts]),
          states: page.history.passes.map((pass) => { page.history.goToPass(pass.index);
            return page.history.state.size; }),
          node: document.getElementById("node").textContent,
          points: (page.showTab("roofline"), document.querySelectorAll("#roofline circle").length),
          rows: (page.showTab("kernels"), document.querySelectorAll("#kernels tbody tr").length),
          legends: ["time", "served", "group"].map((mode) => { page.styles.mode = mode; page.restyle();
            page.drawing.draw(); return document.getElementById("legend").textContent; }),
          drawn: Number(document.documentElement.dataset.drawnMs) };
        """,
        tmp_path,
    )
    assert found["title"] == "two layers"
    assert found["drawn"] < 2000
    # the same numbers of nodes, replayed in Python
    names, sizes = set(), []
    for _, _, _, frames, _ in shown.data["passes"]:
        for _, _, added, removed, _ in frames:
            names -= set(removed)
            names |= {row[0] for row in added}
        sizes.append(len(names))
    assert found["states"] == sizes
    assert found["passes"][0][0] == "the given graph"
    assert any(name == "fuse" and counts["removed"] for name, counts in found["passes"])
    assert "Generated source" in found["node"] and "def " in found["node"]
    assert "History" in found["node"]
    assert found["points"] >= 1 and found["rows"] >= 2
    time, served, group = found["legends"]
    assert "darker" in time and "native" in served and "matmul group" in group


def test_keys_search_and_step(shown: View, tmp_path: Path) -> None:
    found = look(
        shown.html(),
        KEYS
        + """
        const seen = { start: moment() };
        press("ArrowLeft");
        seen.left = moment();
        seen.marks = [...page.history.marks.values()];
        press("ArrowLeft", { shiftKey: true });
        seen.rewrite = moment();
        press("Home");
        seen.home = moment();
        press("End");
        seen.end = moment();
        press("/");
        const search = document.getElementById("search");
        seen.focus = document.activeElement === search;
        search.value = "dense matmul";
        search.dispatchEvent(new Event("input"));
        seen.found = [...document.querySelectorAll("#found li")].map((row) => row.firstChild.data);
        search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
        seen.selected = page.history.names[page.selectedId];
        press("Escape");
        seen.dropped = page.selectedId;
        press("t");
        seen.theme = document.documentElement.dataset.theme;
        press("c");
        seen.collapsed = page.root.items.map((item) => item.label);
        return seen;
        """,
        tmp_path,
        "theme=light",
    )
    assert found["start"] == found["end"] and found["start"].startswith("the graph that runs")
    assert found["left"].startswith("fuse") and "removed" in found["marks"]
    assert " rewrite " in found["rewrite"]
    assert found["home"].startswith("the given graph")
    assert found["focus"] and found["found"][0] == "dense/MatMul"
    assert found["selected"] == "dense/MatMul" and found["dropped"] is None
    assert found["theme"] == "dark"
    assert "out" in found["collapsed"]


def test_hostile_texts_are_texts(tmp_path: Path) -> None:
    """They could come from a model that someone else made."""
    attack = "</script><script>hacked = 1</script><img src=x onerror='hacked = 2'><!--<script>"
    node = NodeRecord(f"a/{attack}", attack, (("a/b", 0),), text=attack)
    other = NodeRecord("a/b", "__proto__", text="\u2028</style>")
    frame = Frame(node.name, attack, (node, other))
    remark = PassRun(attack, (frame,), attack, remarks=((node.name, attack), ("", attack)))
    story = GraphStory((PassRun("given", ()), remark, PassRun("end", ())), (node, other))
    told = ExplainedNode(node.name, attack, "native", (attack,), reason=attack, group=attack)
    found = look(
        page_of_story(story, (told,), attack).html(),
        """
        page.goToPass(1);
        page.select(page.history.names.findIndex((name) => name.startsWith("a/<")), true);
        for (const tab of TABS) page.showTab(tab);
        document.getElementById("search").value = "script";
        page.showFound();
        return { hacked: typeof hacked, images: document.images.length, title: document.title,
          scripts: document.scripts.length, found: page.results.length, node: page.history.state.size };
        """,
        tmp_path,
    )
    assert found["hacked"] == "undefined" and found["images"] == 0
    assert found["title"] == attack and found["found"] == 1 and found["node"] == 2
    assert found["scripts"] == 3 + len(SCRIPTS)


def test_ten_thousand_nodes_open_and_stay_smooth(tmp_path: Path) -> None:
    found = look(
        page_of_story(big_story(10_000)).html(),
        """
        const drawn = Number(document.documentElement.dataset.drawnMs);
        const time = (work) => { const start = performance.now(); work(); return performance.now() - start; };
        page.constants = true;
        const opened = time(() => { while (page.expandLevel()) page.layout(); page.drawing.fit(); });
        const all = [...page.items.values()].filter((item) => item.node).length;
        const frames = [];
        for (let k = 0; k < 30; k++) {
          page.drawing.x += 20;
          if (k === 10) page.drawing.scale = 0.4;
          if (k === 20) page.drawing.scale = 1;
          frames.push(time(() => page.drawing.draw()));
        }
        frames.sort((a, b) => a - b);
        const overlaps = (scope) => (scope.rows || []).some((row) => row.some((item, k) =>
          k && row[k - 1].left + row[k - 1].w > item.left + 0.01) || row.some((item) => item.open && overlaps(item)));
        return { drawn, opened, all, middle: frames[15], step: time(() => page.goToPass(1)),
          overlaps: overlaps(page.root), finite: [...page.items.values()].every((item) => isFinite(item.left + item.top)) };
        """,
        tmp_path,
    )
    assert found["drawn"] < 2000
    assert found["all"] == 9900
    assert found["middle"] < 100
    assert found["step"] < 2000
    assert found["finite"] and not found["overlaps"]


def test_an_empty_run_and_a_cycle_are_drawn(tmp_path: Path) -> None:
    found = look(page_of_story(GraphStory()).html(), "return page.history.state.size;", tmp_path)
    assert found == 0
    loop = tuple(NodeRecord(name, "Merge", ((back, 0),)) for name, back in (("a", "b"), ("b", "a")))
    story = GraphStory((PassRun("the graph that runs", (Frame(added=loop),)),), loop)
    found = look(
        page_of_story(story).html(),
        "return page.root.items.map((item) => item.top).sort((a, b) => a - b);",
        tmp_path,
    )
    assert found[0] < found[1]
