"""Does the documentation build without a warning, and does every link lead somewhere?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.site_hooks import on_page_content

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Strict: a link that leads nowhere is a warning, and a warning is an error."""
    answer = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert (tmp_path / "index.html").is_file()
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', home)
    assert not loaded, "a page works without the network"
    assert re.search(r'md-ellipsis">\s*Commands\s*<', home), "the menu leads to the commands"


def test_no_page_stands_in_the_menu_twice() -> None:
    """It would get one name at both places."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = re.findall(r"[\w./-]+\.md", menu)
    assert pages and not [page for page in set(pages) if pages.count(page) > 1]


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(name: str) -> None:
    for target in LINK.findall((ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


def test_every_page_can_be_reached() -> None:
    """From the list of pages, or from another page."""
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    listed = set(re.findall(r"([\w./-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    linked = {
        (path.parent / target).resolve().relative_to((ROOT / "docs").resolve())
        for path in (ROOT / "docs").rglob("*.md")
        for target in LINK.findall(path.read_text(encoding="utf-8"))
        if target.endswith(".md") and (path.parent / target).resolve().is_relative_to(ROOT / "docs")
    }
    assert not {page for page in pages if str(page) not in listed and page not in linked}


def test_a_short_name_is_not_broken_and_a_long_one_and_a_block_may_be() -> None:
    short, thirty = "<code>--policy</code>", f"<code>{'&lt;' * 30}</code>"
    assert on_page_content(short) == '<code class="short">--policy</code>'
    assert 'class="short"' in on_page_content(thirty)
    for other in (f"<code>{'x' * 31}</code>", "<pre><code>--policy</code></pre>"):
        assert on_page_content(other) == other
