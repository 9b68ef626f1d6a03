"""Write the table executor and its Python entry in LLVM assembly.

They form one module with the intra-op pool (`thread_pool_ir.py`). `load()` returns the addresses of
its functions. The text is written by hand, so that it needs LLVM alone: without Numba and compiler
process it is ready some milliseconds after the first import, whatever the cache holds.
table_executor.py describes the layout of tables.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from string import Template

from tfjit.kernels.executor.arch_ir import CONTROL, architecture
from tfjit.kernels.executor.thread_pool_ir import POOL

_TABLE_EXECUTOR = """
define i64 @tfjit_walk_table(ptr %table) {
entry:
  %count_at = getelementptr i64, ptr %table, i64 3
  %count = load i64, ptr %count_at
  %offset_at = getelementptr i64, ptr %table, i64 4
  %offset = load i64, ptr %offset_at
  %first = getelementptr i64, ptr %table, i64 %offset
  %trace_at = getelementptr i64, ptr %table, i64 6
  %trace = load ptr, ptr %trace_at
  %cancel_at = getelementptr i64, ptr %table, i64 7
  %cancel_word = load ptr, ptr %cancel_at
  %pool_at = getelementptr i64, ptr %table, i64 8
  %pool = load ptr, ptr %pool_at
  %traced = icmp ne ptr %trace, null
  %cancellable = icmp ne ptr %cancel_word, null
  %pooled = icmp ne ptr %pool, null
  %flags_at = getelementptr i64, ptr %table, i64 5
  %flags = load i64, ptr %flags_at
  %counts = and i64 %flags, 1                     ; a short walk keeps the GIL and is over before it matters
  %counted = icmp ne i64 %counts, 0
  %control = call i64 @flush_denormals()
  br i1 %counted, label %count_in, label %begin
count_in:
  %before = atomicrmw add ptr @walking, i64 1 monotonic
  br label %begin
begin:
  br i1 %traced, label %trace_start, label %head
trace_start:
  %t0 = call i64 @ticks()
  store i64 %t0, ptr %trace
  br label %head
head:
  %index = phi i64 [ 0, %begin ], [ 0, %trace_start ], [ %following, %next ], [ %following, %trace_one ]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %check, label %finished
check:
  br i1 %cancellable, label %look, label %run
look:
  %cancel = load atomic i64, ptr %cancel_word monotonic, align 8
  %cancelled = icmp ne i64 %cancel, 0
  br i1 %cancelled, label %stopped, label %run
run:
  %words = mul i64 %index, 4
  %code_at = getelementptr i64, ptr %first, i64 %words
  %args_at = getelementptr i64, ptr %code_at, i64 1
  %size_at = getelementptr i64, ptr %code_at, i64 2
  %cost_at = getelementptr i64, ptr %code_at, i64 3
  %code = load ptr, ptr %code_at
  %args = load i64, ptr %args_at
  %size = load i64, ptr %size_at
  %cost_word = load i64, ptr %cost_at
  %marked = icmp slt i64 %cost_word, 0            ; the cost's complement: chunks need not all run once the step is to stop
  %complement = xor i64 %cost_word, -1
  %cost = select i1 %marked, i64 %complement, i64 %cost_word
  %cuttable = and i1 %marked, %cancellable
  %stop = select i1 %cuttable, ptr %cancel_word, ptr null
  %single = icmp eq i64 %size, 1
  br i1 %single, label %plain, label %several
plain:
  call void %code(i64 %args, i64 0, i64 1)
  br label %ran
several:
  %steers = icmp slt i64 %size, 0
  br i1 %steers, label %steer, label %spread
steer:                                            ; a jump: the word of the code is where to
  %target = ptrtoint ptr %code to i64
  %test_at = inttoptr i64 %args to ptr
  %beyond = add i64 %index, 1
  %always = icmp eq i64 %size, -1
  br i1 %always, label %next, label %test
test:
  %tested_at = getelementptr i64, ptr %test_at, i64 2
  %mask_at = getelementptr i64, ptr %test_at, i64 3
  %wanted_at = getelementptr i64, ptr %test_at, i64 4
  %unless_at = getelementptr i64, ptr %test_at, i64 5
  %tested = load ptr, ptr %tested_at
  %mask = load i64, ptr %mask_at
  %wanted = load i64, ptr %wanted_at
  %unless = load i64, ptr %unless_at
  switch i64 %size, label %test_word [ i64 -2, label %test_byte i64 -3, label %test_half ]
test_byte:
  %byte = load i8, ptr %tested
  %byte_wide = sext i8 %byte to i64
  br label %compare
test_half:
  %half = load i32, ptr %tested
  %half_wide = sext i32 %half to i64
  br label %compare
test_word:
  %full = load i64, ptr %tested
  br label %compare
compare:
  %found = phi i64 [ %byte_wide, %test_byte ], [ %half_wide, %test_half ], [ %full, %test_word ]
  %masked = and i64 %found, %mask
  %equal = icmp eq i64 %masked, %wanted
  %inverted = icmp ne i64 %unless, 0
  %jumps = xor i1 %equal, %inverted
  %chosen = select i1 %jumps, i64 %target, i64 %beyond
  br label %next
spread:
  br i1 %pooled, label %shared, label %alone
shared:
  %walking = load atomic i64, ptr @walking monotonic, align 8
  %others = sub i64 %walking, %counts
  call void @run_shared(ptr %pool, ptr %code, i64 %args, i64 %size, i64 %cost, i64 %others, ptr %stop)
  br label %ran
alone:
  call void @run_alone(ptr %code, i64 %args, i64 %size, ptr %stop)
  br label %ran
ran:
  %after = add i64 %index, 1
  %status_at = inttoptr i64 %args to ptr
  %status = load i64, ptr %status_at
  %good = icmp eq i64 %status, 0
  br i1 %good, label %whole, label %failed
whole:
  br i1 %cuttable, label %look_behind, label %next
look_behind:
  %late_cancel = load atomic i64, ptr %cancel_word monotonic, align 8
  %cut_short = icmp ne i64 %late_cancel, 0
  br i1 %cut_short, label %stopped, label %next
next:
  %following = phi i64 [ %after, %whole ], [ %after, %look_behind ], [ %target, %steer ], [ %chosen, %compare ]
  br i1 %traced, label %trace_one, label %head
trace_one:
  %entry_word = mul i64 %index, 2
  %entry_first = add i64 %entry_word, 1
  %sum_at = getelementptr i64, ptr %trace, i64 %entry_first
  %times_at = getelementptr i64, ptr %sum_at, i64 1
  %stamp = call i64 @ticks()
  %last_stamp = load i64, ptr %trace
  %taken = sub i64 %stamp, %last_stamp
  %sum = load i64, ptr %sum_at
  %new_sum = add i64 %sum, %taken
  %times = load i64, ptr %times_at
  %new_times = add i64 %times, 1
  store i64 %new_sum, ptr %sum_at
  store i64 %new_times, ptr %times_at
  store i64 %stamp, ptr %trace
  br label %head
stopped:
  %minus = sub i64 -1, %index
  br label %finished
failed:
  br label %finished
finished:
  %result = phi i64 [ 0, %head ], [ %minus, %stopped ], [ %after, %failed ]
  br i1 %counted, label %count_out, label %restore
count_out:
  %ignored = atomicrmw sub ptr @walking, i64 1 monotonic
  br label %restore
restore:
  call void @restore_control(i64 %control)
  ret i64 %result
}
"""

_PARTS = """
; Tables that do not depend on each other: a kernel each of whose chunks walks one, all by itself. Its block: status (1 once one of them
; has stopped), detail, the addresses of the tables, for each what its walk returned.
define void @tfjit_parts(i64 %args, i64 %chunk, i64 %nchunks) {
  %block = inttoptr i64 %args to ptr
  %place = add i64 %chunk, 2
  %table_at = getelementptr i64, ptr %block, i64 %place
  %result_at = getelementptr i64, ptr %table_at, i64 %nchunks
  %table = load ptr, ptr %table_at
  %result = call i64 @tfjit_walk_table(ptr %table)
  store i64 %result, ptr %result_at
  %good = icmp eq i64 %result, 0
  br i1 %good, label %out, label %stopped
stopped:
  store atomic i64 1, ptr %block monotonic, align 8
  br label %out
out:
  ret void
}
"""

_PYTHON = """
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @PyErr_SetString(ptr, ptr)
@PyExc_TypeError = external global ptr
@array_type = internal global ptr null
$wrong_count
$wrong_type

