"""One line of Prometheus's text format."""

from __future__ import annotations

Labels = tuple[tuple[str, str | int], ...]


def sample_line(name: str, labels: Labels, value: float) -> str:
    braces = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    number = str(int(value)) if value == int(value) else repr(value)
    return f"{name}{{{braces}}} {number}" if labels else f"{name} {number}"


def _escaped(value: str | int) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
