"""UnregisterBroker: a broker is gone for good.

Version 0. Kafka does it at any time. Here a broker must be away, and hold no replica any more: as
long as it is assigned one, that replica's silence is what keeps others from forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence

from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, outcome
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


class UnregisterBroker:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def handle(self, caller: Caller, request: UnregisterBrokerRequest, _version: int) -> None:
        def told(answers: Sequence[controller.AnswerBody]) -> None:
            error, message = outcome(answers[0])
            response = UnregisterBrokerResponse(error_code=error, error_message=message)
            self._site.outside.answer(caller, response)

        event = controller.UnregisterBroker(None, request.broker_id)
        self._administration.ask([event], told, self._site.config.request_timeout_ms)
