"""The guard over HTTP: a page for people, metrics for Prometheus, health for whoever restarts it.

    /             what is frozen, why, since when, what it costs
    /status.json  the same for programs
    /metrics      Prometheus's text format
    /healthz      200 while the cluster is seen, 503 with the reason when it is not

It only shows; nothing can be changed here.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from sexton.guard import metrics, page
from sexton.guard.daemon import Daemon
from sexton.guard.status import Status
from sexton.report.serving import PROMETHEUS, Page, Server

HTML, JSON = "text/html; charset=utf-8", "application/json"
HEADERS = (
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
)


class Web(Server):
    def __init__(self, daemon: Daemon, host: str, port: int) -> None:
        self._daemon = daemon
        super().__init__(host, port, self._shown, option="--http-port", headers=HEADERS)

    def _shown(self, path: str) -> Page:
        status = self._daemon.status()
        match path:
            case "/":
                return Page(page.html(status), HTML)
            case "/status.json":
                return Page(json_text(status), JSON)
            case "/metrics":
                text = metrics.text(status, self._daemon.counters, self._daemon.round_s)
                return Page(text, PROMETHEUS)
            case "/healthz":
                trouble = trouble_of(status, self._daemon.guard.config.blind_ms)
                if trouble is None:
                    return Page("ok\n")
                return Page(trouble + "\n", code="503 Service Unavailable")
            case _:
                return Page("see /\n", code="404 Not Found")


def trouble_of(status: Status, blind_ms: int) -> str | None:
    """Why the guard is of no use now. A finding is no reason: a restart would not help."""
    if status.last_seen_ms is None:
        return f"the cluster was never seen: {status.not_seen or 'not looked yet'}"
    if status.now_ms - status.last_seen_ms > blind_ms:
        return f"the cluster cannot be seen: {status.not_seen or 'a look takes too long'}"
    return None


def json_text(status: Status) -> str:
    return json.dumps({**asdict(status), "frozen": status.frozen, "ok": status.ok}) + "\n"
