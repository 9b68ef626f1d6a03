"""Check that memory suffices before a large tensor is made.

Linux overcommits and then OOM-kills the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, ResourceExhaustedError
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.framework.types.shape import format_shape

_SMALL: Final = 1 << 28  # Tensors below this many bytes are not checked.
_MOST: Final = 2**63 - 1  # largest number of elements of a tensor
_LIMITS: Final = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_bytes() -> int | None:
    """Return the bytes that this process may still use, or None.

    They are the machine's free memory, or the rest of the control group's limit. None means
    unknown.
    """
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                found.append(int(rest.split()[0]) << 10)
    except (OSError, ValueError):
        return None
    for limit, used in _LIMITS:
        try:
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # The group does not exist, or its limit is "max".
            continue
    return min(found, default=None)


def check_fits_in_memory(shape: Sequence[int], dtype: Any, copies: int = 1) -> None:
    """Raise an error when a tensor does not fit into memory.

    It is ResourceExhaustedError, or InvalidArgumentError when no shape is so large. shape, dtype:
    of the tensor. copies: the number of arrays of its size that are made on the way to it.
    """
    kind = np.dtype(dtype)
    nbytes = kind.itemsize
    for size in shape:
        nbytes *= int(size)
    if nbytes < _SMALL:
        return
    if nbytes > _MOST * kind.itemsize:
        raise InvalidArgumentError(
            None,
            None,
            f"Shape {format_shape(tuple(map(int, shape)))} would have more than 2**63 - 1 elements",
        )
    available = available_bytes()
    if available is not None and nbytes * copies > available:
        raise ResourceExhaustedError(
            None,
            None,
            "OOM when allocating tensor with "
            f"shape{format_shape(tuple(int(size) for size in shape))} and type "
            f"{short_name(as_dtype(kind))} by allocator cpu: "
            f"it takes {nbytes} bytes, and {available} are available",
        )
