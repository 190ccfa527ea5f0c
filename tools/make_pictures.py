"""Makes the pictures in README.md and the docs again, from what sexton really prints.

    sexton demo ──on a terminal of its own──▶ text with colours ──rich──▶ docs/images/demo.svg
         └──▶ its report ──headless Chromium──▶ docs/images/report.png

Run after the demo or the report changed: `.venv/bin/python tools/make_pictures.py`. Chromium is
only needed for the second; without it that picture stays as it is.
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
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
COLUMNS, ROWS = 96, 50
ACT = ("── As Apache Kafka", "2. ")  # the picture shows the heading and the first act
SIZE = "1200,1400"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.html")
        said = on_a_terminal(
            [sys.executable, "-m", "sexton.cli.main", "demo", "--html", str(report)]
        )
        draw(first_act(said), IMAGES / "demo.svg")
        photograph(report, IMAGES / "report.png")


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
    console.print(Text.from_ansi(text))
    frame = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(str(to), title="sexton", code_format=frame)  # no fonts from elsewhere
    print(f"pictures: wrote {to.relative_to(ROOT)}")


def photograph(page: Path, to: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("pictures: no Chromium on the PATH, so docs/images/report.png stays as it is")
        return
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-background-networking", f"--window-size={SIZE}", f"--screenshot={to}",
         page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    print(f"pictures: wrote {to.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
