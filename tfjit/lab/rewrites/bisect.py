"""Find the rewrite from which on a run is wrong or slow."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from tfjit.framework import settings
from tfjit.framework.errors import OpError
from tfjit.lab.rewrites.judges import TOLERANCE, difference, slowdown
from tfjit.lab.rewrites.search import Bisection, Culprit, Search
from tfjit.lab.rewrites.subject import opened
from tfjit.lab.rewrites.tensorflow_run import tensorflow_values
from tfjit.passes.history.events import Event
from tfjit.passes.history.history import History
from tfjit.passes.history.text import neighbourhood
from tfjit.passes.manager.event_budget import EventBudget

if TYPE_CHECKING:
    from tfjit.client.session.base_session import Passes
    from tfjit.client.session.session import Session

Against = Literal["unoptimised", "tensorflow"]
_EXCLUDED_WAY: Final = "generic"  # its passes run for several sizes, behind the runs
_MEASUREMENTS: Final = 3


def bisect(
    subject: object,
    fetches: Sequence[str],
    feeds: Mapping[str, object] | None = None,
    *,
    first: Sequence[str] = (),
    against: Against | Sequence[object] = "unoptimised",
    tolerance: float = TOLERANCE,
    slower_than: float | None = None,
    passes: Passes = None,
) -> Bisection:
    """Return the first rewrite with which a run is wrong or slow.

    subject: a graph, a GraphDef, a model or its path. fetches, feeds: of the run, by name. first:
    operations that run before, such as an initializer. against: the values that are right: those of
    the run without optional rewrites, TensorFlow's (in another process), or given ones.
    tolerance: of |x| + 1. slower_than: bad is not a wrong value but a run that takes longer than
    this many times the run without optional rewrites. passes: as in `history`.

    The run is planned anew with the first n rewrites alone, for the n of a binary search; all plans
    of the run and of `first` are counted, in the order of planning. A wrong kernel of a fused group
    or of a loop is found as the rewrite that made the group or loop.
    Raises ValueError for arguments that do not fit, and the errors of `Session.run` for a run
    without optional rewrites.
    """
    if tolerance < 0 or (slower_than is not None and slower_than <= 0):
        raise ValueError("tolerance and slower_than are positive numbers")
    if not fetches:
        raise ValueError("there is nothing to bisect: no fetch is named")
    return _Bisector(subject, fetches, feeds, first, against, tolerance, slower_than, passes).run()


class _Bisector:
    """One bisection."""

    def __init__(
        self,
        subject: object,
        fetches: Sequence[str],
        feeds: Mapping[str, object] | None,
        first: Sequence[str],
        against: Against | Sequence[object],
        tolerance: float,
        slower_than: float | None,
        passes: Passes,
    ) -> None:
        self.subject, self.fetches, self.feeds = subject, list(fetches), dict(feeds or {})
        self.first, self.tolerance, self.slower_than = list(first), tolerance, slower_than
        self.against = against
        self.passes = passes
        self.used = 0
        self.expected: Sequence[object] = ()
        self._kept = contextlib.ExitStack()
        self.reference: Session | None = None

    def run(self) -> Bisection:
        """Return the answer."""
        with self._kept:
            return self._run()

    def _run(self) -> Bisection:
        search = Search(self._judge)
        self.reference = self._kept.enter_context(self._session(EventBudget(0)))
        values = self._values(self.reference)
        self.expected = values
        if not isinstance(self.against, str):
            self.expected = list(self.against)
        elif self.against == "tensorflow":
            self.expected = tensorflow_values(self.subject, self.fetches, self.feeds, self.first)
        elif self.against != "unoptimised":
            raise ValueError(f"against {self.against!r}: expected 'unoptimised' or 'tensorflow'")
        if len(self.expected) != len(self.fetches):
            raise ValueError(f"{len(self.fetches)} fetches and {len(self.expected)} right values")
        whole = search.try_limit(None)
        rewrites = self.used
        if whole.good:
            note = f"nothing to find: with all {rewrites} rewrites the run is good"
            if whole.detail:
                note += f" ({whole.detail})"
            return Bisection(None, rewrites, tuple(search.trials), note=note)
        without = search.try_limit(0)
        if not without.good:
            note = (
                f"no rewrite is at fault: without any the run is bad too ({without.detail}). The "
                "cause is a kernel of a single node, or a required pass"
            )
            return Bisection(None, rewrites, tuple(search.trials), note=note)
        if not rewrites:
            note = f"no optional rewrite was made, and the run is bad at times ({whole.detail})"
            return Bisection(None, 0, tuple(search.trials), note=note)
        if search.try_limit(rewrites).good:
            note = (
                f"the run is bad without a limit ({whole.detail}) and good with all its {rewrites} "
                "rewrites: it differs from time to time"
            )
            return Bisection(None, rewrites, tuple(search.trials), note=note)
        found = search.first_bad(rewrites)
        exceptions = search.exceptions(found, rewrites)
        note = f"bad: {search.try_limit(found).detail}"
        return Bisection(self._culprit(found), rewrites, tuple(search.trials), exceptions, note)

    # ---- runs

    def _session(
        self, budget: EventBudget, history: History | None = None
    ) -> contextlib.AbstractContextManager[Session]:
        jit = settings.text("TFJIT_JIT")
        ways = {_EXCLUDED_WAY, *settings.names("TFJIT_DISABLE")}
        return opened(
            self.subject,
            {
                "TFJIT_JIT": "eager" if jit == "lazy" else jit,
                "TFJIT_DISABLE": ",".join(sorted(ways)),
            },
            event_limit=budget,
            history=history,
            passes=self.passes,
        )

    def _values(self, session: Session) -> list[object]:
        for name in self.first:
            session.run(name)
        values: list[object] = session.run(self.fetches, self.feeds)
        return values

    def _judge(self, limit: int | None) -> tuple[bool, str]:
        budget = EventBudget(limit)
        with self._session(budget) as session:
            try:
                values = self._values(session)
            except OpError as error:
                self.used = budget.used
                return False, f"{type(error).__name__}: {error.message}"
            self.used = budget.used
            if self.slower_than is None:
                wrong = difference(self.fetches, values, self.expected, self.tolerance)
                return not wrong, wrong
            reference = self.reference
            assert reference is not None
            ratio = float("inf")
            for _ in range(_MEASUREMENTS):  # other work on the machine slows no run twice, mostly
                if ratio > self.slower_than:
                    found = slowdown(
                        lambda: session.run(self.fetches, self.feeds),
                        lambda: reference.run(self.fetches, self.feeds),
                    )
                    ratio = min(ratio, found)
            return ratio <= self.slower_than, f"{ratio:.2f} times the unoptimised run's time"

    # ---- the culprit

    def _recorded(self, limit: int) -> History:
        history = History()
        with self._session(EventBudget(limit), history) as session, contextlib.suppress(OpError):
            self._values(session)  # a bad run may fail after it is planned
        return history

    def _culprit(self, number: int) -> Culprit:
        history = self._recorded(number)
        event = history.counted(number)
        before, after = _graphs(history, event)
        if not event.changes:  # the pass decides first, and rewrites later
            earlier = self._recorded(number - 1)
            before, after = _differing(earlier, history, event.plan)
        return Culprit(
            number,
            event.pass_name,
            event.where,
            event.rule,
            event.node,
            event.reason,
            before,
            after,
            history.diff(event.number),
        )


def _graphs(history: History, event: Event) -> tuple[str, str]:
    """Return the neighbourhoods of an event's nodes before and after it."""
    texts: tuple[list[str], list[str]] = ([], [])
    for record, changed in event.changes:
        for lines, number in zip(texts, (event.number - 1, event.number), strict=True):
            lines.append(neighbourhood(record.states(number), changed))
    return "".join(texts[0]), "".join(texts[1])


def _differing(earlier: History, later: History, plan: int) -> tuple[str, str]:
    """Return the nodes that differ between the ends of two histories."""
    ends = []
    for history in (earlier, later):
        last = max((e.number for e in history.events if e.plan == plan), default=0)
        ends.append(history.nodes_after(last))
    changed = [
        name
        for name in {**ends[0], **ends[1]}
        if (a := ends[0].get(name)) is None
        or (b := ends[1].get(name)) is None
        or (a.op, a.inputs, a.control_inputs) != (b.op, b.inputs, b.control_inputs)
    ]
    return neighbourhood(ends[0], changed), neighbourhood(ends[1], changed)


__all__ = ["Against", "Bisection", "bisect"]
