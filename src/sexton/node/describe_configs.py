"""DescribeConfigs: the options of topics and brokers, and where their values come from.

Versions 1 to 4. A broker knows its own options and those of all brokers together; for those of
another, ask that one. Gaps: loggers, client metrics and groups have no options here.
"""

from __future__ import annotations

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.topics import check_spelling
from sexton.node.config_values import Value, all_brokers_values, broker_values, topic_values
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32  # Kafka's ConfigResource.Type


class DescribeConfigs:
    def __init__(self, site: Site) -> None:
        self._site = site

    def handle(self, caller: Caller, request: DescribeConfigsRequest, _version: int) -> None:
        results = [self._describe(resource, request) for resource in request.resources]
        self._site.outside.answer(caller, DescribeConfigsResponse(results=results))

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_message=None,
        )
        try:
            values = self._values(resource)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.why
            return result
        wanted = resource.configuration_keys  # none of them: all
        result.configs = [
            _result(value, request) for value in values if not wanted or value.name in wanted
        ]
        return result

    def _values(self, resource: DescribeConfigsResource) -> list[Value]:
        name, image = resource.resource_name, self._site.image
        match resource.resource_type:
            case 2:
                check_spelling(name)
                if name not in image.topics:
                    error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
                    raise Refused(error, f"there is no topic {name}")
                return topic_values(self._site, image.options_of("topic", name))
            case 4 if name == "":
                return all_brokers_values(image)
            case 4:
                if name != str(self._site.node):
                    raise Refused(
                        KafkaError.INVALID_REQUEST,
                        f"this is broker {self._site.node}, and knows of its own options and of "
                        f"those of all brokers together, not of those of broker {name!r}",
                    )
                return broker_values(self._site)
            case other:
                why = f"there are no options of resource type {other} here"
                raise Refused(KafkaError.INVALID_REQUEST, why)


def _result(value: Value, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [DescribeConfigsSynonym(s.name, s.value, s.source) for s in value.synonyms]
    return DescribeConfigsResourceResult(
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=value.source,
        is_sensitive=value.sensitive,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=value.kind,
        documentation=value.about if request.include_documentation else None,
    )
