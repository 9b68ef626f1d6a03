"""Compare each compiled call with its reference on the same inputs (TFJIT_COMPARE).

A comparing step has no native runs: each instruction is a Python kernel, and loops and branches are
Python's. The compiled call works on copies. The next instruction and the variables get the values
of the reference, so a wrong kernel is blamed alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import settings
from tfjit.framework.errors import OpError
from tfjit.kernels.registry import NativeCall
from tfjit.runtime.host import fork_safety
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.step.dumps import kernel_path
from tfjit.runtime.step.host_kernels import PythonKernel, python_kernel

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.runtime.step.step import StepEnvironment

log: Final = logging.getLogger("tfjit.compare")

_LOCK: Final = threading.Lock()
fork_safety.hold(_LOCK, fork_safety.EXTENSION)
# Allowed difference in units in the last place: of one scalar function, and of one summed term. The
# vector math is within 8.
_ULPS_OF_AN_OP: Final = 8.0
_ULPS_OF_A_TERM: Final = 2.0


@dataclass(frozen=True, slots=True)
class Difference:
    """Describe the difference of a compiled value from its reference.

    index: the first element that differs; None if dtypes or shapes differ, which compiled and
    reference then name. count: the number of different elements. largest: the
    largest difference. ulps: the same in units in the last place of the reference's largest
    element.
    """

    index: tuple[int, ...] | None
    compiled: Any
    reference: Any
    count: int
    size: int
    largest: float
    ulps: float

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the first different values, then the number of differences."""
        if self.index is None:
            return [f"compiled {self.compiled}, reference {self.reference}"]
        extent = "" if np.isnan(self.largest) else f", by at most {self.largest:.6g}"
        if not np.isnan(self.ulps):
            extent += f" ({self.ulps:.3g} ulp of the largest element)"
        return [
            f"first at index {list(self.index)}: compiled {_shown(self.compiled)}, reference "
            f"{_shown(self.reference)}",
            f"{self.count} of {self.size} elements differ{extent}",
        ]


class Comparison:
    """Compare the calls of one step, and report its first run.

    name: of the plan or node that the step runs.
    """

    def __init__(self, name: str, lowered: Lowered, env: StepEnvironment) -> None:
        self._name, self._env = name, env
        self._is_plan = lowered.graph is not None
        self._compiled: list[_Compiled] = []
        self._reported = False

    def report(self) -> None:
        """Log after the step's first run that no call differs."""
        if self._reported:
            return
        self._reported = True
        count = sum(compiled.compared for compiled in self._compiled)
        if not count or any(compiled.logged for compiled in self._compiled):
            return
        text = (
            f"TFJIT_COMPARE: {self._name}: compared {count} call{'s'[: count > 1]}: no difference"
        )
        # The dataflow executor has a step for each node: a line for each would be too many.
        if self._is_plan:
            settings.tell("compare", "%s", text)
        else:
            log.info("%s", text)

    def kernel(self, instruction: Instruction, call: NativeCall) -> PythonKernel:
        """Return a Python kernel that runs reference and compiled call.

        The kernel logs the first difference of each output and written variable.
        """
        compiled = _Compiled(instruction, call, self._env)
        self._compiled.append(compiled)
        if instruction.compute is None and instruction.node.op != "_Loop":
            compiled.log("reference", "the node has no reference: nothing is compared")
            return lambda context, inputs: compiled.run(
                context, [_array(value) for value in inputs]
            )
        return _comparing_kernel(instruction, compiled)


