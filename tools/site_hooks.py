"""What mkdocs is to do to a page: a short name in the text is never broken over two lines.

A browser breaks a line after any hyphen, so `--policy` would end one line with `--`.
"""

from __future__ import annotations

import re
from typing import Any

SHORT = 30  # characters; they fit a telephone
CODE = re.compile(r"(?<!<pre>)<code>([^<\n]+)</code>")
CHARACTER = re.compile(r"&\w+;|&#\d+;|.")


def on_page_content(html: str, **_: Any) -> str:
    return CODE.sub(_marked, html)


def _marked(code: re.Match[str]) -> str:
    short = len(CHARACTER.findall(code[1])) <= SHORT
    return f'<code class="short">{code[1]}</code>' if short else code[0]
