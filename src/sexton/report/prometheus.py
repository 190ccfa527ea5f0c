"""Metrics in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Labels = tuple[tuple[str, str | int], ...]
Sample = tuple[str, Labels, float]


def exposition(metrics: Mapping[str, tuple[str, str]], samples: Iterable[Sample]) -> str:
    """Those of `metrics` (kind and meaning, by name) that there are samples of, in their order."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample[0], []).append(sample)
    lines = []
    for name, (kind, meaning) in metrics.items():
        if name in by_name:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [sample_line(*sample) for sample in by_name[name]]
    return "\n".join(lines) + "\n"


def sample_line(name: str, labels: Labels, value: float) -> str:
    braces = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    number = str(int(value)) if value == int(value) else repr(value)
    return f"{name}{{{braces}}} {number}" if labels else f"{name} {number}"


def _escaped(value: str | int) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
