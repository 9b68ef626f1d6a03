"""A lowered partition is read back as it was written, and nothing else is read."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.runtime.lowered_programs import EVERYTHING
from tfjit.kernels.cpu.data_movement.gather import IndexMessage
from tfjit.kernels.cpu.template.call_builder import aligned_empty
from tfjit.kernels.registry import Launch, NativeCall, Pointer
from tfjit.kernels.source import KernelSource
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.lowering.lowered_parser import parse_lowered
from tfjit.runtime.lowering.lowered_pickle import ALIGN_BYTES, NotStorable, decode, encode
from tfjit.runtime.lowering.lowered_text import print_lowered
from tfjit.runtime.resources.variables_and_resources import Variable

SMALL = """
    lowered feeds=1
    %0: float32<17> = feed 0 'x'
    %1 = const 'k' float32<17>[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]
    %2: float32<17> = reference 'y' AddV2(%0, %1)
    fetch %2
"""


def variables_in(lowered: Lowered) -> dict[str, Variable]:
    return {
        value.variable.name: value.variable
        for value in lowered.values
        if value.variable is not None
    }


def read_again(
    lowered: Lowered,
    constants: Mapping[str, np.ndarray] | None = None,
    others: Mapping[str, np.ndarray] | None = None,
) -> Lowered:
    """Return what is read of a written partition.

    constants: of the graph when it was written; others: when it is read, by default the same.
    """
    variables, constants = variables_in(lowered), constants or {}
    encoded = encode(
        lowered, lowered.backend, {id(v): name for name, v in variables.items()}, constants
    )
    buffers = []
    for array in encoded.arrays:
        copy = aligned_empty((array.raw().nbytes,), np.dtype(np.uint8))
        copy[:] = np.frombuffer(array.raw(), np.uint8)
        buffers.append(memoryview(copy))  # type: ignore[arg-type]
    return decode(
        Lowered,
        memoryview(encoded.pickled),
        buffers,
        encoded.sources,
        variables.__getitem__,
        (others or constants).__getitem__,
        lowered.backend,
    )


def test_all_parts_are_read_back() -> None:
    lowered = parse_lowered(EVERYTHING)
    made = read_again(lowered)
    assert print_lowered(made) == print_lowered(lowered)
    assert variables_in(made) == variables_in(lowered)
    loops = {id(i.construct) for i in made.instructions if i.role in ("loop", "test", "repeat")}
    assert len(loops) == 1
    assert [i.graph is not None for i in made.instructions] == [
        i.graph is not None for i in lowered.instructions
    ]


def test_kernels_are_found_when_they_are_called() -> None:
    made = read_again(parse_lowered(SMALL))
    (add,) = made.instructions
    assert add.compute is not None
    (total,) = add.compute(add.spec, [np.ones(17, np.float32), made.values[1].array])
    np.testing.assert_array_equal(total, np.arange(2, 19))


def test_constants_of_the_graph_are_shared() -> None:
    lowered = parse_lowered(SMALL)
    array = lowered.values[1].array
    assert array is not None
    other = array + 1
    made = read_again(lowered, {"k": array}, {"k": other})
    found = made.values[1].array
    assert found is not None and np.shares_memory(found, other)
    assert np.shares_memory(made.instructions[0].spec.constants[1], other)


def with_call(**fields: Any) -> Lowered:
    lowered = parse_lowered(SMALL)
    source = KernelSource("text", ("a", "b"), title="a kernel", module="somewhere")
    launch = Launch(source, (1, Pointer("const"), Pointer("code", source=source, entry="b")), "a")
    lowered.instructions[0].call = NativeCall((launch,), **fields)
    return lowered


def test_calls_keep_texts_and_aligned_arrays() -> None:
    packed = aligned_empty((3,), np.dtype(np.float32))
    packed[:] = 1, 2, 3
    made = read_again(with_call(constants=(packed, np.arange(9000.0))))
    call = made.instructions[0].call
    assert call is not None
    source = call.launches[0].source
    assert (source.text, source.entries, source.title) == ("text", ("a", "b"), "a kernel")
    assert source.module == "somewhere"
    pointer = call.launches[0].words[2]
    assert isinstance(pointer, Pointer) and pointer.source is source
    np.testing.assert_array_equal(call.constants[0], packed)
    np.testing.assert_array_equal(call.constants[1], np.arange(9000.0))
    assert call.constants[0].ctypes.data % ALIGN_BYTES == 0


def test_messages_keep_their_numbers() -> None:
    lowered = parse_lowered(SMALL)
    message = IndexMessage((2, 3), 7)
    launch = Launch(KernelSource("t"), (), errors={1: ("InvalidArgumentError", message)})
    lowered.instructions[0].call = NativeCall((launch,))
    call = read_again(lowered).instructions[0].call
    assert call is not None
    found = call.launches[0].errors[1][1]
    assert found.format(detail=1 << 40) == message.format(detail=1 << 40)


def test_an_unknown_variable_is_not_stored() -> None:
    lowered = parse_lowered(EVERYTHING)
    with pytest.raises(NotStorable, match="variable"):
        encode(lowered, lowered.backend, {}, {})


def test_a_function_is_not_stored() -> None:
    lowered = parse_lowered(SMALL)
    lowered.instructions[0].node.attrs["hook"] = lambda: None
    with pytest.raises(NotStorable):
        encode(lowered, lowered.backend, {}, {})


class _Danger:
    def __reduce__(self) -> Any:
        return os.getcwd, ()


@pytest.mark.parametrize("content", [_Danger(), [1, 2], pickle.loads], ids=["os", "list", "pickle"])
def test_only_plans_are_read(content: Any) -> None:
    data = memoryview(pickle.dumps(content, 5))
    backend = parse_lowered(SMALL).backend
    with pytest.raises(pickle.UnpicklingError):
        decode(Lowered, data, (), (), {}.__getitem__, {}.__getitem__, backend)
