"""Kernel texts become LLVM IR: each statement and operator against Python's own result."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.golden import templates
from tfjit.kernels.jit import compiler, front_end, loader
from tfjit.kernels.registry import NativeCall

HEAD = """
from numba import float32, int32, njit, uint64
from tfjit.kernels.codegen.intrinsics import store_word, word


"""
_numbers = itertools.count()
Run = Callable[..., list[int]]


def translated(text: str, entries: Sequence[str] = ("kernel",), arity: int = 3) -> str:
    """Return the IR of a text; raises Unsupported where Numba would be asked."""
    names: dict[str, Any] = {}
    exec(compile(text, "<text>", "exec"), names)
    return front_end.translate(text, names, entries, arity, "translated")


def kernel(body: str, left_to_numba: bool = False, functions: str = "") -> Run:
    """Compile statements over the words a and b; store_word(out + 8 * n, x) gives result n.

    functions: other functions of the text.
    """
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    text = (
        f"{HEAD}{functions}def kernel(args, chunk, nchunks):\n    a = word(args, 0)\n    b = word(args, 1)\n"
        f"    out = args + 16\n{indented}"
    )
    if left_to_numba:
        with pytest.raises(front_end.Unsupported):
            translated(text)
    else:
        translated(text)
    unique = f"front_end_test_{next(_numbers)}"
    obj = compiler.compile_text(text, ("kernel",), 3, 0, f"<{unique}>", unique)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(loader.load(obj)["kernel"])

    def run(a: int = 0, b: int = 0) -> list[int]:
        block = (ctypes.c_int64 * 8)(a, b)
        function(ctypes.addressof(block), 0, 1)
        return list(block)[2:]

    return run


def test_floor_division_by_words() -> None:
    run = kernel("store_word(out, a // b)\nstore_word(out + 8, a % b)")
    values = (0, 1, 6, 7, 8, -1, -7, -8, -9, 2**62, -(2**62))
    for value, divisor in itertools.product(values, (1, 2, 8, 7, -1, -2, -7)):
        assert run(value, divisor)[:2] == [value // divisor, value % divisor]
    assert run(5, 0)[0] == 0
    assert run(-(2**63), -1)[0] == -(2**63)


def test_floor_division_by_literals() -> None:
    divisors = (1, 2, 8, 7, -2, -7)
    run = kernel("\n".join(f"store_word(out + {8 * n}, a // {d})" for n, d in enumerate(divisors)))
    for value in (0, 1, 6, 7, 8, -1, -7, -8, -9, 2**62, -(2**62)):
        assert run(value) == [value // divisor for divisor in divisors]


LOOPS = {
    "range": "t = 0\nfor i in range(a):\n    t += i * i\nstore_word(out, t)",
    "from one to another": "t = 0\nfor i in range(b, a):\n    t = t * 3 + i\nstore_word(out, t)",
    "downwards": "t = 0\nfor i in range(a, b, -2):\n    t = t * 3 + i\nstore_word(out, t)",
    "last index": "i = -5\nfor i in range(b, a, 3):\n    pass\nstore_word(out, i)",
    "break": "t = 0\nfor i in range(100):\n    if i > a:\n        break\n    t += i\nstore_word(out, t)",
    "continue": (
        "t = 0\nfor i in range(a):\n    if i % 3 == b:\n        continue\n    t += i\nstore_word(out, t)"
    ),
    "while": "t = a\nn = 0\nwhile t > 1:\n    t = t // 2\n    n += 1\nstore_word(out, n)",
    "nested": (
        "t = 0\nfor i in range(a):\n    for j in range(i, a):\n        t += i ^ j\nstore_word(out, t)"
    ),
    "limits are read once": "n = a\nt = 0\nfor i in range(n):\n    n = 0\n    t += 1\nstore_word(out, t)",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    run = kernel(LOOPS[name])
    for a, b in ((0, 0), (1, 0), (7, 2), (-3, -9)):
        memory: dict[int, int] = {}
        exec(LOOPS[name], {"a": a, "b": b, "out": 0, "store_word": memory.__setitem__})
        assert run(a, b)[0] == memory[0]


CHOICES = {
    "if": "if a > b:\n    r = 1\nelif a == b:\n    r = 2\nelse:\n    r = 3",
    "choice": "r = a if a < b else b + 1",
    "and, or, not": "r = 1 if (a > 0 and b > 0) or not a != b else 0",
    "short circuit": "r = 0\nif b != 0 and a // b > 1:\n    r = 1",
    "least and most": "r = min(a, b, 3) * 10 + max(a, b)",
    "two at once": "r, t = b, a\nr = r * 10 + t",
    "bits": "r = ((a & 6) | (b << 2)) ^ (a >> 1)",
    "signs": "r = -a + +b",
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_and_operators(name: str) -> None:
    run = kernel(f"{CHOICES[name]}\nstore_word(out, r)")
    for a, b in ((0, 0), (5, 2), (2, 5), (7, 7), (-4, 1)):
        names = {"a": a, "b": b}
        exec(CHOICES[name], names)
        assert run(a, b)[0] == names["r"]


def test_return_ends_the_kernel() -> None:
    run = kernel("store_word(out, 1)\nif a > 0:\n    return\nstore_word(out, 2)")
    assert run(1)[0] == 1
    assert run(0)[0] == 2


def test_integers_of_32_bits_widen_as_in_numba() -> None:
    run = kernel("k = int32(a)\nstore_word(out, k + 1)\nstore_word(out + 8, min(k, 3))")
    assert run(2**31 - 1)[:2] == [2**31, 3]
    assert run(2**31)[:2] == [1 - 2**31, -(2**31)]


def test_integers_of_several_widths_are_wide() -> None:
    run = kernel("k = int32(a)\nif b > 0:\n    k = k + b\nn = int32(0)\nfor i in range(3):\n"
                 "    n += int32(i > 0)\nstore_word(out, k)\nstore_word(out + 8, n)")  # fmt: skip
    assert run(5, 2**40)[:2] == [5 + 2**40, 2]
    assert run(2**31, 0)[:2] == [-(2**31), 2]


@pytest.mark.parametrize(
    "body",
    [
        "x = a\nx = float32(x) * float32(1.5)\nstore_word(out, int(x))",
        "x = y = a + a // 2\nstore_word(out, (x + y) // 2)",
    ],
)
def test_other_python_is_left_to_numba(body: str) -> None:
    assert kernel(body, left_to_numba=True)(4)[0] == 6


FUNCTIONS = """
SEVEN = uint64(7)


