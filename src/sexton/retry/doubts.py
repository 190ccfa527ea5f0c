"""Has the main topic still what was taken from it? In doubt a task is started up again.

    went back      librdkafka reads what was taken before, again and again
    new leader     it does not have all of it, or cannot be asked

Whether it was so, the start finds out: it knows what is committed, and tells people.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from sexton.retry.commits import Wait, done
from sexton.retry.owned import Owned
from sexton.retry.tasks_io import TasksIo

log = logging.getLogger("sexton.retry")
TEXTS = {
    "went back": "%s: is read again from before %d",
    "new leader": "%s: a new leader may not have all that was read before %d",
}


def ask_new_leaders(
    io: TasksIo, owned: Mapping[int, Owned], polled: dict[int, list[Any]], wait: Wait
) -> None:
    """Before what they gave is handled; of one that may lack something, nothing is."""
    asked = [
        (each, io.has(each.name, each.take_doubts(), each.epochs.latest))
        for each in owned.values()
        if each.doubts
    ]
    for each, has_all in asked:
        wait(done(has_all))
        if not has_all.result():
            each.in_doubt = "new leader"
            polled.pop(each.partition, None)


def start_again(
    owned: Mapping[int, Owned], settle: Callable[[], None], start: Callable[[Owned, str], None]
) -> None:
    doubtful = [each for each in owned.values() if each.in_doubt and each.task is not None]
    if doubtful:
        settle()
    for each in doubtful:
        if each.task is not None:  # the group has not taken it away meanwhile
            about = {"task": str(each.name), "position": each.taken}
            log.warning(TEXTS[each.in_doubt], *about.values(), extra=about)
            start(each, each.in_doubt)
