"""What does a client hear when the log behind its coordinator cannot take a record?

It knows coordinators, not logs: whether to try again here or to look for another one. A transaction
coordinator that writes a marker knows partitions, not coordinators, so for it it is the reverse.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError


def to_client(error: KafkaError) -> KafkaError:
    """The log's error, as Apache Kafka's coordinators pass it on."""
    match error:
        case (
            KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            | KafkaError.NOT_ENOUGH_REPLICAS
            | KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            | KafkaError.REQUEST_TIMED_OUT
        ):
            return KafkaError.COORDINATOR_NOT_AVAILABLE
        case KafkaError.NOT_LEADER_OR_FOLLOWER | KafkaError.KAFKA_STORAGE_ERROR:
            return KafkaError.NOT_COORDINATOR
        case KafkaError.MESSAGE_TOO_LARGE | KafkaError.RECORD_LIST_TOO_LARGE:
            return KafkaError.UNKNOWN_SERVER_ERROR
        case _:
            return error


def to_marker_writer(error: KafkaError) -> KafkaError:
    """The coordinator's error, for one who wanted to write a marker into its partition."""
    match error:
        case (
            KafkaError.NOT_COORDINATOR
            | KafkaError.COORDINATOR_NOT_AVAILABLE
            | KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        ):
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        case _:
            return error
