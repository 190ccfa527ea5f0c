"""The script that one would put behind kafka-dump-log: `kafka-dump-log ... | python this KEYS`.

It keeps the last value of each key, and fails if there are not as many keys as it was told.
"""

import sys


def main(expected: int) -> int:
    last: dict[bytes, bytes] = {}
    for line in sys.stdin.buffer:
        _before, found, rest = line.partition(b" key: ")
        if found:
            key, _found, value = rest.partition(b" payload: ")
            last[key] = value
    print(len(last))
    return 0 if len(last) == expected else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
