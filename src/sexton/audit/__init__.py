"""Rules that judge a log: batches and facts about replicas in, findings out.

    fold        one replica's batches ──▶ digests of its keys, facts about its transactions
    compare     facts of all replicas ──▶ what to look at more closely
    window      one replica's batches ──▶ every offset of a short stretch, as this replica holds it
    rules       suspicion and windows ──▶ a finding: what is wrong, who is right and why; or nothing
    validating  one partition's rows  ──▶ where it breaks what its pipeline promised

Nothing here reads, waits or knows the time. Whoever has the bytes (`survey`, a Spark task, a test)
hands them in.
"""
