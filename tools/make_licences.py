"""Writes docs/reference/licences.md: what comes with each extra, and under which licence.

Read from the packages installed in .venv, which are those of the lock, following what each needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PAGE = Path(__file__).parent.parent / "docs/reference/licences.md"
EXTRAS = ("", "parquet", "retry", "spark", "stores", "testing")
HEAD = """\
# Licences

sexton is under the Apache License 2.0. These packages come with it, in the versions of the lock.
The jars of Apache Kafka that the lab fetches are under the Apache License 2.0 as well; what they
depend on has licences of its own, which are inside them.

| package | version | licence | comes with |
| --- | --- | --- | --- |
"""
SHORT = {
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "http://www.apache.org/licenses/license-2.0": "Apache-2.0",
    "bsd license": "BSD",
    "mit license": "MIT",
}


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    with_: dict[str, list[str]] = {}
    for extra in EXTRAS:
        for name in sorted(set(_needed("sexton", extra, {"sexton"}))):
            with_.setdefault(name, []).append(extra)
    return HEAD + "".join(_row(name, extras) for name, extras in sorted(with_.items()))


def _needed(package: str, extra: str, seen: set[str]) -> Iterator[str]:
    for text in metadata.requires(package) or ():
        wanted = Requirement(text)
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        if wanted.marker is None and extra and package == "sexton":
            continue  # of the lean install
        if name not in seen:
            seen.add(name)
            yield name
            yield from _needed(name, "", seen)


def _row(name: str, extras: list[str]) -> str:
    about = metadata.metadata(name)
    told = "sexton itself" if "" in extras else ", ".join(f"`[{extra}]`" for extra in extras)
    return f"| {name} | {metadata.version(name)} | {_licence(about)} | {told} |\n"


def _licence(about: metadata.PackageMetadata) -> str:
    if "License-Expression" in about:
        return about["License-Expression"]
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in about.get_all("Classifier") or ()
        if text.startswith("License ::") and text != "License :: OSI Approved"
    ]
    if not classifiers and "License" in about:
        classifiers = about["License"].splitlines()[:1]
    said = ", ".join(classifiers) or "not said"
    return SHORT.get(said.lower(), said)


if __name__ == "__main__":
    main()
