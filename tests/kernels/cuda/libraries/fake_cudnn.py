"""cuDNN over host memory: descriptors as cudnn_graph.h declares them, convolutions by NumPy.

ctypes converts the arguments as for the library. What is wrong in a call is its status, and the
reason its text. Rankings of engines and their properties are the test's.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_bool, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfjit.framework.types import dtypes

BAD_PARAM, NOT_FINALIZED, NOT_SUPPORTED, INTERNAL = 2000, 2004, 3000, 4000

# From cudnn_graph.h, written down a second time: the type of an attribute's elements.
_C_TYPES = {
    0: c_void_p, 1: c_int, 2: c_bool, 3: c_int64, 4: c_float, 5: c_double, 6: c_void_p, 7: c_int,
    8: c_int, 10: c_int, 11: c_int, 14: c_int, 15: c_void_p,
}  # fmt: skip
_TYPES_OF = {
    0: {0: 14, 1: 1},
    1: {100: 1, 101: 7, 102: 3, 103: 3, 104: 3, 105: 3, 106: 3},
    4: {200: 8, 201: 15},
    5: {401: 15},
    10: {702: 15, 703: 15, 704: 15, 705: 15},
    12: {708: 15, 709: 15, 710: 15, 711: 15},
    11: {714: 15, 715: 15, 716: 15, 717: 15},
    13: {750: 15, 751: 15, 753: 15},
    15: {801: 15},
    16: {1000: 3, 1001: 6, 1003: 6},
    17: {900: 3, 901: 1, 902: 3, 903: 3, 906: 3},
    38: {2701: 0},
}
"""Descriptor kind -> its required attributes."""
_OPTIONAL = {
    0: {2: 10},
    4: {204: 15},
    5: {400: 0, 407: 15},
    13: {752: 15},
    15: {800: 0},
    17: {907: 2},
}
_SCALES = {10: (700, 701), 12: (706, 707), 11: (712, 713)}  # float, or double for doubles
_NUMPY = {0: "float32", 1: "float64", 2: "float16", 9: "bfloat16"}
_SIGNATURES: Mapping[str, tuple[type, ...]] = {
    "cudnnCreate": (POINTER(c_void_p),),
    "cudnnDestroy": (c_void_p,),
    "cudnnSetStream": (c_void_p, c_void_p),
    "cudnnBackendCreateDescriptor": (c_int, POINTER(c_void_p)),
    "cudnnBackendDestroyDescriptor": (c_void_p,),
    "cudnnBackendFinalize": (c_void_p,),
    "cudnnBackendSetAttribute": (c_void_p, c_int, c_int, c_int64, c_void_p),
    "cudnnBackendGetAttribute": (c_void_p, c_int, c_int, c_int64, POINTER(c_int64), c_void_p),
    "cudnnBackendExecute": (c_void_p, c_void_p, c_void_p),
}


class _Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Engine:
    """One engine of a ranking. plans: whether its plans can be finalized."""

    number: int = 67
    notes: tuple[int, ...] = (0,)
    workspace: int = 131
    plans: bool = True


@dataclass
class _Descriptor:
    kind: int
    values: dict[int, list[Any]] = field(default_factory=dict)
    finalized: bool = False
    engine: Engine | None = None
    graph: _Descriptor | None = None
    parts: dict[int, list[_Descriptor]] = field(default_factory=dict)


class FakeCudnn:
    """The functions of libcudnn that tfjit calls.

    rankings: the engines for a graph by heuristic mode. knows_handles: descriptors may have a handle
    in place of a device. wrong: results are off by one, as from a
    broken library. executed: for each execution, handle, stream, kinds of the operations, workspace.
    alive: the number of descriptors that are not destroyed.
    """

    def __init__(self, version: int = 92801) -> None:
        self.rankings: dict[int, list[Engine]] = {3: [Engine()], 2: [Engine(0, (9,), 0)]}
        self.wrong = False
        self.knows_handles = True
        self.executed: list[tuple[int, int, tuple[int, ...], int]] = []
        self.streams: dict[int, int] = {}
        self.failing: dict[str, int] = {}
        self._descriptors: dict[int, _Descriptor] = {}
        self._addresses = itertools.count(0x10000, 0x40)
        self._reason = ""
        self.cudnnGetVersion = ctypes.CFUNCTYPE(c_size_t)(lambda: version)
        self.cudnnGetCudartVersion = ctypes.CFUNCTYPE(c_size_t)(lambda: 13000)
        self._status = ctypes.create_string_buffer(b"CUDNN_STATUS_OF_FAKE")
        self.cudnnGetErrorString = ctypes.CFUNCTYPE(c_void_p, c_int)(
            lambda _: ctypes.addressof(self._status)
        )
        self.cudnnGetLastErrorString = ctypes.CFUNCTYPE(None, c_void_p, c_size_t)(self._last_error)
        for name, arguments in _SIGNATURES.items():
            made = ctypes.CFUNCTYPE(c_int, *arguments)(self._guarded(name))
            setattr(self, name, made)

    @property
    def alive(self) -> int:
        return len(self._descriptors)

    def _last_error(self, text: int, size: int) -> None:
        ctypes.memmove(text, self._reason.encode()[: size - 1] + b"\0", len(self._reason) + 1)

    def _guarded(self, name: str) -> Callable[..., int]:
        """A callback must not raise: its exception becomes a status."""
        function = getattr(self, "_" + name.removeprefix("cudnn").removeprefix("Backend").lower())

        def guarded(*arguments: Any) -> int:
            self._reason = ""
            if name in self.failing:
                return self.failing[name]
            try:
                function(*arguments)
            except _Refusal as refusal:
                self._reason = str(refusal)
                return refusal.status
            except Exception as error:
                self._reason = repr(error)
                return INTERNAL
            return 0

        return guarded

    def _create(self, made: Any) -> None:
        made[0] = next(self._addresses)
        self.streams[made[0]] = 0

    def _destroy(self, handle: int) -> None:
        del self.streams[handle]

    def _setstream(self, handle: int, stream: int | None) -> None:
        assert handle in self.streams
        self.streams[handle] = stream or 0

    def _createdescriptor(self, kind: int, made: Any) -> None:
        if kind not in _TYPES_OF and kind not in (2, 3):
            raise _Refusal(NOT_SUPPORTED, f"descriptors of kind {kind}")
        made[0] = next(self._addresses)
        self._descriptors[made[0]] = _Descriptor(kind)

    def _destroydescriptor(self, address: int) -> None:
        del self._descriptors[address]

    def _setattribute(self, address: int, number: int, kind: int, count: int, at: int) -> None:
        descriptor = self._descriptors[address]
        if descriptor.finalized:
            raise _Refusal(BAD_PARAM, "set after finalize")
        expected = {**_TYPES_OF[descriptor.kind], **_OPTIONAL.get(descriptor.kind, {})}.get(number)
        if number in _SCALES.get(descriptor.kind, ()) and kind in (4, 5):
            expected = kind
        if expected != kind:
            raise _Refusal(2010, f"attribute {number} of kind {descriptor.kind} as type {kind}")
        if number in (400, 800) and not self.knows_handles:
            raise _Refusal(NOT_SUPPORTED, f"attribute {number}")
        read = list((_C_TYPES[kind] * count).from_address(at))
        if kind == 15:
            for one in read:
                if not self._descriptors[one].finalized and self._descriptors[one].kind != 3:
                    raise _Refusal(NOT_FINALIZED, f"attribute {number}")
            # the library keeps what a descriptor refers to
            descriptor.parts[number] = [self._descriptors[one] for one in read]
        descriptor.values[number] = read

    def _finalize(self, address: int) -> None:
        descriptor = self._descriptors[address]
        missing = _TYPES_OF[descriptor.kind].keys() - descriptor.values.keys()
        missing |= set(_SCALES.get(descriptor.kind, ())) - descriptor.values.keys()
        if missing:
            raise _Refusal(BAD_PARAM, f"kind {descriptor.kind} lacks {sorted(missing)}")
        if descriptor.kind in _SCALES:
            self._check_sizes(descriptor)
        if descriptor.kind == 4:
            # the device is the graph's, by a handle, or that of the ranking
            (graph,) = descriptor.parts[201]
            if (800 in graph.values) == (204 in descriptor.values):
                raise _Refusal(BAD_PARAM, "a ranking for no device, or for two")
        if descriptor.kind == 5:
            if (400 in descriptor.values) == (407 in descriptor.values):
                raise _Refusal(BAD_PARAM, "a plan for no device, or for two")
            engine = descriptor.parts[401][0].engine
            assert engine is not None
            if not engine.plans:
                raise _Refusal(NOT_SUPPORTED, f"engine {engine.number} has no plan")
        descriptor.finalized = True

    def _check_sizes(self, operation: _Descriptor) -> None:
        window, filters, images, results = self._parts(operation)
        for axis in (0, 1):
            extent = (filters.values[902][2 + axis] - 1) * window.values[102][axis] + 1
            padded = images.values[902][2 + axis]
            padded += window.values[104][axis] + window.values[105][axis]
            if (padded - extent) // window.values[103][axis] + 1 != results.values[902][2 + axis]:
                raise _Refusal(BAD_PARAM, f"axis {axis} has other sizes")

    def _parts(self, operation: _Descriptor) -> list[_Descriptor]:
        first = _SCALES[operation.kind][0] + 2
        return [operation.parts[first + k][0] for k in range(4)]

    def _getattribute(
        self, address: int, number: int, kind: int, most: int, count: Any, at: int | None
    ) -> None:
        descriptor = self._descriptors[address]
        if number in (202, 300):
            engines, graph = [descriptor.engine], descriptor.graph
            if number == 202:
                engines = list(self.rankings[descriptor.values[200][0]])
                (graph,) = descriptor.parts[201]
            assert kind == 15
            count[0] = len(engines) if not most else min(most, len(engines))
            for k in range(count[0] if most else 0):
                made = self._descriptors[c_void_p.from_address((at or 0) + 8 * k).value or 0]
                assert made.kind == {202: 3, 300: 2}[number]
                made.engine, made.graph, made.finalized = engines[k], graph, True
            return
        engine = descriptor.engine
        if number == 402:
            engine = descriptor.parts[401][0].engine
        assert engine is not None
        read = {1301: [engine.number], 1303: engine.notes, 402: [engine.workspace]}[number]
        assert kind == {1301: 3, 1303: 11, 402: 3}[number]
        elements = (_C_TYPES[kind] * most).from_address(at or 0)
        count[0] = len(read)
        elements[: len(read)] = read

    # execution

    def _execute(self, handle: int, plan_at: int, pack_at: int) -> None:
        plan, pack = self._descriptors[plan_at], self._descriptors[pack_at]
        if not (plan.finalized and pack.finalized and handle in self.streams):
            raise _Refusal(NOT_FINALIZED, "execute")
        (config,) = plan.parts[401]
        assert config.engine is not None and config.graph is not None
        workspace = pack.values[1003][0] or 0
        if config.engine.workspace and not workspace:
            raise _Refusal(BAD_PARAM, "no workspace")
        addresses = dict(zip(pack.values[1000], pack.values[1001], strict=True))
        values: dict[int, np.ndarray] = {}
        for operation in config.graph.parts[801]:
            target, made = self._result(operation, addresses, values)
            number = target.values[906][0]
            if target.values.get(907, [False])[0]:
                values[number] = made
            else:
                view = _view(target, addresses[number])
                view[...] = (made + 1 if self.wrong else made).astype(view.dtype)
        kinds = tuple(operation.kind for operation in config.graph.parts[801])
        self.executed.append((handle, self.streams[handle], kinds, workspace))

    def _result(
        self,
        operation: _Descriptor,
        addresses: Mapping[int, int],
        values: Mapping[int, np.ndarray],
    ) -> tuple[_Descriptor, np.ndarray]:
        """The tensor that an operation writes, and its values with wide sums."""

        def read(tensor: _Descriptor) -> np.ndarray:
            number = tensor.values[906][0]
            if number in values:
                return values[number]
            narrow = _view(tensor, addresses[number])
            return narrow.astype(np.float64)

        if operation.kind == 13:
            function, value, target = (operation.parts[number][0] for number in (750, 751, 753))
            if function.values[0][0] == 0:
                return target, read(value) + read(operation.parts[752][0])
            assert function.values[0][0] == 100 and function.values[2][0] == 1
            return target, np.maximum(read(value), 0)  # NaN stays
        scale = [operation.values[number][0] for number in _SCALES[operation.kind]]
        assert scale == [1.0, 0.0]
        window, filters, images, results = self._parts(operation)
        target = {10: results, 11: filters, 12: images}[operation.kind]
        arrays = [
            np.zeros(one.values[902]) if one is target else read(one)
            for one in (images, filters, results)
        ]
        return target, _convolve(operation.kind, window, *arrays)


def _view(tensor: _Descriptor, address: int) -> np.ndarray:
    """The elements of a tensor in memory, by its sizes and strides."""
    sizes, strides = tensor.values[902], tensor.values[903]
    dtype = np.dtype(dtypes.as_dtype(_NUMPY[tensor.values[901][0]]).as_numpy_dtype)
    assert address % tensor.values[900][0] == 0
    count = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address))
    flat = raw.view(dtype)
    return np.lib.stride_tricks.as_strided(flat, sizes, [n * dtype.itemsize for n in strides])


def _convolve(
    kind: int, window: _Descriptor, x: np.ndarray, w: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Cross-correlation of x [n, c, h, w] with w [k, c / groups, r, s], or a gradient."""
    assert window.values[101][0] == 1
    before, after = window.values[105], window.values[104]
    steps, spread = window.values[103], window.values[102]
    around = [(0, 0), (0, 0), *zip(before, after, strict=True)]
    padded = np.pad(x, around)
    groups = x.shape[1] // w.shape[1]
    rows, columns = y.shape[2:]
    out = {10: np.zeros_like(y), 11: np.zeros_like(w), 12: np.zeros_like(padded)}[kind]
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            top, left = r * spread[0], s * spread[1]
            down = slice(top, top + (rows - 1) * steps[0] + 1, steps[0])
            along = slice(left, left + (columns - 1) * steps[1] + 1, steps[1])
            for g in range(groups):
                ins = slice(g * w.shape[1], (g + 1) * w.shape[1])
                outs = slice(*(n * (w.shape[0] // groups) for n in (g, g + 1)))
                images, tap = padded[:, ins, down, along], w[outs, :, r, s]
                if kind == 10:
                    out[:, outs] += np.einsum("nchw,kc->nkhw", images, tap)
                elif kind == 11:
                    out[outs, :, r, s] += np.einsum("nchw,nkhw->kc", images, y[:, outs])
                else:
                    out[:, ins, down, along] += np.einsum("nkhw,kc->nchw", y[:, outs], tap)
    if kind != 12:
        return out
    height, width = x.shape[2:]
    return out[:, :, before[0] : before[0] + height, before[1] : before[1] + width]
