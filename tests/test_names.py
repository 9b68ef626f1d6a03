"""Hold the glossary's words in names: identifiers and file names, with limits that only fall."""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.prose_counts import LAYERS, ROOT, source_files

# Word to avoid -> files times distinct names of the package that contain it.
LIMITS = {
    "sure": 0,
    "takes": 0,
    "web": 0,
    "said": 0,
    "draft": 0,
    "settled": 0,
    "goes": 0,
    "together": 0,
    "served": 0,
    "overtake": 0,
    "stretch": 0,
    "walk": 0,
    "breathe": 0,
    "pace": 0,
    "room": 0,
    "turn": 1,  # a name in kernel texts: their cached code would be compiled again
    "banded": 0,
    "lifetime": 0,
}
# Names that TensorFlow or Python gave.
FOREIGN = {
    *("walk", "Walk", "SERVING", "DEFAULT_SERVING_SIGNATURE_DEF_KEY"),
    *("BandedTriangularSolve", "_banded_triangular_solve", "swap_memory"),
    "_pending_takes",  # TakeGrad
    "draft",  # Pillow's method for smaller images
}
_ENDINGS = ("", "s", "es", "d", "ed", "n", "ing", "er", "ers")


def glossary() -> dict[str, set[str]]:
    """Return each term of ARCHITECTURE.md's glossary with the words that it replaces in names."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    section = text.partition("\n## Glossary\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.split("\n") if line.startswith("|")]
    return {
        term.strip(): set(re.findall(r"`(\w+)`", avoided))
        for term, meaning, avoided in rows[2:]
        if meaning.strip()
    }


def words(name: str) -> set[str]:
    """Return the words of a name in snake or camel case, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(path: Path) -> set[str]:
    """Return the names that a module defines or uses, and its own."""
    found = {path.stem}
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            found.add(node.arg)
    return found - FOREIGN


@cache
def places() -> dict[str, set[str]]:
    """Return "file: name" of each use of each word in the package's names."""
    found: dict[str, set[str]] = defaultdict(set)
    for layer in LAYERS:
        for path in source_files(layer):
            for name in names(path):
                for word in words(name):
                    found[word].add(f"{path.relative_to(ROOT)}: {name}")
    return found


def uses(avoided: str) -> list[str]:
    """Return the uses of a word to avoid, with its plain inflections."""
    found = places()
    return sorted({use for ending in _ENDINGS for use in found.get(avoided + ending, ())})


def test_each_word_to_avoid_has_a_limit() -> None:
    terms = glossary()
    assert len(terms) >= 60
    assert set().union(*terms.values()) == set(LIMITS)


@pytest.mark.parametrize("word", LIMITS)
def test_names_use_the_glossary(word: str) -> None:
    found = uses(word)
    instead = [term for term, avoided in glossary().items() if word in avoided]
    assert len(found) <= LIMITS[word], f"say {instead}:\n" + "\n".join(found)
    if len(found) < LIMITS[word]:
        warnings.warn(f"lower the limit of {word!r} to {len(found)}", stacklevel=1)


def test_words_of_names() -> None:
    assert words("_write_turnedHTTPBlock") == {"write", "turned", "http", "block"}
    assert words("TURNED_2") == {"turned"}
    assert words("returned") == {"returned"}
