"""Topics that come to be because somebody asks for them.

Internal topics are created when the first group or the first transactional id looks for its
coordinator, or when a transaction is the first to name a group; others when a client asks for their
metadata, if `auto.create.topics.enable` says so.
Kafka creates the topic and tells the client to ask again. Here the question waits until the topic
is there, which spares every client of a new cluster a round of retries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, new_topic_id
from sexton.node.coordinators import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE
from sexton.node.site import Site

Created = Callable[[], None]


class AutoCreate:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration
        self._under_way: dict[str, list[Created]] = {}

    def create(self, name: str, created: Created) -> None:
        """Has the topic made; `created` is called when it is there, or could not be made."""
        waiting = self._under_way.get(name)
        if waiting is not None:
            waiting.append(created)
            return
        self._under_way[name] = [created]
        self._administration.ask(
            [self._request(name)], partial(self._told, name), self._site.config.request_timeout_ms
        )

    def _told(self, name: str, answers: object) -> None:
        del answers  # whether somebody else has made it, or nobody: what counts is what is there
        for created in self._under_way.pop(name):
            created()

    def _request(self, name: str) -> controller.CreateTopic:
        config, topic_id = self._site.config, new_topic_id(self._site)
        if name not in INTERNAL_TOPICS:
            partitions, factor = config.num_partitions, config.default_replication_factor
            return controller.CreateTopic(None, name, topic_id, partitions, factor)
        brokers = sum(not each.in_shutdown for each in self._site.image.brokers.values())
        options = {"cleanup.policy": "compact"}
        if name == TRANSACTION_STATE:
            partitions = config.transaction_state_log_num_partitions
            factor = min(config.transaction_state_log_replication_factor, max(brokers, 1))
            least = min(config.transaction_state_log_min_isr, factor)
            options |= {
                "compression.type": "uncompressed",
                "min.insync.replicas": str(least),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            }
        else:
            assert name == CONSUMER_OFFSETS
            partitions = config.offsets_topic_num_partitions
            factor = min(config.offsets_topic_replication_factor, max(brokers, 1))
            options |= {
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            }
        return controller.CreateTopic(
            None, name, topic_id, partitions, factor, configs=tuple(sorted(options.items())),
            internal=True,
        )  # fmt: skip
