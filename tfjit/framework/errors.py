"""The status codes as exceptions, with TensorFlow's names, numbers and constructor."""

from __future__ import annotations

from typing import Any, ClassVar, Final

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
ABORTED: Final = 10
OUT_OF_RANGE: Final = 11
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
DATA_LOSS: Final = 15
UNAUTHENTICATED: Final = 16


class OpError(Exception):
    """A failure while building, placing or running a graph.

    node_def: the NodeDef at fault, or None. op: the user's Operation, or None. message: the text of
    the error. error_code: one of the codes of this module.
    """

    # Filled by `client/session/tensorflow_interop.py` once TensorFlow is loaded: our class ->
    # TensorFlow's of that name, which is then a subclass of ours. It is raised in the place of
    # ours, since TensorFlow's own programs compare classes exactly (MonitoredSession ends by
    # `exception_type in [...]`).
    _raised_as: ClassVar[dict[type, type]] = {}
    _raised_by_tfjit = False  # of an instance of TensorFlow's class: True if tfjit made it

    def __new__(cls, *args: Any, **kwargs: Any) -> OpError:
        """Make an instance, of TensorFlow's class of the name once loaded."""
        theirs = OpError._raised_as.get(cls)
        made: OpError = super().__new__(cls if theirs is None else theirs)
        if theirs is not None:
            made._raised_by_tfjit = True
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._derive_from_tensorflow()

    @classmethod
    def _derive_from_tensorflow(cls) -> None:
        """Replace our classes by TensorFlow's among a new class's bases."""
        bases = tuple(OpError._raised_as.get(base, base) for base in cls.__bases__)
        if bases != cls.__bases__:
            cls.__bases__ = bases

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int, *args: Any) -> None:
        Exception.__init__(self)
        self._node_def = node_def
        self._op = op
        self._message = message
        self._error_code = error_code
        self._experimental_payloads: dict[str, bytes] = (
            dict(args[0]) if args and isinstance(args[0], dict) else {}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # An Operation belongs to a graph of this process: only the text travels.
        return _rebuild, (type(self), None, None, self._message, self._error_code)

    def restated(self, message: str, op: Any = None, node_def: Any = None) -> OpError:
        """Return the same error with another message.

        node_def and op stay where none are given.
        """
        made = _rebuild(
            type(self),
            node_def if node_def is not None else self._node_def,
            op if op is not None else self._op,
            message,
            self._error_code,
        )
        made._experimental_payloads = dict(self._experimental_payloads)
        made._raised_by_tfjit = True
        return made

    def by_status(self) -> OpError:
        """Return the error as one of the sixteen classes, without further bases."""
        made = make_error(self._error_code, self._message, self._node_def, self._op)
        made._experimental_payloads = dict(self._experimental_payloads)
        return made

    @property
    def message(self) -> str:
        """The text of the error."""
        return self._message

    @property
    def op(self) -> Any:
        """The Operation of the user's graph that failed, or None."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The NodeDef that failed, or None."""
        if self._node_def is None and self._op is not None:
            return getattr(self._op, "node_def", None)
        return self._node_def

    @property
    def error_code(self) -> int:
        """The status code."""
        return self._error_code

    @property
    def experimental_payloads(self) -> dict[str, bytes]:
        """Payloads of the status; empty unless a remote task sent some."""
        return self._experimental_payloads

    def __str__(self) -> str:
        built_at = getattr(self._op, "built_at", None)
        if built_at and "Built at " not in self._message:
            return f"{self._message}\n\nBuilt at {built_at}"
        return self._message


def _rebuild(kind: type[OpError], node_def: Any, op: Any, message: str, code: int) -> OpError:
    if kind is OpError:
        return OpError(node_def, op, message, code)
    return kind(node_def, op, message)  # type: ignore[call-arg]


class CancelledError(OpError):
    """The step, the queue operation or the session was cancelled."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, CANCELLED, *args)


class UnknownError(OpError):
    """An error of unknown kind, as of a failing Python callback."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNKNOWN, *args)


class InvalidArgumentError(OpError):
    """A call was given a wrong shape, attr or name."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, INVALID_ARGUMENT, *args)


class DeadlineExceededError(OpError):
    """The step's time limit passed."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, DEADLINE_EXCEEDED, *args)


class NotFoundError(OpError):
    """A named op type, node or file does not exist."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, NOT_FOUND, *args)


class AlreadyExistsError(OpError):
    """The thing to be created exists."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, ALREADY_EXISTS, *args)


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, PERMISSION_DENIED, *args)


