"""What the pages of audits and validations are made of: a head that lets no script run, tables.

Text becomes HTML by `escaped` only, whether it is ours or was written into a log by someone who
hoped that it would be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sexton.report.audit_style import CSS
from sexton.report.audit_words import escaped

_TYPED = re.compile("`([^`]*)`")


def head(title: str) -> str:
    """Up to the body, which is open."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escaped(title)}</title>\n"
        f"<style>{CSS}</style>\n</head>\n<body>\n"
    )


def table(
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    raw: int | None = None,
    kind: str = "",
) -> str:
    """`columns` are (heading, class); the cells of column `raw` are HTML already."""
    heads = "".join(f'<th scope="col"{_class(of)}>{escaped(name)}</th>' for name, of in columns)
    body = []
    for row in rows:
        cells = (
            f"<td{_class(of)}>{text if at == raw else escaped(text)}</td>"
            for at, ((_, of), text) in enumerate(zip(columns, row, strict=True))
        )
        body.append(f"<tr>{''.join(cells)}</tr>\n")
    inner = f"<thead><tr>{heads}</tr></thead><tbody>\n{''.join(body)}</tbody>"
    return scrolled(f"<table{_class(kind)}>{inner}</table>", "table") + "\n"


def scrolled(inner: str, what: str) -> str:
    """What may be wider than the page: it moves by itself, and by the keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{what}">{inner}</div>'


def with_commands(text: str) -> str:
    """Escaped, and what stands in backticks is to be typed."""
    return _TYPED.sub(r"<code>\1</code>", escaped(text))


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
