"""Every Python block in README.md and docs/ is run: here, or by the test of its page.

A block that is a file (its first line says which) belongs to a project that `test_testing_page.py`
or `test_retry_page.py` lays out and runs with pytest. The others are pieces of a program: they get
what the text around them speaks of, by name, and a cluster for `localhost:9092`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sexton.testing.embedded import EmbeddedCluster
from tests.docs.blocks import PYTHON, ROOT, Block
from tests.docs.world import write

A_FILE = re.compile(r"# \w+\.py\n")
TESTED_BY = {"docs/how-to/keep-state.md": "tests/stores/test_page.py"}
NOT_RUN = {
    "docs/how-to/work-on-sexton.md": "names a test of ours: tests/unit/log has it",
    "docs/how-to/see-replicas-diverge.md": "on Apache Kafka: tests/interop/test_divergences.py",
}
PIECES = [block for block in PYTHON if not A_FILE.match(block.text)]
HERE = [block for block in PIECES if block.page not in {*TESTED_BY, *NOT_RUN}]
ON_SPARK = [block for block in HERE if "spark" in block.text]
PLAIN = [block for block in HERE if block not in ON_SPARK]


def named(blocks: list[Block]) -> list[str]:
    return [block.where for block in blocks]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file left open
@pytest.mark.parametrize("block", PLAIN, ids=named(PLAIN))
def test_a_piece_of_a_program_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    segment = ROOT / "tests/data/kafka-4.3.1/txn-segments/txn-segments-0/00000000000000000000.log"
    shutil.copy(segment, tmp_path)
    exec(block.text, {"tmp_path": tmp_path})


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the pieces on Spark speak of."""
    import sexton.spark

    with EmbeddedCluster(1) as kafka, sexton.spark.spark_session("local[2]") as spark:
        for topic in ("orders", "orders-by-customer", "invoices", "counts"):
            kafka.create_topic(topic)
        write(kafka, "orders", 0, [("ada", "a tea"), ("grace", "a cake")])
        write(kafka, "counts", 0, [("ada", "110"), ("ada", "105")])
        sexton.spark.register(spark)

        def stream_of(topic: str) -> Any:
            reader = spark.readStream.format("sexton").option("subscribe", topic)
            servers = kafka.bootstrap_servers
            reader = reader.option("kafka.bootstrap.servers", servers)
            return reader.option("startingOffsets", "earliest").load()

        yield {
            "servers": kafka.bootstrap_servers,
            "spark": spark,
            "sexton": sexton,
            "orders": stream_of("orders"),
            "stream": stream_of("counts"),
            "df": spark.createDataFrame([("ada", "a tea")], "key string, value string"),
            "count": "cast(cast(value as string) as bigint)",
            "alert": print,
            "invoice_for": lambda order: order + b", please pay",
        }


def real(block: Block, servers: str, place: Path) -> str:
    """With the cluster and the directories of this test; and nobody waits for the end of time."""
    text = block.text.replace("localhost:9092", servers)
    text = re.sub(r"/(?:data|lake)/checkpoints", str(place), text)
    return text.replace("query.awaitTermination()", "query.processAllAvailable()")


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("block", ON_SPARK, ids=named(ON_SPARK))
def test_a_piece_of_a_job_runs(block: Block, names: dict[str, Any], tmp_path: Path) -> None:
    known = dict(names)
    text, split, rest = real(block, known["servers"], tmp_path).partition("proof = ")
    exec(text, known)
    query = known.get("query")
    if query is not None:
        query.processAllAvailable()
        query.stop()
        assert query.exception() is None
    exec(split + rest, known)  # what asks the checkpoint of a stream
    if rest:
        assert known["proof"].counts == {"state-regression": 1}


def test_every_piece_is_accounted_for() -> None:
    assert len(HERE) >= 8
    for page in {*TESTED_BY, *NOT_RUN}:
        assert any(block.page == page for block in PIECES), page
    for test in TESTED_BY.values():
        assert (ROOT / test).is_file()


def test_a_piece_that_is_wrong_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Block(
        "x.md:1", "python", "from sexton.testing import EmbeddedCluster\nEmbeddedCluster(0)"
    )
    with pytest.raises(Exception, match="brokers"):
        test_a_piece_of_a_program_runs(wrong, tmp_path, monkeypatch)
