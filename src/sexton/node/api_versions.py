"""ApiVersions: what this broker answers, and which features the cluster has agreed on.

Versions 0 to 4. A version that we do not have is answered in version 0 with UNSUPPORTED_VERSION and
the versions of this one API, so that the client can ask again (KIP-511); whoever decodes requests
does that, with `unsupported`.

Clients look at two features. A producer speaks TV2 (KIP-890) if `transaction.version` is at 2;
`group.version` at 1 says that there are groups after KIP-848. Features with a lowest version of 0
are not shown before version 4 of this API: older clients take them for an error (KAFKA-17011).
"""

from __future__ import annotations

import re

from sexton.base.kafka_errors import KafkaError
from sexton.node import apis
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

# name, lowest, highest and agreed level
FEATURES = (
    ("group.version", 0, 1, 1),
    ("transaction.version", 0, 2, 2),
)
_EPOCH = 0  # of the agreement: features never change while a cluster lives
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMES_VERSION = 3  # clients say what they are
_ZERO_VERSION = 4  # clients understand a lowest version of 0


class ApiVersions:
    def __init__(self, site: Site) -> None:
        self._site = site

    def handle(self, caller: Caller, request: ApiVersionsRequest, version: int) -> None:
        self._site.outside.answer(caller, _answer(request, version))


def unsupported() -> ApiVersionsResponse:
    """To a version that we do not have; goes out in version 0."""
    own = next(each for each in apis.OFFERED if each.request is ApiVersionsRequest)
    keys = [ApiVersion(own.key, own.first, own.last)]
    return ApiVersionsResponse(error_code=KafkaError.UNSUPPORTED_VERSION, api_keys=keys)


def _answer(request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
    if version >= _NAMES_VERSION and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=KafkaError.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=apis.advertised(),
        supported_features=[
            SupportedFeatureKey(name, lowest, highest)
            for name, lowest, highest, _agreed in FEATURES
            if lowest > 0 or version >= _ZERO_VERSION
        ],
        finalized_features_epoch=_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name, agreed, agreed)
            for name, _lowest, _highest, agreed in FEATURES
        ],
    )
