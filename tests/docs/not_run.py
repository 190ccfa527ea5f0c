"""What the pages show and no test runs, each with its reason. Keep it short.

A line here that no page has any more fails a test, and so does one too many.
"""

from __future__ import annotations

MOST = 20

# (how the line begins, why it is not run)
NOT_RUN = (
    ("make test", "this is it"),
    ("make bench", "takes an hour; tests/unit/benchmarks runs parts of it"),
    (".venv/bin/python -m benchmarks", "takes minutes; the same"),
    ("pip install", "tests/install installs the wheel in an empty virtualenv"),
    ("10 2 * * *", "cron runs it; test_other_blocks.py parses its command"),
    (
        "sexton audit -b kafka-1:9092 --all-compacted --engine spark",
        "needs a Spark cluster; the demo audits on Spark",
    ),
    (
        "sexton validate counts -b kafka:9092 --value json:count --master",
        "needs a Spark cluster; tests/spark/test_standalone.py has one",
    ),
    (
        "sexton lab run tombstone-divergence --on kafka",
        "takes a minute; tests/interop/test_lab.py plays it on Apache Kafka",
    ),
    ("kafka-acls.sh", "needs an authorizer; tests/audit/test_rights.py sets the same rights"),
    (
        "kafka-configs.sh --bootstrap-server kafka-1:9092 --alter --add-config consumer_byte_rate",
        "a quota of Apache Kafka, which our brokers do not have",
    ),
)


def why_not(line: str) -> str | None:
    return next((why for begin, why in NOT_RUN if line.startswith(begin)), None)
