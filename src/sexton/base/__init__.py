"""What every other package may speak of: errors, findings, Kafka's error codes, a partition."""
