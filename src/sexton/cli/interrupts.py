"""Was it Ctrl-C? It may come out as an error of another kind.

Imported before everything else, so this file imports nothing.
"""

from __future__ import annotations


def is_interrupt(error: BaseException) -> bool:
    match error:
        case KeyboardInterrupt():
            return True
        case RuntimeError():  # Python 3.11 makes this of it where the fields of a class are named
            return isinstance(error.__cause__, KeyboardInterrupt)
        case SystemError():  # confluent-kafka ends a call, and forgets on the way out why
            told = str(error)
            return "'cimpl." in told and "returned NULL without setting an exception" in told
        case _:
            return False
