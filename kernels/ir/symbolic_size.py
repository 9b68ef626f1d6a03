"""Trace the arithmetic of builders on sizes; repeat the arithmetic for others.

A builder computes argument words from the shapes of its node: it multiplies, divides, compares. A
`Size` takes the place of a size in these shapes. It knows its value in the traced run and its
formula over the symbols. `SizeTrace` collects the comparisons that decided something. The result
is a function of the symbols: the words for other sizes, or None where a comparison would come out
otherwise.

A `Size` is no int. Code that needs a number (a table in NumPy, the text of a kernel, `range`) asks
`__index__`, which pins the formula to its present value by a guard. So a trace is never wrong for a
size that passes the guards; at worst it serves one size only.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

# A sum of products: sorted numbers of atoms -> coefficient. The constant term has the key ().
Terms = dict[tuple[int, ...], int]
_NEGATED: Final = {"<": ">=", "<=": ">", "==": "!="}
_COMPARES: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True)
class _Atom:
    """A symbol or a quotient that is no sum of products.

    text: its formula. low, high: bounds of its value for all sizes of the trace.
    """

    text: str
    value: int
    low: int
    high: int


class SizeTrace:
    """Collect the formulas and guards of one traced run."""

    def __init__(self, values: Sequence[int], bounds: Sequence[tuple[int, int]]) -> None:
        """Start a trace.

        values: of the symbols in this run. bounds: (least, greatest) value of each symbol that the
        result shall serve.
        """
        self.closed = False
        # the sizes of the thread's present run, for the texts of its errors
        self.present = threading.local()
        self.pinned = False  # some code needs the very size
        self._atoms: list[_Atom] = []
        self._numbers: dict[str, int] = {}  # text -> number of the atom
        # atoms and guards in the order in which they came up: a guard may protect a later division
        self._lines: list[str] = []
        self._guards: set[str] = set()
        self._count = len(values)
        for number, (value, (low, high)) in enumerate(zip(values, bounds, strict=True)):
            self._atoms.append(_Atom(f"n{number}", value, low, high))
        self.symbols: tuple[Size, ...] = tuple(
            Size(self, {(number,): 1}) for number in range(len(values))
        )

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "present"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, present=threading.local())

    def value(self, terms: Terms) -> int:
        """Return the value of a formula in this run."""
        return sum(
            coefficient * functools.reduce(lambda x, k: x * self._atoms[k].value, key, 1)
            for key, coefficient in terms.items()
        )

    def bounds(self, terms: Terms) -> tuple[int, int]:
        """Return bounds of a formula for all sizes of the trace."""
        low = high = 0
        for key, coefficient in terms.items():
            ends = [coefficient]
            for number in key:
                atom = self._atoms[number]
                ends = [end * side for end in ends for side in (atom.low, atom.high)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def text(self, terms: Terms) -> str:
        """Return a formula as the text of a Python expression."""
        parts = []
        for key, coefficient in sorted(terms.items()):
            factors = [self._name(number) for number in key]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append("*".join(factors))
        return "+".join(parts).replace("+-", "-") or "0"

    def _name(self, number: int) -> str:
        return f"n{number}" if number < self._count else f"t{number}"

    def quotient(self, x: Terms, y: Terms, sign: str) -> Any:
        """Return an atom for the quotient or remainder, by `sign`."""
        rule = operator.floordiv if sign == "//" else operator.mod
        return self._atom(
            f"({self.text(x)}){sign}({self.text(y)})",
            rule(self.value(x), self.value(y)),
            _quotient_bounds(self.bounds(x), self.bounds(y), sign),
        )

    def bound(self, x: Terms, y: Terms, name: str) -> Any:
        """Return the lesser (name "min") or the greater ("max") of two formulas."""
        choose = min if name == "min" else max
        (x_low, x_high), (y_low, y_high) = self.bounds(x), self.bounds(y)
        return self._atom(
            f"{name}({self.text(x)}, {self.text(y)})",
            choose(self.value(x), self.value(y)),
            (choose(x_low, y_low), choose(x_high, y_high)),
        )

    def _atom(self, text: str, value: int, bounds: tuple[int, int]) -> Any:
        """Return the atom with this formula."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._atoms)
            self._atoms.append(_Atom(text, value, *bounds))
            self._lines.append(f"{self._name(number)} = {text}")
        return _size(self, {(number,): 1})

    def decide(self, terms: Terms, sign: str) -> bool:
        """Compare the formula with 0, and guard the answer."""
        found = _COMPARES[sign](self.value(terms), 0)
        if self.closed:
            return found
        low, high = self.bounds(terms)
        if sign == "==":
            known = not (low <= 0 <= high) or low == high
        else:
            known = _COMPARES[sign](low, 0) == _COMPARES[sign](high, 0)
        if not known:
            wrong = _NEGATED[sign] if found else sign
            guard = f"if {self.text(terms)} {wrong} 0: return None"
            if guard not in self._guards:
                self._guards.add(guard)
                self._lines.append(guard)
        return found

    def pin(self, terms: Terms) -> None:
        """Guard that a formula is 0.

        Note if no other size can pass.
        """
        self.decide(terms, "==")
        if not self.closed and all(k < self._count for key in terms for k in key):
            self.pinned = True

    @property
    def guards(self) -> list[str]:
        """Return the guards, for logs."""
        return [line for line in self._lines if line.startswith("if ")]

    def value_now(self, terms: Terms) -> int:
        """Return the value of a formula in the present run.

        It is the thread's run of a finished trace, else the traced one.
        """
        sizes: tuple[int, ...] | None = getattr(self.present, "sizes", None)
        if not self.closed or sizes is None:
            return self.value(terms)
        scope = {f"n{k}": n for k, n in enumerate(sizes)}
        for line in self._lines:
            if not line.startswith("if "):
                exec(line, scope)
        return int(eval(self.text(terms), scope))

    def finish(self, results: Sequence[Size | int]) -> Callable[..., list[int] | None]:
        """Return the function that evaluates the results for other symbols.

        It returns None where a guard fails. Nothing is guarded afterwards.
        """
        self.closed = True
        lines = ["def evaluate(" + ", ".join(f"n{k}" for k in range(self._count)) + "):"]
        for number in range(self._count):
            atom = self._atoms[number]
            lines.append(f"    if not {atom.low} <= n{number} <= {atom.high}: return None")
        lines += [f"    {line}" for line in self._lines]
        texts = [self.text(r.terms) if isinstance(r, Size) else str(r) for r in results]
        lines.append(f"    return [{', '.join(texts)}]")
        scope: dict[str, Any] = {}
        exec("\n".join(lines), scope)
        evaluate: Callable[..., list[int] | None] = scope["evaluate"]
        return evaluate


