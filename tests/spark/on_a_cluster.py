"""Run by test_standalone.py as a driver of its own: MASTER SERVERS DIRECTORY."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import sexton.spark
from tests.spark.jobs import deadly, square


def main(master: str, servers: str, directory: str) -> None:
    settings = {
        "spark.cores.max": "2",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    with sexton.spark.spark_session(master, settings=settings) as spark:
        sexton.spark.register(spark)
        reader = spark.read.format("sexton").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", "orders").option("replica", "each")
        rows = reader.option("columns", "replica").load().collect()
        squares = sorted(sexton.spark.run_on_spark(spark, range(4), square))
        asked: dict[str, Any] = {"bootstrap_servers": servers, "value": "int", "show_keys": True}
        rising = sexton.spark.validate(spark, "orders", **asked)
        fallen = sexton.spark.validate(spark, "fallen", **asked)
        stepped = sexton.spark.validate(spark, "fallen", **asked, checkpoint=f"{directory}-kept")
        frame = spark.read.format("sexton").option("kafka.bootstrap.servers", servers)
        by_sql = "cast(cast(value as string) as bigint)"
        framed = sexton.spark.validate(frame.option("subscribe", "fallen").load(), value=by_sql)
        survived = sexton.spark.run_on_spark(spark, [(n, directory) for n in range(3)], deadly)
        answer = {
            "counted": sorted(Counter(row.replica for row in rows).items()),
            "squares": [result[0] for _, result in squares],
            "rising": [rising.kept, sum(each.records for each in rising.validation.partitions)],
            "fallen": [each.message for each in fallen.findings],
            "judged alike": [dict(each.counts) for each in (fallen, stepped, framed)],
            "survived": sorted(number for number, _ in survived),
        }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