def _comparing_kernel(instruction: Instruction, compiled: _Compiled) -> PythonKernel:
    plain = python_kernel(instruction, replace(compiled.env, compiles=False), planned=False)

    def run(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
        # A variable written by another run between the two would look like a wrong kernel.
        with _LOCK:
            return compare(context, inputs)

    def compare(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
        before = [_array(value) for value in inputs]
        # Compiled code does not give a variable its first value.
        if any(array is None for array in before):
            return plain(context, inputs)
        copies = [np.array(array, order="C") for array in before]
        found, failure = compiled.try_run(context, copies)
        try:
            outputs = plain(context, inputs)
        except LookupError as error:
            compiled.log("reference", f"the reference is unavailable: {error}")
            return compiled.run(context, before)
        except OpError as error:
            if failure is None:
                compiled.log(
                    "errors",
                    "the errors differ",
                    "compiled code raises nothing",
                    f"the reference raises {type(error).__name__}: {error.message}",
                )
            elif type(failure) is not type(error):
                compiled.log(
                    "errors",
                    "the errors differ",
                    f"compiled code raises {type(failure).__name__}: {failure}",
                    f"the reference raises {type(error).__name__}: {error.message}",
                )
            raise
        if failure is not None:
            compiled.log(
                "errors",
                "the errors differ",
                f"compiled code raises {type(failure).__name__}: {failure}",
                "the reference raises nothing",
            )
            return outputs
        tolerance = compiled.tolerance
        for fetch, index in compiled.results:
            difference = first_difference(
                found[fetch], np.asarray(outputs[index]), tolerance, copies
            )
            if difference is not None:
                compiled.log_difference(f"output {index}", difference)
        for index, value in enumerate(instruction.inputs):
            if value.root.storage in ("variable", "handle"):
                difference = first_difference(
                    copies[index], np.asarray(_array(inputs[index])), tolerance, copies
                )
                if difference is not None:
                    compiled.log_difference(f"variable written by input {index}", difference)
        compiled.compared = True
        return outputs

    return run


class _Compiled:
    """Run one instruction's compiled call as a separate step."""

    def __init__(self, instruction: Instruction, call: NativeCall, env: StepEnvironment) -> None:
        from tfjit.runtime.step.step import Step

        self.env = env
        self.compared = False  # the call has run beside its reference
        self.logged: set[str] = set()  # kinds of differences
        spec = instruction.spec
        values: list[Value] = []

        def value(dtype: DType, shape: tuple[int, ...], storage: Any, **more: Any) -> Value:
            values.append(
                Value(len(values), dtype, shape, storage, producer=instruction.node.name, **more)
            )
            return values[-1]

        given = [
            value(tensor.dtype, tensor.shape, "feed", feed=k)
            for k, tensor in enumerate(spec.inputs)
        ]
        outputs: list[Value] = []
        fetches: list[Value] = []
        self.results: list[tuple[int, int]] = []  # (fetch, output of the instruction)
        for index, result in enumerate(instruction.outputs):
            same = next(
                (k for k, source in enumerate(instruction.inputs) if source is result), None
            )
            if same is not None:  # a reference edge: the variable itself
                outputs.append(given[same])
                continue
            made = value(result.dtype, result.shape, "buffer", fetched=True)
            self.results.append((len(fetches), index))
            fetches.append(made)
            outputs.append(made)
        alone = replace(
            instruction,
            inputs=given,
            outputs=outputs,
            call=call,
            unfused=None,
            construct=None,
            role=None,
            moves=False,
        )
        lowered = Lowered(
            [alone], values, fetches, dict(enumerate(given)), len(given), is_body=True
        )
        self._step = Step(
            lowered,
            replace(env, compares=False, bundles=False),
            f"compared {instruction.node.name}",
        )
        self._dtypes = [tensor.dtype.as_numpy_dtype for tensor in spec.inputs]
        self._shapes = [tensor.shape for tensor in spec.inputs]
        group = spec.attrs.get("group")
        names = group.names if group is not None else ()
        self._kernels = dict.fromkeys(launch.source for launch in call.launches)
        of = f" of {', '.join(names)}" if names else ""
        self._title = f"{instruction.node_path} ({instruction.node.op}{of})"
        self._states = {instruction.node.name, *names}
        self._session = env.session
        elements = max(sum(prod(result.shape) for result in instruction.outputs), 1)
        self.tolerance = _ULPS_OF_AN_OP * (1 + len(names)) + _ULPS_OF_A_TERM * call.flops / elements

    def log(self, kind: str, head: str, *lines: str) -> None:
        """Log the first difference of a kind, with the kernels.

        That is the first iteration's of a loop, and the first run's of many runs.
        """
        if kind in self.logged:
            return
        self.logged.add(kind)
        rest = "".join(f"\n  {line}" for line in (*lines, *self._kernel_lines()))
        log.warning("TFJIT_COMPARE: %s: %s%s", self._title, head, rest)

    def log_difference(self, value: str, difference: Difference) -> None:
        """Log the first difference of an output or variable."""
        first, *rest = difference.lines()
        head = "the compiled value differs from the reference"
        self.log(value, head, f"{value}: {first}", *rest)

    def _kernel_lines(self) -> list[str]:
        folder = self.env.dump_folder
        lines: list[str] = []
        for source in self._kernels:
            lines.append(f"kernel: {source.description}")
            if folder is not None:
                lines.append(f"text: {kernel_path(folder, source)}")
        return lines

    def run(self, context: StepContext | None, arrays: Sequence[Any]) -> list[Any]:
        """Run the compiled call; variables among the arrays change."""
        given = zip(arrays, self._dtypes, self._shapes, strict=True)
        return self._step.run(
            [np.ascontiguousarray(array, dtype).reshape(shape) for array, dtype, shape in given],
            context,
        )

    def try_run(
        self, context: StepContext | None, arrays: Sequence[Any]
    ) -> tuple[list[Any], OpError | None]:
        """Run the compiled call and restore its random streams afterwards.

        Return (outputs, None), or ([], error) if the call raised.
        """
        streams = [
            (array, array.copy())
            for name, array in self._session.node_states()
            if name in self._states
        ]
        try:
            return self.run(context, arrays), None
        except OpError as error:
            return [], error
        finally:
            for array, copy in streams:
                np.copyto(array, copy)


def _array(value: Any) -> Any:
    return value.value if isinstance(value, Variable) else value


def _shown(value: object) -> str:
    return str(value) if isinstance(value, np.generic) else repr(value)


def first_difference(
    compiled: Any, reference: np.ndarray, ulps: float, inputs: Sequence[np.ndarray] = ()
) -> Difference | None:
    """Return the first difference of two arrays, or None if they agree.

    Floating-point numbers may be `ulps` units in the last place apart, of the largest element or of
    inputs up to 1: sums that cancel have the error of their terms. NaN agrees with NaN. All other
    values must be equal.
    """
    compiled = np.asarray(compiled)
    if compiled.shape != reference.shape or compiled.dtype != reference.dtype:
        here, there = (f"{array.dtype}{list(array.shape)}" for array in (compiled, reference))
        return Difference(
            None, here, there, reference.size, reference.size, float("nan"), float("nan")
        )
    eps = _epsilon(reference.dtype)
    largest = step = float("nan")
    if not eps:
        bad = compiled != reference
        if reference.dtype.kind in "iu" and bad.any():
            largest = float(np.max(np.abs(compiled.astype(object) - reference.astype(object))))
            step = 1.0
    else:
        wide = np.complex128 if reference.dtype.kind == "c" else np.float64
        mine, theirs = compiled.astype(wide), reference.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(mine - theirs)
            step = eps * max(
                _top(theirs),
                min(max((_top(x) for x in inputs if _epsilon(x.dtype)), default=0.0), 1.0),
            )
            bad = (
                (apart > ulps * step)
                | (np.isfinite(mine) != np.isfinite(theirs))
                | (np.isnan(mine) != np.isnan(theirs))
            )
            bad |= np.isinf(theirs) & (mine != theirs)
        finite = apart[bad & np.isfinite(apart)]
        largest = float(finite.max()) if finite.size else largest
    if not bad.any():
        return None
    index = tuple(int(k) for k in np.unravel_index(int(np.argmax(bad)), bad.shape))
    return Difference(
        index,
        compiled[index],
        reference[index],
        int(bad.sum()),
        bad.size,
        largest,
        largest / step if step else float("nan"),
    )


def _epsilon(dtype: np.dtype) -> float:
    """Return the machine epsilon; 0 for non-floating-point types."""
    if dtype.kind in "fc":
        return float(np.finfo(dtype).eps)
    if dtype.kind == "V" or dtype.name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return float(ml_dtypes.finfo(dtype).eps)
    return 0.0


def _top(array: np.ndarray) -> float:
    wide = np.abs(
        np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    )
    wide = wide[np.isfinite(wide)]
    return float(wide.max()) if wide.size else 0.0
