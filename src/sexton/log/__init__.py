"""One partition on disk: segments, indexes, producer state, in Kafka's formats and file names.

    partition    the log: append, read, forget           segment, indexes, producers, epochs
    recovery     opening it, whatever was left behind    replay, snapshots, checkpoints
    cleaner      compaction, pass by pass                cleaner_*, cleanable, workshop
    retention    which segments have had their time
    directory    the logs of many partitions             names, config
    disk         the only way to a file                  real_disk, memory_disk, overlay_disk
    inspect/     the same files, read by tools without a broker

`*_kernels` are the inner loops, compiled.
"""
