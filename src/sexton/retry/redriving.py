"""A message that was freed is in nobody's hands any more. How is it tried again, and once only?

It is sent to the main topic as a new message, and a note of that to its letter, in one transaction:
both are there or neither. Before anything is sent,

    InitProducerId             fences an earlier redrive of this partition, and ends what it began
    high watermark of dead-3
    read to there              with every note that anybody has committed

so of two that run at once the later one wins, and knows what the earlier one did. One that died, or
never heard how its commit ended, is simply run again.

Without transactions (`mode="compensating"`) the note comes after the message. A crash between the
two sends the message twice, which is what that mode promises everywhere: at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sexton.base.errors import Missing, PeerError
from sexton.client.client import Client
from sexton.machines.retry_records import Header, TaskName, headers_again, note_headers
from sexton.machines.retry_settings import Mode
from sexton.records.columns import Record
from sexton.retry.letters import Letters, State, read_letters
from sexton.retry.topics import Names

if TYPE_CHECKING:
    from confluent_kafka import Producer

REDRIVEN: Final = "sexton.redriven.from"
ANSWER_S: Final = 30.0
MOST_BYTES: Final = 1_000_000_000  # that librdkafka allows; what a broker takes is its to say


class Redriven(NamedTuple):
    """What became of one message."""

    state: State | None  # of its letter before; None: there is none
    sent_as: tuple[str, ...] = ()  # before, or now
    is_sent: bool = False  # now


class Redrive(NamedTuple):
    """What is asked for."""

    names: Names
    group: str
    mode: Mode = "transactional"
    again: bool = False  # also what was sent before, or settled in its place

    def is_for(self, before: Redriven) -> bool:
        return before.state == "freed" or (self.again and before.state is not None)

    def transactional_id(self, name: TaskName) -> str:
        """With a colon, that no instance's name has."""
        return f"sexton-retry-{self.group}-{self.names.main}-redrive:{name.partition}"


async def redrive(
    client: Client,
    asked: Redrive,
    name: TaskName,
    ids: Sequence[int],
    settings: Mapping[str, str] | None,
) -> dict[int, Redriven]:
    """By id, for messages of one partition that do not wait; without `settings` nothing is sent."""
    letters = await read_letters(client, asked.names, name)
    before = {message: _before(letters, message) for message in ids}
    if settings is None or not any(map(asked.is_for, before.values())):
        return before  # nobody has to be fenced for that
    sender = _Sender(settings, asked, name)
    letters = await read_letters(client, asked.names, name, keep=ids, to_the_end=True)
    found = {}
    for message in ids:
        became = _before(letters, message)
        if asked.is_for(became):
            sent_as = sender.send(message, letters.records[message])
            became = Redriven(became.state, (sent_as,), is_sent=True)
        found[message] = became
    return found


def _before(letters: Letters, message: int) -> Redriven:
    letter = letters.last.get(message)
    if letter is None:
        return Redriven(None)
    return Redriven(letters.settled_state(letter), letters.sent_as(letter))


class _Sender:
    """The producer of one partition; from the moment that it is made, no other can send."""

    def __init__(self, settings: Mapping[str, str], asked: Redrive, name: TaskName) -> None:
        self._name = name
        self._names = asked.names
        self._transactional = asked.mode == "transactional"
        own: dict[str, Any] = {"enable.idempotence": True, "message.max.bytes": MOST_BYTES}
        if self._transactional:
            own["transactional.id"] = asked.transactional_id(name)
        self._producer = _producer({**settings, **own})
        if self._transactional:
            hint = (
                f"it takes Write on the transactional id {own['transactional.id']}; "
                "where there are no transactions, --mode compensating"
            )
            self._do(lambda: self._producer.init_transactions(ANSWER_S), "cannot be sent", hint)

    def send(self, id: int, letter: Record) -> str:
        """As which message."""
        if not self._transactional:
            return self._write(id, letter)
        self._do(self._producer.begin_transaction, "cannot be sent")
        try:
            now = self._write(id, letter)
        except BaseException:
            self._give_up()
            raise
        unknown = "may have been sent or not, which `sexton retry dead` tells"
        self._do(lambda: self._producer.commit_transaction(ANSWER_S), unknown)
        return now

    def _write(self, id: int, letter: Record) -> str:
        name, message = self._name, self._name.id_of(id)
        headers = [*headers_again(letter.headers), (REDRIVEN, message)]
        now = name.id_of(self._produce(name.topic, letter.key, letter.value, headers))
        self._produce(self._names.dead, letter.key, None, note_headers(message, now))
        return now.decode()

    def _give_up(self) -> None:
        """Or readers of the main topic would wait until the transaction has timed out."""
        with suppress(PeerError):
            self._do(lambda: self._producer.abort_transaction(ANSWER_S), "was not sent")

    def _produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> int:
        told: list[Any] = []
        self._producer.produce(
            topic, value, key, self._name.partition, headers=[*headers],
            on_delivery=lambda error, message: told.append(error or message.offset()),
        )  # fmt: skip
        self._do(lambda: self._producer.flush(ANSWER_S), "was not sent")
        if not told or not isinstance(told[0], int):
            why = told[0].str() if told else f"no answer within {ANSWER_S:g} s"
            raise PeerError(f"{topic}-{self._name.partition}", f"a record was not taken: {why}")
        return told[0]

    def _do(self, call: Callable[[], object], what: str, hint: str = "") -> None:
        from confluent_kafka import KafkaException

        try:
            call()
        except (KafkaException, SystemError) as error:
            # confluent-kafka raises a fatal error while it calls `on_delivery`, if both come in one
            # poll; Python then says that the callback has returned with an exception set.
            told = error.__cause__ if isinstance(error, SystemError) else error
            if not isinstance(told, KafkaException):
                raise
            why = f"a message that was freed {what}: {told.args[0].str()}"
            raise PeerError(str(self._name), why, hint) from error


def _producer(settings: Mapping[str, Any]) -> Producer:
    try:
        from confluent_kafka import Producer
    except ModuleNotFoundError:
        raise Missing(
            "confluent-kafka", "is not installed", 'pip install "sexton[retry]"'
        ) from None
    return Producer(dict(settings))
