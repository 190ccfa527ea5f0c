"""`sexton doctor`: what of sexton works on this machine, and what to install for the rest.

Each check asks the very code that would need the thing, and so gives its words: Java is looked for
by what starts Spark, jars by what starts Kafka. What only some commands need is a note if it lacks;
what every command needs, a warning.

    check ──▶ Verdict(part, found, needed for) ──▶ a row
                └─ lacking ──▶ a finding with the remedy
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from sexton.base.errors import SextonError
from sexton.base.extras import need
from sexton.base.findings import Finding, Severity
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column

EXAMPLES = (
    ("Show what works here, and what to install for the rest", "sexton doctor"),
    ("Get the same as JSON, for a bug report", "sexton doctor --format json"),
)
COLUMNS = (Column("part"), Column("works"), Column("found"), Column("needed_for"))

BROKER_PORTS = range(9092, 9095)  # what `sexton up` takes if it is not told otherwise
LEAST_DISK_BYTES = 2 << 30  # Spark with its jars is half a gigabyte, a lab's cluster less
LEAST_MEMORY_BYTES = 2 << 30  # three Java brokers or a Spark driver beside what runs already


@dataclass(frozen=True, slots=True)
class Verdict:
    found: str
    lacks: str | None = None  # what is wrong, as a sentence
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    part: str
    needed_for: str
    look: Callable[[], Verdict]
    severity: Severity = "note"  # if it lacks


def command(format: FormatOption = Format.table) -> None:
    """Show which parts of sexton work on this machine, and what to install for the rest.

    Checks Python, compiled kernels, the optional packages, Java, Maven, Apache Kafka's jars, free
    ports, disk and memory. It changes nothing and needs no network. Exits with 1 if something is
    missing that every command needs; what only some commands need is a note.
    """
    with Output("doctor", format) as out:
        verdicts = [(check, _looked(check)) for check in CHECKS]
        out.rows("checks", COLUMNS, (_row(check, verdict) for check, verdict in verdicts))
        for finding in _findings(verdicts):
            out.finding(finding)
        lacking = sum(verdict.lacks is not None for _, verdict in verdicts)
        out.summarize(checks=len(verdicts), lacking=lacking)
        if not lacking:
            out.say("Everything works here.")
        elif out.exit_code == 0:
            out.say("Everything else works here.")


def _looked(check: Check) -> Verdict:
    """What a check raises is what it found."""
    try:
        return check.look()
    except SextonError as error:
        return Verdict("-", f"{error.subject}: {error.why}", error.hint)


def _row(check: Check, verdict: Verdict) -> tuple[str, bool, str, str]:
    return check.part, verdict.lacks is None, verdict.found, check.needed_for


def _findings(verdicts: list[tuple[Check, Verdict]]) -> Iterator[Finding]:
    for check, verdict in verdicts:
        if verdict.lacks is not None:
            yield Finding(
                code="machine-lacks", severity=check.severity, where=check.part,
                message=f"{verdict.lacks} (needed for: {check.needed_for})", remedy=verdict.remedy,
            )  # fmt: skip


# ── the checks ──


def python() -> Verdict:
    return Verdict(f"{platform.python_version()} ({platform.machine()})")


def kernels() -> Verdict:
    """Is machine code kept from one process to the next?"""
    from sexton.records.machine_code import cache_directory

    place = cache_directory()
    count = len(list(place.glob("*.o")))
    if not _is_writable(place):
        return Verdict(
            f"{count} kept", f"nothing can be written to {place}, so each process compiles again",
            "point NUMBA_CACHE_DIR at a directory that can be written",
        )  # fmt: skip
    if not count:
        return Verdict("none kept yet", "the first commands take some seconds longer",
                       "run sexton warmup")  # fmt: skip
    return Verdict(f"{count} kept in {_short(place.parent)}")


def package(name: str) -> Callable[[], Verdict]:
    def look() -> Verdict:
        need(name)
        return Verdict(metadata.version(name.replace("_", "-")))

    return look


def java() -> Verdict:
    from sexton.testing.java import find_java

    found = find_java()
    return Verdict(f"{found.version} ({_short(found.path)})")


def maven() -> Verdict:
    from sexton.testing.kafka_jars import find_maven

    return Verdict(_short(find_maven()))


def jars() -> Verdict:
    from sexton.testing.jar_lock import shipped_versions
    from sexton.testing.kafka_jars import cache_directory

    there = [v for v in shipped_versions() if (cache_directory() / "kafka" / v).is_dir()]
    return Verdict(", ".join(there) if there else "none yet; fetched when first needed")


def ports() -> Verdict:
    taken = [port for port in BROKER_PORTS if not _is_free(port)]
    span = f"{BROKER_PORTS[0]} to {BROKER_PORTS[-1]}"
    if taken:
        return Verdict(
            f"taken: {', '.join(map(str, taken))}",
            f"sexton up will not get the ports {span} and takes others",
            "name one with sexton up --port, or stop what listens there",
        )
    return Verdict(f"{span} free")


def disk() -> Verdict:
    place = Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):,.1f} GiB free in {place}"
    if free < LEAST_DISK_BYTES:
        return Verdict(found, f"{place} is nearly full", "make room, or point TMPDIR elsewhere")
    return Verdict(found)


def memory() -> Verdict:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return Verdict("not known on this system")
    kib = next(int(line.split()[1]) for line in text.splitlines() if "MemAvailable" in line)
    found = f"{kib / (1 << 20):,.1f} GiB available, {os.cpu_count()} cores"
    if kib << 10 < LEAST_MEMORY_BYTES:
        return Verdict(found, "Java brokers and Spark may be killed for memory", "stop other work")
    return Verdict(found)


def _is_writable(place: Path) -> bool:
    """It, or what it would be made in."""
    nearest = next(path for path in (place, *place.parents) if path.exists())
    return os.access(nearest, os.W_OK)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _short(path: Path) -> str:
    """With `~` for the home directory: a bug report needs no names of people."""
    home = Path.home()
    return str(Path("~") / path.relative_to(home)) if path.is_relative_to(home) else str(path)


SPARK = "demo, audit and pipelines on Spark"
LAB = "Apache Kafka in the lab"
CHECKS = (
    Check("python", "everything", python),
    Check("kernels", "speed of the first command", kernels),
    Check("pyspark", SPARK, package("pyspark")),
    Check("pyarrow", f"{SPARK}; Parquet", package("pyarrow")),
    Check("confluent-kafka", "demo, retry, the lab", package("confluent_kafka")),
    Check("rocksdict", "stores on disk", package("rocksdict")),
    Check("java", f"{SPARK}; {LAB}", java),
    Check("maven", "fetching Apache Kafka for the lab", maven),
    Check("kafka jars", LAB, jars),
    Check("ports", "sexton up on its usual ports", ports),
    Check("disk", "everything that writes", disk, "warning"),
    Check("memory", "Apache Kafka, Spark", memory),
)  # fmt: skip
