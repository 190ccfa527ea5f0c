"""One protocol each, without I/O: events in, effects out, so that a simulator can run them all.

    controller      who is there, who leads          metadata, ledger, brokers, topics, elections
    replication     which records are safe
    compaction      when may a replica forget
    transactions    did it commit                    transaction_*, markers
    groups          who reads what                   group_*
    offsets         how far a group has read         offset_*
    guard           what must not be cleaned now     guard_*
    repair          how wrong replicas are healed    repair_*
    retry_task      ordered retry, key by key        retry_*
    stores          state that can be trusted        stores_*

What a machine hears and does stands in its `*_events` or `*_messages`; `handle` takes an event and
returns effects.
"""
