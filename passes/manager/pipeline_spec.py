"""Define a pipeline: an immutable value that says which passes run where."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes.manager.default_pipeline import COMPOSED, DEFAULT, is_for_master
from tfjit.passes.manager.pass_registry import PASSES, find_name, near_names
from tfjit.passes.manager.pipeline_checks import check
from tfjit.passes.manager.steps import Fixpoint, Item, Items, Step, flat
from tfjit.passes.manager.user_passes import (
    LOCK,
    PIPELINES,
    UserPass,
    check_free,
    check_name,
    registered_names,
    user_pass,
)

if TYPE_CHECKING:
    from tfjit.passes.manager.pass_context import Pass


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline:
    """The passes of a session's plans, in sections by kind of graph.

    sections: (name, items) of each section; one that is not given is the default's. The sections
    and their graphs are listed by `tfjit passes`. A pipeline never changes: each method returns
    another one. A pass is the name of a built-in one or its alias ("cse"), a name of
    `register_pass`, a function `(graph, ctx) -> None`, or "module:function".

    Raises InvalidArgumentError for unknown names, a required pass that is left out, one in a
    section of other graphs, and a pass before or without another that it needs.
    """

    sections: tuple[tuple[str, Items], ...] = ()

    def __post_init__(self) -> None:
        given = dict(self.sections)
        for name in given:
            if name not in DEFAULT:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"a pipeline has no section {name!r}{near_names(name, DEFAULT)}; it has "
                    f"{', '.join(DEFAULT)}",
                )
        whole = tuple((name, tuple(given.get(name, items))) for name, items in DEFAULT.items())
        object.__setattr__(self, "sections", whole)
        check(dict(whole))

    # ---- making

    @staticmethod
    @functools.cache
    def default() -> Pipeline:
        """Return the built-in pipeline."""
        return Pipeline()

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Return the pipeline of a text: "default without cse, fuse", or sections.

        The short form begins with "default" or a registered name. Then follow, in any number and
        order: `without A, B`; `only A, B`; `with P before A`, `with P after A`, where `in SECTION`
        may follow; `with P instead of A`; `then P`, at the end of the graph's passes; `repeat A, B
        up to N times`. The long form is that of `to_text`, with a short form as its first line
        where the sections that it lacks are not the default's. Raises InvalidArgumentError with the
        line at fault.
        """
        from tfjit.passes.manager.pipeline_text import parse

        return parse(text)

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Pipeline:
        """Return the pipeline in a file.

        Raises OSError and the errors of `parse`.
        """
        from tfjit.passes.manager.pipeline_text import parse

        return parse(Path(path).read_text(encoding="utf-8"), where=os.fspath(path))

    @staticmethod
    def of(given: Pipeline | str | os.PathLike[str] | None) -> Pipeline:
        """Return the pipeline that a value, a text or a path gives."""
        if given is None:
            return Pipeline.default()
        if isinstance(given, Pipeline):
            return given
        if isinstance(given, str):
            return Pipeline.parse(given)
        if isinstance(given, os.PathLike):
            return Pipeline.from_file(given)
        raise TypeError(
            f"passes: expected a Pipeline, its text or a path, not a {type(given).__name__}"
        )

    # ---- editing

    def without(self, *names: str) -> Pipeline:
        """Return the pipeline without these passes, in every section."""
        left_out = {self._name(name) for name in names}
        for name in left_out:
            if name in PASSES and PASSES[name].required:
                raise InvalidArgumentError(
                    None, None, f"{name!r} is required: a plan cannot do without it"
                )
        if left_out.isdisjoint(self.names):
            return self
        return self._mapped(lambda step: None if step.name in left_out else step)

    def only(self, *names: str) -> Pipeline:
        """Return the pipeline with these passes and the required ones alone."""
        kept = {self._name(name) for name in names}
        absent = sorted(kept - set(self.names))
        if absent:
            raise InvalidArgumentError(None, None, f"only {absent[0]!r}: it is not in the pipeline")
        return self._mapped(
            lambda step: (
                step
                if step.name in kept or (step.user is None and PASSES[step.name].required)
                else None
            )
        )

    def before(self, name: str, pass_: Pass | str, section: str = "") -> Pipeline:
        """Return the pipeline with a pass before the first place of another.

        section: by default the first one that has `name`.
        """
        section, places = self._places(name, section)
        return self._inserted(section, places[0], step_of(pass_))

    def after(self, name: str, pass_: Pass | str, section: str = "") -> Pipeline:
        """Return the pipeline with a pass behind the last place of another.

        section: by default the first one that has `name`.
        """
        section, places = self._places(name, section)
        return self._inserted(section, places[-1] + 1, step_of(pass_))

    def then(self, pass_: Pass | str) -> Pipeline:
        """Return the pipeline with a pass behind all others over a graph."""
        return self._inserted("graph", len(self.section("graph")), step_of(pass_))

    def replace(self, name: str, pass_: Pass | str) -> Pipeline:
        """Return the pipeline with a pass in every place of another."""
        found = self._name(name)
        if found not in self.names:
            raise InvalidArgumentError(None, None, f"{found!r} is not in the pipeline")
        made = step_of(pass_)
        return self._mapped(lambda step: made if step.name == found else step)

    def repeat_until_stable(self, *names: str, limit: int, section: str = "") -> Pipeline:
        """Return the pipeline with passes that run until they change nothing.

        They run in this order, `limit` times at most, from the first place of any of them on.
        Steps of these passes directly behind that place are part of it; later ones stay.
        """
        if not names:
            raise InvalidArgumentError(None, None, "repeat_until_stable: no pass is named")
        section, _ = self._places(names[0], section)
        first = min(self._places(name, section)[1][0] for name in names)
        items = self.section(section)
        found = {step.name: step for step in flat(items)}
        steps = tuple(found[self._name(name)] for name in names)
        end = first + 1
        while end < len(items) and items[end] in steps:
            end += 1
        return self.with_section(section, (*items[:first], Fixpoint(steps, limit), *items[end:]))

    def with_section(self, section: str, items: Iterable[Item | Pass | str]) -> Pipeline:
        """Return the pipeline with other items in a section.

        items: items, names or functions.
        """
        made = tuple(
            item if isinstance(item, (Step, Fixpoint)) else step_of(item) for item in items
        )
        return Pipeline((*self.sections, (section, made)))

    # ---- looking

    def section(self, name: str) -> Items:
        """Return the items of a section, or of a composed one."""
        if name in COMPOSED:
            return tuple(item for part in COMPOSED[name] for item in self.section(part))
        if name == "cluster":
            return _mapped(
                self.section("graph"), lambda step: step if is_for_master(step) else None
            )
        return dict(self.sections)[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all passes, each once, in order."""
        return tuple(dict.fromkeys(step.name for _, items in self.sections for step in flat(items)))

    @property
    def users(self) -> tuple[UserPass, ...]:
        """Return the passes that are not built in, each once, in order."""
        steps = (step for _, items in self.sections for step in flat(items))
        return tuple(dict.fromkeys(step.user for step in steps if step.user is not None))

    @property
    def unversioned(self) -> tuple[str, ...]:
        """Return the users' passes without a version.

        Plans that they make are never stored.
        """
        return tuple(user.name for user in self.users if not user.version)

    def to_text(self) -> str:
        """Return the sections as text, which `parse` reads.

        Raises InvalidArgumentError for a function that no text names: register it by
        `register_pass`, or put it into a module.
        """
        from tfjit.passes.manager.pipeline_text import to_text

        return to_text(self)

    def identity(self) -> str:
        """Return a text that differs wherever pipelines differ.

        Versions of passes count, reasons do not.
        """
        from tfjit.passes.manager.pipeline_text import identity

        return identity(self)

    def __str__(self) -> str:
        from tfjit.passes.manager.pipeline_text import described

        return described(self)

    def __repr__(self) -> str:
        from tfjit.passes.manager.pipeline_text import summary

        return f"<Pipeline: {summary(self)}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Pipeline.parse, (self.to_text(),)

    # ---- helpers of the edits

    def _name(self, name: str) -> str:
        """Return the full name of a pass."""
        own = [step.name for _, items in self.sections for step in flat(items)]
        return find_name(name, repr(name), [*own, *registered_names()])

    def _places(self, name: str, section: str) -> tuple[str, list[int]]:
        """Return a section with a pass, and the indices of its items."""
        found = self._name(name)
        if section and section not in DEFAULT:
            Pipeline(((section, ()),))  # raises the error that names the sections
        for at, items in self.sections:
            places = [
                k for k, item in enumerate(items) if any(s.name == found for s in flat((item,)))
            ]
            if places and section in ("", at):
                return at, places
        where = f"section {section!r}" if section else "the pipeline"
        raise InvalidArgumentError(None, None, f"{found!r} is not in {where}")

    def _inserted(self, section: str, place: int, step: Step) -> Pipeline:
        items = self.section(section)
        return self.with_section(section, (*items[:place], step, *items[place:]))

    def _mapped(self, change: Callable[[Step], Step | None]) -> Pipeline:
        return Pipeline(tuple((name, _mapped(items, change)) for name, items in self.sections))


def step_of(pass_: Pass | str) -> Step:
    """Return a step of a built-in or a user's pass.

    pass_: a name, "module:function" or a function.
    """
    if isinstance(pass_, str):
        if ":" not in pass_:
            name = find_name(pass_, repr(pass_), registered_names())
            return Step(name) if name in PASSES else Step(name, user=user_pass(name))
    else:
        name = getattr(pass_, "__name__", "")
        if name in PASSES and PASSES[name].function() is pass_:
            return Step(name)
    user = user_pass(pass_)
    return Step(user.name, user=user)


def _mapped(items: Sequence[Item], change: Callable[[Step], Step | None]) -> Items:
    made: list[Item] = []
    for item in items:
        if isinstance(item, Fixpoint):
            steps = tuple(new for step in item.steps if (new := change(step)) is not None)
            made += [Fixpoint(steps, item.limit)] if steps else []
        elif (new := change(item)) is not None:
            made.append(new)
    return tuple(made)


def register_pipeline(name: str, pipeline: Pipeline | str) -> None:
    """Give a pipeline a name, for texts and for `rewrite_options.optimizers` of configs.

    Raises AlreadyExistsError for a name that is taken.
    """
    check_name(name)
    made = Pipeline.of(pipeline)
    with LOCK:
        check_free(name)
        PIPELINES[name] = made


def registered_pipelines() -> Mapping[str, Pipeline]:
    """Return the pipelines by name, "default" included."""
    with LOCK:
        return {"default": Pipeline.default(), **PIPELINES}


__all__ = ["Pipeline", "register_pipeline", "registered_pipelines", "step_of"]
