"""atheris looks for bytes that a message's reader cannot bear.

    python -m tests.fuzz.fuzz_protocol SECONDS DIRECTORY [libFuzzer options]

The first byte of an input chooses a message class and a version, the rest is to be read as such a
message. Readers are instrumented as they are compiled, so the search is led by their branches: one
for each length, count and tag there is. That is slow, so there are a few messages only, which
together have fields of every kind; the rest are made of the same lines (tests/property has all).
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["sexton.protocol"]):
    from sexton.protocol import encode, reader
    from sexton.protocol.reader import compile_reader
    from sexton.protocol.source import Compiled
    from sexton.protocol.wire import Message
    from tests.kafka_messages import random_message
    from tests.property.test_damaged_messages import EVERY, judge

LARGEST = 512
CHOSEN = {
    ("ApiVersionsResponse", 3),
    ("ConsumerGroupMemberMetadataValue", 0),  # a struct that is tagged and may be null
    ("DescribeTopicPartitionsRequest", 0),  # one that is not tagged
    ("DescribeClientQuotasResponse", 1),
    ("FetchResponse", 4),
    ("FetchResponse", 16),
    ("JoinGroupRequest", 5),
    ("MetadataResponse", 12),
    ("ProduceRequest", 9),
    ("PushTelemetryRequest", 0),
    ("TransactionLogValue", 1),
}
MESSAGES = [(kind, version) for kind, version in EVERY if (kind.__name__, version) in CHOSEN]
assert len(MESSAGES) == len(CHOSEN)


def instrumented(kind: type[Message], version: int, view: bool) -> Compiled:
    made = compile_reader(kind, version, view)
    atheris.instrument_func(made.function)
    return made


def one_input(data: bytes) -> None:
    if data:
        kind, version = MESSAGES[data[0] % len(MESSAGES)]
        judge(kind, data[1:], version)


def make_corpus(directory: Path) -> None:
    random = Random(1)
    for number, (kind, version) in enumerate(MESSAGES):
        for sample in range(10):
            data = encode(random_message(kind, version, random), version)
            if len(data) < LARGEST:
                (directory / f"{number}-{sample}").write_bytes(bytes([number]) + data)


def main(seconds: int, directory: Path, options: list[str]) -> None:
    corpus = directory / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    make_corpus(corpus)
    reader.compile_reader = instrumented
    limits = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", "-timeout=20"]
    limits += ["-rss_limit_mb=2048", f"-artifact_prefix={directory}/failed."]
    atheris.Setup([sys.argv[0], *limits, *options, str(corpus)], one_input)
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
