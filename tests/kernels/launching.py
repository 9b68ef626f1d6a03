"""Runs a NativeCall on arrays without the runtime: compile, argument blocks, every
chunk in turn.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.kernels.float_control import flushed
from tfjit.kernels.jit import store as kernel_store
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec


class KernelError(Exception):
    """A kernel reported a status; args: (exception class name, message)."""


def tensor(array: np.ndarray) -> TensorSpec:
    """The TensorSpec of an array."""
    return TensorSpec(dtypes.as_dtype(array.dtype), array.shape)


def aligned(shape: Sequence[int], dtype: np.dtype, fill: int = 0xA5) -> np.ndarray:
    """An array at a 64-byte boundary, filled with junk, with junk around it."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.full(size + 192, fill, np.uint8)
    start = -raw.ctypes.data % 64 + 64
    return raw[start : start + size].view(dtype).reshape(shape)


def run_native(
    call: NativeCall,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[TensorSpec],
    nchunks: int = 0,
    in_place: Sequence[tuple[int, int]] = (),
    state: np.ndarray | None = None,
    details: list[int] | None = None,
) -> list[np.ndarray]:
    """The outputs of a call. nchunks: 0 = as the launch says, else at most that. in_place: pairs to
    share buffers for. state: the node's, advanced in place. details: gets those of the launches.

    Raises KernelError where a kernel reports a status.
    """
    if call.sources():
        kernel_store.store.compile(call.sources())
    ins = []
    for array in inputs:
        copy = aligned(array.shape, array.dtype)
        copy[...] = array
        ins.append(copy)
    outs = [aligned(t.shape, np.dtype(t.dtype.as_numpy_dtype)) for t in outputs]
    for k, j in in_place:
        outs[k] = ins[j].view(outs[k].dtype)
    temps = [aligned((n,), np.dtype(np.uint8)) for n in call.temp_bytes]
    consts = [np.ascontiguousarray(c) for c in call.constants]
    cancel = [np.zeros(1, np.int64)]

    def resolve(word: int | Pointer) -> int:
        if not isinstance(word, Pointer):
            return int(word)
        if word.kind == "code":
            found = kernel_store.store.lookup(word.source)
            assert found is not None
            return found[word.entry]
        buffer = {
            "in": ins,
            "out": outs,
            "temp": temps,
            "const": consts,
            "cancel": cancel,
            "state": [state],
        }[word.kind][word.index]
        assert buffer is not None
        return int(buffer.ctypes.data) + word.offset

    for launch in call.launches:
        block = np.array([0, 0, *(resolve(w) for w in launch.words)], np.int64)
        addresses = kernel_store.store.lookup(launch.source)
        assert addresses is not None
        # as the threads that run kernels have it
        kernel = flushed(
            ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(
                addresses[launch.entry]
            )
        )
        n = min(launch.chunks, nchunks) if nchunks else launch.chunks
        for chunk in range(n):
            kernel(block.ctypes.data, chunk, n)
        if block[0]:
            name, message = launch.errors[int(block[0])]
            raise KernelError(name, message.format(detail=int(block[1])))
        if details is not None:
            details.append(int(block[1]))
    return outs


def run_node(
    spec: NodeSpec, call: NativeCall, inputs: Sequence[np.ndarray], **kwargs: object
) -> list[np.ndarray]:
    """`run_native` with the outputs of a node."""
    return run_native(call, inputs, spec.outputs, **kwargs)  # type: ignore[arg-type]
