"""May there be a transaction that coordinators do not show us?

A coordinator lists only transactional ids that our user may DESCRIBE. So that none of them names a
producer proves something only if nothing can be hidden from us. How long ago the producer wrote
proves nothing: records carry the time that it gives them, and a commit that was decided may wait
for hours until its markers can be written.

There is no request that asks "may I see all?". But a broker tells for any name whether we may
describe it, and the list of ACLs tells which names there are different rules for:

    no authorizer                       nothing is hidden from anybody
    a name that no rule mentions        stands for all of that kind
    a name with an ACL of its own       is asked for as it is
    a prefix with an ACL                by a name that begins with it and that no other rule names

If all of these may be described, then so may every id. And a part of the coordinators' log that
nobody leads is listed by nobody: whoever may not see that topic does not know of it.
"""

from __future__ import annotations

import uuid

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.retrying import until_it_works
from sexton.client.transactions import PATIENCE, STATE_TOPIC
from sexton.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResource
from sexton.protocol.messages.describe_transactions import DescribeTransactionsRequest

_TRANSACTIONAL_ID = 5  # Kafka's ResourceType
_ANY = 1  # of pattern types, operations and permissions
_PREFIXED, _ALL = 4, "*"
AT_ONCE = 500


async def hidden_by(client: Client) -> str | None:
    """Why a transaction may be hidden from us, a clause; None: none can be."""
    try:
        return await until_it_works(lambda: _hidden_by(client), PATIENCE)
    except SextonError as error:
        return f"what we may see of transactions cannot be known ({error.subject}: {error.why})"


async def _hidden_by(client: Client) -> str | None:
    try:
        await client.topology([STATE_TOPIC])
    except Refused as error:
        if error.error is not KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        return f"we may not Describe the topic {STATE_TOPIC}"
    try:
        rules = await _rules(client)
    except Refused as error:
        if error.error is KafkaError.SECURITY_DISABLED:
            return None
        if error.error is not KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return "we may not Describe the cluster, and so not know which ACLs there are"
    wanted = _names(rules)
    names = list(wanted)
    for at in range(0, len(names), AT_ONCE):
        denied = await _denied(client, names[at : at + AT_ONCE])
        if denied:
            return f"we may not Describe {wanted[denied[0]]}"
    return None


async def _rules(client: Client) -> list[DescribeAclsResource]:
    asked = DescribeAclsRequest(
        resource_type_filter=_TRANSACTIONAL_ID,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = await client.ask(asked)
    if answer.error_code:
        raise refused(answer.error_code, "the ACLs of transactional ids", answer.error_message)
    return answer.resources


def _names(rules: list[DescribeAclsResource]) -> dict[str, str]:
    """The names to ask for, each with what it stands for."""
    nobody = f"sexton-{uuid.uuid4().hex}"
    names = {nobody: "every transactional id (`*`)"}
    for each in rules:
        if each.pattern_type == _PREFIXED:
            names[each.resource_name + nobody] = f"each transactional id {each.resource_name}..."
        elif each.resource_name != _ALL:
            names[each.resource_name] = f"the transactional id {each.resource_name}"
    return names


async def _denied(client: Client, names: list[str]) -> list[str]:
    """Any broker can say: it looks at the ACLs before it looks for a coordinator."""
    answer = await client.ask(DescribeTransactionsRequest(names))
    told = {each.transactional_id: each.error_code for each in answer.transaction_states}
    missing = [name for name in names if name not in told]
    if missing:
        raise PeerError("DescribeTransactions", f"is answered without {missing[0]}")
    return [
        name for name in names if told[name] == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ]
