"""Which transaction version does a client speak, and does it know PRODUCER_FENCED?

Neither is in a request. Both follow from the version of the API that it came with:

    TV2               (KIP-890) EndTxn from 5; AddPartitionsToTxn from 4, which only brokers send
    PRODUCER_FENCED   (KIP-588) InitProducerId from 4, the others from 2; before that, a fenced
                      producer is told INVALID_PRODUCER_EPOCH
"""

from __future__ import annotations

from enum import Enum

from sexton.base.kafka_errors import KafkaError
from sexton.machines.transaction_states import TV1, TV2


class Api(Enum):
    """Each with the first version that speaks TV2, and the first that knows PRODUCER_FENCED."""

    INIT_PRODUCER_ID = ("InitProducerId", None, 4)
    ADD_PARTITIONS_TO_TXN = ("AddPartitionsToTxn", 4, 2)
    ADD_OFFSETS_TO_TXN = ("AddOffsetsToTxn", None, 2)  # a TV2 producer no longer sends it
    END_TXN = ("EndTxn", 5, 2)


def transaction_version(api: Api, api_version: int) -> int:
    _, first, _ = api.value
    return TV2 if first is not None and api_version >= first else TV1


def spoken(error: KafkaError, api: Api, api_version: int) -> KafkaError:
    """The error, in the words of a client that came with this version."""
    _, _, first = api.value
    if error is KafkaError.PRODUCER_FENCED and api_version < first:
        return KafkaError.INVALID_PRODUCER_EPOCH
    return error
