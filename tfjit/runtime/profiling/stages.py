"""Show the stages of a plan for known feed shapes: lowered, compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from tfjit.framework import errors
from tfjit.passes.text.text_format import print_graph
from tfjit.runtime.lowering.lowered_text import print_lowered
from tfjit.runtime.profiling.explain import COMPILE_TIMEOUT_S, explained_nodes
from tfjit.runtime.step.dumps import kernel_texts
from tfjit.runtime.step.step import predicted_step

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.runtime.lowering.lowered import Instruction, Lowered
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant
    from tfjit.runtime.step.step import Step

Dialect = Literal["graph", "lowered", "step", "kernels"]
DIALECTS: Final[tuple[str, ...]] = get_args(Dialect)


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Hold the predicted cost of a node for one run.

    The node is one of the optimised graph. serving: "native" for compiled code, else the text of
    `explain`. kernels: titles of the compiled code. memory_bytes: of its outputs and scratch
    memory; views have none.
    """

    node: str
    op: str
    serving: str
    kernels: tuple[str, ...] = ()
    flops: int = 0
    bytes_moved: int = 0
    predicted_us: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryAnalysis:
    """Hold the memory of one run of a step, in bytes.

    argument_bytes: fed arrays. variable_bytes: variables that are read or written. output_bytes:
    fetched arrays that compiled code writes. arena_bytes: intermediate results, which share memory
    if their liveness allows. constant_bytes: constants and packed weights, which stay.
    """

    argument_bytes: int = 0
    variable_bytes: int = 0
    output_bytes: int = 0
    arena_bytes: int = 0
    constant_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """Return the most that a run holds besides feeds and variables."""
        return self.output_bytes + self.arena_bytes + self.constant_bytes


@dataclass(frozen=True, slots=True)
class CostAnalysis:
    """Hold predicted costs of a run: of each kernel, and in total.

    Loops count one iteration.
    """

    kernels: tuple[KernelCost, ...]
    memory: MemoryAnalysis

    @property
    def flops(self) -> int:
        """Return the floating-point operations of all kernels."""
        return sum(kernel.flops for kernel in self.kernels)

    @property
    def bytes_moved(self) -> int:
        """Return the bytes that all kernels read and write."""
        return sum(kernel.bytes_moved for kernel in self.kernels)

    @property
    def predicted_us(self) -> float:
        """Return the time of all kernels on one thread, in microseconds."""
        return sum(kernel.predicted_us for kernel in self.kernels)

    def __str__(self) -> str:
        lines = [f"{'node':<44} {'op':<24} {'us':>9} {'flops':>12} {'bytes':>12} {'memory':>12}"]
        lines += [
            f"{k.node[-44:]:<44} {k.op:<24} {k.predicted_us:9.2f} {k.flops:12} {k.bytes_moved:12} "
            f"{k.memory_bytes:12}"
            for k in self.kernels
        ]
        lines.append(
            f"{'all kernels':<69} {self.predicted_us:9.2f} {self.flops:12} {self.bytes_moved:12} "
            f"{self.memory.peak_bytes:12}"
        )
        return "\n".join(lines) + "\n"


