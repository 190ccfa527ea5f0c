"""`sexton audit --watch`: the audit again and again, and what became of it as metrics.

Audits run in the main thread, where Ctrl-C ends them; visitors of the metrics are served by a loop
in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import typer

from sexton.cli.audit_run import Request, audit
from sexton.cli.audit_show import show
from sexton.cli.durations import milliseconds
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.audit_page import AuditPage
from sexton.report.prometheus import Labels, sample_line

METRICS: dict[str, tuple[str, str]] = {
    "sexton_audit_runs_total": (
        "counter", "Audits by their `result`: how replicas stand (agree, differ, ...), or failed.",
    ),
    "sexton_audit_findings": (
        "gauge", "Findings of the last audit by `topic` and `code`, without acknowledged ones.",
    ),
    "sexton_audit_unread_replicas": ("gauge", "Replicas that the last audit could not read."),
    "sexton_audit_read_bytes_total": ("counter", "Bytes read from brokers."),
    "sexton_audit_last_end_timestamp_seconds": ("gauge", "When the last audit ended."),
    "sexton_audit_last_duration_seconds": ("gauge", "How long it took."),
}  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What Prometheus is told."""

    runs: Counter[str] = field(default_factory=Counter)  # by standing, or `failed`
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)  # of the last run
    unread: int = 0
    read_bytes: int = 0
    last_end_s: float = 0.0
    last_duration_s: float = 0.0

    def add(self, page: AuditPage) -> None:
        self.runs[page.standing] += 1
        self.findings = Counter((f.partition.topic, f.code) for f in page.findings)
        self.unread = sum(not each.keys_only for each in page.incomplete)
        self.read_bytes += sum(replica.bytes for replica in page.replicas)
        self.last_end_s = page.finished_ms / 1000
        self.last_duration_s = (page.finished_ms - page.started_ms) / 1000

    def text(self) -> str:
        """In Prometheus's format."""
        samples: dict[str, list[tuple[Labels, float]]] = {
            "sexton_audit_runs_total": [
                ((("result", result),), count) for result, count in sorted(self.runs.items())
            ],
            "sexton_audit_findings": [
                ((("topic", topic), ("code", code)), count)
                for (topic, code), count in sorted(self.findings.items())
            ],
            "sexton_audit_unread_replicas": [((), self.unread)],
            "sexton_audit_read_bytes_total": [((), self.read_bytes)],
            "sexton_audit_last_end_timestamp_seconds": [((), self.last_end_s)],
            "sexton_audit_last_duration_seconds": [((), self.last_duration_s)],
        }
        lines = []
        for name, (kind, meaning) in METRICS.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [sample_line(name, labels, value) for labels, value in samples[name]]
        return "\n".join(lines) + "\n"


def audit_again(request: Request, chosen: Format, interval: str, metrics_port: int | None) -> None:
    """Until Ctrl-C. One that fails is said and tried again at the next turn."""
    pause_s = milliseconds(interval, "--interval") / 1000
    tally = Tally()
    with _served(tally, metrics_port):
        try:
            while True:
                began = time.monotonic()
                one_audit(request, chosen, tally)
                time.sleep(max(0.0, pause_s - (time.monotonic() - began)))
        except KeyboardInterrupt:
            return


@contextmanager
def _served(tally: Tally, port: int | None) -> Iterator[None]:
    from sexton.broker.metrics_server import MetricsServer

    if port is None:
        yield
        return
    server = MetricsServer("127.0.0.1", port, tally.text)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(server.start())
    typer.echo(f"metrics: {server.address}", err=True)
    visited = threading.Thread(target=loop.run_forever, name="metrics", daemon=True)
    visited.start()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        visited.join()
        loop.close()


def one_audit(request: Request, chosen: Format, tally: Tally) -> None:
    """One turn. What was found or went wrong is said, and is no reason to stop; Ctrl-C is."""
    interrupted = False
    with suppress(typer.Exit), Output("audit", chosen) as out:
        try:
            page = audit(request, out)
        except KeyboardInterrupt:
            interrupted = True
            raise
        except Exception:
            tally.runs["failed"] += 1
            raise
        tally.add(page)
        show(page, request, out)
    if interrupted:
        raise KeyboardInterrupt
