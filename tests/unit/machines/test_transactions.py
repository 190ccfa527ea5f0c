"""What becomes of a transaction, told as text: see testdata/transactions_*.txt.

The world around the coordinator does at once what it is asked for: it replicates records, hands out
producer ids (7, 8, 9, ...) and writes markers. A story may hold any of these back, and let them go
or fail later. A producer is written as producer id/epoch, such as 7/0.
"""

from __future__ import annotations

from pathlib import Path

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines.transaction_entries import TransactionConfig
from sexton.machines.transaction_messages import (
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    Append,
    Appended,
    AppendFailed,
    Describe,
    DescribeAnswer,
    EndTransaction,
    EndTransactionAnswer,
    Event,
    ForceAbort,
    ForceAbortAnswer,
    InitProducerId,
    InitProducerIdAnswer,
    List,
    ListAnswer,
    Load,
    LoadStarted,
    MarkersWritten,
    NeedProducerId,
    ProducerIdFailed,
    ProducerIdGranted,
    SendMarkers,
    Tick,
    Unload,
    VerifyPartitions,
    VerifyPartitionsAnswer,
    WakeAt,
)
from sexton.machines.transaction_states import Status, Tombstone, TransactionRecord
from sexton.machines.transactions import Coordinator
from tests.datadriven import Case, datadriven, run_file

HELD = ("appends", "markers", "ids")
Held = Append | SendMarkers | NeedProducerId


