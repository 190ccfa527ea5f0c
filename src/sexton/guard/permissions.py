"""Which ACL is missing? Whoever asks for something knows what it takes, and says so beforehand.

Kafka says that something is not authorized, and not what would authorize it:

    with needing("Write", "topic _sexton_guard"):
        await append(...)

docs/how-to/run-the-guard.md lists all that a guard needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.rights import NotAllowed

CLUSTER = "the cluster"
OF_GUARD = "see Least privilege in docs/how-to/run-the-guard.md"
OF_REPAIR = "see Rights in docs/how-to/repair-a-replica.md"
DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@contextmanager
def needing(operation: str, resource: str, hint: str = OF_GUARD) -> Iterator[None]:
    try:
        yield
    except Refused as error:
        if error.error not in DENIED:
            raise
        why = f"this user has no ACL that allows {operation} on it"
        raise NotAllowed(resource, why, hint) from error
