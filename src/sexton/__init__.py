"""sexton keeps compacted and transactional Kafka logs honest."""

__version__ = "0.1.0"
