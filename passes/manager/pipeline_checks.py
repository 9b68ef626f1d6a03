"""Check the sections of a pipeline: required passes, their graphs, and prerequisites."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final, NoReturn

from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes.manager.default_pipeline import DEFAULT
from tfjit.passes.manager.pass_registry import ANALYSES, PASSES, find_name
from tfjit.passes.manager.steps import Fixpoint, Items, Step, flat

_FIRST: Final = "lower_feeds"
_OF_RUNS: Final = frozenset({"graph", "quick"})
_OF_PARTITIONS: Final = frozenset({"partition", "device", "offloaded"})


def check(sections: Mapping[str, Items]) -> None:
    """Check all sections. Raises InvalidArgumentError with the pass and its section."""
    everywhere = {step.name for items in sections.values() for step in flat(items)}
    for section, items in sections.items():
        _check_items(section, items)
        present = {step.name for step in flat(items)}
        for step in flat(DEFAULT[section]):
            if PASSES[step.name].required and step.name not in present:
                _fail(section, f"the pass {step.name!r} is left out, which every plan needs")
        if section in _OF_RUNS and next(flat(items)).name != _FIRST:
            first = next(flat(items)).name
            _fail(section, f"{first!r} stands before {_FIRST!r}, which all others need")
        # the passes over a run's graph have run before those of the other sections
        before = set() if section in _OF_RUNS else {step.name for step in flat(sections["graph"])}
        for step in flat(items):
            _check_needs(section, step, before, present, everywhere)
            before.add(step.name)


def _check_items(section: str, items: Items) -> None:
    for item in items:
        if isinstance(item, Fixpoint) and (not item.steps or item.limit < 1):
            _fail(section, f"passes are repeated {item.limit} times at most: expected 1 or more")
        for step in flat((item,)):
            if step.user is None:
                find_name(step.name, f"section {section!r}: {step.name!r}")
                if step.name not in PASSES:
                    _fail(section, f"{step.name!r} is an alias; its place needs the full name")
                _check_place(section, step.name)


def _check_place(section: str, name: str) -> None:
    """Check that a built-in pass is for the graphs of a section."""
    homes = _homes(name)
    kinds = {_kind(home) for home in homes}
    if _kind(section) not in kinds and not kinds >= {"run", "body"}:
        _fail(section, f"{name!r} cannot run here, but in {' or '.join(map(repr, homes))}")


@functools.cache
def _homes(name: str) -> tuple[str, ...]:
    """Return the sections that have a pass by default."""
    return tuple(
        section
        for section, items in DEFAULT.items()
        if any(step.name == name for step in flat(items))
    )


def _kind(section: str) -> str:
    return "run" if section in _OF_RUNS else "partition" if section in _OF_PARTITIONS else "body"


def _check_needs(
    section: str, step: Step, before: set[str], present: set[str], everywhere: set[str]
) -> None:
    needs = step.user.needs if step.user is not None else PASSES[step.name].needs
    for needed in needs:
        if needed in ANALYSES or find_name(needed, "") in before:
            continue
        if needed in present:
            _fail(section, f"{step.name!r} stands before {needed!r}, which it needs")
        elif needed in everywhere:
            _fail(section, f"{step.name!r} needs {needed!r}, which runs in another section")
        _fail(section, f"{step.name!r} needs {needed!r}, which is left out; leave out both")


def _fail(section: str, text: str) -> NoReturn:
    raise InvalidArgumentError(None, None, f"pipeline, section {section!r}: {text}")


__all__ = ["check"]
