"""`basic_train_loop`: training steps under a supervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.framework.errors import AbortedError

if TYPE_CHECKING:
    from tfjit.client.monitored.supervisor import Supervisor


def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., object],
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    master: str = "",
) -> None:
    """Call train_step_fn(session, *args, **kwargs) until the supervisor stops.

    After an AbortedError, which a restarted server of a cluster raises, training continues in a new
    session. Other errors leave the loop.
    """
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
            return
        except AbortedError:
            continue
