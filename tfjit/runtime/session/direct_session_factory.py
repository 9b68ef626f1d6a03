"""Make sessions on local devices."""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.runtime.factory import SessionFactory, SessionOptions
from tfjit.runtime.session.direct_session import DirectSession
from tfjit.runtime.session.open_sessions import OPEN, session_names


class DirectSessionFactory(SessionFactory):
    """Serves target ''."""

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target == ""

    def make_session(self, options: SessionOptions) -> DirectSession:
        names = session_names(options.config)
        OPEN.check(names)
        session = DirectSession(options)
        OPEN.add(session, names)
        return session

    def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        for session in OPEN.take_all():
            session.reset(containers)

    @classmethod
    def find(cls, handle: str) -> DirectSession:
        """Return the open session that its client named `handle`.

        Raises NotFoundError when there is none.
        """
        return OPEN.find(handle)


SessionFactory.register("DIRECT_SESSION", DirectSessionFactory())
