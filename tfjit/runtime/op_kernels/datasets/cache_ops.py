"""Datasets that keep the elements of their first pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.files.records import pack_record, read_records
from tfjit.framework.types.tensors import from_proto, to_proto
from tfjit.runtime.datasets.dataset import Dataset, DatasetOp, Elements, dataset_kernel
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.owned_values import shared
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel

if TYPE_CHECKING:
    from tfjit.framework.env import FileSystem

_SUFFIX: Final = ".tfjit-cache"


class MemoryCache:
    """Elements of a whole pass, or None before one has ended."""

    __slots__ = ("elements",)

    def __init__(self) -> None:
        self.elements: list[Element] | None = None


class _NoCache:
    pass


_NO_CACHE: Final = _NoCache()


@runtime_kernel("AnonymousMemoryCache")
def make_cache(ctx: OpContext, inputs: Element) -> Element:
    """Return a cache, and an empty deleter."""
    return MemoryCache(), None


@runtime_kernel("DummyMemoryCache")
def no_cache(ctx: OpContext, inputs: Element) -> Element:
    """Return a handle of no cache: each iterator makes one."""
    return (_NO_CACHE,)


@runtime_kernel("DeleteMemoryCache")
def delete_cache(ctx: OpContext, inputs: Element) -> Element:
    """Do nothing: a cache goes with its last handle."""
    return ()


@dataset_kernel("CacheDataset", "CacheDatasetV2")
def cache(op: DatasetOp) -> Dataset:
    """Return the elements, kept in memory or in a file."""
    source, name = op.dataset("input_dataset"), op.text("filename").decode()
    if name:
        files, width = op.ctx.session.env.files, len(op.attrs["output_types"])

        def read_or_write(run: ElementContext) -> Elements:
            if files.exists(name + _SUFFIX):
                return _FromFile(files.open(name + _SUFFIX, "rb"), name, width)
            return _ToFile(source.start(run), files, name)

        return op.made(read_or_write, source.cardinality)
    given = op.value("cache") if "cache" in op.names else None
    key = object()

    def start(run: ElementContext) -> Elements:
        kept = given if isinstance(given, MemoryCache) else run.shared(key, MemoryCache)
        if kept.elements is None:
            return _ToMemory(source.start(run), kept)
        return _FromMemory(kept.elements)

    return op.made(start, source.cardinality)


class _ToMemory(Elements):
    __slots__ = ("_cache", "_elements")

    def __init__(self, source: Elements, cache: MemoryCache) -> None:
        super().__init__(source)
        self._cache = cache
        self._elements: list[Element] = []

    def __next__(self) -> Element:
        try:
            element = [shared(value) for value in next(self.sources[0])]
        except StopIteration:
            if self._cache.elements is None:
                self._cache.elements = self._elements
            raise
        self._elements.append(element)
        return element


class _FromMemory(Elements):
    __slots__ = ("_next",)

    def __init__(self, elements: Sequence[Element]) -> None:
        super().__init__()
        self._next = iter(elements).__next__

    def __next__(self) -> Element:
        return self._next()


class _ToFile(Elements):
    """Elements that are written to a file.

    The file gets its name at the end of the pass.
    A component is a record, a serialized TensorProto. A lock file shows that a pass is writing.
    """

    __slots__ = ("_file", "_files", "_lock", "_name")

    def __init__(self, source: Elements, files: FileSystem, name: str) -> None:
        super().__init__(source)
        self._files, self._name = files, name
        self._lock = f"{name}_0.lockfile"
        if files.exists(self._lock):
            raise errors.AlreadyExistsError(
                None,
                None,
                "There appears to be a concurrent caching iterator running - cache lockfile "
                f"already exists ('{self._lock}'). If you are sure no other running TF "
                "computations are using this cache prefix, delete the lockfile and re-initialize "
                "the iterator.",
            )
        files.write(self._lock, b"tfjit")
        self._file: IO[bytes] | None = files.open(name + _SUFFIX + ".part", "wb")

    def __next__(self) -> Element:
        if self._file is None:
            raise StopIteration
        try:
            element = next(self.sources[0])
        except StopIteration:
            self._file.close()
            self._file = None
            self._files.replace(self._name + _SUFFIX + ".part", self._name + _SUFFIX)
            self._files.remove(self._lock)
            raise
        for value in element:
            self._file.write(pack_record(_serialized(value)))
        return element

    def close(self) -> None:
        """Give up a file that is not complete."""
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None
            for path in (self._name + _SUFFIX + ".part", self._lock):
                if self._files.exists(path):
                    self._files.remove(path)


def _serialized(value: Value) -> bytes:
    if not isinstance(value, np.ndarray):
        raise errors.UnimplementedError(
            None, None, f"tfjit keeps no {type(value).__name__} in a cache file"
        )
    data: bytes = to_proto(value).SerializeToString()
    return data


class _FromFile(Elements):
    """Elements of a complete file. width: their components."""

    __slots__ = ("_file", "_records", "_width")

    def __init__(self, file: IO[bytes], name: str, width: int) -> None:
        super().__init__()
        self._file, self._width = file, width
        self._records: Iterator[bytes] = read_records(file, name)

    def __next__(self) -> Element:
        from tfjit.protos.tensor_pb2 import TensorProto

        try:
            return [
                from_proto(TensorProto.FromString(data))
                for data in [next(self._records) for _ in range(self._width)]
            ]
        except StopIteration:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._records = iter(())
        self._file.close()
