"""Do the replicas of a cluster agree? Which to read, reading them, and looking again where not.

    plan          which partitions, which replicas, and up to which offset they can be compared
    tasks         one replica of one partition, read and folded; small enough to be sent anywhere
    runner        tasks side by side in this process; `spark/` has one that runs them on a cluster
    rounds        compare, look again where replicas differ, gather evidence, judge
    survey        all of it, for one audit
    validating    the same for one topic and what its pipeline promised      validating_*

The rules are in `audit/`, which knows neither sockets nor files. Nothing here writes to a cluster.
"""
