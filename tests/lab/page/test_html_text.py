"""The text of a page: whole, closed to the network, and safe with any data."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from tests.lab.page.stories import big_story, page_of_story
from tfjit.lab.page.frames import NodeRecord, PassRun
from tfjit.lab.page.history_runs import GraphStory
from tfjit.lab.page.html_text import SCRIPTS, asset, embedded, page_html


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_data_is_read_back() -> None:
    data = {"title": "</script><!-- \u2028 é \ud800 &amp; \\", "passes": [1.5, None, True]}
    text = embedded(data)
    assert "<" not in text and text.isascii()
    assert json.loads(text) == data


def test_the_page_loads_nothing() -> None:
    text = page_of_story(big_story(100)).html()
    elements = Elements(text)
    assert not [tag for tag, attrs in elements.found if {"src", "href"} & set(attrs)]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "default-src 'none'" in text
    assert "<!--" not in text


def test_places_in_the_data_are_no_places_of_the_page() -> None:
    node = NodeRecord("<!--scripts-->", "NoOp")
    story = GraphStory((PassRun("<!--data-->", ()),), (node,))
    text = page_of_story(story, title="<!--style-->").html()
    tags = [tag for tag, _ in Elements(text).found]
    assert tags.count("script") == 1 + len(SCRIPTS) and tags.count("style") == 1
    assert "&lt;!--style--&gt;" in text


def test_scripts_do_not_end_their_element() -> None:
    for name in SCRIPTS:
        assert "</" not in asset(name), name


def test_a_big_graph_is_a_small_page() -> None:
    text = page_html(page_of_story(big_story(10_000)).data)
    assert len(text) < 2_000_000
