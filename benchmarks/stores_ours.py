"""A program: counts a topic with `sexton.stores` until all of it is committed.

stores_ours.py BOOTSTRAP OUTPUT RECORDS DIRECTORY
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sexton.stores import App, Store, Task


def count(key: bytes, value: bytes, store: Store) -> tuple[tuple[bytes, int]]:
    del value
    total = store.get(key, 0) + 1
    store.put(key, total)
    return ((key, total),)


def main(bootstrap: str, output: str, records: int, directory: str) -> None:
    task = Task(
        "counts",
        input="words",
        output=output,
        process=count,
        store_serdes=("bytes", "int"),
        output_serdes=("bytes", "int"),
    )
    app = App(Path(output).name, [task], bootstrap_servers=bootstrap, state_dir=directory)
    with app:
        while not any(each.input_position == records for each in app.status()):
            time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
