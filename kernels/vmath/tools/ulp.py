"""Measure the largest error of the vector math, in ulps.

`python -m tfjit.kernels.vmath.tools.ulp [--quick] [name ...]` runs float32 functions of one
argument over all 2^32 values and compares them with our float64 functions. The float64 functions
are compared with NumPy's 80-bit functions (erf and erfc with the C library's) on 10^8 samples, and
so is pow. `--quick` takes every 997th float32 value and 10^6 samples. Errors count where the exact
result is a normal number; NaN and infinity must come for the same arguments. The exit status is 1
when a bound is exceeded.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

STRIDE_QUICK: Final = 997
SAMPLES: Final = 10**8
SAMPLES_QUICK: Final = 10**6
CHUNK: Final = 1 << 20

# largest error allowed, and the largest argument it holds for
FLOAT32_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "exp": (0.99, math.inf), "exp_shifted": (4.5, 88.3), "expm1": (2.0, math.inf), "log": (0.76, math.inf), "log1p": (1.5, math.inf),
    "tanh": (4.6, math.inf), "sigmoid": (2.1, math.inf), "erf": (5.4, math.inf), "erfc": (8.0, math.inf), "softplus": (3.1, math.inf),
    "sin": (1.5, 1e14), "cos": (1.5, 1e14), "tan": (0.6, 1e14), "asin": (2.5, math.inf), "acos": (2.5, math.inf), "atan": (2.0, math.inf),
    "sinh": (0.6, math.inf), "cosh": (0.6, math.inf), "asinh": (0.6, math.inf), "acosh": (0.6, math.inf), "atanh": (4.0, math.inf),
    "sqrt": (0.5, math.inf), "rsqrt": (1.5, math.inf),
}  # fmt: skip
FLOAT64_BOUNDS: Final[dict[str, float]] = {
    "exp": 1.0, "expm1": 2.5, "log": 0.8, "log1p": 1.0, "tanh": 3.0, "sigmoid": 2.1, "erf": 1.5, "erfc": 7.0, "softplus": 2.0,
    "sin": 1.0, "cos": 1.0, "tan": 2.5, "asin": 2.5, "acos": 2.0, "atan": 2.0, "sinh": 3.5, "cosh": 2.0, "asinh": 3.0, "acosh": 3.0,
    "atanh": 3.0, "sqrt": 0.5, "rsqrt": 1.5,
}  # fmt: skip
_UNFUSED: Final = {"exp": 1.2}
"""Bounds of CPUs that round products before sums, where they are larger."""
POW_BOUNDS: Final = {"pow f32": 0.51, "pow f64": 1.3}


# largest error, the argument it came from, NaN and infinity mismatches
Measured = tuple[float, float, int, int]


@dataclass
class Result:
    """Measurements of one function.

    They are the largest error and its argument, NaN and infinity mismatches, and time an element.
    """

    name: str
    bound: float
    error: float = 0.0
    where: float = 0.0
    nan_mismatches: int = 0
    inf_mismatches: int = 0
    elements: int = 0
    ns: float = math.nan

    def merge(self, error: float, where: float, nans: int, infs: int, elements: int) -> None:
        """Add a chunk's numbers."""
        if error > self.error:
            self.error, self.where = error, where
        self.nan_mismatches += nans
        self.inf_mismatches += infs
        self.elements += elements

    @property
    def passed(self) -> bool:
        """Return whether the bound holds."""
        return self.error <= self.bound and not self.nan_mismatches and not self.inf_mismatches

    def __str__(self) -> str:
        verdict = "" if self.passed else "   EXCEEDED"
        return (
            f"{self.name:14s} {self.error:7.3f} {self.bound:6.2f}   {self.where:<16.9g} "
            f"{self.nan_mismatches:6d} {self.inf_mismatches:6d}"
            f" {self.elements:11d} {self.ns:8.3f}{verdict}"
        )


def _compile(text: str, name: str) -> Any:
    from numba import njit

    scope: dict[str, Any] = {}
    exec(text, scope)
    return njit(error_model="numpy", nogil=True)(scope[name])