class ResourceExhaustedError(OpError):
    """Memory or another resource ran out."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, RESOURCE_EXHAUSTED, *args)


class FailedPreconditionError(OpError):
    """The system is in the wrong state: a variable without value, say."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, FAILED_PRECONDITION, *args)


class AbortedError(OpError):
    """The operation was aborted, typically by another one at the same time."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, ABORTED, *args)


class OutOfRangeError(OpError):
    """Past the end of a range, as of a closed, empty queue."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, OUT_OF_RANGE, *args)


class UnimplementedError(OpError):
    """Not implemented here: the message names the feature."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNIMPLEMENTED, *args)


class InternalError(OpError):
    """A mistake of tfjit itself; the message names the pass at fault."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, INTERNAL, *args)


class UnavailableError(OpError):
    """A task can't be reached now."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNAVAILABLE, *args)


class DataLossError(OpError):
    """A file or message is damaged beyond repair."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, DATA_LOSS, *args)


class UnauthenticatedError(OpError):
    """The caller's identity is not known."""

    def __init__(self, node_def: Any, op: Any, message: str, *args: Any) -> None:
        super().__init__(node_def, op, message, UNAUTHENTICATED, *args)


class InvalidGraphError(InvalidArgumentError, ValueError):
    """A graph that can't be built or imported.

    TensorFlow raises ValueError from Python's graph building and INVALID_ARGUMENT from a session
    that is sent the same graph; here one class serves both, so either `except` clause catches it.
    """

    # TensorFlow's, which come first once its classes are among the bases, expect its Operation.
    __reduce__ = OpError.__reduce__
    __str__ = OpError.__str__


class InvalidDtypeError(InvalidArgumentError, TypeError):
    """A wrong dtype or attr type while a graph is built."""

    __reduce__ = OpError.__reduce__
    __str__ = OpError.__str__


class _FetchError(ValueError):
    """The base of InaccessibleTensorError until TensorFlow is loaded.

    TensorFlow's class takes its place then. Python lets the bases of a class change only among
    classes of one memory layout, and ValueError itself, a class in C, has another layout.
    """


class InaccessibleTensorError(_FetchError):
    """A tensor or operation that the graph does not let be fetched."""


_BY_CODE: Final[dict[int, type[OpError]]] = {
    CANCELLED: CancelledError,
    UNKNOWN: UnknownError,
    INVALID_ARGUMENT: InvalidArgumentError,
    DEADLINE_EXCEEDED: DeadlineExceededError,
    NOT_FOUND: NotFoundError,
    ALREADY_EXISTS: AlreadyExistsError,
    PERMISSION_DENIED: PermissionDeniedError,
    RESOURCE_EXHAUSTED: ResourceExhaustedError,
    FAILED_PRECONDITION: FailedPreconditionError,
    ABORTED: AbortedError,
    OUT_OF_RANGE: OutOfRangeError,
    UNIMPLEMENTED: UnimplementedError,
    INTERNAL: InternalError,
    UNAVAILABLE: UnavailableError,
    DATA_LOSS: DataLossError,
    UNAUTHENTICATED: UnauthenticatedError,
}
_CODE_OF: Final[dict[type[OpError], int]] = {kind: code for code, kind in _BY_CODE.items()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Return the exception class of a status code.

    Raises KeyError for OK and unknown codes.
    """
    return _BY_CODE[error_code]


def error_code_from_exception_type(cls: type[OpError]) -> int:
    """Return the status code of an exception class.

    Raises KeyError for a class that is not one of the sixteen.
    """
    for base in cls.__mro__:
        code = _CODE_OF.get(base)
        if code is not None:
            return code
    raise KeyError(cls)


def status_text(error: OpError) -> str:
    """Return the error as TensorFlow prints a status: code name, message."""
    kind = _BY_CODE.get(error.error_code, UnknownError)
    name = "".join(
        "_" + letter if letter.isupper() else letter
        for letter in kind.__name__.removesuffix("Error")
    )
    return f"{name.lstrip('_').upper()}: {error.message}"


def make_error(error_code: int, message: str, node_def: Any = None, op: Any = None) -> OpError:
    """Return the exception of a status.

    A code without a class gives UnknownError.
    """
    kind = _BY_CODE.get(error_code)
    if kind is None:
        return UnknownError(node_def, op, message)
    return kind(node_def, op, message)  # type: ignore[call-arg]
