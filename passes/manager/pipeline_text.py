"""Write pipelines as text and read them back.

The long form has a line for each section ("graph:") and, indented, each pass with its reason as a
comment; passes below "repeat N:" run until they change nothing. The short form edits another
pipeline: "default without cse, fuse then my_passes:square".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.passes.manager.default_pipeline import DEFAULT, TITLES
from tfjit.passes.manager.pass_registry import PASSES, near_names
from tfjit.passes.manager.pipeline_spec import Pipeline, registered_pipelines, step_of
from tfjit.passes.manager.steps import Fixpoint, Item, Items, Step, flat
from tfjit.passes.manager.user_passes import CLAUSES

_WORD: Final = re.compile(r"[,;]|[^\s,;]+")
_GROUP: Final = re.compile(r"\[[^\]]*\] ?")  # begins a comment of `tfjit passes`
_REPEAT: Final = re.compile(r"repeat\s+(\d+)\s*:")


# ---- writing


def to_text(pipeline: Pipeline) -> str:
    """Return the long form.

    Raises InvalidArgumentError for a function that no text names.
    """
    return _written(pipeline, _named, _reason)


def described(pipeline: Pipeline, groups: bool = False) -> str:
    """Return the long form for a reader.

    Functions that no text names are in angle brackets. groups: the comments tell the groups of
    passes and the sections that follow from others.
    """

    def name_of(step: Step) -> str:
        return step.name if step.user is None else step.user.source or f"<{step.name}>"

    if not groups:
        return _written(pipeline, name_of, _reason)
    others = [f"# {name}: {TITLES[name]}\n" for name in TITLES if name not in DEFAULT]
    return "\n".join([_written(pipeline, name_of, _group_and_reason), "".join(others)])


def _reason(step: Step) -> str:
    return step.why


def _group_and_reason(step: Step) -> str:
    info = PASSES[step.name] if step.user is None else None
    group = "own" if info is None else "required" if info.required else info.group or "-"
    return f"[{group}] {step.why}".rstrip()


def identity(pipeline: Pipeline) -> str:
    """Return the passes by name and version, without reasons."""

    def versioned(step: Step) -> str:
        return step.name if step.user is None else f"{step.name}@{step.user.version!r}"

    bare = [
        (name, "".join(_lines(items, versioned, lambda step: "", 1)))
        for name, items in pipeline.sections
    ]
    return "".join(f"{name}:\n{lines}" for name, lines in bare)


def summary(pipeline: Pipeline) -> str:
    """Return the difference from the built-in pipeline in one line."""
    default = Pipeline.default()
    if pipeline == default:
        return "default"
    parts = []
    gone = [name for name in default.names if name not in pipeline.names]
    if gone:
        parts.append(f"without {', '.join(gone)}")
    bare = default.without(*gone)
    for (name, items), (_, old) in zip(pipeline.sections, bare.sections, strict=True):
        added = list(flat(items))
        for step in flat(old):
            if step in added:
                added.remove(step)
        if added:
            parts.append(f"with {', '.join(step.name for step in added)} in {name}")
        elif items != old:
            parts.append(f"with another order in {name}")
    return f"default {', '.join(parts)}"


def _named(step: Step) -> str:
    if step.user is None:
        return step.name
    if not step.user.source:
        raise InvalidArgumentError(
            None,
            None,
            f"no text names the pass {step.name!r}: register it by register_pass, or put the "
            "function into a module",
        )
    return step.user.source


def _written(
    pipeline: Pipeline, name_of: Callable[[Step], str], comment_of: Callable[[Step], str]
) -> str:
    blocks = [
        f"{name}:  # {TITLES[name]}\n{''.join(_lines(items, name_of, comment_of, 1))}"
        for name, items in pipeline.sections
    ]
    return "\n".join(blocks)


def _lines(
    items: Sequence[Item],
    name_of: Callable[[Step], str],
    comment_of: Callable[[Step], str],
    indent: int,
) -> list[str]:
    lines = []
    for item in items:
        if isinstance(item, Fixpoint):
            lines.append(f"{'  ' * indent}repeat {item.limit}:\n")
            lines += _lines(item.steps, name_of, comment_of, indent + 1)
        else:
            comment = comment_of(item)
            text = f"{name_of(item):<32} # {comment}" if comment else name_of(item)
            lines.append(f"{'  ' * indent}{text}\n")
    return lines


# ---- reading


def parse(text: str, where: str = "", imports: bool = True) -> Pipeline:
    """Return the pipeline of a text in either form.

    where: the file, for errors. imports: whether "module:function" may stand, which imports the
    module.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1)]
    first = next((k for k, (_, line) in enumerate(lines) if _is_header(line)), len(lines))
    reader = _Reader(where or "pipeline", len(lines) > 1 or bool(where), imports)
    words = [
        (number, word)
        for number, line in lines[:first]
        for word in _WORD.findall(line.partition("#")[0])
    ]
    if not words and first == len(lines):
        raise InvalidArgumentError(
            None, None, f"{where or 'pipeline'}: the text is empty; the built-in one is 'default'"
        )
    base = reader.short_form(words) if words else Pipeline.default()
    return reader.sections(base, lines[first:])


def _is_section(words: Sequence[str]) -> bool:
    """Return whether words are "in SECTION", or none."""
    return not words or (len(words) == 2 and words[0] == "in")


def _is_header(line: str) -> bool:
    bare = line.partition("#")[0]
    return bare.rstrip().endswith(":") and not bare[:1].isspace() and len(bare.split()) == 1


