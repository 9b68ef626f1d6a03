"""Run passes: choose, time, verify, log, dump and report each run."""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.errors import InternalError, OpError
from tfjit.passes.ir.networkx_base import adopt_networkx
from tfjit.passes.manager.event_budget import EventBudget, process_budget
from tfjit.passes.manager.pass_ends import End, check_ends, ends_of
from tfjit.passes.manager.pass_registry import ALIASES, ANALYSES, PASSES, SHAPES, PassInfo
from tfjit.passes.manager.raised_at import raised_at
from tfjit.passes.manager.steps import Fixpoint, Item, Step, flat

if TYPE_CHECKING:
    from tfjit.passes.history.events import Event
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.manager.pass_context import PassContext
    from tfjit.passes.manager.pipeline_spec import Pipeline

log: Final = logging.getLogger("tfjit.passes")


@dataclass(frozen=True, slots=True)
class PassReport:
    """The record of one run of a pass.

    where: "" for the whole graph, a partition's device, or the path of a body such as "while/body".
    depth: 0 for a run of the plan's own pipeline, else the number of enclosing passes. messages:
    (node, text).
    """

    name: str
    elapsed_us: float
    ops_before: int
    ops_after: int
    where: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    depth: int = 0


@dataclass(slots=True)
class PipelineReport:
    """The runs of passes for one plan, in the order they began.

    folder: of the plan's dumps.
    """

    passes: list[PassReport] = field(default_factory=list)
    folder: Path | None = None

    @property
    def elapsed_us(self) -> float:
        """Return the time of all passes."""
        return sum(entry.elapsed_us for entry in self.passes if entry.depth == 0)

    def format(self, *, messages: bool = True) -> str:
        """Return a table of the passes: time, op counts, and messages.

        A run over a body is indented below the pass that started the run.
        """
        lines = [f"{'pass':<40} {'ms':>9} {'ops':>7} {'after':>7}"]
        for entry in self.passes:
            where = entry.where.rpartition("/device:")[2]
            name = f"{'  ' * entry.depth}{entry.name} {where}".rstrip()
            lines.append(
                f"{name:<40} {entry.elapsed_us / 1000:9.3f} {entry.ops_before:7} "
                f"{entry.ops_after:7}"
            )
            if messages:
                lines += [
                    f"    {node}: {text}" if node else f"    {text}"
                    for node, text in entry.messages
                ]
        return "\n".join(lines) + "\n"


_WARNED: Final[set[str]] = set()


