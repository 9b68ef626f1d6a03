"""Select and load the kernels that serve the instructions of a variant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfjit.framework import settings
from tfjit.kernels.jit.store import store
from tfjit.runtime.lowering.lowering import compilable
from tfjit.runtime.schedule.group_division import divide_refused, refused_instructions
from tfjit.runtime.schedule.kernel_priority import most_valuable_first, reference_ns
from tfjit.runtime.schedule.kernel_selection import (
    CallMemo,
    CallReport,
    add_member_calls,
    all_calls,
    drop_member_calls,
    finish_selection,
    select_kernels,
    sources,
)
from tfjit.runtime.step.step import Step

if TYPE_CHECKING:
    from pathlib import Path

    from tfjit.kernels.registry import NativeCall
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowered import Lowered
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.schedule.compile_cost import MissingKernel
    from tfjit.runtime.step.run_count import RunCount


def _is_loaded(source: KernelSource) -> bool:
    return store.lookup(source) is not None


def _lacks(call: NativeCall) -> bool:
    """Return whether code of a call is missing; load present code."""
    return not store.load_present(call.sources())


class LoweredKernels:
    """Hold a variant's instructions with their calls, and make steps of them.

    lowered: the instructions; a new partition replaces them where groups are divided. calls: of
    the instructions, None before the builders have run. device: of the partition. folder: of
    dumps, None without them.
    """

    def __init__(
        self,
        session: PlanHost,
        plan_name: str,
        lowered: Lowered,
        device: str,
        calls: CallReport | None = None,
        folder: Path | None = None,
    ) -> None:
        self.lowered = lowered
        self.calls = calls
        self.device = device
        self._session = session
        self._plan_name = plan_name
        self._folder = folder
        self._part_calls: CallMemo | None = None  # of the parts of refused groups

    def select(self) -> None:
        """Ask the builders, once, for compiled code of the instructions.

        The selected kernels are dumped if dumps are on.
        """
        if self.calls is not None:
            return
        self.calls = select_kernels(self.lowered, self._session.split_threads)
        if self._folder is not None:
            from tfjit.runtime.step.dumps import dump_kernels, dump_lowered

            dump_lowered(self._folder, self.lowered)
            dump_kernels(self._folder, self.lowered.instructions)

    def compile(self) -> None:
        """Wait for the code of all calls."""
        store.compile(self.sources(), refusals=True)
        while missing := self.divide_refused():
            store.compile(missing, refusals=True)

    def sources(self) -> list[KernelSource]:
        """Return the kernels of all calls."""
        return sources(all_calls(self.lowered))

    def are_loaded(self) -> bool:
        """Return whether all kernels of the calls are loaded."""
        return all(map(_is_loaded, self.sources()))

    def load_present(self) -> None:
        """Load present kernels, and those of members for groups without theirs."""
        store.load_present(self.sources())
        made = add_member_calls(self.lowered, _lacks)
        store.load_present(sources(made))
        if made and self._folder is not None:
            from tfjit.runtime.step.dumps import dump_kernels

            dump_kernels(self._folder, self.lowered.instructions)

    def drop_member_calls(self) -> None:
        """Drop the members' calls of groups whose own kernels are present."""
        drop_member_calls(self.lowered, _lacks)

    def arrived(self) -> int:
        """Return the number of loaded kernels that the calls need."""
        calls = [*all_calls(self.lowered), *(i.unfused for i in self.lowered.instructions)]
        return sum(map(_is_loaded, sources(calls)))

    def missing(self) -> list[MissingKernel]:
        """Return the kernels that may still arrive, the most valuable first."""
        wanted = most_valuable_first(self.lowered, _is_loaded)
        return [kernel for kernel in wanted if not store.are_final([kernel.source])]

    def reference_ns(self) -> float:
        """Return the predicted time of all reference kernels in a run."""
        return sum(map(reference_ns, compilable(self.lowered)))

    def may_improve(self) -> bool:
        """Return whether kernels may arrive, or others may replace refused ones."""
        return bool(self.missing()) or bool(refused_instructions(self.lowered, store))

    def divide_refused(self) -> list[KernelSource]:
        """Divide refused groups; return the kernels of parts to wait for.

        With none to wait for, `lowered` holds the parts.
        """
        lowered = self.lowered
        if not refused_instructions(lowered, store):
            return []
        if self._part_calls is None:
            self._part_calls = CallMemo(lowered.backend)
        made, missing = divide_refused(lowered, self._part_calls, store)
        if made is lowered:
            return missing
        self.calls = finish_selection(made, self._session.split_threads)
        self.lowered, self._part_calls = made, None
        if settings.flag("TFJIT_VERIFY"):
            from tfjit.runtime.lowering.verifier import verify_lowered

            verify_lowered(made)
        for group in made.divided:
            settings.say(
                "kernels", "plan %s: %s is divided: %s", self._plan_name, group.node, group.parts
            )
        return [source for source in self.sources() if not store.are_final([source])]

    def make_step(self, runs: RunCount | None = None) -> Step:
        """Return a step of the kernels that are loaded now.

        runs: counts the runs of the step.
        """
        env = self._session.step_environment(self.device)
        step = Step(self.lowered, replace(env, dump_folder=self._folder), self._plan_name, runs)
        if self._folder is not None:
            from tfjit.runtime.step.dumps import dump_step

            dump_step(self._folder, step)
        if settings.logs("kernels"):
            self._say_kernels(step)
        return step

    def _say_kernels(self, step: Step) -> None:
        """Log the kernel of each instruction of a step."""
        for instruction in self.lowered.instructions:
            if instruction.role is None:
                call = step.call(instruction)
                titles = (
                    dict.fromkeys(launch.source.title or launch.entry for launch in call.launches)
                    if call is not None
                    else ()
                )
                node = f"{instruction.node_path} ({instruction.node.op})"
                why = "; ".join(titles) or instruction.reason
                settings.say(
                    "kernels",
                    "plan %s: %s: %s %s",
                    self._plan_name,
                    node,
                    step.serving(instruction),
                    why,
                )

    def refused(self) -> list[tuple[str, str]]:
        """Return (node, reason) of each refused compilation.

        The parts of a divided group serve it. A node that is not divided is compiled in
        another way, or stays on its reference.
        """
        found = [(one.node, f"{one.reason}; {one.remedy}") for one in self.lowered.divided]
        for instruction in self.lowered.instructions:
            for source in instruction.call.sources() if instruction.call is not None else ():
                why = store.refused(source)
                if why:
                    found.append((instruction.node.name, why))
        return found


__all__ = ["LoweredKernels"]