class _Reader:
    """Reads one text; errors name its line."""

    def __init__(self, where: str, numbered: bool, imports: bool) -> None:
        self._where = where
        self._numbered = numbered
        self._imports = imports

    def _fail(self, number: int, text: str) -> NoReturn:
        at = f":{number}" if self._numbered else ""
        raise InvalidArgumentError(None, None, f"{self._where}{at}: {text}")

    def _step(self, number: int, name: str) -> Step:
        if not self._imports and ":" in name:
            self._fail(number, f"'{name}': a config names registered passes alone (register_pass)")
        try:
            return step_of(name)
        except OpError as error:
            self._fail(number, error.message)

    # ---- the long form

    def sections(self, base: Pipeline, lines: Sequence[tuple[int, str]]) -> Pipeline:
        """Return the base with the sections of the lines."""
        found: dict[str, list[Item]] = {}
        section, repeat, depth = "", 0, 0
        steps: list[Step] = []
        last = 0

        def end_repeat() -> None:
            nonlocal repeat, steps
            if repeat:
                if not steps:
                    self._fail(last, "no passes stand below 'repeat'")
                found[section].append(Fixpoint(tuple(steps), repeat))
            repeat, steps = 0, []

        for number, line in lines:
            bare, _, why = line.partition("#")
            word = bare.strip()
            if not word:
                continue
            indent = len(bare) - len(bare.lstrip())
            if _is_header(line):
                end_repeat()
                section = word[:-1]
                if section not in DEFAULT:
                    self._fail(
                        number,
                        f"there is no section {section!r}{near_names(section, DEFAULT)}; sections: "
                        f"{', '.join(DEFAULT)}",
                    )
                if section in found:
                    self._fail(number, f"section {section!r} stands twice")
                found[section] = []
                continue
            if indent == 0:
                self._fail(number, f"'{word}': expected a section ('graph:') or an indented pass")
            if repeat and indent <= depth:
                end_repeat()
            again = _REPEAT.fullmatch(word)
            if again:
                if repeat:
                    self._fail(number, "'repeat' within 'repeat'")
                repeat, depth, last = int(again[1]), indent, number
                if repeat < 1:
                    self._fail(number, "expected 'repeat N:' with N of 1 or more")
                continue
            if len(word.split()) != 1:
                self._fail(number, f"'{word}': expected one pass on a line, or 'repeat N:'")
            step = self._step(number, word)
            step = Step(step.name, _GROUP.sub("", why.strip()), step.user)
            if repeat:
                steps.append(step)
            else:
                found[section].append(step)
        end_repeat()
        made: list[tuple[str, Items]] = [(name, tuple(items)) for name, items in found.items()]
        try:
            return Pipeline((*base.sections, *made)) if made else base
        except OpError as error:
            raise InvalidArgumentError(None, None, f"{self._where}: {error.message}") from None

    # ---- the short form

    def short_form(self, words: Sequence[tuple[int, str]]) -> Pipeline:
        """Return the pipeline of "default without A, B then P"."""
        number, name = words[0]
        known = registered_pipelines()
        if name not in known:
            self._fail(
                number,
                f"there is no pipeline '{name}'{near_names(name, known)}; a text begins with "
                f"{' or '.join(map(repr, known))}, or with a section",
            )
        made = known[name]
        rest = list(words[1:])
        while rest:
            number, clause = rest.pop(0)
            if clause not in CLAUSES:
                self._fail(
                    number,
                    f"'{clause}': expected {', '.join(CLAUSES[:-1])} or {CLAUSES[-1]}"
                    f"{near_names(clause, CLAUSES)}",
                )
            given: list[str] = []
            while rest and rest[0][1] not in CLAUSES:
                given.append(rest.pop(0)[1])
            try:
                made = self._edited(made, number, clause, given)
            except OpError as error:
                if error.message.startswith(self._where):
                    raise
                self._fail(number, error.message)
        return made

    def _edited(self, made: Pipeline, number: int, clause: str, given: list[str]) -> Pipeline:
        """Return a pipeline with one clause applied."""
        if clause == "without":
            return made.without(*self._list(number, clause, given))
        if clause == "only":
            return made.only(*self._list(number, clause, given)) if given else made.only()
        if clause == "repeat":
            limit = self._limit(number, given)
            return made.repeat_until_stable(*self._list(number, clause, given), limit=limit)
        if clause == "then":
            for name in self._list(number, clause, given):
                made = made.then(self._pass(number, name))
            return made
        match given:
            case [name, "before", anchor, *section] if _is_section(section):
                return made.before(anchor, self._pass(number, name), *section[1:])
            case [name, "after", anchor, *section] if _is_section(section):
                return made.after(anchor, self._pass(number, name), *section[1:])
            case [name, "instead", "of", anchor]:
                return made.replace(anchor, self._pass(number, name))
        self._fail(
            number,
            f"'with {' '.join(given)}': expected 'with PASS before NAME', 'with PASS after NAME', "
            "either with 'in SECTION', or 'with PASS instead of NAME'",
        )

    def _pass(self, number: int, name: str) -> str:
        self._step(number, name)
        return name

    def _list(self, number: int, clause: str, given: Sequence[str]) -> list[str]:
        """Return the names of "A, B"."""
        names = list(given[::2])
        if not names or any(comma != "," for comma in given[1::2]) or len(given) % 2 == 0:
            self._fail(number, f"'{clause} {' '.join(given)}': expected names with commas between")
        if "," in names:
            self._fail(number, f"'{clause} {' '.join(given)}': a name is missing")
        return names

    def _limit(self, number: int, given: list[str]) -> int:
        """Take "up to N times" off the words, and return N."""
        match given[-4:]:
            case ["up", "to", count, "times"] if count.isdigit():
                del given[-4:]
                return int(count)
        self._fail(
            number, f"'repeat {' '.join(given)}': expected 'repeat NAME, NAME up to N times'"
        )


__all__ = ["described", "identity", "parse", "summary", "to_text"]