class PlanStages:
    """Show one variant of a plan before and after its compilation.

    The variant has texts, costs and runs. feeds, fetches: the caller's order of names. reason: why
    the dataflow executor runs the variant, "" for a step.
    """

    def __init__(
        self, plan: Plan, feeds: Sequence[str], shapes: Sequence[Shape], fetches: Sequence[str]
    ) -> None:
        given = dict(zip(feeds, shapes, strict=True))
        self.plan = plan
        in_order: Any = tuple(given[name] for name in plan.feeds)
        self.variant: Variant = plan.variant(in_order)
        with plan.session.settings():
            self.variant.finish_passes()
        self.reason = self.variant.dynamic_reason
        self._feed_order = [list(feeds).index(name) for name in plan.feeds]
        self._fetch_order = [plan.fetches.index(name) for name in fetches]
        self._predicted: Step | None = None

    @property
    def _lowered(self) -> Lowered:
        if self.variant.lowered is None:
            raise ValueError(
                f"This run has no step, since the dataflow executor runs it: {self.reason}. "
                "as_text('graph') has its graph."
            )
        return self.variant.lowered

    def _step(self, compiled: bool) -> Step:
        """Return the running step, or before compilation a predicted one.

        The predicted step treats all kernels as compiled.
        """
        lowered = self._lowered
        if compiled:
            assert self.variant.step is not None
            return self.variant.step
        if self._predicted is None:
            session = self.plan.session
            with session.settings():
                self.variant.select_kernels()
                env = session.step_environment(self.variant.partitions[0].device)
                self._predicted = predicted_step(lowered, env, self.plan.name)
        return self._predicted

    def as_text(self, dialect: Dialect, compiled: bool) -> str:
        """Return the plan in one form.

        Raises ValueError with the reason if the plan has no such form.
        """
        if dialect == "graph":
            return "".join(
                f"# {partition.device}\n{print_graph(partition.graph)}"
                for partition in self.variant.partitions
            )
        if dialect not in DIALECTS:
            raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}")
        lowered, step = self._lowered, self._step(compiled)
        if dialect == "lowered":
            return print_lowered(lowered)
        if dialect == "step":
            return step.text
        return "\n".join(kernel_texts(lowered.instructions).values())

    def cost_analysis(self, compiled: bool) -> CostAnalysis:
        """Return predicted costs.

        Raises ValueError for a plan without a step.
        """
        lowered, step = self._lowered, self._step(compiled)
        instructions = {
            i.node_path: i for i in lowered.instructions if i.role is None and i.serving != "copy"
        }
        return CostAnalysis(
            tuple(
                KernelCost(
                    node.name,
                    node.op,
                    node.serving,
                    node.kernels,
                    node.flops,
                    node.bytes_moved,
                    node.predicted_us,
                    _memory_of(instructions[node.name], step),
                )
                for node in explained_nodes(self.variant, step)
                if node.name in instructions
            ),
            self.memory_analysis(compiled),
        )

    def memory_analysis(self, compiled: bool) -> MemoryAnalysis:
        """Return the memory of a run.

        Raises ValueError for a plan without a step.
        """
        lowered, step = self._lowered, self._step(compiled)
        variables = {
            id(value.variable): value.spec.nbytes
            for value in lowered.values
            if value.variable is not None and value.base is None
        }
        return MemoryAnalysis(
            sum(value.spec.nbytes for value in lowered.feeds.values()),
            sum(variables.values()),
            step.output_bytes,
            step.arena_bytes,
            step.constant_bytes,
        )

    def compile(self) -> None:
        """Wait until the variant has its fastest form.

        Raises the error of the compilation, DeadlineExceededError after ten minutes.
        """
        variant = self.variant
        self.plan.session.check_open()
        variant.upgrade()
        if not variant.compile_done.wait(COMPILE_TIMEOUT_S):
            raise errors.DeadlineExceededError(
                None, None, f"plan {self.plan.name} was not compiled in {COMPILE_TIMEOUT_S:.0f} s"
            )
        if variant.failure is not None:
            raise variant.failure

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Run this variant.

        values: in the order of the feeds. results: in the order of the fetches.
        """
        plan = self.plan
        plan.session.check_open()
        arrays = plan.check([values[i] for i in self._feed_order])
        # Blocking nodes run in stages, which are separate variants.
        results = plan.run(arrays) if self.reason else self.variant.run(arrays)
        return [results[i] for i in self._fetch_order]


def _memory_of(instruction: Instruction, step: Step) -> int:
    outputs = sum(
        value.spec.nbytes
        for value in instruction.outputs
        if value.storage == "buffer" and value.base is None
    )
    call = step.call(instruction)
    return outputs + (sum(call.temp_bytes) if call is not None else 0)


__all__ = ["DIALECTS", "CostAnalysis", "Dialect", "KernelCost", "MemoryAnalysis", "PlanStages"]
