"""Ask a session which values of the model are missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import SessionLike


def missing_values(ready_op: Any, session: SessionLike, message: str) -> str | None:
    """Return the reason why a model is not ready, or None.

    ready_op: a vector with the names of variables without value, or None. message: begins the
    warning about an error. Raises FailedPreconditionError for another reason than a missing value.
    """
    if ready_op is None:
        return None
    try:
        value: Any = session.run(ready_op)
    except errors.FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            logging.getLogger("tensorflow").warning("%s : error [%s]", message, error)
            raise
        return str(error)
    if value is None or value.dtype == np.int32 or value.size == 0:
        return None
    return "Variables not initialized: " + ", ".join(name.decode() for name in value)
