"""What a guard's commands print."""

from __future__ import annotations

from sexton.cli.guard_reach import disk_row
from sexton.guard.status import BrokerStatus

DISK = BrokerStatus(1, 76_169_555_968, 3_837.4, 19_854_433.2)


def test_people_are_told_of_disks_in_units_they_can_picture() -> None:
    assert disk_row(DISK, people=True) == (1, "76.2 GB", "3.8 kB/s", "229 d 19 h")
    assert disk_row(BrokerStatus(2, None, 0.0, None), people=True) == (2, None, "0 B/s", None)


def test_programs_get_plain_numbers() -> None:
    assert disk_row(DISK, people=False) == (1, 76_169_555_968, 3_837, 19_854_433)
