"""Keep the passes of users by name, and find passes in modules."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.errors import AlreadyExistsError, InvalidArgumentError
from tfjit.passes.manager.pass_registry import ALIASES, ANALYSES, PASSES, find_name, near_names

if TYPE_CHECKING:
    from tfjit.passes.manager.pass_context import Pass
    from tfjit.passes.manager.pipeline_spec import Pipeline

Parameters = Mapping[str, Any]
PassMaker = Callable[[Parameters], "Pass"]
"""A function of a config's parameters that makes a pass."""

LOCK: Final = threading.Lock()
CLAUSES: Final = ("without", "only", "with", "then", "repeat")
"""Words of a pipeline's short form, which are no names."""
_NAME: Final = re.compile(r"[^\s,;:#@]+")


@dataclass(frozen=True, slots=True)
class UserPass:
    """A pass that is not built in.

    name: in reports, TFJIT_DISABLE and errors. source: a text that names the pass: the name that it
    is registered under, or "module:function"; "" for a function that no text names. needs: passes
    that have to stand before it, and analyses that have to be valid. version: identifies all that
    the function does; the plans of a pass without a version are never stored.
    """

    name: str
    function: Pass
    source: str = field(default="", compare=False)
    needs: tuple[str, ...] = field(default=(), compare=False)
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class _Registered:
    make: PassMaker
    needs: tuple[str, ...]
    version: str
    without_parameters: list[UserPass] = field(default_factory=list)


_REGISTERED: dict[str, _Registered] = {}
PIPELINES: Final[dict[str, Pipeline]] = {}
"""Registered pipelines by name."""


def register_pass(name: str, pass_: Pass, needs: tuple[str, ...] = (), version: str = "") -> None:
    """Give a pass a name, for pipelines, their texts and configs.

    pass_: a function `(graph: DataflowGraph, ctx: PassContext) -> None` that rewrites the graph in
    place. needs: passes that have to stand before it, and analyses ("shapes") that have to be
    valid. version: a text that changes whenever the function gives other results; plans are stored
    on disk only if there is one. Raises AlreadyExistsError for a name that is taken,
    InvalidArgumentError for one that no text can hold and for unknown needs.
    """
    register_maker(name, lambda parameters: pass_, needs, version)
    make_registered(name)


def register_maker(
    name: str, make: PassMaker, needs: tuple[str, ...] = (), version: str = ""
) -> None:
    """Give a maker of passes a name.

    Raises the errors of `register_pass`.
    """
    check_name(name)
    check_needs(name, needs)
    with LOCK:
        check_free(name)
        _REGISTERED[name] = _Registered(make, tuple(needs), version)


def registered_names() -> list[str]:
    """Return the names of registered passes of users."""
    with LOCK:
        return sorted(_REGISTERED)


def make_registered(name: str, parameters: Parameters | None = None) -> UserPass:
    """Return the registered pass of a name.

    parameters: it is made anew with these; with None, one is made for all. Raises KeyError for an
    unknown name.
    """
    entry = _REGISTERED[name]
    if parameters is not None:
        source = "" if parameters else name  # a text could not hold the parameters
        return UserPass(name, entry.make(parameters), source, entry.needs, entry.version)
    if not entry.without_parameters:
        made = UserPass(name, entry.make({}), name, entry.needs, entry.version)
        with LOCK:
            entry.without_parameters.append(made)
    return entry.without_parameters[0]


def check_name(name: str) -> None:
    """Check that a text can hold a name. Raises InvalidArgumentError."""
    if not _NAME.fullmatch(name) or name in CLAUSES:
        raise InvalidArgumentError(
            None,
            None,
            f"a pass or pipeline cannot have the name {name!r}: a text could not hold it",
        )


def check_free(name: str) -> None:
    """Check that no pass or pipeline has a name. Hold `LOCK`.

    Raises AlreadyExistsError.
    """
    pass_names = (PASSES, ALIASES, _REGISTERED)
    if name == "default" or name in PIPELINES or any(name in names for names in pass_names):
        raise AlreadyExistsError(None, None, f"a pass or pipeline {name!r} is registered already")


def check_needs(name: str, needs: tuple[str, ...]) -> None:
    """Check the needs of a user's pass. Raises InvalidArgumentError."""
    if isinstance(needs, str):
        raise InvalidArgumentError(None, None, f"needs of {name!r}: expected a tuple of names")
    for needed in needs:
        find_name(needed, f"pass {name!r} needs {needed!r}", [*ANALYSES, *registered_names()])


def user_pass(given: Pass | str) -> UserPass:
    """Return a user's pass: a function, "module:function", or a registered name.

    Raises InvalidArgumentError for a function that cannot be found or has no name.
    """
    if isinstance(given, str):
        if given in _REGISTERED:
            return make_registered(given)
        return _imported(given)
    if not callable(given):
        raise InvalidArgumentError(
            None,
            None,
            f"a pass is a function (graph, ctx), a registered name or 'module:function', not a "
            f"{type(given).__name__}",
        )
    known = _registered(given)
    if known is not None:
        return known
    found = getattr(given, "__name__", type(given).__name__)
    if found == "<lambda>":
        raise InvalidArgumentError(
            None, None, "a lambda has no name for errors and reports: register it by register_pass"
        )
    return _checked(UserPass(found, given, _source_of(given)))


def _registered(function: Pass) -> UserPass | None:
    """Return the registered pass of a function."""
    with LOCK:
        made = [user for entry in _REGISTERED.values() for user in entry.without_parameters]
    return next((user for user in made if user.function is function), None)


def _source_of(function: Pass) -> str:
    """Return "module:function" if that names this very function."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module in ("", None, "__main__") or not name.isidentifier():
        return ""
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is function else ""


def _imported(source: str) -> UserPass:
    """Return the pass at "module:function"."""
    module, _, name = source.partition(":")
    try:
        found = importlib.import_module(module)
    except Exception as error:  # the module's own, too
        reason = f"{type(error).__name__}: {error}"
        raise InvalidArgumentError(
            None, None, f"pass '{source}': module '{module}' cannot be imported: {reason}"
        ) from error
    function = getattr(found, name, None)
    if not callable(function):
        near = near_names(name, [key for key in vars(found) if callable(getattr(found, key))])
        raise InvalidArgumentError(
            None, None, f"pass '{source}': module '{module}' has no function '{name}'{near}"
        )
    return _registered(function) or _checked(UserPass(name, function, source))


def _checked(user: UserPass) -> UserPass:
    """Return a pass that is not registered. Raises InvalidArgumentError for its name."""
    check_name(user.name)
    if user.name in PASSES or user.name in ALIASES:
        raise InvalidArgumentError(
            None, None, f"a built-in pass has the name {user.name!r}: rename the function"
        )
    return user


__all__ = [
    "CLAUSES",
    "LOCK",
    "PIPELINES",
    "PassMaker",
    "UserPass",
    "make_registered",
    "register_maker",
    "register_pass",
    "registered_names",
    "user_pass",
]
