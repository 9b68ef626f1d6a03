"""Write lists of dataclasses as tables: text and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

Cells = Sequence[Sequence[str]]
# Title, heading, cells.
Table = tuple[str, Sequence[str], Cells]


def text_table(heading: Sequence[str], rows: Cells, left: int = 1) -> str:
    """Return a table as text.

    left: the number of first columns with text to the left; the others have it to the right.
    """
    lines = [heading, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(heading))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def html_table(title: str, heading: Sequence[str], rows: Cells) -> str:
    """Return a table as HTML, with a caption."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return (
        f"<table><caption>{html.escape(title)}</caption><thead>{line('th', heading)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )


def microseconds(value: float | None) -> str:
    """Return a time with the digits that matter; "" for none."""
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """Return a longer time; "" for none."""
    return "" if value is None else f"{value:.3f}"


def count(value: int | None) -> str:
    """Return a number; "" for none."""
    return "" if value is None else f"{value:,}"


__all__ = ["Table", "count", "html_table", "microseconds", "seconds", "text_table"]
