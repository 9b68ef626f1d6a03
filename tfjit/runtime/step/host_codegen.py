"""Generate the straight-line Python function of a step.

The function fetches the arrays that a native run needs, calls the table executor and returns the
fetched values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.op_defs.op_traits import ASSIGN
from tfjit.kernels.source import Source
from tfjit.runtime.host.cancellation import cancelled_step
from tfjit.runtime.host.interrupts import unwatched, watched
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowered import Instruction, Value
from tfjit.runtime.resources.variables_and_resources import VARIABLE_EPOCH
from tfjit.runtime.step.host_kernels import PythonKernel, python_kernel
from tfjit.runtime.step.layout import Layout
from tfjit.runtime.step.memory_planner import RECYCLE_BYTES
from tfjit.runtime.step.native_run import NativeRun

if TYPE_CHECKING:
    from tfjit.runtime.step.compare import Comparison


class Reroute(Exception):
    """Signal that a run breaks the step's assumptions.

    Example: a variable changed its shape. The dataflow executor serves such a run.
    """


class StepText:
    """Write the host function and fill the layout's scope and views."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._layout, self._name = layout, name
        self._comparison: Comparison | None = None  # of a step with compared calls
        self._moved = False  # a Python kernel may have given a variable another buffer
        # for each open branch: name of its case number, current case
        self._cases: list[tuple[str, int]] = []

    def generate(self) -> str:
        """Return the text of `make(placement)`, which returns the instance's step function."""
        source = Source()
        variables = self._variables()
        with source.block("def make(placement):"):
            if variables:
                source.line(f"seen = {' = '.join(variables)} = None")
            with source.block("def step(feeds, context):"):
                self._emit_step(source, variables)
            if self._layout.shares_arena:
                self._emit_lease(source)
            source.line(f"return {'leased' if self._layout.shares_arena else 'step'}")
        return source.text()

    def _emit_lease(self, source: Source) -> None:
        arenas = self._layout.env.arenas
        self._layout.scope["lend"], self._layout.scope["take_back"], self._layout.scope["bind"] = (
            arenas.lend,
            arenas.take_back,
            arenas.bind,
        )
        with source.block("def leased(feeds, context):"):
            source.line(f"arena = lend({self._layout.arena_bytes})")
            with source.block("try:"):
                source.line("if arena.address != placement.address: bind(placement, arena)")
                source.line("return step(feeds, context)")
            with source.block("finally:"):
                source.line("take_back(arena)")

    def _emit_step(self, source: Source, variables: Mapping[str, tuple[Value, bool]]) -> None:
        if variables:
            source.line(f"nonlocal seen, {', '.join(variables)}")
        self._emit_feeds(source)
        self._emit_variable_checks(source, variables)
        known: set[str] = set()  # variables whose buffer the code has in a local name
        self._moved = False
        made: set[int] = set()
        dying = self._python_made()
        for segment in self._layout.segments:
            if isinstance(segment, NativeRun):
                self._emit_native_run(source, segment, known, made)
                position = segment.end
            else:
                if segment[1].role is not None:
                    self._emit_marker(source, *segment, known, made)
                else:
                    self._emit_python(source, *segment, known)
                position = segment[0] + 1
            self._emit_release(source, position, dying)
        self._emit_return(source, known)

    def _python_made(self) -> list[tuple[int, str]]:
        """Return the arrays that Python kernels create, with their last uses.

        Each entry is (last use, name in the generated code). The first array to be released comes
        last.
        """
        found: set[tuple[int, str]] = set()
        for instruction in self._layout.lowered.instructions:
            if not self._layout.is_native(instruction):
                made = (
                    v
                    for v in instruction.outputs
                    if v.storage in ("object", "buffer") and v.base is None
                )
                found.update((self._layout.liveness.last[v.index], f"x{v.index}") for v in made)
        return sorted(found, reverse=True)

    def _emit_release(self, source: Source, position: int, dying: list[tuple[int, str]]) -> None:
        """Delete names that no instruction from `position` on reads.

        Without this, a first run would hold all intermediate arrays to its end.
        """
        names = []
        while dying and dying[-1][0] < position:
            names.append(dying.pop()[1])
        if names:
            source.line(f"del {', '.join(names)}")

    def _emit_feeds(self, source: Source) -> None:
        count = self._layout.lowered.feed_count
        if count:
            source.line(
                ", ".join(f"f{i}" for i in range(count)) + ("," if count == 1 else "") + " = feeds"
            )

    def _variables(self) -> dict[str, tuple[Value, bool]]:
        """Return a value of each variable of the step, by generated name.

        The second item is true if compiled code assigns the variable.
        """
        found: dict[str, tuple[Value, bool]] = {}
        for instruction in self._layout.lowered.instructions:
            # The target may be an array in place of a variable (runtime/step/compare.py).
            assigns = (
                instruction.node.has_trait(ASSIGN) and instruction.inputs[0].root.storage != "feed"
            )
            if self._layout.is_native(instruction) and assigns:
                found[self._layout.variable_name(instruction.inputs[0])] = (
                    instruction.inputs[0],
                    True,
                )
        roots = [
            value.root
            for instruction in self._layout.lowered.instructions
            for value in instruction.inputs
        ]
        roots += [
            value.root for value in self._layout.lowered.fetches if value.root.storage == "variable"
        ]
        for root in roots:
            if root.storage in ("variable", "handle"):
                found.setdefault(self._layout.variable_name(root), (root, False))
        return found

    def _emit_variable_checks(
        self, source: Source, variables: Mapping[str, tuple[Value, bool]]
    ) -> None:
        """Emit checks of all variables, in front of all effects.

        A variable of another shape than planned sends the run to the dataflow executor. So does a
        variable without a buffer that compiled code would assign.

        The checks are repeated only when some variable has another array than in the instance's
        last run. `seen` is None while a variable has none.
        """
        if not variables:
            return
        conditional = self._conditional_variables()
        self._layout.scope["reroute"], self._layout.scope["buffers"] = _reroute, VARIABLE_EPOCH
        source.line("now = buffers[0]")
        with source.block("if now != seen:"):
            source.line("seen = None")
            for name, (value, assigned) in variables.items():
                shape = f"shape{value.index}"
                self._layout.scope[shape] = value.shape
                source.line(f"{name} = var_{name}.value")
                test = (
                    f"{name} is None or"
                    if assigned or name in conditional
                    else f"{name} is not None and"
                )
                source.line(f"if {test} {name}.shape != {shape}: reroute(var_{name}, {shape})")
                source.line(f"if {name} is None: now = None")
            source.line("seen = now")

    def _conditional_variables(self) -> set[str]:
        """Return the variables that only loops and branches of native runs use.

        Only the dataflow executor finds out if such a variable needs a value.
        """
        always: set[str] = set()
        sometimes: set[str] = set()
        for instruction in self._layout.lowered.instructions:
            names = [
                self._layout.variable_name(v.root)
                for v in instruction.inputs
                if v.root.storage in ("variable", "handle")
            ]
            (
                sometimes
                if self._layout.is_native(instruction) and instruction.construct is not None
                else always
            ).update(names)
        return sometimes - always

    def _emit_variable(
        self, source: Source, value: Value, known: set[str], reader: str = ""
    ) -> str:
        """Return the name of the variable's buffer.

        The buffer is fetched anew when an assignment may have replaced it since the last fetch.

        reader: the node that takes the variable itself, for the error about a missing value.
        """
        name = self._layout.variable_name(value)
        if name not in known:
            known.add(name)
            self._layout.scope["uninitialized"] = _uninitialized
            if self._moved:
                source.line(f"{name} = var_{name}.value")
            node = value.producer if value.storage == "variable" else reader or value.producer
            source.line(f"if {name} is None: uninitialized(var_{name}, {node!r})")
        return name

    def _emit_native_run(
        self, source: Source, native_run: NativeRun, known: set[str], made: set[int]
    ) -> None:
        arrays: list[str] = []
        for instruction in native_run.instructions:
            self._emit_outputs(source, instruction, made)
        self._emit_native_run_variables(source, native_run, known)
        for patch in native_run.patches:
            if patch.array not in arrays:
                arrays.append(patch.array)
        k = native_run.index
        if native_run.loops and "flag" not in arrays:
            arrays.append("flag")
        self._layout.scope[f"arrays{k}"] = arrays
        call = ", ".join([f"t{k}", *arrays])
        if native_run.loops:
            self._emit_looping_run(source, native_run, call)
        # Other runs, of this plan and others, may add to the variable too.
        elif native_run.locked is not None:
            with source.block(f"with {self._lock(native_run.locked)}:"):
                source.line(f"r = walk({call})")
        else:
            source.line(f"r = walk({call})")
        source.line(f"if r: native_failure({k}, r, w)")

    def _lock(self, handle: Value) -> str:
        """Return the name of a variable's lock."""
        name = f"lock_{self._layout.variable_name(handle)}"
        assert handle.variable is not None
        self._layout.scope[name] = handle.variable.lock
        return name

    def _emit_looping_run(self, source: Source, native_run: NativeRun, call: str) -> None:
        """Emit a table executor call that an interrupt may end.

        An older failure is cleared first. The interrupt flag is released before the new failure is
        examined.
        """
        self._layout.scope["watched"], self._layout.scope["unwatched"] = watched, unwatched
        for one in (
            one
            for owners in native_run.owners
            for one in owners
            if one.instruction.node.op == "_Loop"
        ):
            source.line(f"w[{one.block}] = 0")
        source.line("flag = watched(context.cancellation)")
        with source.block("try:"):
            source.line(f"r = walk({call})")
        with source.block("finally:"):
            source.line("unwatched(flag)")

    def _emit_outputs(self, source: Source, instruction: Instruction, made: set[int]) -> None:
        for value in instruction.outputs:
            root = self._layout.liveness.root(value)
            if root.index in self._layout.fresh and root.index not in made:
                made.add(root.index)
                self._emit_fresh(source, root)

    def _emit_marker(
        self, source: Source, position: int, marker: Instruction, known: set[str], made: set[int]
    ) -> None:
        """Emit a marker of a loop or branch with Python kernels."""
        construct = marker.construct
        assert construct is not None
        if marker.role in ("loop", "branch"):
            inside = self._layout.schedule[position : self._layout.liveness.ends[id(construct)]]
            for instruction in (member for members in inside for member in members):
                if id(instruction) in self._layout.calls:
                    self._emit_outputs(source, instruction, made)
                elif instruction.serving == "runtime":
                    self._moved = True
        known.clear()  # the code below may run any number of times
        if marker.role == "loop":
            self._layout.scope["stop_if_cancelled"] = _stop_if_cancelled
            source.begin("while True:")
            source.line("stop_if_cancelled(context)")
        elif marker.role == "test":
            source.line(
                f"if not {self._expression(source, marker.inputs[0], known, marker.node.name)}: "
                "break"
            )
        elif marker.role == "branch":
            expression = self._expression(source, marker.inputs[0], known, marker.node.name)
            number = f"b{position}"
            source.line(
                f"{number} = {f'not {expression}' if construct.boolean else f'int({expression})'}"
            )
            self._cases.append((number, 0))
            source.begin(f"if {number} == 0:" if construct.cases > 1 else "if True:")
            source.line("pass")
        elif marker.role == "case":
            number, case = self._cases.pop()
            self._cases.append((number, case + 1))
            source.end()
            source.begin(f"elif {number} == {case + 1}:" if case + 2 < construct.cases else "else:")
            source.line("pass")
        else:
            if marker.role == "join":
                self._cases.pop()
            source.end()

    def _emit_native_run_variables(
        self, source: Source, native_run: NativeRun, known: set[str]
    ) -> None:
        tests = Source()
        for instruction in native_run.instructions:
            for value in instruction.inputs:
                if value.root.storage in ("variable", "handle"):
                    self._emit_variable(tests, value.root, known, instruction.node.name)
        lines = [line for line in tests.text().split("\n") if line]
        if not lines:
            return
        if self._moved:
            for line in lines:
                source.line(line)
        else:
            with source.block("if seen is None:"):
                for line in lines:
                    source.line(line)

    def _emit_fresh(self, source: Source, root: Value) -> None:
        np_dtype = np.dtype(root.dtype.as_numpy_dtype)
        name, shape, dtype = f"x{root.index}", f"shape{root.index}", f"dtype{root.index}"
        self._layout.scope[shape], self._layout.scope[dtype] = root.shape, np_dtype
        if root.spec.nbytes >= RECYCLE_BYTES:
            self._layout.scope["recycled"] = self._layout.env.recycler.empty
            source.line(f"{name} = recycled({shape}, {dtype})")
        else:
            self._layout.scope["empty"] = np.empty
            source.line(f"{name} = empty({shape}, {dtype})")

    def _expression(self, source: Source, value: Value, known: set[str], reader: str = "") -> str:
        """Return an ndarray expression for a value, for Python kernels."""
        root = self._layout.liveness.root(value)
        if root.storage == "const":
            name = f"c{value.index}"
            assert root.array is not None
            self._layout.scope[name] = (
                root.array if root is value else root.array.reshape(value.shape)
            )
            return name
        if root.storage in ("variable", "handle"):
            name = self._emit_variable(source, root, known, reader)
        elif root.index in self._layout.buffers:
            name = f"s{value.index}"
            self._layout.views[name] = (self._layout.buffers[root.index].offset, value)
            return name
        else:
            name = self._layout.name_of(root)
        if value is not root and value.shape != root.shape:
            shape = f"shape{value.index}"
            self._layout.scope[shape] = value.shape
            return f"{name}.reshape({shape})"
        return name

    def _emit_python(
        self, source: Source, position: int, instruction: Instruction, known: set[str]
    ) -> None:
        kernel = f"k{position}"
        runtime = instruction.serving == "runtime"
        # A list keeps the values that are put into it.
        keeps = runtime and any(value.dtype.name == "variant" for value in instruction.outputs)
        inputs = []
        for value in instruction.inputs:
            if runtime and value.storage == "handle":
                name = self._layout.variable_name(value)
                inputs.append(f"var_{name}")
            else:
                text = self._expression(source, value, known, instruction.node.name)
                root = value.root
                inputs.append(
                    f"{text}.copy()"
                    if keeps and (root.storage == "variable" or root.index in self._layout.buffers)
                    else text
                )
        outputs = [
            f"x{value.index}"
            if value.storage in ("object", "buffer") and value.base is None
            else "_"
            for value in instruction.outputs
        ]
        arguments = f"({', '.join(inputs)}{',' if inputs else ''})"
        self._layout.scope[kernel] = self._kernel(instruction)
        target = f"({', '.join(outputs)},) = " if outputs else ""
        # A kernel of the runtime takes the lock itself.
        locked = instruction.inputs[0] if instruction.locks_variable and not runtime else None
        with source.block(f"with {self._lock(locked)}:") if locked is not None else nullcontext():
            source.line(f"{target}{kernel}(context, {arguments})")
        if runtime:
            known.clear()  # the kernel may have assigned a variable
            self._moved = True

    def _kernel(self, instruction: Instruction) -> PythonKernel:
        call = self._layout.compared.get(id(instruction))
        if call is not None:
            if self._comparison is None:
                from tfjit.runtime.step.compare import Comparison

                layout = self._layout
                self._comparison = Comparison(self._name, layout.lowered, layout.env)
            return self._comparison.kernel(instruction, call)
        return python_kernel(instruction, self._layout.env, bool(self._layout.native_runs))

    def _emit_return(self, source: Source, known: set[str]) -> None:
        if self._comparison is not None:
            self._layout.scope["report_comparison"] = self._comparison.report
            source.line("report_comparison()")
        results: list[str] = []
        returned: dict[int, str] = {}
        self._layout.scope["own"] = _own
        for value in self._layout.lowered.fetches:
            root = self._layout.liveness.root(value)
            if value.index in returned:
                results.append(returned[value.index])
                continue
            if self._layout.lowered.is_body:
                result = self._result_of_body(source, value, known)
            elif value.dtype.name == "variant":  # a tensor of an accelerator
                result = self._expression(source, value, known)
            elif root.storage in ("const", "feed", "variable") or any(
                returned.get(-1 - root.index, "")
            ):
                result = self._copied(value, self._expression(source, value, known))
                if value.shape == ():
                    result = f"{self._expression(source, value, known)}[()]"
            elif value.shape == ():
                result = f"{self._expression(source, value, known)}[()]"
            elif root.index in self._layout.fresh:
                result = self._expression(source, value, known)
            elif root.index in self._layout.buffers:
                result = f"{self._expression(source, value, known)}.copy()"
            else:
                result = f"own({self._expression(source, value, known)}, feeds)"
            name = f"y{value.index}"
            source.line(f"{name} = {result}")
            returned[value.index] = name
            returned[-1 - root.index] = name
            results.append(name)
        source.line(f"return [{', '.join(results)}]")

    def _copied(self, value: Value, text: str) -> str:
        """Return the expression of a copy; recycled memory holds large ones."""
        if value.spec.nbytes < RECYCLE_BYTES or value.dtype.as_numpy_dtype is object:
            return f"{text}.copy()"
        self._layout.scope["copied"] = self._layout.env.recycler.copy
        return f"copied({text})"

    def _result_of_body(self, source: Source, value: Value, known: set[str]) -> str:
        """Return the expression of a body's result for the calling step.

        Constants and arguments are returned as they are, since no step writes them. Other memory is
        copied.
        """
        root = self._layout.liveness.root(value)
        if value.storage == "handle":
            return f"var_{self._layout.variable_name(root)}"
        text = self._expression(source, value, known)
        if (
            root.storage in ("const", "feed")
            or root.index in self._layout.fresh
            or not value.dtype.is_numpy_compatible
        ):
            return text
        if root.storage == "variable" or root.index in self._layout.buffers:
            return f"{text}.copy()"
        self._layout.scope["asarray"] = np.asarray
        # a string scalar may be bytes, which asarray alone would cut at trailing zeros
        return (
            f"asarray({text})"
            if value.dtype.as_numpy_dtype is not object
            else (f"asarray({text}, object)")
        )


def _stop_if_cancelled(context: StepContext) -> None:
    if context.cancellation.cancelled:
        raise cancelled_step()
    if context.watch is not None:
        context.watch()


def _own(array: Any, feeds: Sequence[np.ndarray]) -> Any:
    """Return the array, or a copy of a view, constant or feed."""
    if array.base is None and array.flags.writeable and not any(array is feed for feed in feeds):
        return array
    return array.copy()


def _uninitialized(variable: Any, node: str) -> None:
    raise at_node(
        errors.FailedPreconditionError(None, None, variable.uninitialized_message()), node
    )


def _reroute(variable: Any, planned: tuple[int, ...]) -> None:
    found = "no value" if variable.value is None else f"shape {variable.value.shape}"
    raise Reroute(f"variable {variable.name} has {found}, planned {planned}")
