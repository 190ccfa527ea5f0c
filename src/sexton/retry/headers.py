"""The headers of what was polled, those included that confluent-kafka cannot show.

To brokers the name of a header is some bytes, and nobody keeps a producer from writing what is not
UTF-8. Java's client then shows U+FFFD. confluent-kafka raises SystemError when it is first asked,
and remembers the pairs, one of them without its name: to look at that one crashes the process. So
nobody asks it but `headers_of` and `shown`, and where a name is missing the record is read again by
our own client, which does as Java's.
"""

from __future__ import annotations

from collections.abc import Callable
from gc import get_referents
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]
HeadersAt = Callable[[int], Headers]  # at an offset of the partition, read again


def headers_of(message: Any, headers_at: HeadersAt) -> Headers:
    """Of what confluent-kafka has polled."""
    found = _found(message)
    return headers_at(message.offset()) if found is None else found


def shown(message: Any, headers_at: HeadersAt) -> Any:
    """The message as a function of the user's may have it."""
    return message if _found(message) is not None else _Shown(message, headers_at)


def nowhere(offset: int) -> Headers:
    raise ValueError(f"a header at offset {offset} has a name that is not UTF-8")


def _found(message: Any) -> Headers | None:
    """None: not all of them have a name."""
    try:
        headers = message.headers()
        if not headers:
            return ()
        # A pair without its name refers to one thing only; there is no other way to find out. Nor
        # does Python always say at once that a call has failed and returned something all the same.
        whole = len(get_referents(*headers)) == 2 * len(headers)
    except (SystemError, UnicodeDecodeError):
        return None
    return tuple(headers) if whole else None


class _Shown:
    """What was polled, with headers that can be looked at."""

    def __init__(self, message: Any, headers_at: HeadersAt) -> None:
        self._message, self._headers_at = message, headers_at

    def headers(self) -> list[tuple[str, bytes | None]]:
        return list(self._headers_at(self._message.offset()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def __len__(self) -> int:
        return len(self._message)
