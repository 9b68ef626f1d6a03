"""Report the state of compiling in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.kernels.jit.store import store
from tfjit.runtime.plan import upgrades
from tfjit.runtime.session.open_sessions import open_sessions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfjit.runtime.session.direct_session import DirectSession


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """One plan for one tuple of feed shapes.

    session: its handle, or "session N" of this process. plan: feeds->fetches/targets. reason: why
    reference kernels serve all or part of the plan, "" for a plan that waits for kernels, or the
    libraries of a vendor that programs of a GPU wait for.
    """

    session: str
    plan: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.session}: {self.plan}{f': {self.reason}' if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class CompileStatus:
    """The state of compiling in this process.

    Kernels of this process: loaded from disk, compiled, pending (being loaded or compiled),
    refused by the compiler. compile_s: seconds of the compiler processes; load_s: of loading.
    waiting: plans of open sessions that have run and have not their fastest form yet.
    on_references: plans that reference kernels will go on serving, all or in part. Process-wide
    counts start with the process. archives: the archives of generic kernels that serve this
    process, and the process that builds one, as text.
    """

    loaded: int
    compiled: int
    pending: int
    refused: int
    compile_s: float
    load_s: float
    waiting: tuple[PlanStatus, ...]
    on_references: tuple[PlanStatus, ...]
    archives: str = ""

    @property
    def done(self) -> bool:
        """Return whether no kernel is pending and no plan waits."""
        return not self.pending and not self.waiting

    def __str__(self) -> str:
        lines = [
            f"kernels: {self.loaded} loaded from disk in {self.load_s:.2f} s, {self.compiled} "
            f"compiled in {self.compile_s:.2f} s of the compiler's time, {self.pending} pending, "
            f"{self.refused} refused",
            f"archives of generic kernels: {self.archives}",
        ]
        for title, plans in (
            ("plans that wait for their fastest form", self.waiting),
            ("plans that stay on reference kernels", self.on_references),
        ):
            lines.append(f"{title}: {len(plans)}")
            lines += [f"  {plan}" for plan in plans]
        return "\n".join(lines)


def compile_status() -> CompileStatus:
    """Return the state of compiling; waits for nothing."""
    counters = store.snapshot()
    waiting: list[PlanStatus] = []
    on_references: list[PlanStatus] = []
    for session in open_sessions():
        unfinished = upgrades.unfinished(session)
        waiting += [PlanStatus(session.label, variant.plan.name) for variant in unfinished]
        nodes = len(session.node_kernels.unfinished())
        if nodes:
            waiting.append(PlanStatus(session.label, f"{nodes} kernels of single nodes"))
        renewed = session.renewals.unfinished()
        if renewed:
            libraries = session.renewals.libraries()
            reason = f"{' and '.join(libraries)} being opened" if libraries else "being made again"
            waiting.append(PlanStatus(session.label, f"{renewed} programs of a GPU", reason))
        on_references += _on_references(session, set(unfinished))
    return CompileStatus(
        counters.hits,
        counters.compiled,
        store.pending(),
        counters.refused,
        counters.compile_ms / 1000,
        counters.load_ms / 1000,
        tuple(waiting),
        tuple(on_references),
        store.archives(),
    )


def _on_references(session: DirectSession, unfinished: set[object]) -> Iterable[PlanStatus]:
    for variant in session.variants():
        if variant in unfinished:
            continue
        refused = variant.refused()
        if variant.failure is not None:
            yield PlanStatus(session.label, variant.plan.name, str(variant.failure))
        elif refused:
            nodes = ", ".join(name for name, _ in refused[:3])
            more = f" and {len(refused) - 3} more" if len(refused) > 3 else ""
            yield PlanStatus(session.label, variant.plan.name, f"refused: {nodes}{more}")
