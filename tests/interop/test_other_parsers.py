"""Other clients' parsers read our bytes as we meant them. (No broker is needed for that.)"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from sexton.log.config import LogConfig
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.records.columns import Record
from sexton.records.decoder import decode
from sexton.records.layout import Codec, headers_in
from tests.our_logs import write_our_log

# kafka-python unpacks snappy with python-snappy only, which we do not install; aiokafka has it.
CODECS = {
    "kafka.record.memory_records": set(Codec) - {Codec.SNAPPY},
    "aiokafka.record.memory_records": set(Codec),
}


@pytest.fixture(scope="module")
def our_batches(tmp_path_factory: pytest.TempPathFactory) -> dict[Codec, list[bytes]]:
    root: Path = tmp_path_factory.mktemp("ours")
    log = open_log(RealDisk(root), "ours-0", LogConfig(), now_ms=0).log
    write_our_log(log, leader_epoch=3)
    batches: dict[Codec, list[bytes]] = {codec: [] for codec in Codec}
    for segment in log.segments:
        data = segment.log.read_at(0, segment.size)
        for position, header in headers_in(data, "ours"):
            batches[Codec(header.codec)].append(data[position : position + header.size])
    return batches


def parsed(module: str, data: bytes) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader: Any = importlib.import_module(module).MemoryRecords(data)
    records = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        records += [
            Record(r.offset, r.timestamp, r.key, r.value, tuple(map(tuple, r.headers)))
            for r in batch
        ]
    return records


@pytest.mark.parametrize("module", CODECS)
@pytest.mark.parametrize("codec", list(Codec))
def test_our_batches_mean_the_same_to_another_parser(
    module: str, codec: Codec, our_batches: dict[Codec, list[bytes]]
) -> None:
    assert len(our_batches[codec]) > 5
    if codec not in CODECS[module]:
        with pytest.raises(Exception, match=r"(?i)snappy"):
            parsed(module, our_batches[codec][0])
        return
    data = b"".join(our_batches[codec])
    assert parsed(module, data) == list(decode(data).records())