class Story:
    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.coordinator_epoch = 0
        self.log: list[TransactionRecord | Tombstone] = []  # what is replicated
        self.next_producer_id = 7
        self.now_ms = 0
        self.wake_ms: int | None = None
        self.holding: set[str] = set()
        self.held: list[Held] = []
        self.stale: list[Append] = []
        self.said: list[str] = []

    def run(self, case: Case) -> str:
        self.said = []
        getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self.coordinator.check()
        return "\n".join(self.said or ["ok"])

    # ── what a story can say ──

    def do_coordinator(self, case: Case) -> None:
        self.coordinator = Coordinator(TransactionConfig(transaction_version=case.number("tv", 2)))
        self.coordinator_epoch = case.number("epoch", 0)
        self.next_producer_id = case.number("ids", 7)
        self.log = [_record(line) for line in case.lines]
        self.holding, self.held, self.wake_ms = set(), [], None
        self._tell(Load(list(self.log), self.coordinator_epoch))

    def do_init(self, case: Case) -> None:
        producer_id, epoch = _producer(case, "-1/-1", word=1)
        timeout_ms = case.number("timeout", 60_000)
        self._tell(InitProducerId(_who(case), case.words[0], timeout_ms, producer_id, epoch))

    def do_add(self, case: Case) -> None:
        self._tell(AddPartitions(*_request(case), _partitions(case.words[2:]), case.number("tv")))

    def do_verify(self, case: Case) -> None:
        self._tell(VerifyPartitions(*_request(case), _partitions(case.words[2:])))

    def do_commit(self, case: Case) -> None:
        self._tell(EndTransaction(*_request(case), True, case.number("tv")))

    def do_abort(self, case: Case) -> None:
        self._tell(EndTransaction(*_request(case), False, case.number("tv")))

    def do_force_abort(self, case: Case) -> None:
        self._tell(ForceAbort(_who(case), case.words[0]))

    def do_describe(self, case: Case) -> None:
        self._tell(Describe(_who(case), case.words[0]))

    def do_list(self, case: Case) -> None:
        states = tuple(filter(None, case.option("states", "").split(",")))
        ids = tuple(int(word) for word in case.option("ids", "").split(",") if word)
        self._tell(List(_who(case), states, ids, case.number("longer", -1)))

    def do_hold(self, case: Case) -> None:
        assert set(case.words) <= set(HELD)
        self.holding.update(case.words)

    def do_release(self, case: Case) -> None:
        """Lets go what was held, or fails it: all, one kind, or markers of a few partitions."""
        error = KafkaError[case.option("fail")] if "fail" in case.options else None
        only = _partitions(case.option("only").split(",")) if "only" in case.options else None
        kinds = ["markers"] if only is not None else case.words or HELD
        if only is None:
            self.holding.difference_update(kinds)
        held = [effect for effect in self.held if _say(effect)[0] in kinds]
        self.held = [effect for effect in self.held if _say(effect)[0] not in kinds]
        for effect in held:
            self._let_go(effect, error, only)

    def do_pass(self, case: Case) -> None:
        """Time passes, and the coordinator is woken when it wanted to be."""
        until_ms = self.now_ms + milliseconds(case.words[0])
        while self.wake_ms is not None and self.wake_ms <= until_ms:
            self.now_ms, self.wake_ms = max(self.now_ms, self.wake_ms), None
            self._tell(Tick())
        self.now_ms = until_ms

    def do_tick(self, _case: Case) -> None:
        self._tell(Tick())

    def do_wake(self, _case: Case) -> None:
        self.said.append("never" if self.wake_ms is None else f"at {self.wake_ms}")

    def do_load(self, _case: Case) -> None:
        self._tell(LoadStarted())

    def do_move(self, _case: Case) -> None:
        """Another broker becomes the coordinator, with what is replicated."""
        self._tell(Unload())
        self.coordinator = Coordinator(self.coordinator.config)
        self.wake_ms, self.held = None, []
        self.coordinator_epoch += 1
        self._tell(Load(list(self.log), self.coordinator_epoch))

    def do_again(self, _case: Case) -> None:
        """The same broker coordinates again, and what it had under way is still on its way."""
        self._tell(Unload())
        self.stale += [effect for effect in self.held if isinstance(effect, Append)]
        self.wake_ms, self.held = None, []
        self.coordinator_epoch += 1
        self._tell(Load(list(self.log), self.coordinator_epoch))

    def do_late_news(self, _case: Case) -> None:
        """A record of the term before was replicated after all; too late for anybody."""
        stale, self.stale = self.stale, []
        for effect in stale:
            self._tell(Appended(effect.token))

    def do_resign(self, _case: Case) -> None:
        self.wake_ms = None
        self._tell(Unload())

    def do_log(self, _case: Case) -> None:
        self.said += [_say_record(record) for record in self.log]

    def do_known(self, _case: Case) -> None:
        count = len(self.coordinator.entries)
        self.said.append(f"{count} transactional {'id' if count == 1 else 'ids'}")

    # ── how it is carried out ──

    def _tell(self, event: Event) -> None:
        for effect in self.coordinator.handle(event, self.now_ms):
            match effect:
                case WakeAt(ms):
                    self.wake_ms = ms
                case Answer(caller, _):
                    self.said.append(f"{caller}: {_say_answer(effect)}")
                case _:
                    self._carry_out(effect)

    def _carry_out(self, effect: Held) -> None:
        kind, said = _say(effect)
        self.said.append(said)
        if kind in self.holding:
            self.held.append(effect)
        else:
            self._let_go(effect, None, None)

    def _let_go(
        self, effect: Held, error: KafkaError | None, only: tuple[TopicPartition, ...] | None
    ) -> None:
        match effect:
            case Append(token, record):
                if error is None:
                    self.log.append(record)
                self._tell(Appended(token) if error is None else AppendFailed(token, error))
            case NeedProducerId(token):
                if error is not None:
                    self._tell(ProducerIdFailed(token, error))
                    return
                self.next_producer_id += 1
                self._tell(ProducerIdGranted(token, self.next_producer_id - 1))
            case SendMarkers(token, partitions=partitions):
                for partition in partitions:
                    if only is None or partition in only:
                        self._tell(MarkersWritten(token, partition, error))
                if only is not None:
                    self.held.append(effect)


def _who(case: Case) -> str:
    return case.option("who", "client")


