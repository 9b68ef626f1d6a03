"""Keys and certificates of TLS connections, and which addresses they are for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tfjit.framework import errors


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key, its certificate, and the authority of the peers' certificates.

    All in PEM. Without an authority, a server takes any client, and a client checks servers with
    the authorities that gRPC knows. With one, both sides show certificates that it has signed.
    """

    key: bytes | None = field(default=None, repr=False)
    certificate: bytes | None = None
    authority: bytes | None = None

    @classmethod
    def from_files(
        cls,
        key: str | Path | None = None,
        certificate: str | Path | None = None,
        authority: str | Path | None = None,
    ) -> Credentials:
        """Read PEM files. Raises OSError for a file that cannot be read."""
        paths = (key, certificate, authority)
        return cls(*(None if path is None else Path(path).read_bytes() for path in paths))

    def of_server(self) -> Any:
        """Return grpc.ServerCredentials. Raises InvalidArgumentError without a key."""
        from tfjit.distributed.protocol.grpc_library import import_grpc

        if self.key is None or self.certificate is None:
            raise errors.InvalidArgumentError(
                None, None, "A server that uses TLS needs a key and its certificate."
            )
        return import_grpc().ssl_server_credentials(
            [(self.key, self.certificate)], self.authority, self.authority is not None
        )

    def of_channel(self) -> Any:
        """Return grpc.ChannelCredentials."""
        from tfjit.distributed.protocol.grpc_library import import_grpc

        return import_grpc().ssl_channel_credentials(self.authority, self.key, self.certificate)


_LOCK: Final = threading.Lock()
_BY_ADDRESS: Final[dict[str, Credentials]] = {}


def use(addresses: Iterable[str], credentials: Credentials) -> None:
    """Connect to these addresses, "host:port", by TLS from now on."""
    with _LOCK:
        _BY_ADDRESS.update((address, credentials) for address in addresses)


def find(address: str) -> Credentials | None:
    """Return the credentials for an address, None without TLS."""
    return _BY_ADDRESS.get(address)
