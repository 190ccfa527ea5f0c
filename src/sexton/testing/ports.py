"""A free port that stays ours.

Asking the kernel for a free port and closing it again is a race: another process may get it before
Kafka binds it, and a restarted broker may find it taken. So the socket is kept open, bound but not
listening. With SO_REUSEADDR (which Java sets too) Kafka may then bind and listen on the same port,
while the kernel gives it to nobody who asks for any free one.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class ReservedPort:
    """A port on loopback that is ours until `release`."""

    _socket: socket.socket = field(init=False)
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()
