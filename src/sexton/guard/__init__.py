"""The daemon beside a stock Kafka: freezes compacted topics while a replica is away.

    eyes       what the cluster says of itself, and the options of topics
    memory     the guard's own topic, where it notes what it is about to change
    daemon     round after round: look, decide (`machines.guard`), note, act
    disk       what a freeze costs, and for how long there is room for it
    status     all of it for people and programs
    panic      the default of all brokers, for when there is no time
    permissions   which ACL is missing
    metrics, page, web   the same for Prometheus, a browser and whoever asks for health

What is decided, and why it is safe, stands in `machines/guard.py`.

Beside it, and not part of the daemon, is repair: rebuilding a replica from one that is right
(`repair`, `repair_planning`, `repair_notes`, `repair_options`, `repair_copy`), what to do where
none is (`repair_choices`), how a transaction ended (`repair_outcomes`), and telling the daemon that
its doubts are settled (`repair_doubts`). It decides in `machines/repair.py`.
"""