@njit(forceinline=True)
def mixed(a, b):
    for _ in range(3):
        a, b = b + 1, a ^ b
    return a, b


@njit(forceinline=True)
def larger(a, b):
    c, d = mixed(b, a)
    return c if c > d else d


@njit(forceinline=True)
def early(a):
    if a > 3:
        return a
    return 3


@njit
def own_code(a):
    return a * 2


"""


def results_of_python(text: str, a: int, b: int) -> list[int]:
    results = [0] * 6

    def store_word(place: int, value: int) -> None:
        results[place // 8] = value

    names = {"a": a, "b": b, "out": 0, "uint64": int, "store_word": store_word}
    exec(text, names | {"njit": lambda **options: lambda function: function})
    return results


def test_functions_of_the_text_are_inlined() -> None:
    body = """a, r = mixed(a, larger(b, a) + larger(a, 5))
store_word(out, r)
if larger(a, b) > 4:
    store_word(out + 8, int(uint64(a & 7) % SEVEN) + larger(larger(a, 1), 2))
b = a + 1
store_word(out + 16, a * 100 + b)"""
    run = kernel(body, functions=FUNCTIONS)
    for a, b in ((0, 0), (1, 5), (9, 3), (-4, 6)):
        assert run(a, b) == results_of_python(FUNCTIONS.replace("@njit\n", "") + body, a, b)


@pytest.mark.parametrize("call", ["early(a)", "own_code(a)", "a if a > 3 else larger(a, 2)"])
def test_other_calls_are_left_to_numba(call: str) -> None:
    run = kernel(f"store_word(out, {call})", left_to_numba=True, functions=FUNCTIONS)
    assert run(4)[0] == {"early(a)": 4, "own_code(a)": 8}.get(call, 4)


@pytest.mark.parametrize(
    "make",
    [
        templates.loop,
        templates.loop_program,
        templates.tiled_loop,
        templates.reduction,
        templates.rows,
        templates.transpose,
    ],
    ids=lambda make: make.__name__,
)
def test_templates_need_no_analysis_by_numba(make: Callable[[], NativeCall]) -> None:
    for source in make().sources():
        assert "define" in translated(source.text, source.entries, source.arity)
