"""DescribeTransactions and ListTransactions: what this broker's coordinators know (KIP-664).

Versions 0 and 0 to 2. The pattern of version 2 is one of RE2, as in Kafka, and goes over each id
once (`group_patterns`): there is none that takes for ever.
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError
from sexton.machines import transaction_messages as machine
from sexton.machines.group_patterns import BadPattern, Pattern
from sexton.machines.transaction_states import Status
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.node.transaction_coordinators import TransactionCoordinators
from sexton.protocol.messages import describe_transactions as described
from sexton.protocol.messages import list_transactions as listed


class TransactionReports:
    def __init__(self, site: Site, ids: TransactionCoordinators) -> None:
        self._site = site
        self._ids = ids

    def describe(
        self, caller: Caller, request: described.DescribeTransactionsRequest, _version: int
    ) -> None:
        states = [self._described(each) for each in dict.fromkeys(request.transactional_ids)]
        response = described.DescribeTransactionsResponse(transaction_states=states)
        self._site.outside.answer(caller, response)

    def _described(self, transactional_id: str) -> described.TransactionState:
        answers: list[machine.AnyAnswer] = []  # it is answered at once
        failed = self._ids.request(
            transactional_id, lambda then: machine.Describe(then, transactional_id), answers.append
        )
        state = described.TransactionState(error_code=failed, transactional_id=transactional_id)
        if not transactional_id:
            state.error_code = KafkaError.INVALID_REQUEST
        elif not failed:
            (answer,) = answers
            assert isinstance(answer, machine.DescribeAnswer)
            state.error_code = answer.error
            state.transaction_state = answer.state
            state.transaction_timeout_ms = answer.timeout_ms
            state.transaction_start_time_ms = answer.start_ms
            state.producer_id, state.producer_epoch = answer.producer_id, answer.epoch
            topics: dict[str, described.TopicData] = {}
            for at in sorted(answer.partitions):
                topic = topics.setdefault(at.topic, described.TopicData(at.topic))
                topic.partitions.append(at.partition)
            state.topics = list(topics.values())
        return state

    def list(self, caller: Caller, request: listed.ListTransactionsRequest, _version: int) -> None:
        self._site.outside.answer(caller, self._listed(request))

    def _listed(self, request: listed.ListTransactionsRequest) -> listed.ListTransactionsResponse:
        wanted = request.transactional_id_pattern
        try:
            pattern = Pattern(wanted) if wanted else None
        except BadPattern:
            error = KafkaError.INVALID_REGULAR_EXPRESSION
            return listed.ListTransactionsResponse(error_code=error)
        if self._ids.loading:
            error = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
            return listed.ListTransactionsResponse(error_code=error)
        event = machine.List(
            None, tuple(request.state_filters), tuple(request.producer_id_filters),
            request.duration_filter,
        )  # fmt: skip
        answers = self._ids.list_all(event)
        known = {status.title for status in Status}
        return listed.ListTransactionsResponse(
            unknown_state_filters=[s for s in request.state_filters if s not in known],
            transaction_states=[
                listed.TransactionState(each.transactional_id, each.producer_id, each.state)
                for answer in answers
                for each in answer.transactions
                if pattern is None or pattern.matches(each.transactional_id)
            ],
        )
