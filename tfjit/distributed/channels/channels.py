"""Calls to the services of another task over gRPC."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from tfjit.distributed.channels import part_calls
from tfjit.distributed.channels.direct_channel import LARGE, DirectChannel, DirectSearch
from tfjit.distributed.channels.local_channel import HELLO_S, LocalChannel, NotLocal
from tfjit.distributed.channels.parcel_calls import ParcelCalls, another_kind
from tfjit.distributed.channels.rpc_calls import GIVEN_UP, ChannelClosedError, RpcCalls
from tfjit.distributed.parcels.parcel_bytes import decode
from tfjit.distributed.parcels.parcel_stream import knows_parcels
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol import methods, status
from tfjit.distributed.protocol.credentials import find as find_credentials
from tfjit.distributed.protocol.grpc_library import import_grpc
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.framework import errors, settings
from tfjit.runtime.host.cancellation import CancellableWait, CancellationManager

SCHEME: Final = "grpc://"
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # a task that was started again is found after a second, not after gRPC's two minutes
    ("grpc.max_reconnect_backoff_ms", 1000),
    # tasks of one process that talk to one address still have a connection each
    ("grpc.use_local_subchannel_pool", 1),
)

_ANSWERED_IN_BYTES: Final = frozenset(
    {"RecvTensor", "RecvBuf", "RunGraph", "RunStep", "RunCallable"}
)

STREAMED: Final = 3 << 20
"""Arrays of as many bytes go in chunks.