define void @tfjit_set_array_type(ptr %type) {
  store ptr %type, ptr @array_type
  ret void
}

; walk(table, *arrays), METH_FASTCALL
define ptr @tfjit_walk(ptr %self, ptr %arguments, i64 %given) {
entry:
  %array_class = load ptr, ptr @array_type
  %some = icmp sgt i64 %given, 0
  br i1 %some, label %check, label %count_error
check:                                            ; of all arguments, before anything is written
  %n = phi i64 [ 0, %entry ], [ %n_after, %checked ]
  %unchecked = icmp slt i64 %n, %given
  br i1 %unchecked, label %check_one, label %start
check_one:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %n
  %argument = load ptr, ptr %argument_at
  %class_at = getelementptr i8, ptr %argument, i64 $type_offset
  %class = load ptr, ptr %class_at
  %array = icmp eq ptr %class, %array_class
  br i1 %array, label %checked, label %type_error
checked:
  %n_after = add i64 %n, 1
  br label %check
start:
  %table_object = load ptr, ptr %arguments
  %table_at = getelementptr i8, ptr %table_object, i64 $data_offset
  %table = load ptr, ptr %table_at
  %wanted = load i64, ptr %table
  %arrays = sub i64 %given, 1
  %matches = icmp eq i64 %wanted, %arrays
  br i1 %matches, label %patch_start, label %count_error
patch_start:
  %patches_at = getelementptr i64, ptr %table, i64 1
  %patches = load i64, ptr %patches_at
  %patch_offset_at = getelementptr i64, ptr %table, i64 2
  %patch_offset = load i64, ptr %patch_offset_at
  %first = getelementptr i64, ptr %table, i64 %patch_offset
  br label %patch
patch:
  %p = phi i64 [ 0, %patch_start ], [ %p_after, %patch_one ]
  %unpatched = icmp slt i64 %p, %patches
  br i1 %unpatched, label %patch_one, label %flags
patch_one:                                        ; words: array number, address to write to, byte offset
  %p_words = mul i64 %p, 3
  %number_at = getelementptr i64, ptr %first, i64 %p_words
  %number = load i64, ptr %number_at
  %place_at = getelementptr i64, ptr %number_at, i64 1
  %place = load ptr, ptr %place_at
  %bytes_at = getelementptr i64, ptr %number_at, i64 2
  %bytes = load i64, ptr %bytes_at
  %slot = add i64 %number, 1
  %object_at = getelementptr ptr, ptr %arguments, i64 %slot
  %object = load ptr, ptr %object_at
  %data_at = getelementptr i8, ptr %object, i64 $data_offset
  %data = load i64, ptr %data_at
  %address = add i64 %data, %bytes
  store i64 %address, ptr %place
  %p_after = add i64 %p, 1
  br label %patch
flags:
  %flags_at = getelementptr i64, ptr %table, i64 5
  %flag_word = load i64, ptr %flags_at
  %release_bit = and i64 %flag_word, 1
  %release = icmp ne i64 %release_bit, 0
  br i1 %release, label %without, label %with
with:
  %kept = call i64 @tfjit_walk_table(ptr %table)
  br label %answer
without:
  %thread = call ptr @PyEval_SaveThread()
  %released = call i64 @tfjit_walk_table(ptr %table)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %answer
answer:
  %result = phi i64 [ %kept, %with ], [ %released, %without ]
  %object_result = call ptr @PyLong_FromLongLong(i64 %result)
  ret ptr %object_result
count_error:
  %type_error_1 = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type_error_1, ptr @wrong_count)
  ret ptr null