def _quotient_bounds(x: tuple[int, int], y: tuple[int, int], sign: str) -> tuple[int, int]:
    if sign == "%":
        return (0, max(y[1] - 1, 0)) if y[0] > 0 else (-abs(y[0]) - abs(y[1]), abs(y[0]) + y[1])
    if y[0] > 0:
        ends = [a // b for a in x for b in y]
        return min(ends), max(ends)
    reach = max(abs(x[0]), abs(x[1])) + 1
    return -reach, reach


class Size:
    """A size in a traced run: a sum of products of atoms."""

    __slots__ = ("terms", "trace", "value")
    __array_ufunc__ = None  # NumPy's scalars leave arithmetic to this class

    def __init__(self, trace: SizeTrace, terms: Terms) -> None:
        self.trace = trace
        self.terms = terms
        self.value = trace.value(terms)

    def __add__(self, other: Any) -> Any:
        return self._combined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return _size(self.trace, {key: -c for key, c in self.terms.items()})

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __pos__(self) -> Size:
        return self

    def _combined(self, other: Any, sign: int) -> Any:
        # Floats are predicted times: they decide about speed alone.
        if isinstance(other, float):
            return self.value + sign * other
        terms = _terms(other)
        if terms is None:
            return NotImplemented
        total = dict(self.terms)
        for key, coefficient in terms.items():
            total[key] = total.get(key, 0) + sign * coefficient
        return _size(self.trace, total)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float):
            return self.value * other
        terms = _terms(other)
        if terms is None:
            return NotImplemented
        total: Terms = {}
        for (x, a), (y, b) in itertools.product(self.terms.items(), terms.items()):
            key = tuple(sorted(x + y))
            total[key] = total.get(key, 0) + a * b
        return _size(self.trace, total)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> float:
        return self.value / float(_value(other))

    def __rtruediv__(self, other: Any) -> float:
        return float(_value(other)) / self.value

    def __floordiv__(self, other: Any) -> Any:
        return self.value // other if isinstance(other, float) else _divided(self, other, "//")

    def __rfloordiv__(self, other: Any) -> Any:
        return other // self.value if isinstance(other, float) else _divided(other, self, "//")

    def __mod__(self, other: Any) -> Any:
        return _divided(self, other, "%")

    def __rmod__(self, other: Any) -> Any:
        return _divided(other, self, "%")

    def __and__(self, other: Any) -> Any:
        """Round down to a multiple of a power of two.

        Other masks pin the value.
        """
        if isinstance(other, int) and other < 0 and -other & (-other - 1) == 0:
            return self // -other * -other
        return self.__index__() & other

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, "<")

    def __le__(self, other: Any) -> Any:
        return self._compared(other, "<=")

    def __gt__(self, other: Any) -> Any:
        found = self._compared(other, "<=")
        return found if found is NotImplemented else not found

    def __ge__(self, other: Any) -> Any:
        found = self._compared(other, "<")
        return found if found is NotImplemented else not found

    def __eq__(self, other: object) -> Any:
        return self._compared(other, "==")

    def __ne__(self, other: object) -> Any:
        found = self._compared(other, "==")
        return found if found is NotImplemented else not found

    def _compared(self, other: Any, sign: str) -> Any:
        if isinstance(other, float):
            return _COMPARES[sign](self.value, other)
        difference = self._combined(other, -1)
        if difference is NotImplemented:
            return NotImplemented
        if isinstance(difference, int):
            return _COMPARES[sign](difference, 0)
        return self.trace.decide(difference.terms, sign)

    def __bool__(self) -> bool:
        return not self.trace.decide(self.terms, "==")

    def __hash__(self) -> int:
        # A table finds an equal key by ==, which guards the answer. Keys that are equal for other
        # sizes only are two keys of the trace; tables of builders merge equal operands, no more.
        return hash(self.value)

    def __index__(self) -> int:
        """Return the value, and pin the formula to it.

        A finished trace returns the value of the thread's present run.
        """
        if self.trace.closed:
            return self.trace.value_now(self.terms)
        difference = self - self.value
        if isinstance(difference, Size):
            self.trace.pin(difference.terms)
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __str__(self) -> str:
        return str(self.__index__())

    def __repr__(self) -> str:
        return f"<{self.trace.text(self.terms)} = {self.value}>"


