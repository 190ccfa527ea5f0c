"""Writes a folder of generated pages; a page that is no longer wanted goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_folder(folder: Path, wanted: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.md"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"docs: wrote {len(wanted)} pages of docs/reference/{folder.name}")
