"""Spark's own Kafka connector, asked the same question: what is the last value of each key?

It reads the topic once, from the leaders, into rows, and Spark groups them by key. Its jars come
from Maven. There is no connector for Spark 4.3 on Maven Central; the newest that there is, with the
token provider that it needs, works.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sexton.testing.kafka_jars import cache_directory, one_at_a_time, run_maven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = "4.2.0"
NAME = f"Spark's Kafka connector {VERSION}, max_by"
FETCH_BYTES = 8 << 20  # its default of 1 MiB makes it a little slower
_ALREADY_THERE = ("scala-library", "slf4j-api", "jsr305")
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sexton</groupId><artifactId>spark-connector</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>
      <version>{VERSION}</version>
      <exclusions><exclusion>
        <groupId>org.apache.spark</groupId><artifactId>*</artifactId>
      </exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.spark</groupId>
      <artifactId>spark-token-provider-kafka-0-10_2.13</artifactId>
      <version>4.1.0-preview1</version>
      <exclusions><exclusion>
        <groupId>*</groupId><artifactId>*</artifactId>
      </exclusion></exclusions>
    </dependency>
  </dependencies>
</project>
"""


def jars() -> list[Path]:
    """What `spark.jars` needs, fetched if need be."""
    home = cache_directory() / "spark-connector"
    target = home / VERSION
    with one_at_a_time(home / f"{VERSION}.fetching"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix=f"{VERSION}.") as scratch:
                run_maven(_POM, Path(scratch, "jars"))
                Path(scratch, "jars").rename(target)
    found = sorted(target.glob("*.jar"))
    return [jar for jar in found if not jar.name.startswith(_ALREADY_THERE)]


def last_per_key(spark: SparkSession, bootstrap: str, topic: str) -> int:
    """Works out a digest over the last value of each key; returns how many keys there are."""
    from pyspark.sql import functions

    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
        "kafka.fetch.max.bytes": str(8 * FETCH_BYTES),
    }
    rows = spark.read.format("kafka").options(**options).load()
    last = rows.groupBy("key").agg(functions.max_by("value", "offset").alias("value"))
    digest = last.selectExpr("count(*) keys", "bit_xor(xxhash64(key, value)) digest")
    return int(digest.collect()[0]["keys"])
