"""Write kernels of several launches whose words are rows of a table.

A row has the first block of its launch in the common grid, the number of its blocks, and the words
of the launch. Rows are in the order of their blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.kernels.cuda.template.kernel_text import KernelText


def table_text() -> KernelText:
    """Return a text with the arguments of a kernel over a table."""
    text = KernelText()
    text.argument("table", 0)
    text.argument("members", 0)
    return text


def write_row(text: KernelText, names: Sequence[str]) -> None:
    """Append lines that find the block's row and load its words.

    Defines `names`, the words in order, and `row_unit` and `row_units`: the number of the thread
    among those of its launch, and how many these are.
    """
    size = 2 + len(names)
    text.line("rows = ptr_i64(table)")
    text.line("row = 0")
    text.line("behind = members")
    with text.block("while behind - row > 1:"):
        text.line("middle = (row + behind) >> 1")
        with text.block(f"if ld_ro(rows, middle * {size}) <= block():"):
            text.line("row = middle")
        with text.block("else:"):
            text.line("behind = middle")
    text.line(f"row = row * {size}")
    text.line("row_unit = (block() - ld_ro(rows, row)) * threads() + thread()")
    text.line("row_units = ld_ro(rows, row + 1) * threads()")
    for k, name in enumerate(names):
        text.line(f"{name} = ld_ro(rows, row + {2 + k})")


__all__ = ["table_text", "write_row"]
