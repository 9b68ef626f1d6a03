"""Memory, argument blocks and stretches of a step, on lowered texts; nothing is compiled or run."""

from __future__ import annotations

from tests.runtime.lowered_programs import layout, read
from tfjit.runtime.step.layout import Layout
from tfjit.runtime.step.memory_planner import align
from tfjit.runtime.step.native_run import NativeRun


def shape_of(found: Layout) -> list[list[str] | str]:
    """Stretches as lists of nodes, Python kernels as names."""
    return [
        [i.node.name for i in segment.instructions]
        if isinstance(segment, NativeRun)
        else segment[1].node.name
        for segment in found.segments
    ]


def offsets(found: Layout) -> dict[int, int]:
    return {index: life.offset for index, life in found.buffers.items()}


CHAIN = """
    lowered feeds=1
    %0: float32<100> = feed 0 'x'
    %1: float32<100> = reference 'a' Neg(%0)
    %2: float32<100> = reference 'b' Neg(%1)
    %3: float32<100> = reference 'c' Neg(%2)
    %4: float32<100> = reference 'd' Neg(%3)
    fetch %4
"""
SIZE = align(400)


def test_a_chain_takes_turns_in_two_buffers() -> None:
    found = layout(read(CHAIN))
    assert shape_of(found) == [["a", "b", "c", "d"]]
    assert offsets(found) == {1: 0, 2: SIZE, 3: 0} and found.arena_bytes == 2 * SIZE
    assert list(found.fresh) == [4]  # what is fetched is new memory


def test_kernels_that_write_over_their_input_need_one_buffer() -> None:
    found = layout(read(CHAIN), in_place=("b", "c", "d"))
    assert offsets(found) == {1: 0, 2: 0, 3: 0} and found.arena_bytes == SIZE


def test_a_feed_is_never_written_over() -> None:
    found = layout(read(CHAIN), in_place=("a",))
    assert 0 not in found.buffers and offsets(found)[1] == 0


def test_an_input_that_lives_on_is_not_written_over() -> None:
    made = read(CHAIN.replace("Neg(%2)", "AddV2(%2, %1)"))
    found = layout(made, in_place=("b",))
    assert offsets(found)[2] != offsets(found)[1]


def test_a_python_kernel_parts_two_stretches() -> None:
    found = layout(read(CHAIN), python=("b",))
    assert shape_of(found) == [["a"], "b", ["c", "d"]]
    # its array is Python's; what it reads is a view of the arena
    assert set(found.buffers) == {1, 3} and 2 not in found.fresh


def test_code_that_is_not_loaded_is_loaded_call_python() -> None:
    assert shape_of(layout(read(CHAIN), missing=("c",))) == [["a", "b"], "c", ["d"]]


def test_scratch_memory_lies_beside_what_is_alive() -> None:
    found = layout(read(CHAIN), temp_bytes={"b": 1000})
    (temp,) = found.placement.temps.values()
    alive = [(found.buffers[k].offset, SIZE) for k in (1, 2)]
    assert all(temp.offset >= at + size or at >= temp.offset + 1000 for at, size in alive)


def test_argument_blocks_hold_words_offsets_and_patches() -> None:
    found = layout(read(CHAIN))
    (native_run,) = found.native_runs
    assert [(code, chunks) for code, _, chunks in native_run.rows] == [
        (100, 1), (101, 1), (102, 1), (103, 1)
    ]  # fmt: skip
    assert [block for _, block, _ in native_run.rows] == [0, 5, 10, 15]
    assert [found.words[block : block + 3] for _, block, _ in native_run.rows] == [[0, 0, 7]] * 4
    # addresses in the arena: out of a, in and out of b and c, in of d
    assert found.arena_words == [(4, 0), (8, 0), (9, SIZE), (13, SIZE), (14, 0), (18, 0)]
    # addresses known at the call: the feed, and new memory
    assert [(p.array, p.word) for p in native_run.patches] == [("f0", 3), ("x4", 19)]


def test_the_address_of_a_constant_is_known() -> None:
    made = read(
        CHAIN.replace("%0: float32<100> = feed 0 'x'", "%0 = const 'x' float32<100>[1.0 ...]")
    )
    found = layout(made)
    array = made.values[0].array
    assert array is not None and found.words[3] == array.ctypes.data
    assert any(constant is array for constant in found.constants)


def test_variables_are_named_by_first_use() -> None:
    made = read("""
        lowered feeds=1
        %0: float32<100> = handle 'u' resource
        %1: float32<100> = handle 'v' resource
        %2: float32<100> = feed 0 'x'
        %3: float32<100> = read %1 'v/Read'
        %4: float32<100> = reference 'y' AddV2(%3, %2)
        reference 'w' ResourceApplyGradientDescent(%0, %2, %4)
        fetch
    """)
    found = layout(made)
    assert [p.array for s in found.native_runs for p in s.patches] == ["v0", "f0", "v1", "f0"]
    assert found.scope["var_v0"] is made.values[1].variable


def test_an_addition_holds_its_variables_lock_in_a_stretch_of_its_own() -> None:
    made = read("""
        lowered feeds=1
        %0: float32<100> = handle 'v' resource
        %1: float32<100> = feed 0 'x'
        %2: float32<100> = reference 'a' Neg(%1)
        runtime 'add' AssignAddVariableOp(%0, %2)
        %3: float32<100> = reference 'b' Neg(%1)
        fetch %3
    """)
    found = layout(made)
    assert shape_of(found) == [["a"], ["add"], ["b"]]
    assert [s.locked for s in found.native_runs] == [None, made.values[0], None]


LOOP = """
    lowered feeds=2
    %0: bool<> = feed 0 'p'
    %1: float32<100> = feed 1 'x'
    %2: float32<100> level=1 = move 'l' %1
    loop 'l' While
    test %0
        %3: float32<100> = reference 'y' Neg(%2)
        %2 = move 'l' %3
    repeat
    %4: float32<100> = reference 'z' Neg(%2)
    fetch %4
"""


def test_a_compiled_loop_is_jumps_inside_one_native_run() -> None:
    found = layout(read(LOOP), in_place=("y",))
    (native_run,) = found.native_runs
    # the copy at the iteration's end has gone away: y writes over the value
    assert [i.node.name for i in native_run.instructions] == ["l", "l", "l", "y", "l", "z"]
    assert native_run.loops and found.liveness.root(found.lowered.values[3]).index == 2
    assert set(offsets(found)) == {2}


def test_a_loop_with_a_python_kernel_is_python() -> None:
    found = layout(read(LOOP), python=("y",))
    # copies are compiled; markers are `while` and `if` of the step's function
    assert shape_of(found) == [["l"], "l", "l", "y", ["l"], "l", ["z"]]
