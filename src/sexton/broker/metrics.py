"""How the cluster is doing, in Prometheus's text format.

Where Kafka has a metric, its name is the one that Prometheus's JMX exporter gives it with the usual
rules (`kafka.server:type=ReplicaManager,name=LeaderCount` becomes
`kafka_server_replicamanager_leadercount`), so that dashboards made for Kafka find it. What Kafka
does not have begins with `sexton_`; above all the four offsets of coordinated compaction.

Almost everything is read from the cluster when somebody asks. Only what passes is counted as it
happens: traffic by the listeners, decisions by the chronicle, cleaning here.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, field
from pathlib import Path

from sexton.base.lazy_dataclass import dataclass
from sexton.broker.chronicle import Chronicle
from sexton.broker.cluster import LocalCluster
from sexton.log.cleaner_report import Tally
from sexton.log.cleaner_swap import Prepared
from sexton.machines.metadata import NO_LEADER
from sexton.node.broker import Broker
from sexton.node.replica import Leading, Replica
from sexton.report.prometheus import Labels, sample_line

Sample = tuple[str, Labels, float]

# Every metric there is: kind and meaning. docs/reference/metrics.md lists the same.
METRICS: dict[str, tuple[str, str]] = {
    # the cluster
    "kafka_controller_kafkacontroller_activebrokercount": (
        "gauge", "Brokers that may lead and be in sync.",
    ),
    "kafka_controller_kafkacontroller_fencedbrokercount": (
        "gauge", "Brokers that are registered but not heard from.",
    ),
    "kafka_controller_kafkacontroller_activecontrollercount": (
        "gauge", "1 while the controller runs.",
    ),
    "kafka_controller_kafkacontroller_globaltopiccount": ("gauge", "Topics."),
    "kafka_controller_kafkacontroller_globalpartitioncount": ("gauge", "Partitions."),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (
        "gauge", "Partitions without a leader.",
    ),
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": (
        "gauge", "Partitions led by a replica other than the preferred one.",
    ),
    "kafka_controller_controllerstats_uncleanleaderelections_total": (
        "counter", "Elections that lost records.",
    ),
    "sexton_leader_elections_total": ("counter", "Partitions that were given another leader."),
    "kafka_server_replicamanager_isrshrinks_total": (
        "counter", "Times that a replica left the ISR of its partition.",
    ),
    "kafka_server_replicamanager_isrexpands_total": (
        "counter", "Times that a replica came back into it.",
    ),
    # a broker
    "sexton_broker_up": ("gauge", "1 if the broker runs, also if it is paused or isolated."),
    "sexton_broker_paused": ("gauge", "1 if the broker is paused."),
    "kafka_server_replicamanager_partitioncount": ("gauge", "Replicas on the broker."),
    "kafka_server_replicamanager_leadercount": ("gauge", "Partitions that the broker leads."),
    "kafka_server_replicamanager_underreplicatedpartitions": (
        "gauge", "Partitions that the broker leads with fewer replicas in sync than assigned.",
    ),
    "kafka_server_replicamanager_underminisrpartitioncount": (
        "gauge", "Partitions that the broker leads with fewer in sync than min.insync.replicas.",
    ),
    "kafka_server_replicamanager_reassigningpartitions": (
        "gauge", "Partitions that the broker leads and whose replicas are being moved.",
    ),
    # its clients
    "kafka_server_socket_server_metrics_connection_count": ("gauge", "Connections of clients."),
    "kafka_server_socket_server_metrics_connection_creation_total": (
        "counter", "Connections that were taken.",
    ),
    "sexton_connections_refused_total": (
        "counter", "Closed by us, by reason: limit, protocol, authentication, idle, memory.",
    ),
    "kafka_server_socket_server_metrics_incoming_byte_total": ("counter", "Bytes from clients."),
    "kafka_server_socket_server_metrics_outgoing_byte_total": ("counter", "Bytes to clients."),
    "kafka_network_requestmetrics_requests_total": ("counter", "Requests of clients, by API."),
    "sexton_request_bytes_total": ("counter", "Bytes of these requests."),
    "kafka_network_requestmetrics_totaltimems": (
        "summary", "Milliseconds from a whole request to its answer.",
    ),
    # a replica
    "kafka_log_log_size": ("gauge", "Bytes of the replica's segments."),
    "kafka_log_log_numlogsegments": ("gauge", "Its segments."),
    "kafka_log_log_logstartoffset": ("gauge", "The first offset that can be read."),
    "kafka_log_log_logendoffset": ("gauge", "The offset that the next record gets."),
    "sexton_log_high_watermark": ("gauge", "All replicas in sync have what is below."),
    "sexton_log_last_stable_offset": ("gauge", "Every transaction below has ended."),
    "sexton_compaction_mcco": (
        "gauge", "Maximum cleanly compacted offset: this replica is clean below it.",
    ),
    "sexton_compaction_mtro": (
        "gauge", "Maximum tombstone removal offset: tombstones below it may go.",
    ),
    "sexton_compaction_mxfo": (
        "gauge", "Maximum transaction-free offset: below it no record needs a marker here.",
    ),
    "sexton_compaction_mxro": (
        "gauge", "Maximum transaction-marker removal offset: markers below it may go.",
    ),
    # a partition
    "kafka_cluster_partition_replicascount": ("gauge", "Replicas that are assigned."),
    "kafka_cluster_partition_insyncreplicascount": ("gauge", "Replicas that are in sync."),
    # cleaning
    "sexton_cleaner_passes_total": ("counter", "Passes whose result took its place."),
    "sexton_cleaner_read_bytes_total": ("counter", "Bytes that these passes read."),
    "sexton_cleaner_written_bytes_total": ("counter", "Bytes that they left."),
    "sexton_cleaner_removed_records_total": (
        "counter", "What they removed: superseded, aborted, tombstones, markers, without_key.",
    ),
    "kafka_log_logcleanermanager_uncleanable_partitions_count": (
        "gauge", "Logs whose last pass failed.",
    ),
    # the process
    "process_resident_memory_bytes": ("gauge", "Memory of the process, with all its brokers."),
    "process_cpu_seconds_total": ("counter", "Processor time of the process."),
    "process_start_time_seconds": ("gauge", "When the process started, in seconds since 1970."),
    "process_open_fds": ("gauge", "Open files and sockets of the process."),
}  # fmt: skip

REASONS = ("superseded", "aborted", "tombstones", "markers", "without_key")


@dataclass(slots=True)
class Cleaned:
    """What the passes on one broker came to, over all its lives."""

    passes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    removed: Counter[str] = field(default_factory=Counter)

    def add(self, tally: Tally) -> None:
        self.passes += 1
        self.bytes_read += tally.bytes_read
        self.bytes_written += tally.bytes_written
        counts = asdict(tally)
        for reason in REASONS:
            self.removed[reason] += counts[reason]


class Metrics:
    def __init__(self, cluster: LocalCluster, chronicle: Chronicle) -> None:
        self._cluster = cluster
        self._chronicle = chronicle
        self._cleaned: dict[int, Cleaned] = {}
        self._began = time.time()

    def watch(self, broker: Broker) -> None:
        """Counts the passes of a broker that is about to start."""
        counted = self._cleaned.setdefault(broker.site.node, Cleaned())
        swap = broker.cleaning.swap

        def swap_and_count(replica: Replica, prepared: Prepared) -> bool:
            tally = prepared.cleaned.tally
            done = swap(replica, prepared)
            if done:
                counted.add(tally)
            return done

        broker.cleaning.swap = swap_and_count

    def text(self) -> str:
        """All of them, each under its kind and meaning."""
        by_name: dict[str, list[str]] = {name: [] for name in METRICS}
        for name, labels, value in self.samples():
            owner = name if name in by_name else name.rpartition("_")[0]  # a summary's _sum, _count
            by_name[owner].append(sample_line(name, labels, value) + "\n")
        parts = []
        for name, lines in by_name.items():
            kind, meaning = METRICS[name]
            parts.append(f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n")
            parts += lines
        return "".join(parts)

    def samples(self) -> Iterator[Sample]:
        yield from self._of_cluster()
        for number in self._cluster.numbers:
            yield from self._of_broker(number)
            yield from self._of_clients(number)
            yield from self._of_replicas(number)
            yield from self._of_cleaning(number)
        yield from _of_process(self._began)

    def _of_cluster(self) -> Iterator[Sample]:
        prefix, up = "kafka_controller_kafkacontroller_", self._cluster.controller_is_up
        yield prefix + "activecontrollercount", (), up
        if up:
            yield from self._of_image(prefix)
        chronicle = self._chronicle
        lossy = "kafka_controller_controllerstats_uncleanleaderelections_total"
        yield lossy, (), chronicle.unclean_elections
        yield "sexton_leader_elections_total", (), chronicle.elections
        yield "kafka_server_replicamanager_isrshrinks_total", (), chronicle.isr_shrinks
        yield "kafka_server_replicamanager_isrexpands_total", (), chronicle.isr_expands

    def _of_image(self, prefix: str) -> Iterator[Sample]:
        """Only a controller knows who is alive: without one these are not there."""
        image = self._cluster.image
        partitions = list(image.partitions.values())
        leaderless = sum(1 for p in partitions if p.leader == NO_LEADER)
        elsewhere = sum(1 for p in partitions if p.leader not in (NO_LEADER, p.replicas[0]))
        active = sum(1 for broker in image.brokers.values() if broker.active)
        yield prefix + "activebrokercount", (), active
        yield prefix + "fencedbrokercount", (), len(image.brokers) - active
        yield prefix + "globaltopiccount", (), len(image.topics)
        yield prefix + "globalpartitioncount", (), len(partitions)
        yield prefix + "offlinepartitionscount", (), leaderless
        yield prefix + "preferredreplicaimbalancecount", (), elsewhere
        for partition in partitions:
            labels = (("topic", partition.topic), ("partition", partition.partition))
            yield "kafka_cluster_partition_replicascount", labels, len(partition.replicas)
            yield "kafka_cluster_partition_insyncreplicascount", labels, len(partition.isr)

    def _of_broker(self, number: int) -> Iterator[Sample]:
        host, labels = self._cluster.hosts[number], (("broker", number),)
        yield "sexton_broker_up", labels, host.node is not None
        yield "sexton_broker_paused", labels, host.paused
        broker = self._cluster.broker(number)
        if broker is None:
            return
        replicas = broker.replicas.by_partition.values()
        led = [replica for replica in replicas if isinstance(replica.role, Leading)]
        least = broker.site.min_insync_replicas
        prefix = "kafka_server_replicamanager_"
        yield prefix + "partitioncount", labels, len(replicas)
        yield prefix + "leadercount", labels, len(led)
        under = sum(1 for r in led if r.in_sync < len(r.record.replicas))
        yield prefix + "underreplicatedpartitions", labels, under
        few = sum(1 for r in led if r.in_sync < least(r.partition))
        yield prefix + "underminisrpartitioncount", labels, few
        moving = sum(1 for r in led if r.record.reassigning)
        yield prefix + "reassigningpartitions", labels, moving

    def _of_clients(self, number: int) -> Iterator[Sample]:
        listener, labels = self._cluster.listeners[number], (("broker", number),)
        traffic = listener.traffic
        prefix = "kafka_server_socket_server_metrics_"
        yield prefix + "connection_count", labels, listener.connection_count
        yield prefix + "connection_creation_total", labels, traffic.connections
        yield prefix + "incoming_byte_total", labels, traffic.bytes_in
        yield prefix + "outgoing_byte_total", labels, traffic.bytes_out
        refused = "sexton_connections_refused_total"
        reasons = {
            "limit": traffic.turned_away, "protocol": traffic.hung_up, "idle": traffic.idled,
            "authentication": traffic.unauthenticated, "memory": traffic.heaviest,
        }  # fmt: skip
        for reason, count in reasons.items():
            yield refused, (*labels, ("reason", reason)), count
        for api, requests in sorted(traffic.by_api.items()):
            of_api = (*labels, ("request", api.removesuffix("Request")))
            yield "kafka_network_requestmetrics_requests_total", of_api, requests.count
            yield "sexton_request_bytes_total", of_api, requests.bytes_in
            time_ms = "kafka_network_requestmetrics_totaltimems"
            yield time_ms + "_sum", of_api, round(requests.seconds * 1000, 3)
            yield time_ms + "_count", of_api, requests.answered

    def _of_replicas(self, number: int) -> Iterator[Sample]:
        broker = self._cluster.broker(number)
        if broker is None:
            return
        for partition, replica in broker.replicas.by_partition.items():
            log, progress, removable = replica.log, replica.progress, replica.removable
            labels = (
                ("topic", partition.topic), ("partition", partition.partition), ("broker", number),
            )  # fmt: skip
            yield "kafka_log_log_size", labels, log.size
            yield "kafka_log_log_numlogsegments", labels, len(log.segments)
            yield "kafka_log_log_logstartoffset", labels, log.log_start_offset
            yield "kafka_log_log_logendoffset", labels, log.end_offset
            yield "sexton_log_high_watermark", labels, log.high_watermark
            yield "sexton_log_last_stable_offset", labels, log.last_stable_offset
            if replica.coordinated and log.config.compacts:
                yield "sexton_compaction_mcco", labels, progress.mcco
                yield "sexton_compaction_mtro", labels, removable.mtro
                yield "sexton_compaction_mxfo", labels, progress.mxfo
                yield "sexton_compaction_mxro", labels, removable.mxro

    def _of_cleaning(self, number: int) -> Iterator[Sample]:
        cleaned, labels = self._cleaned.get(number, Cleaned()), (("broker", number),)
        yield "sexton_cleaner_passes_total", labels, cleaned.passes
        yield "sexton_cleaner_read_bytes_total", labels, cleaned.bytes_read
        yield "sexton_cleaner_written_bytes_total", labels, cleaned.bytes_written
        for reason in REASONS:
            why = (*labels, ("reason", reason))
            yield "sexton_cleaner_removed_records_total", why, cleaned.removed[reason]
        broker = self._cluster.broker(number)
        replicas = [] if broker is None else broker.replicas.by_partition.values()
        failed = sum(1 for replica in replicas if replica.cleaning.uncleanable)
        yield "kafka_log_logcleanermanager_uncleanable_partitions_count", labels, failed


def _of_process(began: float) -> Iterator[Sample]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_cpu_seconds_total", (), round(used.ru_utime + used.ru_stime, 3)
    yield "process_start_time_seconds", (), round(began, 3)
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        yield "process_resident_memory_bytes", (), pages * os.sysconf("SC_PAGE_SIZE")
        yield "process_open_fds", (), sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        pass  # no /proc here
