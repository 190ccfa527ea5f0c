"""Which extra brings a package that is not there?

`pip install sexton` is lean; what only some commands need comes with an extra. Who needs such a
package either asks before it begins, or lets the import fail: the command line gives both the same
words.
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


def need(*packages: str) -> None:
    """Missing, with what to install, if one of them is not there."""
    for package in packages:
        if find_spec(package) is None:
            raise missing(package)


def missing(package: str) -> Missing:
    """Named as pip names it, which knows no underscores."""
    remedy = f'pip install "sexton[{EXTRAS[package]}]"'
    return Missing(package.replace("_", "-"), "is not installed", remedy)
