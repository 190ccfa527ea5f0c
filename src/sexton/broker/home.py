"""A cluster's home: one directory, one process at a time, the same addresses every time.

    data/
      .lock           held while a process runs the cluster; says which process
      cluster.json    how many brokers there are, and where clients reach them
      control.sock    where `sexton cluster` asks (`broker.control`)
      controller/  broker-1/  broker-2/ ...

The lock is the kernel's (`flock`): it goes with its process, however that ends, so a lock file that
is left behind stops nobody. Two processes on one directory would write the same segments.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import IO, Any

from sexton.base.errors import ConfigError
from sexton.base.lazy_dataclass import dataclass

LOCK = ".lock"
ADDRESSES = "cluster.json"
CONTROL = "control.sock"
USUAL_BROKERS = 3
FIRST_PORT = 9092  # Kafka's, where everybody looks first
DATA_VARIABLE = "SEXTON_DATA"
_VERSION = 1


def default_home() -> Path:
    """Where `sexton up` keeps its data: the same place whatever directory one is in."""
    chosen = os.environ.get(DATA_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local/share") / "sexton/cluster"


@dataclass(frozen=True, slots=True)
class Addresses:
    """What is remembered from one run to the next."""

    host: str
    ports: tuple[int, ...]  # of brokers 1, 2, ...
    bootstrap_servers: str = ""

    @property
    def brokers(self) -> int:
        return len(self.ports)


@dataclass(slots=True)
class Home:
    directory: Path
    _lock: IO[str] | None = field(default=None, repr=False)

    # ── one process ──

    def take(self) -> None:
        """Makes the directory if need be, and it is ours until `leave`."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self.directory / LOCK).open("a+", encoding="ascii")
        except OSError as error:
            why = f"cannot be used: {(error.strerror or str(error)).lower()}"
            raise ConfigError(str(self.directory), why, "choose another with --data") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read(32).strip()
            lock.close()
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise ConfigError(
                str(self.directory),
                f"{who} runs a cluster there",
                "stop it first, or start another one elsewhere with --data",
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def leave(self) -> None:
        """The next one may take it."""
        if self._lock is not None:
            self._lock.truncate(0)
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a child that was forked has it open, too
            self._lock.close()
            self._lock = None

    @property
    def holder(self) -> int | None:
        """The process that runs a cluster here, if one does."""
        try:
            with (self.directory / LOCK).open(encoding="ascii") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    holder = lock.read(32).strip()
                    return int(holder) if holder.isdigit() else 0
        except OSError:
            return None
        return None

    # ── its addresses ──

    def addresses(self) -> Addresses | None:
        """What was remembered; None if this home is new."""
        path = self.directory / ADDRESSES
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8"))
            if found["version"] != _VERSION:
                why = f"is of version {found['version']!r}, and this sexton knows {_VERSION}"
                raise ConfigError(str(path), why, "use the sexton that wrote it")
            ports = tuple(int(port) for port in found["ports"])
            return Addresses(str(found["host"]), ports, str(found["bootstrap_servers"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            hint = "remove the file: topics stay, new ports are chosen"
            raise ConfigError(str(path), f"cannot be read: {error}", hint) from error

    def remember(self, addresses: Addresses) -> None:
        """Replaces what was remembered, at once or not at all."""
        path = self.directory / ADDRESSES
        fresh = path.with_suffix(".new")
        text = json.dumps({"version": _VERSION} | asdict(addresses), indent=2)
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def number_of_brokers(self, asked: int | None) -> int:
        """As many as are asked for, or as there were; ConfigError if some would be left out."""
        before = self.addresses()
        there = max(self.brokers, before.brokers if before else 0)
        number = asked or there or USUAL_BROKERS
        if number < there:
            why = f"holds the data of {there} brokers, and {number} cannot serve it"
            hint = f"use --brokers {there}, or another --data"
            raise ConfigError(str(self.directory), why, hint)
        return number

    @property
    def brokers(self) -> int:
        """How many brokers have data here."""
        numbers = [
            int(path.name.removeprefix("broker-"))
            for path in self.directory.glob("broker-*")
            if path.name.removeprefix("broker-").isdigit()
        ]
        return max(numbers, default=0)


# ── which ports ──


def choose_ports(
    host: str, brokers: int, first: int | None, before: Addresses | None
) -> tuple[int, ...]:
    """A port for each broker; 0 where any will do.

    What the user asks for is taken as it is, and fails if it cannot be had. Ports of an earlier run
    are kept, since they stand in somebody's configuration. A new cluster has Kafka's own port and
    the ones after it, or any if they are taken.
    """
    if first is not None:
        return tuple(first + at if first else 0 for at in range(brokers))
    if before is not None and before.ports:
        return (*before.ports[:brokers], *[0] * (brokers - before.brokers))
    usual = range(FIRST_PORT, FIRST_PORT + brokers)
    return tuple(usual) if are_free(host, usual) else (0,) * brokers


def are_free(host: str, ports: Sequence[int]) -> bool:
    """Can somebody listen on each of these?"""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError:
                return False
    return True
