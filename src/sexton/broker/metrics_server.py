"""Metrics over HTTP, for Prometheus: one page and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from sexton.report.serving import PROMETHEUS, Page, Server


class MetricsServer(Server):
    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        def page(path: str) -> Page:
            if path == "/metrics":
                return Page(text(), PROMETHEUS)
            return Page("see /metrics\n", PROMETHEUS, "404 Not Found")

        super().__init__(host, port, page, option="--metrics-port")

    @property
    def address(self) -> str:
        return f"{super().address}metrics"
