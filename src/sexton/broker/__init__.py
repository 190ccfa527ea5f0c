"""Brokers on real sockets, files and clocks: `node` does the thinking, this package the I/O.

    cluster, host, switchboard     nodes of one process: run, killed, paused, talking to each other
    listener, connection, inbox    clients: bytes to requests and back, over `stream`, `tls_stream`
    security, gate, sasl, users    who is let in
    limits, memory, traffic        what clients may cost, and what they do cost
    control, steward, rebalance    what operators ask for, beyond Kafka's protocol
    options, home, serve           `sexton up`: what it was told, and where its files are
    logs, chronicle, metrics       what happened, for people and for programs

`host` is the place to begin: one loop that tells a node what was heard and does what it wants done.
"""
