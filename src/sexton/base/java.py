"""Which Java would be started here?

The one in JAVA_HOME, or else the first on the PATH: so do Kafka's own scripts and Spark. What needs
it asks before anything is started, since what comes of a missing Java is harder to read.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sexton.base.errors import Missing

LEAST_JAVA = 17  # for Kafka 4 and for Spark 4
JAVA_REMEDY = (
    f"install Java {LEAST_JAVA} or later (apt-get install openjdk-{LEAST_JAVA}-jre-headless,"
    f" brew install openjdk@{LEAST_JAVA}) or point JAVA_HOME at one"
)


def java_path(java_home: str | None) -> Path:
    """Of the program itself; Missing, with what to install, if there is none."""
    found = shutil.which(str(Path(java_home, "bin", "java")) if java_home else "java")
    if found is None:
        why = "is not installed: there is no `java` on the PATH"
        if java_home:
            why = f"JAVA_HOME is {java_home}, where there is no bin/java"
        raise Missing("Java", why, JAVA_REMEDY)
    return Path(found)