def _float32_scan(name: str) -> Any:
    """Return the compiled scan(bits, limit) over an array of float32 bits.

    The scan returns the largest error, its argument's bits, NaN mismatches and inf mismatches.
    """
    text = f"""
import numpy as np
from tfjit.kernels import vmath as vm
def errors(x, limit, out, flags):
    for i in range(out.size):
        v = x[i]
        y = vm.float64(vm.{name}_f32(v))
        r = vm.{name}_f64(vm.float64(v))
        inside = not (vm.abs_f64(vm.float64(v)) > limit)
        big = vm.abs_f64(r) >= 3.4028235677973366e38
        normal = (vm.abs_f64(r) >= 1.1754943508222875e-38) & (not big) & vm.isfinite_f64(y) & inside
        e = vm.abs_f64(y - r) / vm.float32_ulp_f64(r)
        out[i] = vm.float32(vm.select_f64(normal, e, vm.float64(0)))
        nans = (vm.isnan_f64(y) != vm.isnan_f64(r)) & inside
        infs = (vm.isinf_f64(y) != big) & (not vm.isnan_f64(r)) & inside
        flags[i] = vm.uint8(nans) + vm.uint8(2) * vm.uint8(infs)
"""
    kernel = _compile(text, "errors")

    def scan(bits: np.ndarray, limit: float) -> Measured:
        out, flags = np.empty(bits.size, np.float32), np.empty(bits.size, np.uint8)
        x = bits.view(np.float32)
        kernel(x, limit, out, flags)
        at = int(np.argmax(out))
        return (
            float(out[at]),
            float(x[at]),
            int(np.count_nonzero(flags & 1)),
            int(np.count_nonzero(flags & 2)),
        )

    return scan


def _all_float32(stride: int) -> Iterator[np.ndarray]:
    """Yield the bits of every `stride`-th float32, in chunks."""
    span = CHUNK * stride
    for start in range(0, 1 << 32, span):
        yield np.arange(start, min(start + span, 1 << 32), stride, dtype=np.uint64).astype(
            np.uint32
        )


def _apply(name: str, kind: str, arity: int = 1) -> Any:
    arguments = ", ".join(f"x{i}" for i in range(arity))
    elements = ", ".join(f"x{i}[i]" for i in range(arity))
    text = f"""
from tfjit.kernels import vmath as vm
def apply({arguments}, out):
    for i in range(out.size):
        out[i] = vm.{name}_{kind}({elements})
"""
    return _compile(text, "apply")


def _nanoseconds(kernel: Any, *arguments: np.ndarray) -> float:
    out = np.empty_like(arguments[0])
    best = math.inf
    for _ in range(30):
        start = time.perf_counter()
        kernel(*arguments, out)
        best = min(best, time.perf_counter() - start)
    return best / out.size * 1e9


def _libm(name: str) -> Any:
    text = f"""
import math
def apply(x, out):
    for i in range(out.size):
        out[i] = math.{name}(x[i])
"""
    kernel = _compile(text, "apply")

    def function(x: np.ndarray) -> np.ndarray:
        out = np.empty(x.size, np.float64)
        kernel(x.astype(np.float64), out)
        return out.astype(np.longdouble)

    return function


