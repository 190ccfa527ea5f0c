"""Which ACL does this instance lack? Asked when Kafka says that something is not authorized.

Nobody gets a right by waiting for it, so an instance that lacks one ends, and says which. What was
refused though nothing is missing passes: rights were changed a moment ago, say.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexton.base.errors import Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.rights import (
    CREATE,
    DENIED,
    DESCRIBE_CONFIGS,
    READ,
    WRITE,
    Acl,
    lacking,
    not_allowed,
)
from sexton.retry.background import Background
from sexton.retry.config import RetryConfig


class Rights:
    def __init__(self, background: Background, config: RetryConfig) -> None:
        self._background = background
        self._config = config

    def check(self, refused: int | SextonError) -> None:
        """NotAllowed if an ACL is missing; by an error, or by its code."""
        code = refused.error if isinstance(refused, Refused) else refused
        if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            name = f"transactional ids {self._config.transactional_prefix}"
            raise not_allowed([Acl(WRITE, f"{name}...")])
        if code not in DENIED:
            return
        asked = lacking(self._background.client, self._needs(), self._config.group)
        try:
            found = self._background.submit(asked).result()
        except SextonError:
            return  # what was refused will be refused again
        if found:
            raise not_allowed(found)

    def _needs(self) -> Mapping[str, tuple[str, ...]]:
        names = self._config.names
        create = (CREATE,) if self._config.create_topics else ()
        return {
            names.main: (READ, DESCRIBE_CONFIGS),
            names.locks: (READ, WRITE, DESCRIBE_CONFIGS, *create),
            names.retry: (READ, WRITE, DESCRIBE_CONFIGS, *create),
            names.dead: (WRITE, DESCRIBE_CONFIGS, *create),
        }
