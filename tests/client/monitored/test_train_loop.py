"""`basic_train_loop`: steps until the supervisor stops, again after a server has gone."""

from __future__ import annotations

from pathlib import Path

import tfjit


def test_an_aborted_step_is_tried_again(tmp_path: Path) -> None:
    with tfjit.Graph().as_default():
        step = tfjit.train.get_or_create_global_step()
        count = tfjit.assign_add(step, 1)
        supervisor = tfjit.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
        sessions = []

        def train(session: tfjit.Session, limit: int, *, abort_at: int) -> None:
            value = session.run(count)
            if value == abort_at and len(sessions) == 0:
                sessions.append(session)
                raise tfjit.errors.AbortedError(None, None, "the server was restarted")
            if value >= limit:
                sessions.append(session)
                supervisor.request_stop()

        tfjit.train.basic_train_loop(supervisor, train, args=(3,), kwargs={"abort_at": 2})
    first, last = sessions
    assert first is not last
