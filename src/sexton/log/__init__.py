"""One partition on disk: segments, indexes, producer state, in Kafka's formats and file names."""
