"""Run CUDA launches over NumPy arrays, and compile their texts to PTX without a GPU.

They run in the simulator, or on the machine's GPU (`tests/hardware.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests import hardware
from tests.kernels.cuda.compiler_process import compiled
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.device import simulator
from tfjit.kernels.cuda.template import launches
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.ir.accelerator import KernelLaunch
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec

ALIGNED = 256
_handles: dict[str, int] = {}


def simulated(text: str) -> int:
    """The handle of a text's kernel over host memory."""
    if text not in _handles:
        _handles[text] = simulator.load(text, ["kernel"], "of a test")["kernel"]
    return _handles[text]


def aligned(nbytes: int, value: int = 0xFF) -> np.ndarray:
    """Bytes as the device's memory gives them: at a multiple of 256."""
    raw = np.full(nbytes + ALIGNED, value, np.uint8)
    start = -raw.ctypes.data % ALIGNED
    return raw[start : start + nbytes]


def launch(text: str, arrays: Sequence[np.ndarray], blocks: int = 1, threads: int = 1) -> None:
    """Run a kernel of arrays, which are its arguments, in place."""
    if hardware.is_chosen():
        words = [Pointer("in", index) for index in range(len(arrays))]
        source = launches.source(text, len(words), "of a test", __name__)
        extents = {"grid": (blocks, 1, 1), "block": (threads, 1, 1)}
        call = NativeCall((CudaLaunch(source, tuple(words), **extents),))
        _, found = _run_on_hardware(call, arrays, ())
        for array, new in zip(arrays, found, strict=True):
            array[...] = new
        return
    addresses = [array.ctypes.data for array in arrays]
    simulator.launch(simulated(text), addresses, (blocks, 1, 1), (threads, 1, 1))


def placed(array: np.ndarray) -> np.ndarray:
    out = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def run_call(
    call: NativeCall,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[TensorSpec],
    state: np.ndarray | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(outputs, inputs afterwards) of the launches. What is not written stays garbage."""
    if hardware.is_chosen():
        return _run_on_hardware(call, inputs, outputs, state)
    given = [placed(np.ascontiguousarray(a).reshape(np.shape(a))) for a in inputs]
    results = [
        aligned(s.nbytes).view(np.dtype(s.dtype.as_numpy_dtype)).reshape(s.shape) for s in outputs
    ]
    arrays = {
        "in": given,
        "out": results,
        "temp": [aligned(n) for n in call.temp_bytes],
        "const": [placed(a) for a in call.constants],
        "state": [] if state is None else [state],
    }
    for launch in call.launches:
        assert isinstance(launch, CudaLaunch)
        assert launch.source.target == "cuda"
        words = [
            w if isinstance(w, int) else int(arrays[w.kind][w.index].ctypes.data) + w.offset
            for w in launch.words
        ]
        assert len(words) == launch.source.arity
        assert all(type(w) is int for w in words), words
        simulator.launch(simulated(launch.source.text), words, launch.grid, launch.block)
    return results, given


def _run_on_hardware(
    call: NativeCall,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[TensorSpec],
    state: np.ndarray | None = None,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Do the same in the memory of GPU:0. state: changed in place, as by the simulator."""
    device = hardware.device()
    store.compile(call.sources())
    refused = [reason for source in call.sources() if (reason := store.refused(source))]
    assert not refused, "\n".join(refused)
    arrays = {
        "in": [np.array(a, order="C") for a in inputs],
        "out": [_garbage(s.nbytes, s) for s in outputs],
        "temp": [np.full(n, 0xFF, np.uint8) for n in call.temp_bytes],
        "const": [np.ascontiguousarray(a) for a in call.constants],
        "state": [] if state is None else [state],
    }
    places = {kind: [device.allocate(a.nbytes) for a in some] for kind, some in arrays.items()}
    try:
        for kind, some in arrays.items():
            for place, array in zip(places[kind], some, strict=True):
                device.write(place, array)
        commands = []
        for one in call.launches:
            assert isinstance(one, CudaLaunch)
            found = store.lookup(one.source)
            assert found is not None
            words = [
                w if isinstance(w, int) else places[w.kind][w.index] + w.offset for w in one.words
            ]
            commands.append(
                KernelLaunch(found[one.entry], tuple(words), one.grid, one.block, one.shared_bytes)
            )
        program = device.program(commands)
        program.start()
        program.wait()
        program.close()
        for kind in ("in", "out", "state"):
            for place, array in zip(places[kind], arrays[kind], strict=True):
                device.read(array, place)
    finally:
        for place in (place for some in places.values() for place in some):
            device.free(place)
    return arrays["out"], arrays["in"]


def _garbage(nbytes: int, like: TensorSpec) -> np.ndarray:
    raw = np.full(nbytes, 0xFF, np.uint8)
    return raw.view(np.dtype(like.dtype.as_numpy_dtype)).reshape(like.shape)


def run_node(builder: Any, op: str, inputs: Sequence[np.ndarray], outputs: Sequence[Any],
             constants: Mapping[int, np.ndarray] | None = None, **attrs: Any) -> list[np.ndarray]:  # fmt: skip
    """Outputs of one node. outputs: arrays or TensorSpecs of their dtypes and shapes."""
    return run_node_state(builder, op, inputs, outputs, constants, **attrs)[0]


def run_node_state(
    builder: Any, op: str, inputs: Sequence[np.ndarray], outputs: Sequence[Any],
    constants: Mapping[int, np.ndarray] | None = None, **attrs: Any,
) -> tuple[list[np.ndarray], list[np.ndarray]]:  # fmt: skip
    """(outputs, inputs afterwards) of one node."""
    specs = tuple(o if isinstance(o, TensorSpec) else tensor(o) for o in outputs)
    spec = NodeSpec("n", op, attrs, tuple(tensor(a) for a in inputs), specs, constants or {})
    return run_call(builder(spec), inputs, specs)


def compile_ptx(texts: Sequence[tuple[str, int]], cc: tuple[int, int] = (9, 0)) -> list[str]:
    """The PTX of kernels (text, number of arguments)."""
    return compile_ptx_for([(text, arity, cc) for text, arity in texts])


def compile_ptx_for(requests: Sequence[tuple[str, int, tuple[int, int]]]) -> list[str]:
    """The PTX of kernels (text, number of arguments, compute capability)."""
    found: list[str] = compiled(
        "ptx", [(text, arity, f"sm_{major}{minor}") for text, arity, (major, minor) in requests]
    )
    for (text, _, cc), ptx in zip(requests, found, strict=True):
        assert ".entry" in ptx, f"{cc}\n{text}\n{ptx}"
        assert ".extern .func" not in ptx, f"{cc}\n{text}"
    return found


ARCHITECTURES = ((8, 0), (9, 0), (10, 0))


def call_ptx(call: NativeCall, number: int = -1) -> dict[tuple[int, int], str]:
    """The PTX of one launch of a call, for each architecture."""
    source = call.launches[number].source
    requests = [(source.text, source.arity, cc) for cc in ARCHITECTURES]
    return dict(zip(ARCHITECTURES, compile_ptx_for(requests), strict=True))


VECTOR_LOAD = r"ld\.global(\.nc)?\.v(4\.[fbu]32|2\.[fbu]64)"
VECTOR_STORE = r"st\.global\.v(4\.[fbu]32|2\.[fbu]64)"
