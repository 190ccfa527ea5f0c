"""Looking at logs that lie on a disk, without a broker and without changing a byte.

    paths     what does PATH mean: a data directory, a partition, a segment, an index?
    reading   a segment of any size as columns, in the memory of one chunk
    verify    is every byte of it what a broker would have written?
    stats     how large, how many keys, how dirty?
    dump      every record, with the outcome of its transaction

Nothing here goes through a `Disk`: an inspection opens files for reading only, so that it can be
let loose on the data directory of a running broker.
"""
