"""A stream with TLS: OpenSSL on the socket itself, without asyncio's buffers in between.

asyncio's TLS transport keeps 256 KiB for each connection from the start, whoever is at the other
end. OpenSSL alone needs some 12 KiB while nothing is under way.

    handshake ──▶ reading and writing ──▶ closed

OpenSSL reads ahead: it may hold decrypted bytes that the kernel knows nothing of any more. So one
reads until it has none left, and looks again when reading goes on after a pause.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl

from sexton.broker.stream import MOST_READS, Reader, SocketStream

log = logging.getLogger("sexton.broker.tls")

_MOST_PER_READ = 256 << 10
_MOST_PER_WRITE = 256 << 10  # what is encrypted in one go; OpenSSL makes 16 KiB records of it
_WAITS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


class TlsStream(SocketStream):
    """What comes before the handshake is done is nobody's; what is sent waits for it."""

    def __init__(self, connection: socket.socket, reader: Reader, context: ssl.SSLContext) -> None:
        self._shaken = False
        self._again = False  # OpenSSL has bytes, and reading them is scheduled
        connection.setblocking(False)
        self._tls = context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
        super().__init__(self._tls, reader)

    # ── reading ──

    def resume(self) -> None:
        super().resume()
        if self._reading and self._shaken and self._tls.pending():
            self._read_soon()

    def _read(self) -> None:
        if not self._shaken:
            self._shake_hands()
            return
        for _ in range(MOST_READS):
            count, ended = self._fill(self._reader.get_buffer(-1))
            if count:
                self._reader.buffer_updated(count)
            if ended:
                self.close()
            if not count or not self._reading:
                return
        if self._tls.pending():
            self._read_soon()

    def _fill(self, buffer: memoryview) -> tuple[int, bool]:
        """OpenSSL gives one record at a time, 16 KiB at most; the reader gets many at once."""
        most, filled = min(len(buffer), _MOST_PER_READ), 0
        try:
            while filled < most:
                count = self._tls.recv_into(buffer[filled:most])
                if count == 0:
                    return filled, True
                filled += count
        except _WAITS:
            pass
        except OSError:
            return filled, True
        return filled, False

    def _read_soon(self) -> None:
        if not self._again:
            self._again = True
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        self._again = False
        if self._reading:
            self._read()

    # ── the handshake ──

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.remove_writer(self._socket)
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._socket, self._shake_hands)
            return
        except OSError as error:
            log.debug("a TLS handshake failed: %s", error)
            self.close()
            return
        self._shaken = True
        self._loop.remove_writer(self._socket)
        if self._parts:
            self._write_on()
        if self._reading:
            self._read()

    # ── writing ──

    def _write_on(self) -> None:
        if not self._write():
            self._loop.add_writer(self._socket, self._write_more)

    def _write(self) -> bool:
        if not self._shaken:
            return True  # the end of the handshake sees to it
        try:
            while self._parts:
                sent = self._tls.send(self._parts[0][:_MOST_PER_WRITE])
                self._waiting -= sent
                self._drop(sent)
        except _WAITS:
            return False
        except OSError:
            self.close()
        return True

    def _say_goodbye(self) -> None:
        if self._shaken:
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()  # says that this is the end; nobody waits for an answer
