"""A program: counts a topic with quixstreams, exactly once. It runs in an environment of its own.

stores_quix.py BOOTSTRAP OUTPUT RECORDS DIRECTORY
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]


def main(bootstrap: str, output: str, records: int, directory: str) -> None:
    logging.disable(logging.INFO)
    app = Application(
        broker_address=bootstrap,
        consumer_group=output,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        state_dir=directory,
        loglevel=None,
    )
    words = app.topic("words", key_deserializer="bytes", value_deserializer="bytes")
    totals = app.topic(output, key_serializer="bytes", value_serializer="int")

    def count(_: bytes, state: Any) -> int:
        total: int = state.get("total", 0) + 1
        state.set("total", total)
        return total

    app.dataframe(words).apply(count, stateful=True).to_topic(totals)
    app.run(count=records)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
