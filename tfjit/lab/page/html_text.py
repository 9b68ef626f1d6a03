"""Join the page's markup, style, scripts and data into one HTML text."""

from __future__ import annotations

import functools
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

SCRIPTS: Final = (
    "history.js",
    "scopes.js",
    "layout.js",
    "kernels.js",
    "styles.js",
    "drawing.js",
    "roofline.js",
    "panels.js",
    "page.js",
    "controls.js",
    "main.js",
)
"""The scripts in the order in which the browser reads them."""


@functools.cache
def asset(name: str) -> str:
    """Return the text of a file of this folder."""
    return resources.files(__package__ or "").joinpath(name).read_text(encoding="utf-8")


def embedded(data: Mapping[str, object]) -> str:
    """Return data as JSON that cannot end the element around it.

    Every "<" is escaped, so that no name opens or closes a tag or comment; all else is ASCII.
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def page_html(data: Mapping[str, object]) -> str:
    """Return the page: it loads nothing, and its policy forbids the network."""
    parts = {
        "title": html.escape(str(data["title"])),
        "style": asset("page.css"),
        "data": embedded(data),
        "scripts": "".join(f"<script>\n{asset(name)}</script>\n" for name in SCRIPTS),
    }
    # in one pass: inserted text is not searched again
    return re.sub(r"<!--(title|style|data|scripts)-->", lambda at: parts[at[1]], asset("page.html"))
