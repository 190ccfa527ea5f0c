"""Writes docs/reference/python/ from the packages themselves: every name that may be imported.

`make docs` runs this, and a test compares, so that no page can say what the code does not. What a
name is promised to be stands in its docstring and beside its fields; whoever finds a page too thin
mends it there.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tools.page_folder import write_folder
from tools.public_names import Class, Constant, Field, Function, Public, names_of, public

FOLDER = Path(__file__).parent.parent / "docs/reference/python"

# Page, and the package whose `__all__` is on it.
PACKAGES = {
    "testing": "sexton.testing",
    "spark": "sexton.spark",
    "retry": "sexton.retry",
    "stores": "sexton.stores",
    "client": "sexton.client",
    "records": "sexton.records",
}
# What one comes for stands first on a page; the rest follows by the alphabet.
FIRST = {
    "sexton.testing": ("EmbeddedCluster", "Cluster", "PartitionState"),
    "sexton.spark": ("register", "spark_session", "exactly_once", "write_exactly_once",
                     "exactly_once_writer", "ordered_retry", "validate", "Proof"),
    "sexton.retry": ("OrderedRetry", "ordered_retry", "Message", "Backoff", "Retry"),
    "sexton.stores": ("App", "Task", "Store", "View", "AppConfig"),
    "sexton.client": ("Client", "Replica", "PartitionReader"),
    "sexton.records": ("decode", "encode", "rows", "Columns", "Record"),
}  # fmt: skip
# What one needs beside these and finds elsewhere: a page of their own.
OTHERS = {
    "sexton.base.errors": (
        "SextonError", "ConfigError", "CorruptLog", "Missing", "PeerError", "Refused",
    ),
    "sexton.base.findings": ("Finding",),
    "sexton.base.partitions": ("TopicPartition",),
    "sexton.testing.waiting": ("until", "TimedOut"),
    "sexton.testing.plugin": ("kafka", "kafka_cluster", "start_kafka"),
    "sexton.broker.users": ("Users", "save_users"),
    "sexton.cli.main": ("main",),
}  # fmt: skip

INDEX = """\
# Python

What may be imported from sexton, and [stays](../support.md#what-stays-as-it-is). Names that are not
on these pages are ours to change.

| page | what it is |
| --- | --- |
"""


def pages() -> dict[str, str]:
    """File name to text, of everything in the folder."""
    texts = {f"{name}.md": _package_page(package) for name, package in PACKAGES.items()}
    texts["others.md"] = _others_page()
    rows = [
        f"| [`{package}`]({name}.md) | {_first_paragraph(package)} |\n"
        for name, package in PACKAGES.items()
    ]
    rows.append(
        "| [errors, findings, fixtures](others.md) | What belongs to none of these alone. |\n"
    )
    return {"index.md": INDEX + "".join(rows)} | texts


def told_of(module: str) -> list[Public]:
    """Everything public that a module or package has, as its page tells it."""
    if module in OTHERS:
        return [public(module, name, _classes()) for name in OTHERS[module]]
    first = FIRST[module]
    names = [*first, *(name for name in names_of(module) if name not in first)]
    return _in_full([public(module, name, _classes()) for name in names])


def _package_page(package: str) -> str:
    words = _documentation(package)
    parts = [f"# {package}", _markdown(words), *(_told(each, "##") for each in told_of(package))]
    return "\n\n".join(parts) + "\n"


def _others_page() -> str:
    parts = [
        "# Errors, findings, fixtures",
        "Each is imported from the module that it stands under.",
    ]
    for module in OTHERS:
        parts.append(f"## {module}")
        parts += [_told(each, "###") for each in told_of(module)]
    return "\n\n".join(parts) + "\n"


@cache
def _classes() -> frozenset[type[Any]]:
    """All that these pages tell of."""
    wanted = [(package, name) for package in PACKAGES.values() for name in names_of(package)]
    wanted += [(module, name) for module, names in OTHERS.items() for name in names]
    found = (getattr(import_module(module), name) for module, name in wanted)
    return frozenset(each for each in found if isinstance(each, type))


def _in_full(everything: list[Public]) -> list[Public]:
    """A method without words of its own does what the page's protocol says."""
    promised = {
        member.name: member.about
        for each in everything
        if isinstance(each, Class) and "Protocol" in each.bases
        for member in each.members
    }
    return [_with_words(each, promised) if isinstance(each, Class) else each for each in everything]


def _with_words(what: Class, promised: Mapping[str, str]) -> Class:
    members = (
        each if each.about else replace(each, about=promised.get(each.name, ""))
        for each in what.members
    )
    return replace(what, members=tuple(members))


def _documentation(module: str) -> str:
    path = import_module(module).__file__
    assert path is not None
    return ast.get_docstring(ast.parse(Path(path).read_text(encoding="utf-8"))) or ""


def _first_paragraph(module: str) -> str:
    return " ".join(_documentation(module).partition("\n\n")[0].split())


# ── one name ──


def _told(what: Public, heading: str) -> str:
    match what:
        case Constant(name, value):
            return f"{heading} {name}\n\n`{value}`"
        case Function():
            return _told_callable(what, heading)
        case Class():
            return _told_class(what, heading)


def _told_callable(what: Function, heading: str) -> str:
    parts = [f"{heading} {what.name}", _code(what.signature), _markdown(what.about)]
    return "\n\n".join(part for part in parts if part)


def _told_class(what: Class, heading: str) -> str:
    parts = [f"{heading} {what.name}", _code(_outline(what)), _markdown(what.about)]
    if what.made_by is not None:
        parts.append(_markdown(what.made_by.about))
    if what.fields:
        parts.append(_fields(what.fields))
    properties = [each for each in what.members if each.is_property]
    if properties:
        parts.append(_properties(properties))
    for each in what.members:
        if each.is_property:
            continue
        named = Function(f"{what.name}.{each.name}", each.signature, each.about)
        parts.append(_told_callable(named, heading + "#"))
    return "\n\n".join(part for part in parts if part)


def _outline(what: Class) -> str:
    """`class Name(Base): ...`, with how one is made if that is written out."""
    head = f"class {what.name}" + (f"({', '.join(what.bases)})" if what.bases else "") + ":"
    if what.made_by is None:
        return head + " ..."
    made = what.made_by.signature.replace("__init__(\n", "__init__(\n    self,\n", 1)
    if made == what.made_by.signature:
        made = made.replace("__init__(", "__init__(self, ", 1).replace("self, )", "self)", 1)
    return head + "\n" + "\n".join(f"    {line}" for line in made.splitlines())


def _fields(fields: tuple[Field, ...]) -> str:
    rows = ["| field | type | default | |", "| --- | --- | --- | --- |"]
    for each in fields:
        default = "" if each.default is None else f"`{_cell(each.default)}`"
        kind = f"`{_cell(each.kind)}`" if each.kind else ""
        rows.append(f"| `{each.name}` | {kind} | {default} | {_cell(each.about)} |")
    return "\n".join(rows)


def _properties(properties: list[Function]) -> str:
    rows = ["| property | type | |", "| --- | --- | --- |"]
    for each in properties:
        name, _, kind = each.signature.partition(": ")
        rows.append(f"| `{name}` | `{_cell(kind)}` | {_cell(' '.join(each.about.split()))} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"```py\n{text}\n```"


def _markdown(words: str) -> str:
    """Docstrings are nearly Markdown: an indented stretch is code there as well as here."""
    lines: list[str] = []
    for line in words.splitlines():
        if line.startswith("    ") and lines and lines[-1] and not lines[-1].startswith("    "):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    write_folder(FOLDER, pages())


if __name__ == "__main__":
    main()
