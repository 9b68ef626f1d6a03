"""Compute one node of output sizes that depend on values."""

from __future__ import annotations

import ctypes
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tfjit.kernels.float_control import flushed
from tfjit.kernels.registry import BoundedCall, Pointer, Reference, Unsupported, Word
from tfjit.kernels.source import KernelSource
from tfjit.passes.ir.dataflow_graph import Node
from tfjit.runtime.executor.computed_node import ReferencedNode
from tfjit.runtime.executor.runner import RunnerEnvironment
from tfjit.runtime.host.device import Device
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.schedule.group_division import next_attempt

log: Final = logging.getLogger("tfjit.compare")

_MAX_CALLS: Final = 8
"""Most calls of a node, each for other input shapes."""
_Shapes = tuple[tuple[int, ...], ...]


class BoundedNode(ReferencedNode):
    """Run compiled code into the largest outputs, and cut these.

    The reference serves while the kernel is missing.
    """

    def __init__(
        self,
        node: Node,
        reference: Reference | None,
        env: RunnerEnvironment,
        device: Device,
        constants: Mapping[int, np.ndarray],
    ) -> None:
        super().__init__(node, reference, env, device, constants)
        self._differs = False  # a difference was logged
        # None where there is no compiled form
        self._calls: OrderedDict[_Shapes, BoundedCall | None] = OrderedDict()

    def _compute(self, context: StepContext, arrays: Sequence[np.ndarray]) -> Sequence[object]:
        call = self._call(arrays)
        if call is None:
            return super()._compute(context, arrays)
        store, source = self._env.store, call.launch.source
        assert store is not None
        entries = store.lookup(source)
        if entries is None:
            if not store.load_present((source,)):
                self._request(call, arrays)
                return super()._compute(context, arrays)
            entries = store.lookup(source)
            assert entries is not None
        found = _run(call, entries[call.launch.entry], arrays)
        if found is None:
            return super()._compute(context, arrays)
        if not self._env.step_environment(self._device.name).compares:
            return found
        wanted = super()._compute(context, arrays)
        self._compare(found, wanted, source)
        return wanted

    def _request(self, call: BoundedCall, arrays: Sequence[np.ndarray]) -> None:
        """Request a call's kernel; a refused one is compiled in another way."""
        store = self._env.store
        assert store is not None
        source = next_attempt(call.launch.source, store.refused)
        if source is not call.launch.source:
            launch = replace(call.launch, source=source)
            with self._lock:
                self._calls[tuple([a.shape for a in arrays])] = replace(call, launch=launch)
        if store.refused(source) is None:
            store.request((source,))

    def _compare(
        self, found: Sequence[np.ndarray], wanted: Sequence[object], source: KernelSource
    ) -> None:
        """Log the first difference from the reference (TFJIT_COMPARE)."""
        for k, (compiled, value) in enumerate(zip(found, wanted, strict=True)):
            if self._differs:
                return
            array = np.asarray(value)
            if compiled.dtype != array.dtype or not np.array_equal(compiled, array):
                self._differs = True
                log.warning(
                    "TFJIT_COMPARE: %s (%s): output %d differs from the reference; the kernel is "
                    "written by %s",
                    self._node.name,
                    self._node.op,
                    k,
                    source.writer,
                )

    def _call(self, arrays: Sequence[np.ndarray]) -> BoundedCall | None:
        """Return the call for these inputs, or None."""
        shapes = tuple([array.shape for array in arrays])
        with self._lock:
            if shapes in self._calls:
                return self._calls[shapes]
        call: BoundedCall | None = None
        try:
            with self._env.settings():
                call = self._device.backend.bounded_call(self._spec(arrays, ()))
        except Unsupported:
            pass
        with self._lock:
            self._calls[shapes] = call
            if len(self._calls) > _MAX_CALLS:
                self._calls.popitem(last=False)
        return call


def _run(call: BoundedCall, address: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Return the outputs of a bounded call.

    None: the input values are an error.
    """
    shapes, rows = [t.shape for t in call.outputs], 0
    if call.rows is not None:
        rows = call.rows(arrays)
        if rows < 0:
            return None
        shapes = [(rows, *shape[1:]) for shape in shapes]
    buffers = {
        "in": [np.asarray(array, order="C") for array in arrays],
        "out": [
            np.empty(shape, t.dtype.as_numpy_dtype)
            for shape, t in zip(shapes, call.outputs, strict=True)
        ],
        "temp": [np.empty(size, np.uint8) for size in call.temp_bytes],
    }

    def value(word: Word) -> int:
        if not isinstance(word, Pointer):
            return word
        return rows if word.kind == "rows" else _address(buffers[word.kind][word.index])

    words = [value(word) for word in call.launch.words]
    block = (ctypes.c_int64 * (2 + len(words)))(0, 0, *words)
    flushed(_Kernel(address))(ctypes.addressof(block), 0, 1)
    status, rows = block[:2]
    if status or rows < 0:
        return None
    return [_cut(out, rows) if k in call.counted else out for k, out in enumerate(buffers["out"])]


_Kernel: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _cut(array: np.ndarray, rows: int) -> np.ndarray:
    """Return the first rows; a copy if these are few."""
    return array[:rows] if 2 * rows >= len(array) else array[:rows].copy()
