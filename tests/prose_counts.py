"""Count habits of prose in docstrings, comments and documents, by room, layer or file.

`python -m tests.prose_counts` prints the layers and documents, `--rooms` also the rooms, and
`--limits` the tables for `tests/test_prose.py`, which holds the limits.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Layer -> folder of its source. "top" is the modules of tfjit/ itself and the demo.
LAYERS = {
    "framework": ROOT / "tfjit" / "framework",
    "kernels": ROOT / "kernels",
    "passes": ROOT / "passes",
    "runtime": ROOT / "tfjit" / "runtime",
    "ops": ROOT / "tfjit" / "ops",
    "client": ROOT / "tfjit" / "client",
    "distributed": ROOT / "tfjit" / "distributed",
    "lab": ROOT / "tfjit" / "lab",
    "top": ROOT / "tfjit",
}
DOCUMENTS = ("ARCHITECTURE.md", "README.md", "CHANGELOG.md", "docs/cluster.md")

MAX_COLUMNS = 100
MAX_FIRST_LINE_WORDS = 12
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_OPENER = re.compile(r"(what|who|whose|which|how|where|whether)\b", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(what|who|whose|nobody|somebody)\b", re.IGNORECASE)
_PHRASE = re.compile(
    r"\b(so\s+many|at\s+hand|of\s+its\s+own|stands\s+for|goes\s+on|is\s+there|nobody)\b",
    re.IGNORECASE,
)


@dataclass
class Counts:
    """Counts of one room, layer or document; sums of them by `add`."""

    words: int = 0  # of docstrings and comments
    docstrings: int = 0
    openers: int = 0  # docstrings that open with a question word
    comment_openers: int = 0  # comments that open with one
    pronouns: int = 0  # what, who, whose, nobody, somebody
    phrases: int = 0  # so many, at hand, ...
    long_first_lines: int = 0  # over 12 words, or running on to the next line
    long_lines: int = 0  # over 100 columns, of prose or code

    def add(self, other: Counts) -> None:
        """Add another's counts to these."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def pronoun_rate(self) -> float:
        """Return pronouns per 1,000 words."""
        return round(1000 * self.pronouns / max(self.words, 1), 1)

    @property
    def phrase_rate(self) -> float:
        """Return phrases per 1,000 words."""
        return round(1000 * self.phrases / max(self.words, 1), 1)

    def add_text(self, text: str) -> None:
        """Count the words, pronouns and phrases of one text."""
        self.words += len(_WORD.findall(text))
        self.pronouns += len(_PRONOUN.findall(text))
        self.phrases += len(_PHRASE.findall(text))


def source_files(layer: str) -> list[Path]:
    """Return the modules of a layer in order, generated ones left out."""
    folder = LAYERS[layer]
    paths = [*folder.glob("*.py"), *(folder / "demo").rglob("*.py")] if layer == "top" else None
    found = paths if paths is not None else folder.rglob("*.py")
    return sorted(path for path in found if not path.name.endswith("_pb2.py"))


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, its classes, functions and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str) and text.strip():
                yield inspect.cleandoc(text)


def comments(source: str) -> Iterator[str]:
    """Yield the comments of a module; comment lines that follow one another are one comment."""
    block: list[str] = []
    last_line = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = token.line.lstrip().startswith("#")
        if block and not (alone and token.start[0] == last_line + 1):
            yield " ".join(block)
            block = []
        block.append(token.string.lstrip("#: "))
        last_line = token.start[0] if alone else -1
    if block:
        yield " ".join(block)


def is_long_first_line(text: str) -> bool:
    """Return whether a docstring's first line is over 12 words or ends within a sentence."""
    first, _, rest = text.partition("\n")
    runs_on = bool(rest.split("\n", 1)[0].strip()) and not first.rstrip().endswith((".", ":", "?"))
    return len(first.split()) > MAX_FIRST_LINE_WORDS or runs_on


def count_module(path: Path) -> Counts:
    """Return the counts of one Python file."""
    source = path.read_text("utf-8")
    counts = Counts(long_lines=sum(len(line) > MAX_COLUMNS for line in source.split("\n")))
    for text in docstrings(ast.parse(source, str(path))):
        counts.add_text(text)
        counts.docstrings += 1
        counts.openers += bool(_OPENER.match(text))
        counts.long_first_lines += is_long_first_line(text)
    for text in comments(source):
        counts.add_text(text)
        counts.comment_openers += bool(_OPENER.match(text))
    return counts


def count_document(name: str) -> Counts:
    """Return the counts of a Markdown file of the tree's root."""
    text = (ROOT / name).read_text("utf-8")
    counts = Counts(long_lines=sum(len(line) > MAX_COLUMNS for line in text.split("\n")))
    counts.add_text(text)
    return counts


def count_layer(layer: str, room_of: Callable[[Path], str] | None = None) -> dict[str, Counts]:
    """Return the counts of a layer under its name, or of its rooms where `room_of` names them."""
    found: dict[str, Counts] = {}
    for path in source_files(layer):
        name = layer if room_of is None else room_of(path)
        found.setdefault(name, Counts()).add(count_module(path))
    return found


def _folder(path: Path) -> str:
    return str(path.parent.relative_to(ROOT))


def _print_limits() -> None:
    for layer in LAYERS:
        c = count_layer(layer)[layer]
        row = (c.openers, c.comment_openers, c.pronoun_rate, c.phrase_rate)
        print(f'    "{layer}": {(*row, c.long_first_lines, c.long_lines)},')
    for name in DOCUMENTS:
        c = count_document(name)
        print(f'    "{name}": {(c.pronoun_rate, c.phrase_rate, c.long_lines)},')


def main(arguments: list[str]) -> None:
    """Print the table."""
    if "--limits" in arguments:
        _print_limits()
        return
    rooms = "--rooms" in arguments
    rows: dict[str, Counts] = {}
    total = Counts()
    for layer in LAYERS:
        for counts in count_layer(layer).values():
            total.add(counts)
            rows[layer] = counts
        if rooms:
            rows.update({f"  {k}": v for k, v in count_layer(layer, _folder).items()})
    rows["all source"] = total
    rows.update({name: count_document(name) for name in DOCUMENTS})
    titles = ("words", "docstr.", "openers", "# open.", "pron./k", "phr./k", ">12 w.", ">100 c.")
    print(f"{'':32}" + "".join(f"{title:>9}" for title in titles))
    for name, c in rows.items():
        values = (c.words, c.docstrings, c.openers, c.comment_openers, c.pronoun_rate)
        print(
            f"{name:32}"
            + "".join(f"{v:>9}" for v in (*values, c.phrase_rate, c.long_first_lines, c.long_lines))
        )


if __name__ == "__main__":
    main(sys.argv[1:])
