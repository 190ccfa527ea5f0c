"""One task's state here: what is committed on disk, what is not yet in memory.

    hand       changes that the next `apply` writes: a stretch of changelog, or a commit's overlay
    store      what `process` reads and writes, until it is committed or dropped
    outputs    what it returned

`apply` is the only way anything gets to the disk, and writes the checkpoint with it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from sexton.base.errors import CorruptLog, SextonError
from sexton.base.partitions import TopicPartition
from sexton.machines.stores_assignment import TaskId
from sexton.machines.stores_events import Apply, Lineage, Opened
from sexton.stores import disks
from sexton.stores.batches import BatchMaker, Outputs
from sexton.stores.disks import DamagedStore, Disk, MemoryDisk, RocksDisk
from sexton.stores.fetching import now_ms
from sexton.stores.layout import (
    CHECKPOINT,
    INPUT_EPOCH,
    INPUT_ID,
    POSITION,
    decode_checkpoint,
    decode_epoch,
    decode_position,
    encode_checkpoint,
    encode_epoch,
    encode_position,
)
from sexton.stores.rows import Rows
from sexton.stores.serdes import Serde, serde_of
from sexton.stores.surroundings import Surroundings
from sexton.stores.task import Task
from sexton.stores.view import Store, View

log = logging.getLogger("sexton.stores")


class Cut(Exception):
    """A batch was not processed to its end, as somebody wished: it must not count as processed."""


class InputReplaced(SextonError):
    """The state is of another topic that had the same name; its offsets mean other records."""


class Local:
    """Its methods block; they run in a thread, one at a time."""

    def __init__(
        self, id_: TaskId, task: Task, around: Surroundings, input_id: bytes = b""
    ) -> None:
        self.id, self.task, self._around = id_, task, around
        self._input_id = input_id if any(input_id) else b""  # of an old Kafka all zero: it has none
        self._says_input = False  # is that on the disk, and so in the changelog?
        self._said_epoch = -1  # of the last input's leader, there
        self.disk: Disk = MemoryDisk()
        self.hand: dict[bytes, bytes | None] = {}
        self._maker = BatchMaker(around.config.compression)
        self.drop()

    def open(self, lineage: Lineage) -> Opened:
        damaged, found, input_position = None, None, None
        if self._around.config.store == "rocksdb":
            damaged = self._open_rocks()
        try:
            found = decode_checkpoint(self.disk.get(CHECKPOINT))
            input_position = decode_position(self.disk.get(POSITION))
        except CorruptLog as error:
            damaged, found, input_position = str(error), None, None
        if found is None and input_position is not None:
            damaged = "it has an input position and no checkpoint"
        self.drop()
        return Opened(now_ms(), lineage, found, input_position, damaged)

    def _open_rocks(self) -> str | None:
        path = self._around.config.directory(*self.id)
        try:
            self.disk = RocksDisk(path)
            return None
        except DamagedStore as error:
            disks.remove(path)
            self.disk = RocksDisk(path)
            return error.why

    @property
    def damage(self) -> str | None:
        """Why the disk is of no use until it is wiped."""
        return self.disk.damage

    def close(self) -> None:
        self.disk.close()

    def wipe(self, why: str) -> None:
        self._around.numbers.wiped += 1
        name = f"{self.id.task}-{self.id.partition}"
        about = {"task": name, "why": why}
        log.error("%s: local state is thrown away: %s", name, why, extra=about)
        self.disk.wipe()
        self.drop()

    def apply(self, effect: Apply) -> None:
        """The changes at hand and the checkpoint, in one atomic write."""
        changes, self.hand = self.hand, {}
        changes[CHECKPOINT] = encode_checkpoint(effect.checkpoint)
        if effect.input_position is not None:
            changes[POSITION] = encode_position(effect.input_position)
        self.disk.write(changes)
        self._says_input = self._says_input or INPUT_ID in changes
        if INPUT_EPOCH in changes:
            self._said_epoch = decode_epoch(changes[INPUT_EPOCH])
        self.drop()

    def check_input(self) -> None:
        """When the disk is all that the changelog says, and before the input is read on.

        A topic with the same name that is longer by now has something at that position as well.
        """
        found = self.disk.get(INPUT_ID)
        self._says_input = found is not None
        if found and self._input_id and found != self._input_id:
            changelog = self._around.config.changelog(self.task.name)
            why = (
                f"{self.task.input} was deleted and made again since this state was made:"
                " its offsets are those of other records"
            )
            hint = (
                "take a new application id, or delete this application's offsets and the topic"
                f" {changelog}, and it begins anew with no state"
            )
            raise InputReplaced(f"{self.task.input}-{self.id.partition}", why, hint)
        is_same = (found or b"") == self._input_id
        self._said_epoch = decode_epoch(self.disk.get(INPUT_EPOCH)) if is_same else -1
        self.input_epoch = self._said_epoch

    def drop(self) -> None:
        """A new overlay: whoever still writes to the last one writes to nothing."""
        task = self.task
        key, value = map(serde_of, task.store_serdes)
        self.store = Store(self.disk, key, value, task.input, self.id.partition)
        key, value = map(serde_of, task.output_serdes)
        self.outputs = Outputs(task.output, key, value, self._around.partitions)
        self.hand = {}
        self.input_epoch = self._said_epoch  # of the last input that is processed; -1: not known
        self.failed_at: int | None = None  # the input that could not be processed

    def view(self, role: str) -> View:
        key, value = map(serde_of, self.task.store_serdes)
        return View(self.disk.look(), key, value, role)

    # ── work ──

    @property
    def where_it_failed(self) -> str:
        """For the end of a sentence; empty: it was not `process`."""
        if self.failed_at is None:
            return ""
        return f", at offset {self.failed_at} of {self.task.input}-{self.id.partition}"

    @property
    def is_large(self) -> bool:
        held = self.outputs.size_bytes + self.store.overlay_bytes
        return held > self._around.config.most_overlay_bytes

    def process(self, rows: Rows, store: Store, outputs: Outputs, cut: threading.Event) -> None:
        outputs.look()
        process, add, is_cut = self.task.process, outputs.add, cut.is_set
        key_serde, value_serde = map(serde_of, self.task.input_serdes)
        keys = self._decoded(key_serde, rows.keys, rows.offsets)
        values = self._decoded(value_serde, rows.values, rows.offsets)
        try:
            for offset, time_ms, key, value in zip(
                rows.offsets, rows.timestamps, keys, values, strict=True
            ):
                if is_cut():
                    raise Cut
                store.offset, store.timestamp_ms = offset, time_ms
                made = process(key, value, store)
                if made is not None:
                    for each in made:
                        add(each, time_ms)
        except Cut:
            raise
        except BaseException:  # some libraries' timeouts are no `Exception`
            self.failed_at = store.offset
            raise

    def _decoded(
        self, serde: Serde, found: Sequence[bytes | None], offsets: Sequence[int]
    ) -> Sequence[Any]:
        if serde.name == "bytes":
            return found
        decode = serde.decode
        try:
            return [None if each is None else decode(each) for each in found]
        except Exception:
            each_at = zip(offsets, found, strict=True)
            self.failed_at = next((at for at, each in each_at if not _decodes(serde, each)), None)
            raise

    def batches(
        self, changelog_at: TopicPartition, next_input: int, time_ms: int
    ) -> dict[TopicPartition, list[bytearray]]:
        """Everything that one transaction writes: outputs, changed keys, the input position."""
        made = self._maker.batches
        found = {
            at: made(each.keys, each.values, each.times)
            for at, each in self.outputs.by_partition.items()
            if each.keys
        }
        changes, new = self.store.take(), self._new_to_the_changelog()
        keys: list[bytes | None] = [*changes, *new, POSITION]
        values = [*changes.values(), *new.values(), encode_position(next_input)]
        found[changelog_at] = made(keys, values, [time_ms] * len(keys))
        return found

    def _new_to_the_changelog(self) -> dict[bytes, bytes]:
        """What a commit says of the input if it is not said yet: which topic, and whose records."""
        epoch = {INPUT_EPOCH: encode_epoch(self.input_epoch)}
        if self._input_id and not self._says_input:
            return {INPUT_ID: self._input_id, **epoch}
        return epoch if self.input_epoch != self._said_epoch else {}

    def committed(self) -> None:
        """Kafka has taken what `batches` made; `apply` is to write it down."""
        self.hand = {**self.store.take(), **self._new_to_the_changelog()}


def _decodes(serde: Serde, value: bytes | None) -> bool:
    try:
        if value is not None:
            serde.decode(value)
    except Exception:  # noqa: BLE001 - a serde may be the user's own
        return False
    return True
