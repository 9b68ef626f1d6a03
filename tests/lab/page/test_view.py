"""`tfjit.lab.view`: a page as an object, in a file, in a notebook."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import tfjit
from tfjit import lab
from tfjit.lab.page.view import page_of


def test_a_page_is_saved_and_shown_in_a_frame(tmp_path: Path) -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
        y = tfjit.nn.softmax(x, name="y")
        shown = lab.view(session, y, {x: (2, 3)}, title="one op")
        path = shown.save(tmp_path / "page.html")
        told = session.explain(y, {x: (2, 3)})
        # in a notebook an explanation is its page
        assert told._repr_html_().startswith("<iframe srcdoc=")
    assert path.read_text("utf-8") == shown.html()
    frame = shown._repr_html_()
    inside = re.search(r'srcdoc="([^"]*)"', frame)
    assert inside and html.unescape(inside[1]) == shown.html()
    assert 'sandbox="allow-scripts"' in frame
    # the passes cannot run again
    assert html.escape(told.summary()) in told._repr_html_()
    with pytest.raises(tfjit.errors.CancelledError):
        page_of(told)


def test_unknown_sizes_are_one() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
        shown = lab.view(session, tfjit.tanh(x, name="y"))
    assert any("float32<1,3>" in text for text in shown.data["texts"])


def test_a_model_is_opened_for_its_page(demo_dir: Path) -> None:
    shown = lab.view(demo_dir / "digits_cnn.pb", "probs:0", {"images:0": (2, 8, 8, 1)})
    assert "probs" in shown.data["names"]
    given = "default without simplify"
    small = lab.view(
        demo_dir / "digits_cnn.pb", "probs:0", {"images:0": (2, 8, 8, 1)}, passes=given
    )
    names = [name for name, *_ in small.data["passes"]]
    assert "fold_constants" in names and "simplify" not in names
    own = pytest.raises(ValueError, match="an open session has its own")
    with tfjit.Graph().as_default(), tfjit.Session() as session, own:
        lab.view(session, [], passes=given)


def test_names_of_the_layer() -> None:
    assert lab.View.__module__ == lab.view.__module__ == "tfjit.lab.page.view"
    assert {"view", "View"} <= set(dir(lab))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lab.nothing  # type: ignore[attr-defined]
