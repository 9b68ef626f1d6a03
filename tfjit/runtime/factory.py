"""SessionFactory: which session serves a target."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tfjit.framework import errors
from tfjit.framework.env import DEFAULT_ENV, Env
from tfjit.runtime.session_interface import SessionInterface

if TYPE_CHECKING:
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.runtime.kernel_api.custom_kernels import KernelCreator
    from tfjit.runtime.resources.variables_and_resources import SessionResource

log = logging.getLogger("tfjit.session")


@dataclass(slots=True)
class SessionOptions:
    """Options of a new session.

    target: '' for the devices of this process, 'grpc://host:port' for a cluster's.
    config: tfjit ConfigProto. env: the files, clock and environment variables that the session
    sees; the process's by default. session_resource: resource managers shared with the other
    sessions that are given the same object; None for the session's own. custom_kernel_creator:
    asked for each node that a run needs, once a session, before tfjit looks for a built-in kernel.
    It gets the NodeDef (with its device) and returns None, or a kernel `(ctx, inputs) -> outputs`
    that runs in the built-in one's place. Inputs are ndarrays (a Variable for a reference or a
    resource variable), outputs one array a slot of the node's dtype and shape; an exception of it
    fails the step as one of a built-in kernel does. Such a node is never folded, fused or merged
    with its like. Feeds, fetches, transfers and control flow (Switch, Merge, Enter...) are the
    executor's own and not asked for.
    passes: the pipeline of the passes (`tfjit.passes.Pipeline`), its text or the path of its file;
    None for that of the config, or the built-in one. Toggles of the config leave passes out of it.
    """

    target: str = ""
    config: Any = None
    env: Env = DEFAULT_ENV
    session_resource: SessionResource | None = None
    custom_kernel_creator: KernelCreator | None = None
    passes: Pipeline | str | os.PathLike[str] | None = None

    def describe(self) -> str:
        """Return the options in the form TensorFlow's factory errors print."""
        config = " ".join(str(self.config).split()) if self.config is not None else ""
        return f'target: "{self.target}" config: {config}'


class SessionFactory(ABC):
    """Makes sessions of one runtime type."""

    _lock = threading.Lock()
    _factories: ClassVar[dict[str, SessionFactory]] = {}

    @abstractmethod
    def accepts_options(self, options: SessionOptions) -> bool:
        """Return whether this factory serves the target."""

    @abstractmethod
    def make_session(self, options: SessionOptions) -> SessionInterface | None:
        """Return a session, or None when it could not be made."""

    def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        """Clear resource containers of the target and close its sessions."""
        raise errors.UnimplementedError(None, None, "Reset()")

    @classmethod
    def register(cls, runtime_type: str, factory: SessionFactory) -> None:
        """Make a factory known.

        A second one of the same name is logged and ignored.
        """
        with cls._lock:
            if runtime_type in cls._factories:
                log.error("Two session factories are being registered under%s", runtime_type)
                return
            cls._factories[runtime_type] = factory

    @classmethod
    def get_factory(cls, options: SessionOptions) -> SessionFactory:
        """Return the one factory that accepts `options`.

        Raises NotFoundError when none does, InternalError when several do.
        """
        # the import registers the factory; not before a session is wanted
        importlib.import_module("tfjit.runtime.session.direct_session_factory")
        with cls._lock:
            factories = dict(cls._factories)
        accepted = {
            name: factory for name, factory in factories.items() if factory.accepts_options(options)
        }
        if len(accepted) == 1:
            return next(iter(accepted.values()))
        registered = ", ".join(factories)
        if not accepted:
            raise errors.NotFoundError(
                None,
                None,
                "No session factory registered for the given session options: "
                f"{{{options.describe()}}} "
                f"Registered factories are {{{registered}}}.",
            )
        raise errors.InternalError(
            None,
            None,
            "Multiple session factories registered for the given session options: "
            f"{{{options.describe()}}} "
            f"Candidate factories are {{{', '.join(accepted)}}}. Registered factories are "
            f"{{{registered}}}.",
        )


def new_session(options: SessionOptions) -> SessionInterface:
    """Return a session for the options.

    Failures are logged, as TensorFlow's NewSession does. Raises the errors of
    `SessionFactory.get_factory` and of the factory, and InternalError when the factory made no
    session.
    """
    try:
        factory = SessionFactory.get_factory(options)
    except errors.OpError as error:
        log.error("Failed to get session factory: %s", errors.status_text(error))
        raise
    try:
        session = factory.make_session(options)
        if session is None:
            raise errors.InternalError(None, None, "Failed to create session.")
    except errors.OpError as error:
        log.error("Failed to create session: %s", errors.status_text(error))
        raise
    return session


def try_new_session(
    options: SessionOptions,
) -> tuple[errors.OpError | None, SessionInterface | None]:
    """Return the second form: (status, session), status None when all went well."""
    try:
        return None, new_session(options)
    except errors.OpError as error:
        return error, None


def reset(options: SessionOptions, containers: Sequence[str] = ()) -> None:
    """Clear containers of the target; every session of it is closed."""
    SessionFactory.get_factory(options).reset(options, containers)
