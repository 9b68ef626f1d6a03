"""Assertions on arrays and tensors, as `tf.test.TestCase` has them."""

from __future__ import annotations

import math
import unittest
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dtypes import as_dtype, bfloat16

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Structure

_SHOWN_SIZE: Final = 500  # larger arrays are not printed
_SHOWN_ELEMENTS: Final = 10


class ArrayAssertions(unittest.TestCase):
    """Assertions that evaluate tensors first.

    A subclass has `evaluate`. Tolerances: |a - b| <= atol + rtol * |b|, as in NumPy.
    """

    def evaluate(self, tensors: Structure) -> Structure:
        """Return the values of tensors in any structure."""
        raise NotImplementedError

    def evaluate_if_both_tensors(self, a: Structure, b: Structure) -> tuple[Structure, Structure]:
        """Return the values of two tensors from one run; other values unchanged."""
        if _is_tensor(a) and _is_tensor(b):
            found = self.evaluate((a, b))
            return found[0], found[1]
        return a, b

    def _array(self, value: Structure) -> np.ndarray:
        if _is_tensor(value):
            value = self.evaluate(value)
        if isinstance(value, np.ndarray):
            return value
        try:
            return np.array(value)
        except ValueError as error:
            if "inhomogeneous shape" not in str(error):
                raise
            return np.array(value, dtype=object)

    def _arrays(self, a: Structure, b: Structure) -> tuple[np.ndarray, np.ndarray]:
        a, b = self.evaluate_if_both_tensors(a, b)
        return self._array(a), self._array(b)

    # closeness

    def assertAllClose(
        self,
        a: Structure,
        b: Structure,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        msg: str | None = None,
    ) -> None:
        """Assert that arrays, or such in lists and dictionaries, have close elements.

        NaN is close to NaN. Raises ValueError for structures that differ.
        """
        self._close(a, b, rtol, atol, "", msg or "")

    def _close(
        self, a: Structure, b: Structure, rtol: float, atol: float, path: str, msg: str
    ) -> None:
        a = a._asdict() if hasattr(a, "_asdict") else a
        b = b._asdict() if hasattr(b, "_asdict") else b
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            raise ValueError(f"Can't compare dict to non-dict, a{path} vs b{path}. {msg}")
        text = f"Mismatched value: a{path} is different from b{path}. {msg}"
        if isinstance(a, Mapping):
            self.assertCountEqual(
                a.keys(),
                b.keys(),
                f"mismatched keys: a{path} has keys {a.keys()}, but b{path} has keys {b.keys()}. "
                f"{msg}",
            )
            for key in a:
                self._close(a[key], b[key], rtol, atol, f"{path}[{key}]", msg)
        elif isinstance(a, (list, tuple)):
            try:
                a, b = self.evaluate_if_both_tensors(a, b)
                self._arrays_close(self._array(a), self._array(b), rtol, atol, text)
            except (ValueError, TypeError, NotImplementedError):  # elements of several shapes
                if len(a) != len(b):
                    raise ValueError(
                        f"Mismatched length: a{path} has {len(a)} items, but b{path} has {len(b)} "
                        f"items. {msg}"
                    ) from None
                for k, (x, y) in enumerate(zip(a, b, strict=True)):
                    self._close(x, y, rtol, atol, f"{path}[{k}]", msg)
        else:
            self._arrays_close(*self._arrays(a, b), rtol, atol, text)

    def _arrays_close(
        self, a: np.ndarray, b: np.ndarray, rtol: float, atol: float, msg: str
    ) -> None:
        contents = f" with contents {b}" if b.ndim <= 3 or b.size < _SHOWN_SIZE else ""
        self.assertEqual(
            a.shape, b.shape, f"Shape mismatch: expected {a.shape}, got {b.shape}{contents}."
        )
        kind = a.dtype
        a, b = _comparable(a), _comparable(b)
        if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            apart = (np.abs(a - b) > atol + rtol * np.abs(b)) | (np.isnan(a) != np.isnan(b))
            x, y = (a[apart], b[apart]) if a.ndim else (a, b)
            places = [f"not close where = {np.nonzero(apart)}"] if a.ndim else []
            lines = [
                msg,
                *places,
                f"not close lhs = {x}",
                f"not close rhs = {y}",
                f"not close dif = {np.abs(x - y)}",
                f"not close tol = {atol + rtol * np.abs(y)}",
                f"dtype = {kind}, shape = {a.shape}",
            ]
            np.testing.assert_allclose(a, b, rtol, atol, err_msg="\n".join(lines))

    def assertAllCloseAccordingToType(
        self,
        a: Structure,
        b: Structure,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Assert `assertAllClose` with the largest tolerance of the arrays' dtypes."""
        a, b = self._arrays(a, b)
        kinds = {a.dtype.name, b.dtype.name}
        for names, relative, absolute in (
            ({"float32", "complex64"}, float_rtol, float_atol),
            ({"float16"}, half_rtol, half_atol),
            ({"bfloat16"}, bfloat16_rtol, bfloat16_atol),
        ):
            if kinds & names:
                rtol, atol = max(rtol, relative), max(atol, absolute)
        self.assertAllClose(a, b, rtol=rtol, atol=atol, msg=msg)

    def assertNotAllClose(
        self,
        a: Structure,
        b: Structure,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        msg: str | None = None,
    ) -> None:
        """Assert that some elements are not close."""
        try:
            self.assertAllClose(a, b, rtol=rtol, atol=atol, msg=msg)
        except AssertionError:
            return
        raise AssertionError(f"The two values are close at all elements. {msg or ''}")

    def assertNear(self, f1: Structure, f2: Structure, err: float, msg: str | None = None) -> None:
        """Assert that two numbers differ by at most `err`."""
        x, y = np.squeeze(f1), np.squeeze(f2)
        if x != y:  # infinite ones may be equal
            difference = math.fabs(x - y)
            note = f" ({msg})" if msg is not None else ""
            self.assertTrue(
                difference <= err,
                f"{x:f} != {y:f} +/- {err:f} (difference: {difference:g}){note}",
            )

    def assertArrayNear(
        self,
        farray1: Sequence[float],
        farray2: Sequence[float],
        err: float,
        msg: str | None = None,
    ) -> None:
        """Assert that numbers of two sequences differ by at most `err`."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for x, y in zip(farray1, farray2, strict=True):
            self.assertNear(float(x), float(y), err, msg=msg)

    def assertNDArrayNear(
        self, ndarray1: np.ndarray, ndarray2: np.ndarray, err: float, msg: str | None = None
    ) -> None:
        """Assert that a difference of arrays has a norm below `err`."""
        self.assertTrue(bool(np.linalg.norm(ndarray1 - ndarray2) < err), msg=msg)

    # equality and order

    def assertAllEqual(self, a: Structure, b: Structure, msg: str | None = None) -> None:
        """Assert that two arrays have equal shapes and elements; NaN equals NaN."""
        a, b = self._arrays(a, b)
        text = f"Shape mismatch: expected {a.shape}, got {b.shape}."
        if b.ndim <= 3 or b.size < _SHOWN_SIZE:
            text += f" Contents: {b!r}. \n"
        self.assertEqual(a.shape, b.shape, f"{text}{msg or ''}.")
        if a.dtype.kind != b.dtype.kind and {a.dtype.kind, b.dtype.kind} <= set("USO"):
            a, b = _as_bytes(a), _as_bytes(b)
        same = a == b
        if as_dtype(a.dtype).is_floating and as_dtype(b.dtype).is_floating:
            same = same | (np.isnan(a) & np.isnan(b))
        if not np.all(same):
            differ = np.logical_not(same)
            x, y = (a[differ], b[differ]) if a.ndim else (a, b)
            lines = [msg or "", *([f"not equal where = {np.nonzero(differ)}"] if a.ndim else [])]
            lines += [f"not equal lhs = {x!r}", f"not equal rhs = {y!r}"]
            np.testing.assert_array_equal(a, b, err_msg="\n".join(lines))

    def assertNotAllEqual(self, a: Structure, b: Structure, msg: str | None = None) -> None:
        """Assert that some elements differ, or the shapes."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise AssertionError(f"The two values are equal at all elements. {msg or ''}")

    def assertAllGreater(self, a: Structure, comparison_target: Structure) -> None:
        """Assert that all elements are greater than a number."""
        array, target = self.evaluate_if_both_tensors(a, comparison_target)
        self.assertGreater(np.min(self._array(array)), target)

    def assertAllLess(self, a: Structure, comparison_target: Structure) -> None:
        """Assert that all elements are less than a number."""
        array, target = self.evaluate_if_both_tensors(a, comparison_target)
        self.assertLess(np.max(self._array(array)), target)

    def assertAllGreaterEqual(self, a: Structure, comparison_target: Structure) -> None:
        """Assert that no element is less than a number."""
        array, target = self.evaluate_if_both_tensors(a, comparison_target)
        self.assertGreaterEqual(np.min(self._array(array)), target)

    def assertAllLessEqual(self, a: Structure, comparison_target: Structure) -> None:
        """Assert that no element is greater than a number."""
        array, target = self.evaluate_if_both_tensors(a, comparison_target)
        self.assertLessEqual(np.max(self._array(array)), target)

    def assertAllInRange(
        self,
        target: Structure,
        lower_bound: float,
        upper_bound: float,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Assert that all elements are within bounds, none is NaN.

        An open bound does not belong to the range.
        """
        values = self._array(target)
        if values.dtype.kind not in "fiu":
            raise AssertionError(
                f"The value of {values} does not have an ordered numeric type, instead it has "
                f"type: {values.dtype}"
            )
        self._none(np.isnan(values), values, "are NaN.", "NaN element(s)")
        below = values <= lower_bound if open_lower_bound else values < lower_bound
        above = values >= upper_bound if open_upper_bound else values > upper_bound
        opening, closing = "(" if open_lower_bound else "[", ")" if open_upper_bound else "]"
        text = f"are outside the range {opening}{lower_bound}, {upper_bound}{closing}."
        self._none(below | above, values, text, "offending elements")

    def _none(self, wrong: np.ndarray, values: np.ndarray, text: str, kind: str) -> None:
        if not np.any(wrong):
            return
        places = np.argwhere(np.atleast_1d(wrong))
        flat = np.atleast_1d(values)
        lines = [f"  {place} : {flat[tuple(place)]}" for place in places[:_SHOWN_ELEMENTS]]
        lines += ["  ..."] if len(places) > _SHOWN_ELEMENTS else []
        raise AssertionError(
            f"{len(places)} of the {values.size} element(s) {text} Subscript(s) and value(s) of "
            f"the {kind}:\n" + "\n".join(lines)
        )

    def assertAllInSet(self, target: Structure, expected_set: Iterable[object]) -> None:
        """Assert that all elements are in a set."""
        others = np.setdiff1d(self._array(target).flatten(), list(expected_set))
        if others.size:
            raise AssertionError(
                f"{others.size} unique element(s) are not in the set {expected_set}: {others}"
            )

    def assertDTypeEqual(self, target: Structure, expected_dtype: DTypeLike) -> None:
        """Assert that an array or tensor has a dtype."""
        self.assertEqual(self._array(target).dtype, expected_dtype)

    def assertShapeEqual(
        self,
        input_a: Tensor | np.ndarray,
        input_b: Tensor | np.ndarray,
        msg: str | None = None,
    ) -> None:
        """Assert that two arrays or tensors have the same static shape.

        Raises TypeError for other values.
        """
        shapes: list[Structure] = []
        for name, value in (("input_a", input_a), ("input_b", input_b)):
            if not isinstance(value, (np.ndarray, np.generic, Tensor)):
                raise TypeError(
                    f"{name} must be a Numpy ndarray, Numpy scalar, or a Tensor.Instead received "
                    f"{type(value)}"
                )
            shapes.append(value.shape.as_list() if isinstance(value, Tensor) else value.shape)
        self.assertAllEqual(shapes[0], shapes[1], msg)

    def assertDictEqual(self, a: Structure, b: Structure, msg: str | None = None) -> None:
        """Assert that dictionaries are equal.

        Floats in tensors and arrays need to be close.
        """
        try:
            super().assertDictEqual(a, b, msg)
        except Exception:  # arrays have no truth value: they are compared below
            self.assertCountEqual(a.keys(), b.keys())
            for key, value in a.items():
                is_float = self._array(value).dtype.kind in "fc"
                compare = self.assertAllClose if is_float else self.assertAllEqual
                compare(value, b[key], msg=key)


def _is_tensor(value: object) -> bool:
    return isinstance(value, (Tensor, Variable))


def _comparable(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == bfloat16.as_numpy_dtype else array


def _as_bytes(array: np.ndarray) -> np.ndarray:
    items = [item.encode() if isinstance(item, str) else item for item in array.flat]
    return np.array(items, dtype=object).reshape(array.shape)
