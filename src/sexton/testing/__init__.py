"""Clusters to test against: Apache Kafka from its own jars, on loopback, always cleaned up."""