def _terms(value: Any) -> Terms | None:
    """Return the formula of an operand, None for no integer."""
    if isinstance(value, Size):
        return value.terms
    if isinstance(value, (int, np.integer)):
        return {(): int(value)}
    return None


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Size) else value


def _size(trace: SizeTrace, terms: Terms) -> Any:
    """Return a formula as a Size, a number as an int."""
    terms = {key: c for key, c in terms.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Size(trace, terms)


def _divided(x: Any, y: Any, sign: str) -> Any:
    """Return x // y or x % y."""
    numerator, divisor = _terms(x), _terms(y)
    if numerator is None or divisor is None:
        return NotImplemented
    trace = x.trace if isinstance(x, Size) else y.trace
    if set(divisor) == {()} and divisor[()] > 0:
        number = divisor[()]
        # The multiples of the divisor come out of the quotient.
        whole = {key: c // number for key, c in numerator.items() if c % number == 0}
        rest = {key: c for key, c in numerator.items() if c % number}
        if set(rest) <= {()}:
            left = rest.get((), 0)
            if sign == "%":
                return left % number
            return _size(trace, _sum(whole, {(): left // number}))
        fraction = trace.quotient(rest, divisor, sign)
        return fraction if sign == "%" else _size(trace, whole) + fraction
    if numerator == divisor and trace.bounds(divisor)[0] > 0:
        return 1 if sign == "//" else 0
    if trace.value(divisor) == 0:
        raise ZeroDivisionError("division by a size of zero")
    common = _common_factor(numerator, divisor)
    if common is not None and trace.bounds(divisor)[0] > 0:
        return common if sign == "//" else 0
    return trace.quotient(numerator, divisor, sign)


def _sum(x: Terms, y: Terms) -> Terms:
    total = dict(x)
    for key, coefficient in y.items():
        total[key] = total.get(key, 0) + coefficient
    return total


def _common_factor(x: Terms, y: Terms) -> int | None:
    """Return k where x is k times y, else None."""
    if set(x) != set(y):
        return None
    ratios = {divmod(x[key], y[key]) for key in x}
    return next(iter(ratios))[0] if len(ratios) == 1 and next(iter(ratios))[1] == 0 else None


def is_symbolic(value: object) -> bool:
    """Return whether a word or table entry is a formula."""
    return isinstance(value, Size)


def minimum(x: Any, y: Any) -> Any:
    """Return the lesser value, without a guard on the choice."""
    return _bound(x, y, "min")


def maximum(x: Any, y: Any) -> Any:
    """Return the greater value, without a guard on the choice."""
    return _bound(x, y, "max")


def _bound(x: Any, y: Any, name: str) -> Any:
    choose = min if name == "min" else max
    if not isinstance(x, Size) and not isinstance(y, Size):
        return choose(x, y)
    trace = x.trace if isinstance(x, Size) else y.trace
    a, b = _terms(x), _terms(y)
    if a is None or b is None:
        raise TypeError(f"{name} of {x!r} and {y!r}")
    (a_low, a_high), (b_low, b_high) = trace.bounds(a), trace.bounds(b)
    if a_high <= b_low:
        return x if name == "min" else y
    if b_high <= a_low:
        return y if name == "min" else x
    return trace.bound(a, b, name)


def at_least(value: int | Size) -> int:
    """Return a lower bound over all sizes of the trace.

    The bound of an int is the int.
    """
    return value.trace.bounds(value.terms)[0] if isinstance(value, Size) else int(value)


def at_most(value: int | Size) -> int:
    """Return an upper bound over all sizes of the trace.

    The bound of an int is the int.
    """
    return value.trace.bounds(value.terms)[1] if isinstance(value, Size) else int(value)


def predicted(value: Any) -> Any:
    """Return a size's value in the traced run, without a guard.

    Predictions of time take it, since they decide about speed alone.
    """
    return value.value if isinstance(value, Size) else value


def word_table(rows: Any) -> np.ndarray:
    """Return integers as a vector.

    Its dtype is int64, or object if some are formulas.
    """
    if isinstance(rows, np.ndarray):
        return rows.reshape(-1) if rows.dtype == object else np.asarray(rows, np.int64).reshape(-1)
    flat = list(_flattened(rows))
    return np.array(flat, object if any(isinstance(v, Size) for v in flat) else np.int64)


def _flattened(rows: Any) -> Iterator[Any]:
    if isinstance(rows, Iterable):
        for row in rows:
            yield from _flattened(row)
    else:
        yield rows


__all__ = ["Size", "SizeTrace", "at_least", "is_symbolic", "maximum", "minimum", "word_table"]
