"""The judge knows every kind of broken promise, and lets pass what nobody was promised."""

from __future__ import annotations

from tests.chaos.checker import (
    check_consumers,
    check_copies,
    check_group,
    check_keys,
    check_log,
    forgotten,
)
from tests.chaos.history import Fate, History, Seen, Transaction, Write


def written(name: str, fate: Fate = Fate.DONE, offset: int = -1, key: str = "") -> Write:
    value = None if name.startswith("-") else name.encode()
    return Write("t", 0, (key or name).encode(), value, name, fate, offset)


def shown(*names: str, key: str = "", start: int = 0) -> list[Seen]:
    """Records one after another; `-b` is a tombstone, `.` an offset without a record."""
    return [
        Seen("t", 0, offset, (key or name).encode(), _value(name), name)
        for offset, name in enumerate(names, start)
        if name != "."
    ]


def _value(name: str) -> bytes | None:
    return None if name.startswith("-") else name.encode()


def transaction(fate: Fate, *names: str) -> Transaction:
    made = Transaction([written(name) for name in names])
    made.ended(fate)
    return made


def in_log(history: History, *names: str) -> set[str]:
    return {violation.kind for violation in check_log(history, "t", shown(*names))}


def of_key(history: History, *names: str) -> set[str]:
    return {v.kind for v in check_keys(history, "t", "a replica", shown(*names, key="k"))}


def test_what_was_acknowledged_is_there_once_and_where_it_was_said_to_be() -> None:
    history = History([written("w:1", offset=0), written("w:2", offset=1)])
    assert in_log(history, "w:1", "w:2") == set()
    assert in_log(history, "w:1") == {"lost-write"}
    assert in_log(history, "w:1", ".", "w:2") == {"moved-write"}
    assert in_log(history, "w:1", "w:2", "w:2") == {"duplicate"}
    assert in_log(history, "w:1", "w:2", "other") == {"phantom"}


def test_a_writers_records_stay_in_its_order() -> None:
    history = History([written("w:1"), written("w:2"), written("v:1")])
    assert in_log(history, "v:1", "w:1", "w:2") == set()
    assert in_log(history, "w:2", "w:1", "v:1") == {"reordered"}


def test_what_nobody_was_told_of_may_be_there_or_not() -> None:
    history = History([written("w:1", Fate.UNKNOWN)], [transaction(Fate.UNKNOWN, "x:1", "x:2")])
    assert in_log(history) == in_log(history, "w:1", "x:1", "x:2") == set()
    assert in_log(history, "x:1") == {"torn-transaction"}


def test_transactions_are_there_if_and_only_if_they_were_committed() -> None:
    committed = History(transactions=[transaction(Fate.DONE, "x:1", "x:2")])
    assert in_log(committed, "x:1", "x:2") == set()
    assert in_log(committed, "x:1") == {"lost-write"}
    aborted = History(transactions=[transaction(Fate.NOT_DONE, "x:1")])
    assert in_log(aborted) == set()
    assert in_log(aborted, "x:1") == {"aborted-read"}


def test_a_producer_that_could_not_go_on_is_a_violation() -> None:
    assert in_log(History(refused=["w: out of order"])) == {"refused"}
    assert in_log(History(unanswered=["copier: asked five times"])) == {"unanswered"}
    assert in_log(History(left_behind=["copier"])) == set()


def test_consumers_agree_and_go_forward() -> None:
    def kinds(**consumers: list[Seen]) -> set[str]:
        aborted = transaction(Fate.NOT_DONE, "gone")
        history = History(transactions=[aborted], consumers=consumers)
        return {violation.kind for violation in check_consumers(history)}

    assert kinds(one=shown("a", "b"), other=shown("b", start=1)) == set()
    assert kinds(one=shown("a", "b"), other=shown("c", start=1)) == {"changed-record"}
    assert kinds(one=[*shown("a", "b"), *shown("a")]) == {"offsets-went-back"}
    assert kinds(**{"reader-uncommitted": shown("gone")}) == set()
    assert kinds(**{"reader-committed": shown("gone")}) == {"aborted-read"}


def test_a_key_has_its_last_acknowledged_value_or_one_that_may_have_come_later() -> None:
    history = History([written("k:1", key="k"), written("k:2", key="k")])
    assert of_key(history, "k:1", "k:2") == of_key(history, "k:2") == set()
    assert of_key(history, "k:1") == {"wrong-value"}
    assert of_key(history) == {"lost-key"}
    history.writes.append(written("k:3", Fate.UNKNOWN, key="k"))
    assert of_key(history, "k:2") == of_key(history, "k:3") == set()


def test_a_deleted_key_is_gone_whether_its_tombstone_is_there_or_not() -> None:
    history = History([written("k:1", key="k"), written("-k:2", key="k")])
    assert of_key(history) == of_key(history, "k:1", "-k:2") == set()
    assert of_key(history, "k:1") == {"deleted-key-lives"}
    assert forgotten(history, "t", shown("-k:2", key="k")) == 0
    assert forgotten(history, "t", []) == 1


def test_each_record_is_copied_once_if_the_group_has_read_it() -> None:
    def kinds(committed: int, *copies: str) -> set[str]:
        ledger = shown("a", "b", "c")
        return {v.kind for v in check_copies(ledger, shown(*copies), {0: committed})}

    assert kinds(2, "a", "b") == kinds(0) == set()
    assert kinds(2, "a") == {"not-copied"}
    assert kinds(1, "a", "b") == {"copied-unread"}
    assert kinds(2, "a", "b", "b") == {"copied-twice"}
    assert kinds(2, "b", "a") == {"reordered"}
    assert kinds(1, "a", "z") == {"phantom"}


def test_a_groups_offsets_never_go_back() -> None:
    forward = History(committed=[{}, {0: 3}, {0: 3, 1: 2}, {0: 5, 1: 2}])
    assert not list(check_group(forward))
    back = History(committed=[{0: 3}, {0: 2}])
    assert [violation.kind for violation in check_group(back)] == ["group-went-back"]
