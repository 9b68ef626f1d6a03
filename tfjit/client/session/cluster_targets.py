"""The targets of clusters, whose sessions are loaded with the first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tfjit.runtime.factory import SessionFactory, SessionOptions
from tfjit.runtime.session_interface import SessionInterface


class ClusterTargets(SessionFactory):
    """Serve targets "grpc://host:port"; the layer for clusters is imported on first use."""

    @cached_property
    def _sessions(self) -> SessionFactory:
        from tfjit.distributed.session.grpc_session import GrpcSessionFactory

        return GrpcSessionFactory()

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith("grpc://")

    def make_session(self, options: SessionOptions) -> SessionInterface | None:
        return self._sessions.make_session(options)

    def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        self._sessions.reset(options, containers)


def register() -> None:
    """Make the targets known to the registry of factories."""
    SessionFactory.register("GRPC_SESSION", ClusterTargets())


__all__ = ["ClusterTargets", "register"]