One message of gRPC then takes twice the time or more.
"""

_LOOK_AGAIN_S: Final = 1.0
"""The seconds until a task is looked for on this host again."""

Answered = Callable[[errors.OpError | None, Any], None]
"""Takes (error, None) or (None, the answer)."""


def address_of(target: str) -> str:
    """Return "host:port" of a target "grpc://host:port".

    Raises InvalidArgumentError for a target without host or port.
    """
    address = target.removeprefix(SCHEME).rstrip("/")
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 1 << 16):
        raise errors.InvalidArgumentError(
            None, None, f'Could not interpret "{address}" as a host-port pair.'
        )
    return address


class Channel:
    """A connection to one task, which is made at the first call.

    address: "host:port". credentials: grpc.ChannelCredentials for TLS; by default those that
    `credentials.use` has set for the address, or none. Thread-safe.
    """

    def __init__(self, address: str, credentials: Any = None) -> None:
        self.address = address
        self._grpc = import_grpc()
        known = find_credentials(address) if credentials is None else None
        if known is not None:
            credentials = known.of_channel()
        self._channel = (
            self._grpc.insecure_channel(address, _OPTIONS)
            if credentials is None
            else self._grpc.secure_channel(address, credentials, _OPTIONS)
        )
        self._started = RpcCalls(self._channel)
        self._parcels: ParcelCalls | None = None
        # a task with TLS asks for certificates
        disabled = settings.names("TFJIT_DISABLE")
        self._may_be_local = credentials is None and "local_channel" not in disabled
        self._direct = None
        if credentials is None and "direct_channel" not in disabled:
            self._direct = DirectSearch(address, self._invite)
        self._local: LocalChannel | None = None
        self._looked_s = -_LOOK_AGAIN_S
        self._closed = False
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], Any] = {}

    def local(self) -> LocalChannel | None:
        """Return the channel to a task of this host.

        None: calls go through gRPC.

        A task that is not found is looked for again after a second.
        """
        found = self._local
        if found is not None and not found.broken:
            return found
        if not self._may_be_local:
            return None
        if found is None and time.monotonic() - self._looked_s < _LOOK_AGAIN_S:
            return None
        with self._lock:
            found = self._local
            if self._closed or (found is not None and not found.broken):
                return found
            if found is None and time.monotonic() - self._looked_s < _LOOK_AGAIN_S:
                return None  # another thread has just looked
            if found is not None:
                found.retire()
            try:
                self._local = LocalChannel(self.address)
            except NotLocal:
                self._local = None
            self._looked_s = time.monotonic()  # behind it: others wait for what is found
            return self._local

    def frames(self) -> LocalChannel | None:
        """Return a channel of frames to the task.

        None: calls go through gRPC.

        A task of tfjit on another host has one some time after its first answer.
        """
        return self.local() or self._find_direct()

    def _find_direct(self) -> DirectChannel | None:
        direct, parcels = self._direct, self._parcels
        if direct is None or parcels is None or parcels.is_refused:
            return None
        return direct.find()

    def _invite(self) -> bytes:
        """Return the task's answer about direct connections.

        Raises UnavailableError without one.
        """
        ask = self._channel.unary_unary(methods.path(methods.PARCELS, methods.INVITE))
        try:
            return bytes(ask(b"", timeout=HELLO_S))
        except (self._grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed
            raise errors.UnavailableError(None, None, f"no invitation: {error}") from None

    def beside(self, size: int) -> LocalChannel | ParcelCalls | None:
        """Return a way to send arrays beside messages, or None.

        size: the bytes of the arrays in the request or the answer. Over gRPC, short ones go in one
        message, and all of them to tasks that know no parcels: then there is no such way.
        """
        local = self.local()
        if local is not None:
            return local
        direct = self._find_direct()
        if direct is not None:
            return direct.of_size(size)
        if size < STREAMED:
            return None
        found = self._parcels
        return None if found is None or found.is_refused else found

    def answers_in_parts(self, size: int) -> bool:
        """Return whether the task is known to answer in parts.

        size: the bytes of an array. A large one is to go by itself.
        """
        if self.local() is not None:
            return True
        if self._find_direct() is not None:
            return size < LARGE
        found = self._parcels
        return found is not None and not found.is_refused and size < STREAMED

    @property
    def is_tfjits(self) -> bool:
        """Return whether the task is known to be tfjit's."""
        return self.answers_in_parts(0)

    def start_parts(
        self,
        service: str,
        method: str,
        request: Any,
        done: Answered,
        part: Callable[[Parcel], None],
    ) -> Cancel:
        """Send a request to a task that answers in parts.

        `part` gets parts of the answer and `done` the last part, or (None, None) behind it.
        """
        frames, parcels = self.frames(), self._parcels
        if frames is not None:
            return frames.start(service, method, Parcel(request), done, None, part)

        def ended(code: int, details: str, trailing: Any, metadata: Any) -> None:
            if code == errors.CANCELLED and details == GIVEN_UP:
                done(_cancelled(method), None)
            elif code == errors.UNIMPLEMENTED and not knows_parcels(metadata):
                if parcels is not None:
                    parcels.is_refused = True
                done(another_kind(self.address), None)
            elif code:
                done(status.of_status(code, details, trailing, self.address), None)
            else:
                done(None, None)

        def take(data: bytes) -> None:
            try:
                answer = decode(methods.response_class(method), data)
            except DecodeError as error:
                done(_not_parsed(method, error), None)
            else:
                part(answer)

        path = methods.path(service, method).encode()
        try:
            return part_calls.start(self._started, path, _serialize(request), take, ended)
        except ChannelClosedError:
            done(_cancelled(method), None)
            return _nothing

    def _learn(self, metadata: Any) -> None:
        """Note from an answer's metadata that the task takes parcels."""
        found = self._parcels
        if (found is None or found.is_refused) and knows_parcels(metadata):
            self._parcels = ParcelCalls(self.address, self._started)

    def _method(self, service: str, method: str) -> Any:
        """Return the callable of a method.

        A request is a message or bytes; an answer with large tensors stays bytes.
        """
        found = self._calls.get((service, method))
        if found is None:
            in_bytes = method in _ANSWERED_IN_BYTES
            parse = None if in_bytes else methods.response_class(method).FromString
            with self._lock:
                found = self._calls[service, method] = self._channel.unary_unary(
                    methods.path(service, method),
                    request_serializer=_serialize,
                    response_deserializer=parse,
                )
        return found

    def call(
        self,
        service: str,
        method: str,
        request: Any,
        timeout_s: float | None = None,
        cancellation: CancellationManager | None = None,
        wait_for_ready: bool = False,
    ) -> Any:
        """Return the answer to a request.

        timeout_s: None for no limit. cancellation: cancels the call. wait_for_ready: wait until the
        task can be reached, in place of UnavailableError. Raises the error of the
        answer's status. An interrupt of this thread cancels the call.
        """
        if method not in _ANSWERED_IN_BYTES:
            frames = self.frames()
            if frames is not None:
                sent = Parcel(request)
                return frames.call(service, method, sent, timeout_s, cancellation).message
        send = self._method(service, method)
        try:
            if cancellation is None:
                # a fifth less time than a future's, whose answer comes through another thread
                if self._parcels is not None:
                    return send(request, timeout=timeout_s, wait_for_ready=wait_for_ready)
                answer, call = send.with_call(
                    request, timeout=timeout_s, wait_for_ready=wait_for_ready
                )
                self._learn(call.initial_metadata())
                return answer
            return self._wait(service, method, request, timeout_s, cancellation, wait_for_ready)
        except self._grpc.RpcError as error:
            raise status.of_call(error, self.address) from None
        except ValueError as error:
            if "closed channel" not in str(error):
                raise
            # gRPC's for a channel that another thread has closed
            raise errors.CancelledError(None, None, f"{method} was cancelled: {error}") from None

    def _wait(
        self,
        service: str,
        method: str,
        request: Any,
        timeout_s: float | None,
        cancellation: CancellationManager,
        wait_for_ready: bool,
    ) -> Any:
        """Return a call's answer; cancel it with `cancellation` and at an interrupt."""
        over = threading.Event()
        outcome: list[Any] = []

        def done(error: errors.OpError | None, answer: Any) -> None:
            outcome[:] = error, answer
            over.set()

        cancel = self._start(service, method, request, done, timeout_s, wait_for_ready)
        with CancellableWait(cancellation, cancel):
            over.wait()
        error, answer = outcome
        if error is not None:
            raise error
        return answer

    def start(
        self,
        service: str,
        method: str,
        request: Any,
        done: Answered,
        timeout_s: float | None = None,
    ) -> Cancel:
        """Send a request.

        `done` gets the answer on a thread of the channel.

        Returns a function that gives the call up: `done` then gets CancelledError.
        """

        frames = self.frames() if method not in _ANSWERED_IN_BYTES else None
        if frames is not None:

            def answered(error: errors.OpError | None, answer: Parcel | None) -> None:
                done(error, None if answer is None else answer.message)

            return frames.start(service, method, Parcel(request), answered, timeout_s)
        return self._start(service, method, request, done, timeout_s)

    def _start(
        self,
        service: str,
        method: str,
        request: Any,
        done: Answered,
        timeout_s: float | None,
        wait_for_ready: bool = False,
    ) -> Cancel:
        """Send a request over gRPC."""

        def ended(
            code: int, details: str, trailing: Any, data: bytes | None, metadata: Any
        ) -> None:
            self._learn(metadata)
            if code:
                if code == errors.CANCELLED and details == GIVEN_UP:
                    error: errors.OpError = _cancelled(method)
                else:
                    error = status.of_status(code, details, trailing, self.address)
                done(error, None)
                return
            try:
                answer = data if method in _ANSWERED_IN_BYTES else _parsed(method, data)
            except errors.OpError as faulty:
                done(faulty, None)
            else:
                done(None, answer)

        path = methods.path(service, method).encode()
        try:
            return self._started.start(path, _serialize(request), ended, timeout_s, wait_for_ready)
        except ChannelClosedError:
            done(_cancelled(method), None)
            return _nothing

    def close(self) -> None:
        """Cancel all calls and disconnect."""
        with self._lock:
            self._closed = True
            local, self._local = self._local, None
        if local is not None:
            local.close()
        if self._direct is not None:
            self._direct.close()
        self._channel.close()  # waits until the answers of cancelled calls are read
        self._started.close()


def _cancelled(method: str) -> errors.CancelledError:
    return errors.CancelledError(None, None, f"{method} was cancelled.")


def _nothing() -> None:
    """Cancel a call that is over."""


def _parsed(method: str, data: bytes | None) -> Any:
    """Return an answer's message. Raises InternalError for other bytes."""
    try:
        return methods.response_class(method).FromString(data or b"")
    except DecodeError as error:
        raise _not_parsed(method, error) from None


def _not_parsed(method: str, error: Exception) -> errors.InternalError:
    return errors.InternalError(None, None, f"Could not parse the answer to {method}: {error}")


def _serialize(request: Any) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


__all__ = ["SCHEME", "STREAMED", "Answered", "Channel", "address_of"]