def _long_double(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function on np.longdouble arrays."""
    renamed = {
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
    }
    own: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        "rsqrt": lambda x: 1 / np.sqrt(x),
    }
    if name in ("erf", "erfc"):
        return _libm(name)
    return own.get(name) or getattr(np, renamed.get(name, name))


def _float64_samples(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """Return random arguments from three ranges, a third from each.

    The ranges are all bit patterns, the range where the function varies most, and the numbers
    around zero (and one).
    """
    limit = 1e14 if name in ("sin", "cos", "tan") else math.inf
    if name == "erf":
        limit = 1.3e154  # Beyond this limit the answer is NaN, as TensorFlow's is.
    any_bits = rng.integers(-(2**63), 2**63 - 1, count // 3, dtype=np.int64).view(np.float64)
    any_bits = any_bits[~(np.abs(any_bits) > limit)]
    busy = {
        "exp": 750.0,
        "expm1": 720.0,
        "sinh": 715.0,
        "cosh": 715.0,
        "sin": 1e4,
        "cos": 1e4,
        "tan": 1e4,
        "erfc": 27.0,
    }.get(name, 40.0)
    return np.concatenate(
        [
            any_bits,
            rng.uniform(-busy, busy, count // 3),
            rng.uniform(-1.5, 1.5, count - 2 * (count // 3)),
        ]
    )


def _compare(
    found: np.ndarray, exact: np.ndarray, x: np.ndarray, dtype: type
) -> tuple[float, float, int, int, int]:
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded: np.ndarray = exact.astype(dtype)
        normal = np.isfinite(rounded) & np.isfinite(found) & (np.abs(rounded) >= info.tiny)
        size = np.abs(np.where(normal, exact, 1)).astype(np.longdouble)
        _, exponent = np.frexp(size)
        ulp = np.ldexp(np.longdouble(info.eps), exponent - 1)
        error = np.where(normal, np.abs(found.astype(np.longdouble) - exact) / ulp, 0)
    at = int(np.argmax(error))
    nans = np.isnan(found) != np.isnan(rounded)
    infs = (np.isinf(found) != np.isinf(rounded)) & ~np.isnan(rounded)
    # a result within an ulp of the largest number may round either way
    infs &= ~((np.abs(found) == info.max) | (np.abs(rounded) == info.max))
    return float(error[at]), float(x[at]), int(nans.sum()), int(infs.sum()), x.size


def _collect(result: Result, future: Future[Measured], size: int) -> None:
    error, where, nans, infs = future.result()
    result.merge(error, where, nans, infs, size)


def _here(name: str, bound: float) -> float:
    """Return the bound of a function on this CPU."""
    from tfjit.kernels.vmath.emit import fuses

    return bound if fuses() else max(bound, _UNFUSED.get(name, 0.0))


def measure_float32(name: str, stride: int) -> Result:
    """Scan one float32 function on two threads."""
    bound, limit = FLOAT32_BOUNDS[name]
    result = Result(f"{name} f32", _here(name, bound))
    scan = _float32_scan(name)
    scan(np.arange(64, dtype=np.uint32), limit)  # compiled before the threads start
    with ThreadPoolExecutor(2) as pool:
        pending: list[tuple[Future[Measured], int]] = []
        for bits in _all_float32(stride):
            pending.append((pool.submit(scan, bits, limit), bits.size))
            while len(pending) > 4:
                _collect(result, *pending.pop(0))
        for future, size in pending:
            _collect(result, future, size)
    x = np.random.default_rng(0).uniform(0.05, 0.95, 8192).astype(np.float32)
    result.ns = _nanoseconds(_apply(name, "f32"), x + (1 if name == "acosh" else 0))
    return result


def measure_float64(name: str, count: int) -> Result:
    """Sample one float64 function."""
    rng = np.random.default_rng(1)
    result, kernel, exact = (
        Result(f"{name} f64", _here(name, FLOAT64_BOUNDS[name])),
        _apply(name, "f64"),
        _long_double(name),
    )
    while result.elements < count:
        x = _float64_samples(name, rng, min(CHUNK, count))
        out = np.empty_like(x)
        kernel(x, out)
        with np.errstate(all="ignore"):
            result.merge(*_compare(out, exact(x.astype(np.longdouble)), x, np.float64))
    x = rng.uniform(0.05, 0.95, 8192)
    result.ns = _nanoseconds(kernel, x + (1 if name == "acosh" else 0))
    return result


def measure_pow(kind: str, count: int) -> Result:
    """Sample pow.

    Half of the results span the whole range; half have everyday arguments.
    """
    rng = np.random.default_rng(2)
    dtype, reach = (np.float32, 87.0) if kind == "f32" else (np.float64, 708.0)
    result, kernel = Result(f"pow {kind}", POW_BOUNDS[f"pow {kind}"]), _apply("pow", kind, 2)
    while result.elements < count:
        n = min(CHUNK, count) // 2
        logs = rng.uniform(-reach, reach, n)
        x = np.concatenate([np.exp(logs), rng.uniform(0, 4, n)]).astype(dtype)
        y = np.concatenate([rng.uniform(-reach, reach, n) / logs, rng.uniform(-30, 30, n)]).astype(
            dtype
        )
        out = np.empty_like(x)
        kernel(x, y, out)
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        result.merge(*_compare(out, exact, x, dtype))
    x, y = rng.uniform(0.05, 4, 8192).astype(dtype), rng.uniform(-4, 4, 8192).astype(dtype)
    result.ns = _nanoseconds(kernel, x, y)
    return result


def measurements(quick: bool, names: list[str]) -> Iterator[Result]:
    """Yield every measurement in the table's order.

    names: only these functions.
    """
    stride, samples = (STRIDE_QUICK, SAMPLES_QUICK) if quick else (1, SAMPLES)
    for name in FLOAT32_BOUNDS:
        if not names or name in names:
            yield measure_float32(name, stride)
    for kind in ("f32", "f64"):
        if not names or "pow" in names:
            yield measure_pow(kind, samples)
    for name in FLOAT64_BOUNDS:
        if not names or name in names:
            yield measure_float64(name, samples)


def main(arguments: list[str] | None = None) -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tfjit.kernels.vmath.tools.ulp",
        description="Largest errors of the vector math.",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a part of the float32 values, 10^6 samples: seconds instead of minutes",
    )
    parser.add_argument("names", nargs="*", help="only these functions (exp, log, ...)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in FLOAT32_BOUNDS and name != "pow"]
    if unknown:
        parser.error(
            f"no function {', '.join(unknown)}; there are {', '.join(FLOAT32_BOUNDS)}, pow"
        )
    print("function       max ulp  bound   at                  nan?   inf?    elements  ns/elem")
    passed = True
    for result in measurements(options.quick, options.names):
        print(result, flush=True)
        passed &= result.passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
