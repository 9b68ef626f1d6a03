"""`tfjit.logging`: a program's own messages, on stderr.

The logger is "tensorflow", as in TensorFlow 1.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
WARN: Final = logging.WARNING
ERROR: Final = logging.ERROR
FATAL: Final = logging.FATAL

_counts: Final[Counter[object]] = Counter()


def get_logger() -> logging.Logger:
    """Return the logger.

    It prints to stderr unless the program has set up logging itself.
    """
    found = logging.getLogger("tensorflow")
    if not found.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
        found.addHandler(handler)
        if found.level == logging.NOTSET:
            found.setLevel(WARN)
    return found


def log(level: int, msg: object, *args: object) -> None:
    """Log a message of a level."""
    get_logger().log(level, msg, *args)


def debug(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message of level DEBUG."""
    get_logger().debug(msg, *args, **kwargs)


def info(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message of level INFO."""
    get_logger().info(msg, *args, **kwargs)


def warning(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message of level WARN."""
    get_logger().warning(msg, *args, **kwargs)


warn = warning


def error(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message of level ERROR."""
    get_logger().error(msg, *args, **kwargs)


def fatal(msg: object, *args: Any, **kwargs: Any) -> None:
    """Log a message of level FATAL; the program continues."""
    get_logger().fatal(msg, *args, **kwargs)


def log_if(level: int, msg: object, condition: TensorLike, *args: object) -> None:
    """Log a message where a condition holds."""
    if condition:
        log(level, msg, *args)


def log_every_n(level: int, msg: object, n: int, *args: object) -> None:
    """Log the first of each n messages with this text."""
    log_if(level, msg, _counts[msg] % n == 0, *args)
    _counts[msg] += 1


def log_first_n(level: int, msg: object, n: int, *args: object) -> None:
    """Log the first n messages with this text."""
    log_if(level, msg, _counts[msg] < n, *args)
    _counts[msg] += 1


def get_verbosity() -> int:
    """Return the least level that is printed."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int) -> None:
    """Set the least level that is printed."""
    get_logger().setLevel(v)


def flush() -> None:
    """Do nothing: messages are printed at once."""