def _producer(case: Case, default: str, word: int) -> tuple[int, int]:
    text = case.words[word] if len(case.words) > word else default
    producer_id, epoch = text.split("/")
    return int(producer_id), int(epoch)


def _request(case: Case) -> tuple[str, str, int, int]:
    return (_who(case), case.words[0], *_producer(case, "", word=1))


def _partitions(words: list[str] | tuple[str, ...]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition.from_directory(word) for word in words)


def milliseconds(text: str) -> int:
    for unit, factor in (
        ("ms", 1),
        ("s", 1000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ):
        if text.endswith(unit) and text[: -len(unit)].isdigit():
            return int(text[: -len(unit)]) * factor
    raise ValueError(text)


def _say_record(record: TransactionRecord | Tombstone) -> str:
    if isinstance(record, Tombstone):
        return f"{record.transactional_id} tombstone"
    words = [record.transactional_id, record.status.title]
    words.append(f"{record.producer_id}/{record.producer_epoch}")
    words += map(str, record.partitions)
    if record.next_producer_id >= 0:
        words.append(f"next={record.next_producer_id}")
    if record.previous_producer_id not in (-1, record.producer_id):
        words.append(f"previous={record.previous_producer_id}")
    return " ".join(words)


def _record(line: str) -> TransactionRecord:
    """The reverse, at time 0; `tv=2` at the end says who made the step."""
    words = line.split()
    options = dict(word.split("=") for word in words if "=" in word)
    plain = [word for word in words if "=" not in word]
    producer_id, epoch = plain[2].split("/")
    titles = {status.title: status for status in Status}
    return TransactionRecord(
        transactional_id=plain[0],
        producer_id=int(producer_id),
        producer_epoch=int(epoch),
        timeout_ms=60_000,
        status=titles[plain[1]],
        partitions=_partitions(plain[3:]),
        last_update_ms=0,
        start_ms=-1 if plain[1] == "Empty" else 0,
        previous_producer_id=int(options.get("previous", producer_id)),
        next_producer_id=int(options.get("next", -1)),
        version=int(options.get("tv", 0)),
    )


def _say(effect: Held) -> tuple[str, str]:
    """What kind of thing it is, and how a story tells it."""
    match effect:
        case Append():
            return "appends", f"append {_say_record(effect.record)}"
        case NeedProducerId():
            return "ids", "needs a producer id"
        case SendMarkers():
            return "markers", _say_markers(effect)


def _say_markers(effect: SendMarkers) -> str:
    outcome = "COMMIT" if effect.commit else "ABORT"
    where = " ".join(map(str, effect.partitions))
    who = f"{effect.producer_id}/{effect.producer_epoch}"
    return f"markers {outcome} {who} coordinator epoch {effect.coordinator_epoch}: {where}"


def _say_answer(effect: Answer) -> str:
    match effect.answer:
        case InitProducerIdAnswer(error, producer_id, epoch):
            return error.name if error else f"NONE {producer_id}/{epoch}"
        case EndTransactionAnswer(error, producer_id, epoch):
            return f"{error.name} {producer_id}/{epoch}" if producer_id >= 0 else error.name
        case AddPartitionsAnswer(error) | ForceAbortAnswer(error):
            return error.name
        case VerifyPartitionsAnswer(errors):
            return ", ".join(f"{partition} {error.name}" for partition, error in errors)
        case DescribeAnswer(error, _, state, timeout_ms, start_ms, producer_id, epoch, partitions):
            if error:
                return error.name
            where = " ".join(map(str, partitions))
            said = f"{state} {producer_id}/{epoch} timeout {timeout_ms} started {start_ms} {where}"
            return said.strip()
        case ListAnswer(error, transactions):
            if error:
                return error.name
            listed = [f"{t.transactional_id} {t.producer_id} {t.state}" for t in transactions]
            return ", ".join(listed) or "nothing"


@datadriven(__file__, "testdata/transactions_*.txt")
def test_transactions(path: Path) -> None:
    run_file(path, Story().run)