type_error:
  %type_error_2 = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type_error_2, ptr @wrong_type)
  ret ptr null
}
"""

PYTHON_SYMBOLS = (
    "PyLong_FromLongLong",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_SetString",
    "PyExc_TypeError",
)
NATIVE_FUNCTIONS = (
    "tfjit_ticks",
    "tfjit_control_word",
    "tfjit_helper",
    "tfjit_run",
    "tfjit_bundle",
    "tfjit_walk_table",
    "tfjit_parts",
)
PYTHON_FUNCTIONS = ("tfjit_set_array_type", "tfjit_walk")


def _c_string(name: str, text: str) -> str:
    return f'@{name} = internal constant [{len(text) + 1} x i8] c"{text}\\00"'


def module_text(machine: str, offsets: tuple[int, int] | None) -> str:
    """Return the module's LLVM assembly.

    offsets: of the type and of the data pointer in an ndarray object; None leaves out the entry
    that reads them.
    """
    text = CONTROL[architecture(machine)] + POOL + _TABLE_EXECUTOR + _PARTS
    if offsets is not None:
        text += Template(_PYTHON).substitute(
            type_offset=offsets[0],
            data_offset=offsets[1],
            wrong_count=_c_string(
                "wrong_count",
                "walk(table, *arrays): not the number of arrays that the table is for",
            ),
            wrong_type=_c_string(
                "wrong_type", "walk(table, *arrays): an argument is not a numpy.ndarray"
            ),
        )
    return text


def machine_text(offsets: tuple[int, int] | None) -> tuple[str, tuple[str, ...]]:
    """Return the module's LLVM text for this machine, and its functions.

    offsets: as `array_offsets` finds them.
    """
    functions = NATIVE_FUNCTIONS if offsets is None else NATIVE_FUNCTIONS + PYTHON_FUNCTIONS
    return module_text(platform.machine(), offsets), functions


_lock = threading.Lock()
_addresses: dict[str, int] | None = None


def load() -> dict[str, int]:
    """Return function -> address.

    "tfjit_walk" is absent if ndarrays do not hold their data pointer at a known place. The first
    call compiles the module (tens of ms) or loads it from the disk cache.
    """
    global _addresses
    with _lock:
        if _addresses is None:
            from tfjit.kernels.executor.python_abi import array_offsets
            from tfjit.kernels.jit import loader
            from tfjit.kernels.jit.store import store

            offsets = array_offsets()
            if offsets is not None:
                # An embedding program may hide these symbols from the dynamic linker.
                for name in PYTHON_SYMBOLS:
                    if name.startswith("PyExc_"):
                        symbol: ctypes._CData = ctypes.c_void_p.in_dll(ctypes.pythonapi, name)
                        loader.add_symbol(name, ctypes.addressof(symbol))
                    else:
                        loader.add_symbol(
                            name,
                            ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
                            or 0,
                        )
            _addresses = store.assembly.load(*machine_text(offsets))
        return _addresses


def loaded() -> bool:
    """Return whether `load()` returns at once."""
    return _addresses is not None


def _reset_after_fork() -> None:
    """Replace the lock in a forked child; another thread may hold it."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
