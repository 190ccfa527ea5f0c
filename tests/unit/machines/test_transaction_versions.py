"""Which transaction version a client speaks, and which errors it knows."""

from __future__ import annotations

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.machines.transaction_states import TV1, TV2
from sexton.machines.transaction_versions import Api, spoken, transaction_version


@pytest.mark.parametrize(
    ("api", "api_version", "version"),
    [
        (Api.END_TXN, 4, TV1),
        (Api.END_TXN, 5, TV2),
        (Api.ADD_PARTITIONS_TO_TXN, 3, TV1),
        (Api.ADD_PARTITIONS_TO_TXN, 4, TV2),
        (Api.ADD_OFFSETS_TO_TXN, 4, TV1),
        (Api.INIT_PRODUCER_ID, 6, TV1),
    ],
)
def test_the_version_of_the_api_tells_the_protocol(
    api: Api, api_version: int, version: int
) -> None:
    assert transaction_version(api, api_version) == version


@pytest.mark.parametrize(
    ("api", "first"),
    [
        (Api.INIT_PRODUCER_ID, 4),
        (Api.ADD_PARTITIONS_TO_TXN, 2),
        (Api.ADD_OFFSETS_TO_TXN, 2),
        (Api.END_TXN, 2),
    ],
)
def test_an_older_client_hears_of_fencing_in_its_own_words(api: Api, first: int) -> None:
    assert spoken(KafkaError.PRODUCER_FENCED, api, first) is KafkaError.PRODUCER_FENCED
    assert spoken(KafkaError.PRODUCER_FENCED, api, first - 1) is KafkaError.INVALID_PRODUCER_EPOCH
    assert spoken(KafkaError.NOT_COORDINATOR, api, 0) is KafkaError.NOT_COORDINATOR
