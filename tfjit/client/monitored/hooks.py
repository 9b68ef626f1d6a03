"""Hooks that stop, wait, check, log and feed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.client.monitored.timers import SecondOrStepTimer
from tfjit.client.training.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tfjit.client.variables.global_step import global_step_read
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import get_default_graph

if TYPE_CHECKING:
    from tfjit.client.training.coordinator import Coordinator
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import FeedDict, Fetches, SessionLike, Structure

_LOGGER = logging.getLogger("tensorflow")
_POLL_SECS: Final = 0.5


def required_step_read(user: str) -> Tensor:
    """Return the tensor that reads the global step.

    Raises RuntimeError, naming the user, when the graph has no global step.
    """
    found = global_step_read()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {user}.")
    return found


class StopAtStepHook(SessionRunHook):
    """Ends the training at a global step.

    num_steps: steps from the first session on. last_step: the global step itself, which restarts
    do not move. Raises ValueError unless exactly one is given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Find the global step."""
        self._step = required_step_read("StopAtStepHook")

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Count num_steps from here, in the first session."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = self._read(session) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stop at the last step.

        The value read beside the training may be the one before or after its update.
        """
        assert self._last_step is not None
        if (
            int(run_values.results) + 1 >= self._last_step
            and self._read(run_context.session) >= self._last_step
        ):
            run_context.request_stop()

    def _read(self, session: SessionLike) -> int:
        return int(session.run(self._step))


class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first run until the global step has come so far.

    Workers that start one after the other disturb the first steps less.
    """

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        """Find the global step."""
        self._started = False
        self._step = required_step_read("_GlobalStepWaiterHook")

    def before_run(self, run_context: SessionRunContext) -> None:
        """Wait, before the first run alone."""
        if self._started:
            return
        if self._wait_until_step > 0:
            _LOGGER.info(
                "Waiting for global step %d before starting training.", self._wait_until_step
            )
            while int(run_context.session.run(self._step)) < self._wait_until_step:
                time.sleep(_POLL_SECS)
        self._started = True


class NanLossDuringTrainingError(RuntimeError):
    """The loss of a training is not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Ends the training when a loss is not a number.

    fail_on_nan_loss: raise NanLossDuringTrainingError; else only stop.
    """

    def __init__(self, loss_tensor: Fetches, fail_on_nan_loss: bool = True) -> None:
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the loss."""
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Check the loss."""
        if not np.isnan(run_values.results):
            return
        if self._fail_on_nan_loss:
            _LOGGER.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        _LOGGER.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Logs values of tensors at intervals of runs or seconds.

    tensors: a dictionary from tags, or a list of tensors or names. every_n_iter, every_n_secs: at
    most one. at_end: log once more, after the last run. formatter: makes the text from the
    dictionary of values.
    """

    def __init__(
        self,
        tensors: Mapping[str, Fetches] | Iterable[Fetches],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[object, Structure]], str] | None = None,
    ) -> None:
        self._timer: SecondOrStepTimer | None = None
        if every_n_iter is not None or every_n_secs is not None or not at_end:
            if (every_n_iter is None) == (every_n_secs is None):
                raise ValueError(
                    "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                    "provided."
                )
            if every_n_iter is not None and every_n_iter <= 0:
                raise ValueError(f"invalid every_n_iter={every_n_iter}.")
            self._timer = SecondOrStepTimer(every_n_secs, every_n_iter)
        if isinstance(tensors, Mapping):
            self._tensors = {tag: tensors[tag] for tag in sorted(tensors)}
        else:
            self._tensors = {tensor: tensor for tensor in tensors}
        self._at_end = at_end
        self._formatter = formatter

    def begin(self) -> None:
        """Find the tensors in the default graph."""
        if self._timer is not None:
            self._timer.reset()
        self._runs = 0
        self._due = False
        self._found = {tag: _element(tensor) for tag, tensor in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Ask for the tensors where their time has come."""
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._runs)
        return SessionRunArgs(self._found) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the values that were asked for."""
        if self._due:
            self._log(run_values.results)
        self._runs += 1

    def end(self, session: SessionLike) -> None:
        """Log once more if asked."""
        if self._at_end:
            self._log(session.run(self._found))

    def _log(self, values: dict[object, Structure]) -> None:
        elapsed = None
        if self._timer is not None:
            elapsed, _ = self._timer.update_last_triggered_step(self._runs)
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                _LOGGER.info(self._formatter(values))
                return
            text = ", ".join(f"{tag} = {values[tag]!s}" for tag in self._tensors)
        if elapsed is None:
            _LOGGER.info("%s", text)
        else:
            _LOGGER.info("%s (%.3f sec)", text, elapsed)


class FinalOpsHook(SessionRunHook):
    """Runs fetches once at the end and keeps their values."""

    def __init__(self, final_ops: Fetches, final_ops_feed_dict: FeedDict | None = None) -> None:
        self._final_ops = final_ops
        self._feed_dict = final_ops_feed_dict
        self._values: Structure = None

    @property
    def final_ops_values(self) -> Structure:
        """The values; None before the end."""
        return self._values

    def end(self, session: SessionLike) -> None:
        """Run the fetches."""
        if self._final_ops is None:
            return
        try:
            self._values = session.run(self._final_ops, feed_dict=self._feed_dict)
        except (errors.OutOfRangeError, StopIteration):
            _LOGGER.warning(
                "The final operations read input, which has ended. They should depend on variables "
                "alone."
            )
            raise


class FeedFnHook(SessionRunHook):
    """Feeds each run with the dictionary that a function returns."""

    def __init__(self, feed_fn: Callable[[], FeedDict]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Call the function."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


def _element(tensor: Any) -> Any:
    """Return a tensor of the default graph.

    tensor: itself or its name.

    Raises ValueError for another graph, and for an operation with several outputs.
    """
    graph = get_default_graph()
    if not isinstance(tensor, str):
        if getattr(tensor, "graph", None) is not graph:
            raise ValueError(
                f"Passed {tensor} should have graph attribute that is equal to current graph "
                f"{graph}."
            )
        return tensor
    if ":" in tensor:
        return graph.as_graph_element(tensor)
    found = graph.as_graph_element(f"{tensor}:0")
    if len(found.op.outputs) > 1:
        raise ValueError(
            f"Name {tensor} is ambiguous, as this `Operation` has multiple outputs (at least 2)."
        )
    return found