def _without_disabled(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline without the passes in TFJIT_DISABLE.

    Warns once of each name there that leaves nothing out.
    """
    named = settings.names("TFJIT_DISABLE")
    if not named:
        return pipeline
    left_out = []
    own = {step.name for _, items in pipeline.sections for step in flat(items) if step.user}
    for name in sorted(named - set(settings.WAYS)):
        info = PASSES.get(ALIASES.get(name, name))
        if name in own or (info is not None and not info.required):
            left_out.append(name)
        elif name not in _WARNED:
            _WARNED.add(name)
            reason = "no pass of that name" if info is None else "a plan cannot do without it"
            log.warning("TFJIT_DISABLE: '%s' has no effect: %s; see `tfjit passes`", name, reason)
    return pipeline.without(*left_out) if left_out else pipeline


class PassManager:
    """Runs the passes of one plan, over its graph and over bodies.

    ctx: of the plan's own graph.
    """

    _plans: Final = itertools.count()

    def __init__(self, ctx: PassContext) -> None:
        self.report = PipelineReport()
        options = ctx.options
        self.options = options
        self.verify = (
            options.verify if options.verify is not None else settings.flag("TFJIT_VERIFY")
        )
        self.pipeline = _without_disabled(options.pipeline)
        self.logs = settings.logs("passes")
        folder = Path(options.dump_dir) if options.dump_dir else settings.path("TFJIT_DUMP")
        self.folder = self.report.folder = (
            folder / f"plan_{next(self._plans):03}" if folder else None
        )
        self.dumped = 0
        self.functions: dict[str, str] = {}  # function -> its text as last written
        # regions with a dump of their text before any pass, by path and purpose
        self.seen: set[tuple[str, str]] = set()
        self.depth = 0
        # of a user's pass, which a pass over bodies may have taken for a reason to leave them alone
        self.failed: OpError | None = None
        # passes that have run, by the path and purpose of the graph
        self.done: set[tuple[str, str, str]] = set()
        # the run's graph is too small to be optimised; None: not known
        self.small: bool | None = None
        limit = options.event_limit
        self.budget = EventBudget(limit) if isinstance(limit, int) else limit or process_budget()
        self.history = options.history.recorder() if options.history is not None else None
        if self.budget is None and self.history is not None:
            self.budget = EventBudget()
        if self.history is None and self.budget is not None and self.budget.shows_last:
            from tfjit.passes.history.history import History

            self.history = History().recorder()  # the last rewrite goes to the file
        self.until = (
            time.perf_counter() + options.time_limit_s if options.time_limit_s > 0 else float("inf")
        )

    def run_pipeline(
        self,
        pipeline: Iterable[Item],
        graph: DataflowGraph,
        ctx: PassContext,
        where: str = "",
    ) -> None:
        """Run the items of a pipeline over one graph, in order."""
        for item in pipeline:
            if not isinstance(item, Fixpoint):
                self.run(item, graph, ctx, where)
                if self.failed is not None:
                    raise self.failed
                continue
            for _ in range(item.limit):
                before = graph.changes
                self.run_pipeline(item.steps, graph, ctx, where)
                if graph.changes == before:
                    break

    def run_named(self, name: str, graph: DataflowGraph, ctx: PassContext, where: str) -> None:
        """Run a pass, or a section of the pipeline, for another pass."""
        if where and (where, ctx.purpose) not in self.seen:
            self.seen.add((where, ctx.purpose))
            self.dump("input", graph, where)
        self.depth += 1
        current = ctx.current
        try:
            if name not in PASSES:
                self.run_pipeline(self.pipeline.section(name), graph, ctx, where)
            elif PASSES[name].required or name in self.pipeline.names:
                self.run(Step(name), graph, ctx, where)
        finally:
            self.depth -= 1
            ctx.current = current

    def leaves_out(self, info: PassInfo, graph: DataflowGraph, where: str, purpose: str) -> bool:
        """Return whether the options leave out a pass of the pipeline."""
        options = self.options
        if not info.is_optimization:
            return False
        if self.small is None:
            self.small = graph.num_op_nodes < options.min_nodes
        return (
            self.small
            or (options.once and (info.name, where, purpose) in self.done)
            or time.perf_counter() > self.until
        )

    @property
    def records(self) -> bool:
        """Return whether rewrites are counted or recorded."""
        return self.budget is not None

    def counts(self, ctx: PassContext) -> bool:
        """Return whether rewrites of the running pass are counted: it is optional."""
        info = PASSES.get(ctx.current)
        return info is None or not info.required

    def record(
        self, ctx: PassContext, node: str, reason: str, rule: str, begun: Event | bool | None
    ) -> Event | None:
        """Count and record a rewrite that the running pass makes.

        begun: of `PassContext.begin_rewrite`.
        """
        budget, history = self.budget, self.history
        assert budget is not None
        count = budget.spend() if not begun and self.counts(ctx) else None
        event = None
        if history is not None and begun is not None and not isinstance(begun, bool):
            event = history.finish(begun, reason)
            count = event.count
        elif history is not None:
            event = history.add(ctx.current, ctx.where or ctx.device, node, reason, rule, count)
        if budget.path is not None and count is not None:
            changes = history.text_of(event) if history and event and budget.limit == count else ""
            about = {"pass": ctx.current, "where": ctx.where, "rule": rule, "node": node}
            budget.write({"number": count, **about, "reason": reason, "changes": changes})
        return event

    def run(self, step: Step, graph: DataflowGraph, ctx: PassContext, where: str = "") -> None:
        """Run one pass, unless the options leave it out.

        Raises InternalError with the name of a pass that fails or breaks the graph, and
        TensorFlow's errors where the user's graph is at fault. A user's pass that fails or breaks
        the graph is undone and left out with a warning, unless `fail_on_errors`.
        """
        if step.user is None:
            self._run(step, graph, ctx, where)
            return
        adopt_networkx()  # the pass may ask for the graph's class
        saved = None if self.options.fail_on_errors else graph.copy()
        ends = ends_of(graph, ctx)
        place = len(self.report.passes)
        try:
            self._run(step, graph, ctx, where)
            # also where the graph counts no change: the pass may have written to a node's attrs
            self._check_and_repair(step.name, ends, graph, ctx, where)
        except OpError as error:
            if saved is None:
                self.failed = error
                raise
            log.warning("pass '%s' failed and is left out: %s", step.name, error.message)
            graph.restore(saved)
            ctx.invalidate(SHAPES)
            del self.report.passes[place:]
            ctx.current = step.name
            ctx.log("", f"{step.name} failed and is left out: {error.message}")
            ctx.current = ""
            ops = graph.num_op_nodes
            self.note(step.name, time.perf_counter(), ops, ops, where, ctx.messages[-1:])

    def _check_and_repair(
        self,
        name: str,
        ends: Mapping[str, End],
        graph: DataflowGraph,
        ctx: PassContext,
        where: str,
    ) -> None:
        """Check a graph behind a user's pass; drop unused nodes, infer shapes.

        Raises InternalError or the error of shape inference, with the pass.
        """
        try:
            self.check(name, graph, where, always=True)
            check_ends(name, ends, graph, ctx)
            try:
                self._repair(graph, ctx, where)
            except OpError as error:
                raise error.restated(f"after pass '{name}'{_at(where)}: {error.message}") from error
            check_ends(name, ends, graph, ctx)
        except OpError:
            raise
        except Exception as error:  # of a check: the graph is not one any more
            raise InternalError(
                None,
                None,
                f"after pass '{name}'{_at(where)} the graph is broken: {type(error).__name__}: "
                f"{error}",
            ) from error

    def _repair(self, graph: DataflowGraph, ctx: PassContext, where: str) -> None:
        """Drop unused nodes and infer shapes.

        Only where the pipeline has done so before; a partition's shapes are those of the whole
        graph.
        """
        ctx.invalidate(SHAPES)
        whole = "" if "/device:" in where else where
        for name, at in (("prune", where), ("infer_shapes", whole)):
            if (name, at, ctx.purpose) in self.done:
                self._run(Step(name), graph, ctx, where)

    def _run(self, step: Step, graph: DataflowGraph, ctx: PassContext, where: str) -> None:
        yield_interpreter()
        name = step.name
        info = PASSES[name] if step.user is None else None
        if info is not None and self.leaves_out(info, graph, where, ctx.purpose):
            ctx.log("", f"{name} left out")
            return
        self.done.add((name, where, ctx.purpose))
        ctx.current = name
        if info is None and not ctx.may_rewrite():
            ctx.log("", f"{name} left out: the event limit is reached")
            ctx.current = ""
            return
        applies = info is None or info.when is None or info.when(graph)
        if applies:
            for needed in info.needs if info is not None else step.user.needs if step.user else ():
                if needed in ANALYSES and not ctx.is_valid(needed, graph):
                    self._run(Step(ANALYSES[needed]), graph, ctx, where)
        ctx.current = name
        place = len(self.report.passes)
        # comes before the runs that the pass starts
        self.report.passes.append(PassReport(name, 0.0, 0, 0, where))
        logged = len(ctx.messages)
        before, changes = graph.num_op_nodes, graph.changes
        history = self.history
        if history is not None:
            device = "" if ctx.where else where
            history.enter(graph, ctx.where, ctx.purpose, device, self.depth)
        used = self.budget.used if self.budget is not None else 0
        began = time.perf_counter()
        try:
            if applies:
                function = step.user.function if step.user is not None else PASSES[name].function()
                function(graph, ctx)
        except InternalError as error:
            raise InternalError(
                error.node_def, error.op, f"pass '{name}'{_at(where)}: {error.message}"
            ) from error
        except OpError as error:
            if step.user is None:
                raise  # the user's graph is at fault, and the message gives the reason
            raise error.restated(f"pass '{name}'{_at(where)}: {error.message}") from error
        except Exception as error:
            at = raised_at(error, step.user.function) if step.user is not None else ""
            raise InternalError(
                None,
                None,
                f"pass '{name}'{_at(where)} failed{at}: {type(error).__name__}: {error}",
            ) from error
        if (
            info is None
            and self.budget is not None
            and self.budget.used == used
            and graph.changes != changes
        ):
            ctx.rewrote("", "changed the graph")  # one event, where the pass names none
        if history is not None:
            history.leave(name, graph, ctx.where or where, self.depth)
        if graph.changes != changes and (info is None or SHAPES not in info.preserves):
            ctx.invalidate(SHAPES)
        self.note(name, began, before, graph.num_op_nodes, where, ctx.messages[logged:], place)
        ctx.current = ""
        self.check(name, graph, where)
        if self.depth == 0 or graph.changes != changes:
            self.dump(name, graph, where)

    def note(
        self,
        name: str,
        began: float,
        before: int,
        after: int,
        where: str = "",
        logged: Sequence[tuple[str, str, str]] = (),
        place: int | None = None,
    ) -> None:
        """Add a run of a pass to the report and the log."""
        elapsed_us = (time.perf_counter() - began) * 1e6
        messages = tuple((node, text) for of, node, text in logged if of == name)
        entry = PassReport(name, elapsed_us, before, after, where, messages, self.depth)
        if place is None:
            self.report.passes.append(entry)
        else:
            self.report.passes[place] = entry
        if self.logs or settings.asked(log, logging.DEBUG):
            settings.tell(
                "passes", "%s%s: %.1f us, %d -> %d ops", name, _at(where), elapsed_us, before, after
            )
            for node, text in messages:
                settings.tell("passes", "%s: %s %s", name, node, text)

    def check(
        self, name: str, graph: DataflowGraph, where: str = "", *, always: bool = False
    ) -> None:
        """Verify the graph if wanted, or always.

        Raises InternalError with the name of the pass.
        """
        if not self.verify and not always:
            return
        try:
            graph.verify()
        except InternalError as error:
            raise InternalError(
                error.node_def, error.op, f"after pass '{name}'{_at(where)}: {error.message}"
            ) from error

    def dump(self, name: str, graph: DataflowGraph, where: str = "") -> None:
        """Write the graph's text to the next numbered file if wanted.

        New or changed functions of the graph's library are written to files beside that file.
        """
        if self.folder is None:
            return
        from tfjit.passes.text.tensor_files import FOLDER, TensorFiles
        from tfjit.passes.text.text_format import print_graph

        self.folder.mkdir(parents=True, exist_ok=True)
        place = where.rpartition("/device:")[2].replace(":", "_").replace("/", ".")
        path = self.folder / f"{self.dumped:02}_{name}{'_' + place if place else ''}.txt"
        files = TensorFiles(self.folder / FOLDER)
        path.write_text(print_graph(graph, full=files), encoding="utf-8")
        self.dumped += 1
        if self.depth:
            return  # its bodies are dumped when passes run over them
        for ref in graph.functions.reachable(graph):
            try:
                text = print_graph(graph.functions.body(ref).graph, full=files)
            except OpError as error:  # the run that needs the body reports the error
                text = f"# {error.message}\n"
            if self.functions.get(ref.name) != text:
                self.functions[ref.name] = text
                body = re.sub(r"[^\w.-]", "_", ref.name)
                path.with_name(f"{path.stem}.body_{body}.txt").write_text(text, encoding="utf-8")


def _at(where: str) -> str:
    return f" in {where}" if where and "/device:" not in where else ""
