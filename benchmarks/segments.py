"""Real segments to measure on, written once by a real Apache Kafka and kept.

    ~/.cache/sexton/benchmarks/kafka-4.3.1-none-1073741824-5f0c.../bench-0/0000...0.log, .index, ...
                                                                   made.json

A broker is started, `java/Fill.java` writes with Kafka's own producer, and the broker is shut down
cleanly, so that the directory is what an operator would find. It appears in the cache in one
rename, under a name that changes when the program that wrote it does.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from benchmarks.java_programs import SOURCES, program
from sexton.base.errors import PeerError
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.java import STEADY
from sexton.testing.kafka_jars import KAFKA_4, cache_directory, one_at_a_time

GIB = 1 << 30
MIB = 1 << 20

_TOPIC = "bench"
_RECORD_BYTES = 126  # 16 of key, 100 of value, about ten of Kafka's around them
# As few segments as can be: a segment of 1 GiB is Kafka's default, and of 2 GiB the most it takes.
_TOPIC_OPTIONS = {"segment.bytes": (1 << 31) - 1, "segment.ms": 2**40, "retention.ms": -1}
_UNITS = {"": 1, "K": 1 << 10, "M": MIB, "G": GIB}


@dataclass(frozen=True, slots=True)
class Segments:
    """One partition's directory, as Kafka left it; `codec` is what its producer was told."""

    directory: Path
    codec: str

    @property
    def log(self) -> Path:
        """Its first segment; the only one, up to 2 GiB."""
        return min(self.directory.glob("*.log"))


def parse_size(text: str) -> int:
    """Bytes in "1GiB", "100M" or "4096"; units are powers of 1024."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is no size: write 1GiB, 100MiB or a number of bytes")
    return int(match[1]) * _UNITS[match[2].upper()]


def segments(codec: str, size: int, *, keep: bool = False) -> Segments:
    """About `size` bytes of segments before compression, from the cache or made now.

    The same records for every codec, so lz4's are fewer bytes. `keep` leaves the broker's own
    directory behind, for a look at why it failed.
    """
    recipe = (SOURCES / "Fill.java").read_bytes() + repr(_TOPIC_OPTIONS).encode()
    digest = hashlib.sha256(recipe).hexdigest()[:12]
    home = cache_directory() / "benchmarks"
    target = home / f"kafka-{KAFKA_4}-{codec}-{size}-{digest}"
    with one_at_a_time(home / f"{target.name}.making"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix="new.") as scratch:
                made = Path(scratch, "made")
                made.mkdir()
                _make(made, codec, size, keep)
                made.rename(target)
    return Segments(target / f"{_TOPIC}-0", codec)


def _make(target: Path, codec: str, size: int, keep: bool) -> None:
    records = max(1, size // _RECORD_BYTES)
    sys.stderr.write(f"benchmarks: Apache Kafka {KAFKA_4} writes {records} records ({codec})\n")
    start = perf_counter()
    with ApacheKafka(KafkaConfig(jvm=STEADY, heap="1g", keep=keep)) as kafka:
        kafka.admin.create_topic(_TOPIC, 1, _TOPIC_OPTIONS)
        command = program("Fill", [kafka.bootstrap, _TOPIC, codec, str(records)])
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise PeerError("Fill.java", answer.stderr[-2000:])
        kafka.stop(1)  # cleanly: indexes are trimmed and a producer snapshot is written
        shutil.move(kafka.data_directory(1) / f"{_TOPIC}-0", target / f"{_TOPIC}-0")
    story = {
        "kafka": KAFKA_4,
        "made": datetime.now(UTC).date().isoformat(),
        "producer": "KafkaProducer with its defaults, see benchmarks/java/Fill.java",
        "compression.type": codec,
        "records": records,
        "topic": _TOPIC_OPTIONS,
        "files": {p.name: p.stat().st_size for p in sorted((target / f"{_TOPIC}-0").iterdir())},
    }
    (target / "made.json").write_text(json.dumps(story, indent=2) + "\n", encoding="utf-8")
    sys.stderr.write(f"benchmarks: they are kept; that took {perf_counter() - start:.0f} s\n")
