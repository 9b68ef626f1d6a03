"""Keep values of datasets apart from those that steps and users write."""

from __future__ import annotations

import numpy as np

from tfjit.runtime.datasets.element import Value


def owned(value: Value) -> Value:
    """Return a value that stays as it is.

    Arrays that steps may write are copied.
    """
    if not isinstance(value, np.ndarray):
        return np.array(value) if isinstance(value, np.generic) else value
    if not value.flags.writeable and value.base is None and value.flags.c_contiguous:
        return value
    kept = np.array(value, order="C")
    kept.flags.writeable = False
    return kept


def shared(value: Value) -> Value:
    """Return a value that several elements may have.

    Arrays become read-only, so that each is copied when it is given out.
    """
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def given_out(value: Value) -> Value:
    """Return a value for a step, which may write it.

    Views are copied: one would keep a whole batch or data set alive.
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.base is None and value.flags.writeable and value.flags.c_contiguous:
        return value
    return np.array(value, order="C")


__all__ = ["given_out", "owned", "shared"]
