"""Find cuDNN's plan for a problem.

cuDNN ranks its engines for a graph of operations by rules. The first one is taken that keeps ours:
the precision of products and sums, and the size of the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.kernels.cuda.libraries import cudnn_descriptors as d
from tfjit.kernels.cuda.libraries.convolution_problem import (
    ADDED,
    BIAS,
    FILTER,
    IMAGES,
    RESULTS,
    WORKSPACE_BYTES,
)
from tfjit.kernels.cuda.libraries.cudnn_descriptors import Attribute, CudnnFunctions, Descriptor
from tfjit.kernels.cuda.libraries.device_libraries import LibraryFailure

if TYPE_CHECKING:
    from tfjit.kernels.cuda.libraries.convolution_problem import ConvolutionProblem, Kind

_FIRST_VIRTUAL: Final = 10  # number of a tensor between two operations
ALIGNMENT: Final = 16
"""Bytes; the addresses of all tensors are multiples."""
_MOST_CONFIGS: Final = 24  # of each ranking
_OPERATIONS: Final[Mapping[Kind, int]] = {
    "forward": d.FORWARD,
    "input gradient": d.INPUT_GRADIENT,
    "filter gradient": d.FILTER_GRADIENT,
}


def reason_against(problem: ConvolutionProblem, notes: Sequence[int]) -> str:
    """Return the reason against an engine with numerical notes, "" for none."""
    if d.NARROWED_SUMS in notes:
        return "sums of fewer bits"
    if problem.repeats and d.NONDETERMINISTIC in notes:
        return "runs differ"
    rounds = d.TENSOR_CORES in notes or d.NARROWED_INPUTS in notes
    if problem.dtype.name == "float32" and rounds and not problem.tf32:
        return "TF32"
    return ""


@dataclass(frozen=True, slots=True)
class Target:
    """The device that plans are for.

    It is named by a handle on it, or by its descriptor. cuDNN deprecates the handle, and newer
    versions know the descriptor, which may be of a device that is not there.
    """

    handle: int = 0
    device: Descriptor | None = None

    def set_on(self, made: Descriptor, handle: Attribute | None, device: Attribute | None) -> None:
        """Set the attribute of a descriptor that names the device.

        handle, device: None where it has no such attribute.
        """
        if self.device is not None:
            if device is not None:
                made.set(device, self.device)
        elif handle is not None:
            made.set(handle, self.handle)


class Plan:
    """cuDNN's execution of one convolution on one kind of device.

    workspace_bytes: of device memory that it needs while it runs. engine: cuDNN's number.
    """

    def __init__(self, cudnn: CudnnFunctions, plan: Descriptor, engine: int) -> None:
        """Take a finalized plan. Raises LibraryFailure."""
        self._cudnn, self.descriptor, self.engine = cudnn, plan, engine
        self.workspace_bytes = int(plan.get(d.PLAN_WORKSPACE)[0])

    def pack(self, addresses: Mapping[int, int], workspace: int) -> Descriptor:
        """Return the descriptor of a run's addresses.

        addresses: of all tensors by number. Raises LibraryFailure.
        """
        made = Descriptor(self._cudnn, d.VARIANT_PACK)
        made.set(d.PACK_IDS, *addresses)
        made.set(d.PACK_ADDRESSES, *addresses.values())
        return made.set(d.PACK_WORKSPACE, workspace).finalize()


def find_plan(
    cudnn: CudnnFunctions, target: Target, problem: ConvolutionProblem
) -> tuple[Plan | None, str]:
    """Return cuDNN's plan of a convolution, or None with the reason."""
    if not problem.fits:
        return None, "more than 2**31 elements"
    try:
        graph = _graph(cudnn, target, problem)
    except LibraryFailure as error:
        return None, str(error)
    reasons: dict[str, None] = {}
    for mode in (d.BY_RULES, d.FALLBACK):
        try:
            for config in _configs(cudnn, target, graph, mode):
                plan, reason = _plan_of(cudnn, target, problem, config)
                if plan is not None:
                    return plan, ""
                reasons[reason] = None
        except LibraryFailure as error:
            reasons[str(error)] = None
    return None, "; ".join(reasons) or "cuDNN has no engine for it"


def _configs(
    cudnn: CudnnFunctions, target: Target, graph: Descriptor, mode: int
) -> Iterator[Descriptor]:
    """Yield the engines for a graph, the best by cuDNN's ranking first."""
    ranking = Descriptor(cudnn, d.HEURISTICS).set(d.HEURISTICS_GRAPH, graph)
    ranking.set(d.HEURISTICS_MODE, mode)
    target.set_on(ranking, None, d.HEURISTICS_DEVICE)
    yield from ranking.finalize().get_descriptors(
        d.HEURISTICS_RESULTS, d.ENGINE_CONFIG, _MOST_CONFIGS
    )


