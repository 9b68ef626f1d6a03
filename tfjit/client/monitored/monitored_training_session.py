"""MonitoredTrainingSession: a monitored session with the usual hooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tfjit.client.monitored.checkpoint_hooks import CheckpointSaverHook
from tfjit.client.monitored.event_hooks import StepCounterHook, SummarySaverHook
from tfjit.client.monitored.monitored_session import MonitoredSession
from tfjit.client.monitored.scaffold import Scaffold
from tfjit.client.monitored.session_creators import ChiefSessionCreator, WorkerSessionCreator
from tfjit.client.training.session_run_hook import SessionRunHook

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message

# The value of an argument that was left out, as TensorFlow spells it; None means: never.
USE_DEFAULT: Final[Any] = object()
_CHECKPOINT_SECS: Final = 600
_SUMMARY_STEPS: Final = 100


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Iterable[SessionRunHook] | None = None,
    chief_only_hooks: Iterable[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = USE_DEFAULT,
    save_summaries_steps: int | None = USE_DEFAULT,
    save_summaries_secs: float | None = USE_DEFAULT,
    config: Message | None = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float | None = 7200,
    save_checkpoint_steps: int | None = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """Return a monitored session for one worker of a training.

    The chief initializes or restores the model, writes checkpoints (each 600 seconds), summaries
    (each 100 steps) and steps per second; another worker waits for it, at most max_wait_secs. None
    or 0 turns one of them off. master: the target of the worker's server. chief_only_hooks: come
    before the usual ones, hooks after them. summary_dir: checkpoint_dir if None.
    """
    scaffold = scaffold if scaffold is not None else Scaffold()
    if not is_chief:
        worker = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(worker, hooks, stop_grace_period_secs)
    checkpoint_steps, checkpoint_secs = _interval(
        save_checkpoint_steps, save_checkpoint_secs, (None, _CHECKPOINT_SECS)
    )
    summary_steps, summary_secs = _interval(
        save_summaries_steps, save_summaries_secs, (_SUMMARY_STEPS, None)
    )
    summary_dir = summary_dir or checkpoint_dir
    all_hooks = list(chief_only_hooks or ())
    if summary_dir and _positive(log_step_count_steps):
        all_hooks.append(
            StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps)
        )
    if summary_dir and (_positive(summary_steps) or _positive(summary_secs)):
        all_hooks.append(
            SummarySaverHook(
                scaffold=scaffold,
                save_steps=summary_steps,
                save_secs=summary_secs,
                output_dir=summary_dir,
            )
        )
    if checkpoint_dir and (_positive(checkpoint_steps) or _positive(checkpoint_secs)):
        all_hooks.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=checkpoint_steps,
                save_secs=checkpoint_secs,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(chief, [*all_hooks, *(hooks or ())], stop_grace_period_secs)


def _interval(
    steps: int | None, secs: float | None, default: tuple[int | None, float | None]
) -> tuple[int | None, float | None]:
    """Return steps and seconds; one that was given replaces the default."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default
    return (None if steps is USE_DEFAULT else steps), (None if secs is USE_DEFAULT else secs)


def _positive(number: float | None) -> bool:
    return number is not None and number > 0
