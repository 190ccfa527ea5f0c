"""`make audit-deps`: what is known of a pin is said, and what could not be asked is never clean."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tools.audit_dependencies import LOCKS, Pin, main, pins


@contextmanager
def database(known: dict[str, list[str]], *, lacks: int = 0) -> Iterator[str]:
    """One that speaks as OSV does, on this machine; `lacks` answers are left out."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            queries = json.loads(self.rfile.read(length))["queries"]
            results = [self.answer(each["package"]["name"]) for each in queries]
            body = json.dumps({"results": results[lacks:]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def answer(self, name: str) -> dict[str, Any]:
            return {"vulns": [{"id": each} for each in known[name]]} if name in known else {}

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
        finally:
            server.shutdown()
            thread.join()


def test_pins_are_read_with_their_hashes_and_markers() -> None:
    text = 'a-b==1.2 \\\n    --hash=sha256:00\nc==3.0rc1 ; python_version < "3.14"\n# d==4\n'
    assert list(pins(text)) == [Pin("a-b", "1.2"), Pin("c", "3.0rc1")]
    assert len(list(pins((LOCKS / "dev.txt").read_text(encoding="utf-8")))) > 50


def test_nothing_known_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with database({}) as service:
        assert main([service]) == 0
    assert "0 with something known" in capsys.readouterr().out


def test_what_is_known_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with database({"numpy": ["PYSEC-0", "GHSA-1"]}) as service:
        assert main([service]) == 1
    assert "PYSEC-0, GHSA-1" in capsys.readouterr().out


@pytest.mark.parametrize("lacks", [None, 1])
def test_a_database_that_does_not_answer_in_full_is_not_clean(
    lacks: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with database({}, lacks=lacks or 0) as service:
        if lacks:
            assert main([service]) == 3
    if not lacks:
        assert main([service]) == 3  # nobody is there any more
    assert "NOT CHECKED" in capsys.readouterr().err
