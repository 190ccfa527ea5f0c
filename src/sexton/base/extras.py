"""Which extra brings a package that is not there?

`pip install sexton` is lean; what only some commands need comes with an extra. Code that needs such
a package either asks before it begins, or lets the import fail: the command line gives both the
same words.
"""

from __future__ import annotations

from importlib.util import find_spec

from sexton.base.errors import Missing

EXTRAS = {
    "confluent_kafka": "retry",
    "pandas": "spark",
    "pyarrow": "parquet",
    "pyspark": "spark",
    "pytest": "testing",
    "rocksdict": "stores",
}


def need(*packages: str, otherwise: str | None = None) -> None:
    """Missing, with what to install or do `otherwise`, if one of them is not there."""
    for package in packages:
        if find_spec(package) is None:
            raise missing(package, otherwise)


def missing(package: str, otherwise: str | None = None) -> Missing:
    """Named as pip names it, which knows no underscores."""
    remedy = f'pip install "sexton[{EXTRAS[package]}]"'
    remedy += f", or {otherwise}" if otherwise else ""
    return Missing(package.replace("_", "-"), "is not installed", remedy)
