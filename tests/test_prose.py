"""Hold limits on the prose of source and documents that only ever fall.

A rewrite that lowers a count lowers its limit here: `python -m tests.prose_counts --limits` prints
the tables. STYLE's rule: a first line is verb and object in at most 12 words; nothing that has a
name is called what, who or where; lines have at most 100 columns.
"""

from __future__ import annotations

import ast
import warnings

import pytest

from tests.prose_counts import (
    DOCUMENTS,
    LAYERS,
    Counts,
    comments,
    count_document,
    count_layer,
    docstrings,
    is_long_first_line,
)

# Layer -> docstrings and comments that open with a question word, pronouns and phrases per 1,000
# words, first lines of docstrings over 12 words, lines over 100 columns.
SOURCE_LIMITS = {
    "framework": (0, 3, 1.1, 0.5, 22, 5),
    "kernels": (0, 0, 0.4, 0.0, 0, 105),
    "passes": (0, 0, 0.2, 0.0, 0, 3),
    "runtime": (3, 0, 0.9, 0.0, 16, 0),
    "ops": (0, 0, 0.0, 0.0, 4, 1),
    "client": (0, 0, 2.1, 0.2, 11, 5),
    "distributed": (0, 0, 2.9, 0.4, 6, 0),
    "lab": (0, 0, 0.0, 0.0, 0, 0),
    "top": (0, 0, 0.0, 0.0, 0, 0),
}
# Document -> pronouns and phrases per 1,000 words, lines over 100 columns.
DOCUMENT_LIMITS = {
    "ARCHITECTURE.md": (2.9, 0.7, 9),
    "README.md": (3.5, 0.0, 0),
    "CHANGELOG.md": (6.3, 1.4, 0),
    "docs/cluster.md": (0, 0, 0),
}


def _check(name: str, found: dict[str, float], limits: tuple[float, ...]) -> None:
    """Fail on a count above its limit, warn of a limit that could be lowered."""
    assert len(found) == len(limits)
    above = [
        f"{name}: {count} {what}, the limit is {limit}"
        for (what, count), limit in zip(found.items(), limits)
        if count > limit
    ]
    assert not above, "\n".join(above)
    for (what, count), limit in zip(found.items(), limits):
        if count < 0.9 * limit:
            warnings.warn(
                f"{name}: lower the limit of {what} from {limit} to {count}", stacklevel=2
            )


@pytest.mark.parametrize("layer", LAYERS)
def test_prose_of_source(layer: str) -> None:
    counts = count_layer(layer)[layer]
    found: dict[str, float] = {
        "docstrings open with a question word": counts.openers,
        "comments open with a question word": counts.comment_openers,
        "pronouns per 1,000 words": counts.pronoun_rate,
        "phrases per 1,000 words": counts.phrase_rate,
        "first lines of docstrings are over 12 words": counts.long_first_lines,
        "lines are over 100 columns": counts.long_lines,
    }
    _check(layer, found, SOURCE_LIMITS[layer])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_prose_of_documents(name: str) -> None:
    counts = count_document(name)
    found: dict[str, float] = {
        "pronouns per 1,000 words": counts.pronoun_rate,
        "phrases per 1,000 words": counts.phrase_rate,
        "lines are over 100 columns": counts.long_lines,
    }
    _check(name, found, DOCUMENT_LIMITS[name])


def test_what_is_counted() -> None:
    source = '"""Which one.\n\nSo\nmany.\n"""\n# a comment\n# of two lines\nx = 1  # a third\n'
    assert list(comments(source)) == ["a comment of two lines", "a third"]
    (text,) = docstrings(ast.parse(source))
    counts = Counts()
    counts.add_text(text + " Nobody knows what.")
    assert (counts.words, counts.pronouns, counts.phrases) == (7, 2, 2)
    assert is_long_first_line("Return the shape of\n    the output.")
    assert is_long_first_line(" ".join(["word"] * 13) + ".")
    assert not is_long_first_line("Return the shape.\n\nOf the output.")
    assert not is_long_first_line("Return the shape. None is unknown.")
