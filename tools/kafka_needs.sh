#!/usr/bin/env bash
# Says what is missing to run Apache Kafka itself: Java >= 17, and Maven to fetch its jars.
set -u
missing=0

say() {
  printf 'kafka: %s\n' "$1" >&2
  missing=1
}

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if ! command -v "$java" >/dev/null; then
  say "no Java found; Apache Kafka runs on Java >= 17 (apt-get install openjdk-17-jre-headless)"
else
  # `java -version` prints: openjdk version "17.0.15" 2025-04-15
  version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
  if [ "${version:-0}" -lt 17 ]; then
    say "$java is version ${version:-unknown}; Apache Kafka runs on Java >= 17"
  fi
fi
if ! command -v mvn >/dev/null; then
  say "no mvn found; Maven fetches Apache Kafka's jars (apt-get install maven)"
fi
if [ "$missing" = 1 ]; then
  printf 'kafka: everything that does not run Kafka itself works without: make check, make demo\n' >&2
fi
exit "$missing"
