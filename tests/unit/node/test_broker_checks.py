"""The simulator asks a broker to check itself. That means all of its coordinators, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sexton.node.broker import Broker
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.unit.node.test_group_failover import Readers


def lose_a_token(broker: Broker) -> None:
    for coordinator in broker.transaction_ids.machines.values():
        coordinator._tokens[0] = "a transaction that nobody knows"


def confuse_groups(broker: Broker) -> None:
    for coordinator in broker.groups.machines.values():
        for group in list(coordinator.groups.values()):
            coordinator.groups["another name"] = group


def forget_what_was_placed(broker: Broker) -> None:
    for coordinator in broker.offsets.machines.values():
        coordinator._last_token = -1


def is_in_order(broker: Broker) -> bool:
    try:
        broker.check()
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("broken", [lose_a_token, confuse_groups, forget_what_was_placed])
def test_a_broker_checks_its_coordinators(broken: Callable[[Broker], None]) -> None:
    readers = Readers()
    member, generation = readers.join()
    assert not readers.commit(member, generation, 7)
    writers = FindCoordinatorRequest(key_type=1, coordinator_keys=["a transactional id"])
    readers.cluster.ask(writers, 4)  # which makes their topic
    readers.cluster.wait(5_000)
    brokers = [readers.cluster.broker(node) for node in readers.alive]
    for broker in brokers:
        assert is_in_order(broker)
        broken(broker)
    assert any(not is_in_order(broker) for broker in brokers)
