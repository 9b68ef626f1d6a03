"""Datasets of a function with a state, as Python generators are."""

from __future__ import annotations

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import (
    UNKNOWN,
    Dataset,
    DatasetOp,
    Elements,
    dataset_kernel,
)
from tfjit.runtime.datasets.dataset_function import DatasetFunction
from tfjit.runtime.datasets.element import Element
from tfjit.runtime.datasets.element_context import ElementContext


@dataset_kernel("GeneratorDataset")
def generated(op: DatasetOp) -> Dataset:
    """Return results of `next_func`, up to its OutOfRangeError.

    Its argument is the state that `init_func` gives. `finalize_func` gets the state at the end,
    or when the elements are dropped.
    """
    init, following, finalize = (
        op.function(f"{name}_func", f"{name}_func_other_args")
        for name in ("init", "next", "finalize")
    )
    op.may_wait = True
    return op.made(lambda run: _Generated(run, init, following, finalize), UNKNOWN)


class _Generated(Elements):
    """The state is made with the first element."""

    __slots__ = ("_finalize", "_init", "_is_over", "_next", "_run", "_state")

    def __init__(
        self,
        run: ElementContext,
        init: DatasetFunction,
        following: DatasetFunction,
        finalize: DatasetFunction,
    ) -> None:
        super().__init__()
        self._run, self._init, self._next, self._finalize = run, init, following, finalize
        self._state: Element | None = None
        self._is_over = False

    def __next__(self) -> Element:
        if self._is_over:
            raise StopIteration
        if self._state is None:
            self._state = self._init(self._run, ())
        try:
            return self._next(self._run, self._state)
        except errors.OutOfRangeError:
            self._end(self._run)
        raise StopIteration

    def _end(self, run: ElementContext) -> None:
        self._is_over = True
        state, self._state = self._state, None
        if state is not None:
            self._finalize(run, state)

    def close(self) -> None:
        """Finalize a state that has not ended, unless the session is closed."""
        host = self._run.host
        if self._is_over or host.cancellation.cancelled:
            self._is_over = True
            return
        # the context of the elements may be over
        run = ElementContext(host, host.cancellation, self._run.step.step_id)
        try:
            self._end(run)
        finally:
            run.close()
