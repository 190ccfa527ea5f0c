"""A batch is tried until it is written, or until it is clear that it cannot be.

Whatever fails, the batch is run again: the marker decides what is left to do (`sink_protocol`).

    SinkRefused      to write would be wrong     raised at once
    ConfigError      the user has to act         raised at once
    lasting refusal  the same (`sink_refusals`)  raised at once, with what to do
    refused token    somebody else renews it     again, when it has had time for that
    TooSlow          Kafka has timed it out      again, with twice the time
    anything else                                again, as often as `attempts` says

So it is in the sink and in a retry pipeline, where another attempt runs handlers again. A
ConfigError may come from a task. Of that Spark tells the driver the text of the traceback only,
among much else: it is found by its name. Nor is a batch tried again that failed because its query
was stopped. Before anything is raised, what the last attempt has left open is ended.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar

from sexton.base.errors import ConfigError, SextonError
from sexton.spark.sink_marker import SinkRefused
from sexton.spark.sink_protocol import Plan, TooSlow, abandon
from sexton.spark.sink_refusals import lasting_refusal, may_be_renewed
from sexton.spark.sink_settings import SinkSettings

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
IsWanted = Callable[[], bool]  # False: the query was stopped, and Spark waits for its batch to end
_LOOK_S = 0.2  # while a batch waits: has the query been stopped?
_OUR_ERROR = re.compile(r"sexton\.base\.errors\.(?:ConfigError|Missing): (?P<text>.*)")


def always() -> bool:
    return True


def insist(
    what: str,
    settings: SinkSettings,
    plan_of: Callable[[int], Plan],  # of an attempt that has so many milliseconds
    attempt: Callable[[Plan, int], T],  # the second is its number, from 1
    is_wanted: IsWanted = always,
) -> T:
    """What the first attempt gives that does not fail; `what` it is, in the words of an error."""
    timeout_ms, slow = settings.timeout_ms, None
    for number in range(1, settings.attempts + 1):
        plan = plan_of(timeout_ms)
        try:
            return attempt(plan, number)
        except SinkRefused:
            raise
        except Exception as error:
            final = final_error(what, error, slow) or lasting_refusal(error, plan)
            passes = final is None or may_be_renewed(final, plan)
            if not passes or number == settings.attempts or not is_wanted():
                # A wrong option shows before anything is sent; but earlier attempts may have.
                if number > 1 or not isinstance(error, ConfigError):
                    abandon(plan_of(settings.timeout_ms))
                if final is not None:
                    raise final from error
                raise
            if isinstance(error, TooSlow):
                timeout_ms, slow = timeout_ms * 2, error
            _LOG.warning(
                "pipeline=%s batch=%d attempt=%d failed=%s",
                plan.batch.pipeline, plan.batch.number, number, in_one_line(error),
            )  # fmt: skip
            if final is not None:  # together these pauses are as long as a broker is waited for
                rest(settings.patience.timeout_ms / (settings.attempts - 1), is_wanted)
    raise AssertionError("there is at least one attempt")


def in_one_line(error: Exception) -> str:
    """A task's error comes with its traceback: what it was is the first line that is not in it."""
    text = str(error).strip() or repr(error)
    _, is_there, trace = text.rpartition("\nTraceback ")
    after = [line for line in trace.splitlines()[1:] if line.strip() and not line[0].isspace()]
    return after[0] if is_there and after else text.splitlines()[0]


def rest(for_ms: float, is_wanted: IsWanted) -> bool:
    """False: it is not wanted any more."""
    end_s = time.monotonic() + for_ms / 1000
    while is_wanted():
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return True
        time.sleep(min(_LOOK_S, left_s))
    return False


def final_error(what: str, error: Exception, slow: TooSlow | None = None) -> SextonError | None:
    """What the user has to change; None: nothing that is known of."""
    told = _OUR_ERROR.search(str(error))
    if not isinstance(error, ConfigError) and told is None:
        return None
    if slow is not None and "transaction.timeout.ms" in str(error):
        return slow  # the brokers allow no more time than it had
    if isinstance(error, ConfigError):
        return error
    return ConfigError(what, told["text"].strip()) if told else None
