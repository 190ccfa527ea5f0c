"""The controller beside the brokers: the machine, and the log its records live in.

The log is an ordinary partition, `__cluster_metadata-0`, compacted when it has grown: it has a key
for each thing the cluster knows, the latest record of a key counts. Every decision is synced before
anybody is told of it. There is one controller on purpose: it is small, starts at once, and while it
is away brokers go on serving; only elections and changes wait. Those who need more run Apache
Kafka.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.log.disk import Disk
from sexton.log.partition import PartitionLog
from sexton.machines import controller as machine
from sexton.machines.controller import Controller, ControllerConfig
from sexton.machines.metadata import Record, from_bytes, to_bytes
from sexton.node.metadata_check import check_whole
from sexton.node.metadata_cleaning import MetadataCleaning
from sexton.node.option_rules import OptionRules
from sexton.node.outside import Asked, Effect, Event, Halt, Outside, Ran, Woken, is_of_disk
from sexton.records.few import few_batch, few_records

METADATA = TopicPartition("__cluster_metadata", 0)
# One decision is one batch, however many partitions it is about: nobody may refuse it for its size.
_CONFIG = LogConfig(
    cleanup_policy="compact", segment_bytes=1 << 20, max_message_bytes=(1 << 31) - 1
)


class ControllerNode:
    def __init__(
        self, disk: Disk, config: ControllerConfig, now_ms: int, clock_ms: int, seed: int = 0
    ) -> None:
        self.outside = Outside(now_ms, clock_ms)
        self.written: Callable[[tuple[Record, ...]], None] = lambda _records: None
        check_whole(disk, str(METADATA))
        self._directory = DataDirectory.open(disk, lambda _partition: _CONFIG, now_ms)
        log = self._directory.logs.get(METADATA)
        if log is None:
            log = self._directory.create(METADATA, uuid.UUID(int=1), _CONFIG, now_ms)
        self.findings = self._directory.findings
        self._log: PartitionLog = log
        self._log.advance_high_watermark(self._log.end_offset)
        self._cleaning = MetadataCleaning(self._log, self.outside, seed)
        self.machine = Controller.load(
            self._stored(), clock_ms, config, log_end=self._log.end_offset, rules=OptionRules()
        )
        self._tick()

    def start(self) -> list[Effect]:
        return self.outside.take_effects()

    def handle(self, event: Event, now_ms: int, clock_ms: int) -> list[Effect]:
        self.hear(event, now_ms, clock_ms)
        return self.settle()

    def settle(self) -> list[Effect]:
        return self.outside.take_effects()

    def hear(self, event: Event, now_ms: int, clock_ms: int) -> None:
        outside = self.outside
        outside.now_ms, outside.clock_ms = now_ms, clock_ms
        if isinstance(event, Asked):
            told = replace(cast("Any", event.request), caller=event.caller)
            self._carry_out(self.machine.handle(told, clock_ms))
        elif isinstance(event, Woken):
            outside.woken()
            while (action := outside.due()) is not None:
                action()
        elif isinstance(event, Ran):
            outside.came_back(event.token, event.result)

    def _carry_out(self, effects: list[machine.Effect]) -> None:
        for effect in effects:
            match effect:
                case machine.Append(records, start):
                    self._keep(records, start)
                    self.written(records)
                    self._cleaning.look()
                case machine.Answer(caller, answer):
                    self.outside.answer(caller, answer)
                case machine.WakeAt(at_ms):
                    self.outside.after(max(at_ms - self.outside.clock_ms, 0), self._tick)

    def _tick(self) -> None:
        self._carry_out(self.machine.handle(machine.Tick(), self.outside.clock_ms))

    # ── the log ──

    def _keep(self, records: tuple[Record, ...], start: int) -> None:
        """Durably, or this is the end: the machine has decided already and cannot take it back."""
        try:
            assert start == self._log.end_offset, "an earlier decision is not in the log"
            self._append(records)
        except Exception as error:
            if is_of_disk(error):
                raise  # ends it as well, and the user is told what to do about the disk
            why = f"a decision of {len(records)} records could not be written: {error}"
            hint = "start the cluster again: it goes on from what is written"
            raise Halt("the metadata log", why, hint) from error

    def _append(self, records: tuple[Record, ...]) -> None:
        now_ms = self.outside.now_ms
        batch = few_batch([to_bytes(record) for record in records], now_ms)
        self._log.append_as_leader(batch, 0, now_ms, from_client=False)
        self._log.flush(now_ms)
        self._log.advance_high_watermark(self._log.end_offset)

    def _stored(self) -> Iterator[Record]:
        for segment, position, header in self._log.batches(0):
            batch = segment.log.read_at(position, header.size)
            for record in few_records(batch, str(METADATA)):
                yield from_bytes(record.key or b"", record.value)

    def close(self, now_ms: int) -> None:
        """Leaves the metadata log in good order."""
        self._directory.close(now_ms, 0)

    def check(self) -> None:
        self.machine.check()
