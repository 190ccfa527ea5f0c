"""Many replicas on a network, disks and a clock that one seed decides; and small worlds in full.

    options, plan        what a seed decides: how large, which faults, when
    world, network       real nodes on a fake clock, network and disks (`fused_disk`)
    clients              those who write and read                 writers, transactors, readers
    store_*              an application with state stores, as one more client
    faults               everything that can go wrong             *_faults, stage
    truth, checks        what happened, and what replicas show    claims, looks, healed
    run, campaign        one seed to its verdict; many of them
    replay, shrinking    a failure again, and with as few faults as it takes
    search, small_*      three replicas and a few records: every history there is

The judges never ask the code that they judge.
"""
