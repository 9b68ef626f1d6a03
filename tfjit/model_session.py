"""Open sessions over the models of commands, and report slow work."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from tfjit.framework import settings

if TYPE_CHECKING:
    from tfjit.client.session.model_file import ModelFile
    from tfjit.client.session.session import Session
    from tfjit.passes.manager.pipeline_spec import Pipeline


def open_session(model: ModelFile, config: Any = None, passes: Pipeline | None = None) -> Session:
    """Return a session over a model, to be closed by the caller.

    For a SavedModel, with its variables, tables and assets.
    """
    from tfjit.lab.measure.candidates import open_model

    return open_model(model, config, passes)


def progress(work: str) -> contextlib.AbstractContextManager[object]:
    """Return a block that reports slow work on stderr.

    TFJIT_PROGRESS has its own line there, and then this is none.
    """
    from tfjit.demo.progress import Progress

    if settings.flag("TFJIT_PROGRESS"):
        return contextlib.nullcontext()
    return Progress(work, detail=_kernels_compiled)


def _kernels_compiled() -> str:
    """Return the number of compiled kernels as text.

    "" while none are compiled or pending.
    """
    from tfjit.kernels.jit.store import store

    counts = store.compile_counts()
    total = counts.done + counts.pending
    return f", {counts.done} of {total} kernels compiled" if total else ""
