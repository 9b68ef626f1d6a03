"""Make a static partition runnable.

A step has one arena, argument blocks, instruction tables and a generated straight-line function.

Successive compiled instructions form a *native run*: one call of the table executor
(`kernels/executor/table_executor.py`) over a table of code addresses and argument blocks. Python
kernels run between native runs. The generated function only fetches the arrays of a native run (fed
arrays, variables' buffers, fresh output memory), passes them on and returns the fetched values.

A loop or branch with compiled instructions only becomes jumps inside a native run. Any other is
a `while` or `if` of the generated function, with native runs and Python kernels inside.

All objects that contain addresses (arena, argument blocks, tables) belong to an *instance*.
Concurrent runs of one step each take an instance from a free list.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfjit.kernels.executor import table_executor
from tfjit.kernels.executor.thread_pool import IntraOpPool
from tfjit.kernels.registry import NativeCall
from tfjit.kernels.source import KernelSource
from tfjit.runtime.host.device import Device
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import StepContext, is_blocking
from tfjit.runtime.lowering.lowered import Instruction, Lowered
from tfjit.runtime.resources.variables_and_resources import SessionState
from tfjit.runtime.step.arena import ArenaPool, Placement
from tfjit.runtime.step.host_codegen import Reroute, StepText
from tfjit.runtime.step.layout import Layout
from tfjit.runtime.step.memory_planner import OutputRecycler
from tfjit.runtime.step.run_count import Instance, RunCount
from tfjit.runtime.step.step_instance import instance_scope


@dataclass(frozen=True, slots=True)
class StepEnvironment:
    """Hold the session's services for a step.

    addresses: compiled entries of a source, or None. threads: intra-op threads. pool: creates the
    threads, machine code included, so a step without compiled code does not call it. bundles:
    independent launches may run at the same time. inter_op_threads: the threads that run them where
    `threads` is 1. compiles: new code may be compiled. compares: each compiled call runs beside its
    reference (runtime/step/compare.py). dump_folder: of the plan's dumps, if any.
    """

    device: Device
    session: SessionState
    pool: Callable[[], IntraOpPool | None]
    threads: int
    recycler: OutputRecycler
    arenas: ArenaPool
    addresses: Callable[[KernelSource], Mapping[str, int] | None]
    bundles: bool = True
    inter_op_threads: int = 1
    compiles: bool = True
    compares: bool = False
    dump_folder: Path | None = None


class Step:
    """Run a static partition.

    native: compiled code serves some instruction. needs_context: `run` must be given a context.
    `run` is safe to call from several threads.
    """

    def __init__(
        self, lowered: Lowered, env: StepEnvironment, name: str, runs: RunCount | None = None
    ) -> None:
        """Make a step. runs: counts its runs."""
        self._lowered = lowered
        self._env = env
        self._name = name
        self._runs = runs
        self.free: list[Instance] = []
        self._lock = threading.Lock()
        self._layout = Layout(lowered, env)
        self.native = bool(self._layout.native_runs)
        # A loop checks the run's cancellation.
        self.needs_context = lowered.has_loops or any(
            i.serving == "runtime" and self.call(i) is None for i in lowered.instructions
        )
        # A run of a bounded pool must not keep its slot while it waits.
        self.may_block = any(is_blocking(i.node.op) for i in lowered.instructions)
        self._run_table = table_executor.get() if self.native else None
        self.arena_bytes = self._layout.arena_bytes
        self._text = StepText(self._layout, name).generate()
        filename = f"<tfjit step {name}>"
        linecache.cache[filename] = (
            len(self._text),
            None,
            self._text.splitlines(keepends=True),
            filename,
        )
        self._code = compile(self._text, filename, "exec")

    @property
    def text(self) -> str:
        """Return the generated function, for dumps and explanations."""
        return self._text

    def serving(self, instruction: Instruction) -> str:
        """Return the serving of an instruction: "native" or that of its lowering."""
        if instruction.role is not None:
            return "native" if self._layout.is_native(instruction) else "Python"
        if id(instruction) in self._layout.compared:
            return "compared"
        return "native" if self.call(instruction) is not None else instruction.serving

    @property
    def bundles(self) -> list[tuple[Instruction, ...]]:
        """Return the bundles: instructions that run at the same time."""
        return [members for members in self._layout.schedule if len(members) > 1]

    @property
    def divisions(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Return (shards, nodes) of each divided run of instructions.

        The threads divide the rows of such a run.
        """
        return tuple((len(shards), shards[0].plan.nodes) for shards in self._layout.shards.values())

    @property
    def layout(self) -> Layout:
        """Return the layout, for measurements."""
        return self._layout

    @property
    def output_bytes(self) -> int:
        """Return the size of the fetched arrays that compiled code writes."""
        return sum(value.spec.nbytes for value in self._layout.fresh.values())

    @property
    def own_bytes(self) -> int:
        """Return the bytes of argument blocks and unshared arenas."""
        arena = 0 if self._layout.shares_arena else self.arena_bytes
        return (arena + 16 * len(self._layout.words)) * max(len(self.free), 1)

    @property
    def constant_bytes(self) -> int:
        """Return the size of compiled code's constants.

        Packed weights are included; each constant counts once.
        """
        return sum(array.nbytes for array in {id(a): a for a in self._layout.constants}.values())

    def call(self, instruction: Instruction) -> NativeCall | None:
        """Return the instruction's compiled call; None for a Python kernel."""
        return self._layout.calls.get(id(instruction))

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        release_lock(self._lock)

    def run(self, feeds: Sequence[np.ndarray], context: StepContext | None = None) -> list[Any]:
        """Run the step once and return the fetched values.

        feeds: C-contiguous arrays of the planned dtypes and shapes, by _Arg index.
        """
        instance = self.instance()
        try:
            return instance(feeds, context)
        finally:
            self.free.append(instance)

    def instance(self) -> Instance:
        """Return a free or new instance for one run.

        The caller appends the instance to `free` afterwards.
        """
        try:
            return self.free.pop()
        except IndexError:
            made = self.make_instance()[0]
            return made if self._runs is None else self._runs.counted(made)

    def make_instance(self) -> tuple[Instance, dict[str, Any], Placement]:
        """Return a new instance's function, its globals and its placement."""
        with self._lock:
            scope = instance_scope(self._layout)
        scope["walk"] = self._run_table
        exec(self._code, scope)
        # Neither stays among the globals of its functions: the reference cycle would keep a dropped
        # instance alive.
        make, placement = scope.pop("make"), scope.pop("placement")
        return make(placement), scope, placement


class _AnyAddress(dict[str, int]):
    """Map each entry to address 0."""

    def __missing__(self, entry: str) -> int:
        return 0


def predicted_step(lowered: Lowered, env: StepEnvironment, name: str) -> Step:
    """Return a step as if all of its kernels were compiled.

    The step shows its text and its memory; it cannot be run.
    """
    nowhere = _AnyAddress()
    return Step(lowered, replace(env, addresses=lambda source: nowhere), f"{name}, predicted")


__all__ = ["Reroute", "Step", "StepEnvironment", "predicted_step"]
