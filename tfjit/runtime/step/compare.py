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

from tfjit.framework.errors import OpError
from tfjit.kernels.registry import NativeCall
from tfjit.runtime.host import fork_safety
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
from tfjit.runtime.resources.variables_and_resources import Variable
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

    index: the first element that differs. count: the number of different elements. largest: the
    largest difference. ulps: the same in units in the last place of the reference's largest
    element.
    """

    index: tuple[int, ...]
    compiled: Any
    reference: Any
    count: int
    size: int
    largest: float
    ulps: float

    def __str__(self) -> str:
        text = (
            f"first at index {list(self.index)}: compiled {self.compiled!r}, reference "
            f"{self.reference!r}; "
            f"{self.count} of {self.size} elements differ"
        )
        return (
            text
            if np.isnan(self.largest)
            else f"{text}, by at most {self.largest:.6g} ({self.ulps:.3g} ulp of the largest "
            "element)"
        )


def comparing_kernel(
    instruction: Instruction, call: NativeCall, env: StepEnvironment
) -> PythonKernel:
    """Return a Python kernel that runs both and logs differences.

    The kernel runs the instruction's reference and its compiled call.
    """
    compiled = _Compiled(instruction, call, env)
    if instruction.compute is None and instruction.node.op != "_Loop":
        log.warning("%s: it has no reference, so nothing is compared", compiled.title)
        return lambda context, inputs: compiled.run(context, [_array(value) for value in inputs])
    plain = python_kernel(instruction, replace(env, compiles=False), planned=False)
    logged: set[str] = set()

    def say(text: str) -> None:
        # Only the first difference is logged: of a loop that of the first iteration, of many runs
        # that of the first run.
        if text.partition(" ")[0] not in logged:
            logged.add(text.partition(" ")[0])
            log.warning("TFJIT_COMPARE: %s: %s", compiled.title, text)

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
            say(f"reference unavailable: {error}")
            return compiled.run(context, before)
        except OpError as error:
            if failure is None:
                say(
                    f"errors differ: the reference raises {type(error).__name__}: {error.message}; "
                    "compiled code raises nothing"
                )
            elif type(failure) is not type(error):
                say(
                    f"errors differ: the reference raises {type(error).__name__}, compiled code "
                    f"{type(failure).__name__}: {failure}"
                )
            raise
        if failure is not None:
            say(
                f"errors differ: compiled code raises {type(failure).__name__}: {failure}; the "
                "reference raises nothing"
            )
            return outputs
        tolerance = compiled.tolerance
        for fetch, index in compiled.results:
            difference = first_difference(
                found[fetch], np.asarray(outputs[index]), tolerance, copies
            )
            if difference is not None:
                say(f"output:{index} differs {difference}")
        for index, value in enumerate(instruction.inputs):
            if value.root.storage in ("variable", "handle"):
                difference = first_difference(
                    copies[index], np.asarray(_array(inputs[index])), tolerance, copies
                )
                if difference is not None:
                    say(f"variable:{index} written differs {difference}")
        return outputs

    return run


class _Compiled:
    """Run one instruction's compiled call as a separate step."""

    def __init__(self, instruction: Instruction, call: NativeCall, env: StepEnvironment) -> None:
        from tfjit.runtime.step.step import Step

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
        kernels = ", ".join(
            dict.fromkeys(launch.source.title or launch.entry for launch in call.launches)
        )
        of = f" of {', '.join(names)}" if names else ""
        self.title = (
            f"{instruction.path}{instruction.node.name} ({instruction.node.op}{of}; "
            f"kernels {kernels})"
        )
        self._states = {instruction.node.name, *names}
        self._session = env.session
        elements = max(sum(prod(result.shape) for result in instruction.outputs), 1)
        self.tolerance = _ULPS_OF_AN_OP * (1 + len(names)) + _ULPS_OF_A_TERM * call.flops / elements

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
            (), here, there, reference.size, reference.size, float("nan"), float("nan")
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
