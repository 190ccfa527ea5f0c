"""Makes the pictures in README.md and the docs again, from what sexton really prints.

    sexton demo ──on a terminal of its own──▶ text with colours ──rich──▶ docs/images/demo.svg
         └──▶ its report ──headless Chromium──▶ docs/images/report.png
    sexton guard run, while a broker is away ──▶ its page ──the same──▶ docs/images/guard-page.png

Run after one of them changed: `.venv/bin/python tools/make_pictures.py`. Without Chromium the
pictures of pages stay as they are.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from confluent_kafka import Producer
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
COLUMNS, ROWS = 96, 50
ACT = ("── As Apache Kafka", "2. ")  # the picture shows the heading and the first act
REPORT_SIZE, PAGE_SIZE = "1200,1400", "1200,740"
SERVED = re.compile(r"http://\S+")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.html")
        said = on_a_terminal(
            [sys.executable, "-m", "sexton.cli.main", "demo", "--html", str(report)]
        )
        draw(first_act(said), IMAGES / "demo.svg")
        photograph(report.as_uri(), IMAGES / "report.png", REPORT_SIZE)
    photograph_the_guard(IMAGES / "guard-page.png")


def photograph_the_guard(to: Path) -> None:
    """While a broker is away and somebody writes."""
    with EmbeddedCluster(brokers=3) as kafka:
        for topic in ("accounts", "orders-by-customer"):
            kafka.create_topic(topic, 3, {"cleanup.policy": "compact"})
        command = [sys.executable, "-m", "sexton.cli.main", "guard", "run", "--http-port", "0",
                   "--interval", "1s", "-b", kafka.bootstrap_servers]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as guard:
            assert guard.stdout is not None
            page = next(found[0] for line in guard.stdout if (found := SERVED.search(line)))
            try:
                until(lambda: b"accounts" in _got(page), "a guard that saw all replicas in sync")
                kafka.kill(3)
                # From the first look at the disks on it is counted what a topic holds back.
                until(lambda: b"<h2>Disks" in _got(page), "topics that are held, and their size")
                _write(kafka.bootstrap_servers, "accounts")
                until(lambda: b" MB" in _got(page), "growth that is seen")
                photograph(page, to, PAGE_SIZE)
            finally:
                guard.terminate()


def _got(page: str) -> bytes:
    with urllib.request.urlopen(page, timeout=10) as answer:
        got: bytes = answer.read()
    return got


def _write(bootstrap_servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number in range(20_000):
        producer.produce(topic, key=f"account-{number % 500}", value=b"x" * 60)
        producer.poll(0)
    producer.flush(60)


def on_a_terminal(command: list[str]) -> str:
    """What a command prints for a person who has colours."""
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    mine, its = pty.openpty()
    with subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL, env=environment) as child:
        os.close(its)
        said = b""
        while True:
            try:
                piece = os.read(mine, 1 << 16)
            except OSError:  # Linux says so when the other side has closed
                break
            if not piece:
                break
            said += piece
    assert child.returncode == 0, said.decode(errors="replace")
    return said.decode().replace("\r\n", "\n")


def first_act(said: str) -> str:
    lines = said.splitlines()
    plain = [Text.from_ansi(line).plain for line in lines]
    begin = next(at for at, line in enumerate(plain) if line.startswith(ACT[0]))
    end = next(at for at, line in enumerate(plain) if line.startswith(ACT[1]))
    return "\n".join(["$ make demo", "", *lines[begin:end]]).rstrip()


def draw(text: str, to: Path) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text), "", sep="\n")  # of the last line, rich cuts the feet
    frame = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(str(to), title="sexton", code_format=frame)  # no fonts from elsewhere
    print(f"pictures: wrote {to.relative_to(ROOT)}")


def photograph(page: str, to: Path, size: str) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print(f"pictures: no Chromium on the PATH, so {to.relative_to(ROOT)} stays as it is")
        return
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-background-networking", f"--window-size={size}", f"--screenshot={to}",
         page],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    print(f"pictures: wrote {to.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
