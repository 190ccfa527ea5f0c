"""One Apache Kafka node: its directory, its properties, its process.

Every node is broker and controller at once and listens on loopback only. Its directory holds
`server.properties`, `data/` (Kafka's log directory) and `server.log` (all it said, over restarts).
A stopped node keeps its directory and its ports, so it comes back as the same node.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sexton.base.errors import PeerError
from sexton.base.kafka_options import spelled
from sexton.testing.ports import LOOPBACK, ReservedPort

STOP_TIMEOUT_S = 60.0  # a controlled shutdown hands every leadership over first
TAIL_BYTES = 4096
MOST_THREAD_NAME = 15  # letters; Linux cuts the rest off


@dataclass(slots=True)
class KafkaNode:
    """A node that may run, be paused, or be down."""

    node_id: int
    directory: Path
    broker_port: ReservedPort = field(default_factory=ReservedPort)
    controller_port: ReservedPort = field(default_factory=ReservedPort)
    process: subprocess.Popen[bytes] | None = None

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.broker_port.number}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def write_properties(self, properties: Mapping[str, object]) -> None:
        lines = (f"{name}={spelled(value)}\n" for name, value in properties.items())
        self.properties_file.write_text("".join(lines), encoding="utf-8")

    def start(self, command: Sequence[str], group: int) -> None:
        assert not self.running, f"node {self.node_id} runs already"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=group,
            )

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """A clean shutdown: leaderships handed over, files trimmed and flushed."""
        if self.process is not None:
            self.process.terminate()
            self.resume()  # a paused process does not hear the signal
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                why = f"did not stop within {timeout_s:g} s and was killed\n{self.log_tail()}"
                raise PeerError(f"Kafka node {self.node_id}", why) from None
            self.process = None

    def kill(self) -> None:
        """What a power cut does to the process (the machine's page cache survives)."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop its clock: it keeps its connections and answers nothing, like a long collection."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None, f"node {self.node_id} does not run"
        self.process.send_signal(number)

    def check_alive(self) -> None:
        """PeerError with its last words if the process has died by itself."""
        if self.process is not None and (code := self.process.poll()) is not None:
            why = f"ended by itself with {code}\n{self.log_tail()}"
            raise PeerError(f"Kafka node {self.node_id}", why)

    def log_tail(self) -> str:
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as file:
            file.seek(max(0, self.log_file.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")

    @property
    def rss_bytes(self) -> int:
        """Memory in use now (Linux)."""
        for line in self._proc("status").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise PeerError(f"Kafka node {self.node_id}", "has no memory any more: it is gone")

    @property
    def cpu_s(self) -> float:
        """CPU seconds used since it started, user and system (Linux)."""
        fields = self._proc("stat").rpartition(")")[2].split()  # the name before may hold spaces
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def thread_cpu_s(self, name: str) -> float:
        """CPU seconds of its threads of this name, to the nanosecond (Linux)."""
        assert self.process is not None, f"node {self.node_id} does not run"
        spent = 0
        for task in Path("/proc", str(self.process.pid), "task").iterdir():
            try:
                if (task / "comm").read_text().rstrip("\n") == name[:MOST_THREAD_NAME]:
                    spent += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended since it was listed
        return spent / 1e9

    def _proc(self, name: str) -> str:
        assert self.process is not None, f"node {self.node_id} does not run"
        return Path("/proc", str(self.process.pid), name).read_text(encoding="utf-8")

    def release(self) -> None:
        self.broker_port.release()
        self.controller_port.release()
