"""Replicas in a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def named(nodes: Iterable[int], one: str = "", several: str = "") -> str:
    """`replica 3 lacks`, `replicas 1 and 2 lack`."""
    numbers = [str(node) for node in sorted(nodes)]
    if len(numbers) == 1:
        return f"replica {numbers[0]} {one}".rstrip()
    return f"replicas {', '.join(numbers[:-1])} and {numbers[-1]} {several}".rstrip()


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
