"""What do brokers refuse for good, and what has the user to do about it?

A leader that moves, or a coordinator that is not ready, is waited for. A right that is missing or a
record that a topic does not take is not there a moment later either: to run the batch again would
refuse it again, after as long as the batch takes. So it ends at the first refusal, with the remedy.
But a token that is kept in a file may have expired before somebody renewed it. Whoever was let in
by an earlier one waits for that, as for a broker that is away.

A refusal that a task met comes to the driver as the text of its traceback, among much else: it is
found by its name, and what Kafka calls it.
"""

from __future__ import annotations

import re

from sexton.base.errors import Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.spark.sink_protocol import Plan

_LOGIN = "see kafka.security.protocol, and user, password or token of the kafka.sasl options"
_RENEWED = "sasl.oauthbearer.token.endpoint.url"  # a file, read again for each connection
_HINTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "an ACL has to allow this user Write on each topic that is written, and Read on {marker}, "
        "whose offset the marker is; docs/concepts/threat-model.md lists all that is needed"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: (
        "an ACL has to allow this user Read on the group {group}"
    ),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "an ACL has to allow this user Write on the transactional id {id}"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (
        "an ACL has to allow it: docs/concepts/threat-model.md lists all that is needed"
    ),
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError.ILLEGAL_SASL_STATE: _LOGIN,
    KafkaError.MESSAGE_TOO_LARGE: (
        "set kafka.batch.size below max.message.bytes of the topic, or raise that; the sink does "
        "the former itself if an ACL allows DescribeConfigs on the topic"
    ),
    KafkaError.RECORD_LIST_TOO_LARGE: (
        "set kafka.batch.size below segment.bytes of the topic, or raise that"
    ),
    KafkaError.INVALID_TOPIC_EXCEPTION: (
        "a topic's name has up to 249 letters, digits, dots, _ and -, and is none of Kafka's own"
    ),
    KafkaError.INVALID_RECORD: (
        "if the topic is compacted, every row needs a key, in the column key"
    ),
    KafkaError.INVALID_TIMESTAMP: (
        "the topic takes no such time: leave the column timestamp out, or change "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic"
    ),
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: "choose another kafka.compression.type",
    KafkaError.OFFSET_METADATA_TOO_LARGE: (
        "raise offset.metadata.max.bytes of the brokers: the marker tells of its query"
    ),
}  # fmt: skip
_IN_A_TASK = re.compile(r"sexton\.base\.errors\.Refused: (?P<code>[A-Z_]+): (?P<why>.*)")


def lasting_refusal(error: Exception, plan: Plan) -> Refused | None:
    """The error with its remedy; None: it passes, or is about something else."""
    if isinstance(error, Refused):
        code, why = error.error, error.why
    else:
        told = _IN_A_TASK.search(str(error))
        if told is None or told["code"] not in KafkaError.__members__:
            return None
        code, why = KafkaError[told["code"]], told["why"].strip()
    if code not in _HINTS:
        return None
    hint = _HINTS[code].format(
        marker=plan.marker_at.topic, group=plan.group, id=plan.transactional_id
    )
    return Refused(code, why, hint)


def may_be_renewed(refusal: SextonError, plan: Plan) -> bool:
    """Was it a token that was refused, where somebody renews it, and one has been good before?"""
    if not isinstance(refusal, Refused):
        return False
    is_login = refusal.error == KafkaError.SASL_AUTHENTICATION_FAILED
    return is_login and _RENEWED in plan.kafka and plan.batch.committed_before
