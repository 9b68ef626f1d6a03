"""Open sessions over a graph or model, with options of the passes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.client.saving import saved_model
from tfjit.client.session.model_file import ModelFile, read_model
from tfjit.client.session.session import Session
from tfjit.framework.env import Env
from tfjit.framework.graphs.graph import Graph
from tfjit.runtime.factory import SessionOptions

if TYPE_CHECKING:
    from tfjit.client.session.base_session import Passes

_UNSET: Final = ("TFJIT_EVENT_LIMIT", "TFJIT_EVENT_LOG")


@contextlib.contextmanager
def opened(
    subject: object,
    settings: Mapping[str, str] | None = None,
    passes: Passes = None,
    **options: object,
) -> Iterator[Session]:
    """Open a session with plans that no other session shares.

    subject: a graph, a message, a `ModelFile` or a path; a SavedModel comes with its variables and
    tables. settings: TFJIT_* variables of the session beside those of the process. passes: as
    `Session` takes them. options: of its passes, as `PassOptions` has them.
    """
    variables = {name: text for name, text in os.environ.items() if name not in _UNSET}
    variables["TFJIT_STORED_PLANS"] = "0"
    variables |= settings or {}
    surroundings = SessionOptions(env=Env(variables=variables))
    if isinstance(subject, (str, Path)):
        subject = read_model(subject)
    is_file = isinstance(subject, ModelFile)
    if isinstance(subject, ModelFile) and subject.kind == "SavedModel":
        with Graph().as_default(), Session(options=surroundings, passes=passes) as session:
            _set_options(session, options)
            saved_model.load(session, subject.tags, subject.path.parent)
            yield session
        return
    graph = subject.message if is_file and isinstance(subject, ModelFile) else subject
    with Session(graph=graph, options=surroundings, passes=passes) as session:
        _set_options(session, options)
        yield session


def _set_options(session: Session, options: Mapping[str, object]) -> None:
    runtime = session._runtime_session
    change = getattr(runtime, "change_pass_options", None)
    if change is None:
        raise TypeError("rewrites are recorded and counted in sessions of this process alone")
    change(lambda given: replace(given, **options))


__all__ = ["opened"]
