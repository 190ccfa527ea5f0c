"""What this broker does not have, said in Kafka's words: ACLs, quotas, users kept in the cluster.

DescribeAcls, CreateAcls and DeleteAcls, versions 1 to 3: SECURITY_DISABLED, as from a Kafka without
an authorizer. DescribeClientQuotas, versions 0 to 1: nobody has one. DescribeUserScramCredentials,
version 0: who may log in is said in a broker's config, the cluster keeps none. They are here
because Kafka's own tools ask; what would change any of it is not offered at all.

SaslHandshake, versions 0 to 1, and SaslAuthenticate, versions 0 to 2: where clients authenticate,
that is over before a request comes to a node; so one that does is at the wrong time.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from sexton.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from sexton.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from sexton.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from sexton.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from sexton.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from sexton.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_DISABLED, _WHY = KafkaError.SECURITY_DISABLED, "No Authorizer is configured."


class NotThere:
    def __init__(self, site: Site) -> None:
        self._site = site

    def describe_acls(self, caller: Caller, _request: DescribeAclsRequest, _version: int) -> None:
        response = DescribeAclsResponse(error_code=_DISABLED, error_message=_WHY)
        self._site.outside.answer(caller, response)

    def create_acls(self, caller: Caller, request: CreateAclsRequest, _version: int) -> None:
        results = [AclCreationResult(_DISABLED, _WHY) for _ in request.creations]
        self._site.outside.answer(caller, CreateAclsResponse(results=results))

    def delete_acls(self, caller: Caller, request: DeleteAclsRequest, _version: int) -> None:
        results = [DeleteAclsFilterResult(_DISABLED, _WHY) for _ in request.filters]
        self._site.outside.answer(caller, DeleteAclsResponse(filter_results=results))

    def describe_quotas(
        self, caller: Caller, _request: DescribeClientQuotasRequest, _version: int
    ) -> None:
        response = DescribeClientQuotasResponse(error_message=None, entries=[])
        self._site.outside.answer(caller, response)

    def describe_users(
        self, caller: Caller, request: DescribeUserScramCredentialsRequest, _version: int
    ) -> None:
        error, why = KafkaError.RESOURCE_NOT_FOUND, "the cluster keeps no credentials"
        results = [
            DescribeUserScramCredentialsResult(user.name, error, why)
            for user in request.users or ()
        ]
        response = DescribeUserScramCredentialsResponse(error_message=None, results=results)
        self._site.outside.answer(caller, response)

    def sasl_handshake(self, caller: Caller, _request: SaslHandshakeRequest, _version: int) -> None:
        response = SaslHandshakeResponse(error_code=KafkaError.ILLEGAL_SASL_STATE)
        self._site.outside.answer(caller, response)

    def sasl_authenticate(
        self, caller: Caller, _request: SaslAuthenticateRequest, _version: int
    ) -> None:
        why = "SaslAuthenticate request received after successful authentication"
        response = SaslAuthenticateResponse(KafkaError.ILLEGAL_SASL_STATE, why)
        self._site.outside.answer(caller, response)