def _plan_of(
    cudnn: CudnnFunctions, target: Target, problem: ConvolutionProblem, config: Descriptor
) -> tuple[Plan | None, str]:
    """Return the plan of one engine, or None with the reason."""
    try:
        (engine,) = config.get_descriptors(d.CONFIG_ENGINE, d.ENGINE, 1)
        (number,) = engine.get(d.ENGINE_NUMBER)
        reason = reason_against(problem, engine.get(d.ENGINE_NOTES, 16))
        if reason:
            return None, f"engine {number}: {reason}"
        made = Descriptor(cudnn, d.PLAN).set(d.PLAN_CONFIG, config)
        target.set_on(made, d.PLAN_HANDLE, d.PLAN_DEVICE)
        plan = Plan(cudnn, made.finalize(), number)
    except LibraryFailure as error:
        return None, str(error)
    if plan.workspace_bytes > WORKSPACE_BYTES:
        return None, f"engine {number}: a workspace of {plan.workspace_bytes} bytes"
    return plan, ""


def _graph(cudnn: CudnnFunctions, target: Target, problem: ConvolutionProblem) -> Descriptor:
    """Return the graph of operations. Raises LibraryFailure."""
    wide = 1 if problem.dtype.name == "float64" else 0
    dtype = d.DATA_TYPES[problem.dtype.name]
    # between operations of an epilogue, values have the type of sums
    inner = wide if problem.epilogue else dtype
    numbers = iter(range(_FIRST_VIRTUAL, _FIRST_VIRTUAL + len(problem.epilogue)))

    def tensor(of: int, number: int | None = None) -> Descriptor:
        made = Descriptor(cudnn, d.TENSOR)
        made.set(d.TENSOR_TYPE, dtype if number is None else inner)
        made.set(d.TENSOR_SIZES, *problem.sizes(of))
        made.set(d.TENSOR_STRIDES, *problem.strides_of(of))
        made.set(d.TENSOR_ID, of if number is None else number).set(d.TENSOR_ALIGNMENT, ALIGNMENT)
        return (made if number is None else made.set(d.TENSOR_IS_VIRTUAL, True)).finalize()

    def results(is_last: bool) -> Descriptor:
        return tensor(RESULTS) if is_last else tensor(RESULTS, next(numbers))

    value = results(not problem.epilogue)
    operations = [_operation(cudnn, problem, wide, tensor(IMAGES), tensor(FILTER), value)]
    for position, member in enumerate(problem.epilogue, 1):
        after = results(position == len(problem.epilogue))
        operand = {"bias": BIAS, "add": ADDED}.get(member)
        operations.append(
            _pointwise(cudnn, wide, value, None if operand is None else tensor(operand), after)
        )
        value = after
    made = Descriptor(cudnn, d.GRAPH).set(d.GRAPH_OPERATIONS, *operations)
    target.set_on(made, d.GRAPH_HANDLE, None)
    return made.finalize()


def _operation(
    cudnn: CudnnFunctions, problem: ConvolutionProblem, wide: int, images: Descriptor,
    filters: Descriptor, results: Descriptor,
) -> Descriptor:  # fmt: skip
    window = Descriptor(cudnn, d.CONVOLUTION).set(d.CONVOLUTION_PRECISION, wide)
    window.set(d.CONVOLUTION_MODE, d.CROSS_CORRELATION).set(d.CONVOLUTION_RANK, 2)
    window.set(d.CONVOLUTION_STRIDES, *problem.strides)
    window.set(d.CONVOLUTION_DILATIONS, *problem.dilations)
    window.set(d.CONVOLUTION_BEFORE, *problem.before)
    window.set(d.CONVOLUTION_AFTER, *problem.after).finalize()
    kind = _OPERATIONS[problem.kind]
    made = Descriptor(cudnn, kind)
    factor = 5 if wide else 4  # the type of alpha and beta
    numbered: list[tuple[int, object]] = [
        *((factor, 1.0), (factor, 0.0)),
        *((15, one) for one in (window, filters, images, results)),
    ]
    for offset, (of, value) in enumerate(numbered):
        made.set(d.Attribute(d.FIRST_OF_OPERATION[kind] + offset, of), value)
    return made.finalize()


def _pointwise(
    cudnn: CudnnFunctions,
    wide: int,
    value: Descriptor,
    operand: Descriptor | None,
    after: Descriptor,
) -> Descriptor:
    """Return the operation that adds an operand, or max(0, x) without one."""
    function = Descriptor(cudnn, d.POINTWISE).set(d.POINTWISE_PRECISION, wide)
    function.set(d.POINTWISE_MODE, d.RELU if operand is None else d.ADD)
    if operand is None:
        function.set(d.POINTWISE_NAN, d.PROPAGATE_NAN)
    made = Descriptor(cudnn, d.POINTWISE_OPERATION)
    made.set(d.OPERATION_POINTWISE, function.finalize()).set(d.OPERATION_POINTWISE_X, value)
    if operand is not None:
        made.set(d.OPERATION_POINTWISE_B, operand)
    return made.set(d.OPERATION_POINTWISE_Y, after).finalize()


__all__ = ["Plan", "Target", "find_plan"]
