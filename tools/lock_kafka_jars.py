"""Write src/sexton/testing/kafka-VERSION.lock: python tools/lock_kafka_jars.py VERSION..."""

from __future__ import annotations

import sys
from pathlib import Path

from sexton.testing.jar_lock import render_lock
from sexton.testing.kafka_jars import resolve

LOCKS = Path(__file__).parent.parent / "src" / "sexton" / "testing"


def main(versions: list[str]) -> None:
    for version in versions:
        path = LOCKS / f"kafka-{version}.lock"
        path.write_text(render_lock(version, resolve(version)), encoding="utf-8")
        print(f"{path}: {len(path.read_text(encoding='utf-8').splitlines()) - 1} jars")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
