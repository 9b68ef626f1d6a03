"""Assertions on containers and strings, beside those of unittest."""

from __future__ import annotations

import unittest
from collections.abc import Collection, Container, Iterable, Sequence, Sized


class ContainerAssertions(unittest.TestCase):
    """Assertions of the names that absl's test case has."""

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Assert that a string starts with another."""
        if not actual.startswith(expected_start):
            note = f" : {msg!r}" if msg else ""
            self.fail(f"{actual!r} does not start with {expected_start!r}{note}")

    def assertEndsWith(self, actual: str, expected_end: str, msg: str | None = None) -> None:
        """Assert that a string ends with another."""
        if not actual.endswith(expected_end):
            note = f" : {msg!r}" if msg else ""
            self.fail(f"{actual!r} does not end with {expected_end!r}{note}")

    def assertEmpty(self, container: Sized, msg: str | None = None) -> None:
        """Assert that a container has no elements."""
        if len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of {len(container)}."))

    def assertNotEmpty(self, container: Sized, msg: str | None = None) -> None:
        """Assert that a container has elements."""
        if not len(container):
            self.fail(self._formatMessage(msg, f"{container!r} has length of 0."))

    def assertLen(self, container: Sized, expected_len: int, msg: str | None = None) -> None:
        """Assert that a container has a number of elements."""
        if len(container) != expected_len:
            text = f"{container!r} has length of {len(container)}, expected {expected_len}."
            self.fail(self._formatMessage(msg, text))

    def assertBetween(self, value: float, minv: float, maxv: float, msg: str | None = None) -> None:
        """Assert that a number is in [minv, maxv]."""
        if not minv <= value <= maxv:
            text = f'"{value!r}" unexpectedly not between "{minv!r}" and "{maxv!r}"'
            self.fail(self._formatMessage(msg, text))

    def assertSameElements(
        self,
        expected_seq: Iterable[object],
        actual_seq: Iterable[object],
        msg: str | None = None,
    ) -> None:
        """Assert that two iterables have the same elements, repeated or not."""
        expected, actual = list(expected_seq), list(actual_seq)
        missing = [item for item in expected if item not in actual]
        unexpected = [item for item in actual if item not in expected]
        if missing or unexpected:
            text = f"Expected, but missing: {missing}; unexpected, but present: {unexpected}"
            self.fail(self._formatMessage(msg, text))

    def assertContainsSubset(
        self,
        expected_subset: Iterable[object],
        actual_set: Container[object],
        msg: str | None = None,
    ) -> None:
        """Assert that a container has all elements of an iterable."""
        missing = [item for item in expected_subset if item not in actual_set]
        if missing:
            self.fail(self._formatMessage(msg, f"Missing elements {missing}"))

    def assertNoCommonElements(
        self,
        expected_seq: Collection[object],
        actual_seq: Collection[object],
        msg: str | None = None,
    ) -> None:
        """Assert that two containers share no element."""
        common = [item for item in expected_seq if item in actual_seq]
        if common:
            self.fail(self._formatMessage(msg, f"Common elements {common}"))

    def assertContainsInOrder(
        self, strings: Sequence[str], target: str, msg: str | None = None
    ) -> None:
        """Assert that a text has strings one behind the other."""
        place = 0
        for string in [strings] if isinstance(strings, str) else strings:
            found = target.find(string, place)
            if found < 0:
                text = f'Did not find "{string}" after index {place} of "{target}"'
                self.fail(self._formatMessage(msg, text))
            place = found

    assertItemsEqual = unittest.TestCase.assertCountEqual
    assertRaisesRegexp = unittest.TestCase.assertRaisesRegex
