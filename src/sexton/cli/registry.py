"""Every command there is: its name and one line about it.

The help of `sexton` lists them all, and must not import them all: numpy and numba alone take longer
than one waits for a help text. So names and summaries stand here, and a command's module is
imported when that command runs. `log verify` lives in `sexton.cli.log_verify`, which has:

    command     the function; its arguments and docstring become the options and the help
    EXAMPLES    ((what it does, "sexton log verify ..."), ...), the end of its help
    EXIT_CODES  if it has more to say about them than all commands have

To add a command, add its line here, write the module, and run `make docs`. Tests hold the three
together: the docstring opens with the summary, the help has examples, the reference has a page.
"""

from __future__ import annotations

from dataclasses import dataclass

Examples = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    path: str  # what one types after `sexton`
    summary: str

    @property
    def module(self) -> str:
        """A dash in a name would be no Python name."""
        return "sexton.cli." + self.path.replace(" ", "_").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    summary: str


GROUPS: tuple[Group, ...] = (
    Group(
        "cluster",
        "Inspect and change a running cluster, and inject faults into that of `sexton up`.",
    ),
    Group("guard", "Keep a stock Kafka from forgetting too early while a broker is down."),
    Group("lab", "Reproduce known failures in a simulator, in this process, or on Apache Kafka."),
    Group("log", "Inspect, verify and clean logs on disk, without a broker."),
    Group("retry", "Inspect ordered retries: which keys wait, for what, and what to do about it."),
    Group("sim", "Try to break simulated clusters, each reproducible from one seed."),
    Group("sink", "Look after exactly-once pipelines from Spark to Kafka."),
    Group("stores", "Inspect applications with local state: tasks, copies, and stores on disk."),
    Group("txn", "Inspect transactions on every replica, and abort those that hang."),
)

COMMANDS: tuple[Entry, ...] = (
    Entry(
        "demo",
        "Show four ways replicas come to disagree, find each one, then show them prevented.",
    ),
    Entry(
        "up",
        "Run a replicated, transactional, compacting Kafka cluster in this process until Ctrl-C.",
    ),
    Entry(
        "audit",
        "Read every replica of a topic from its own broker and report where they disagree.",
    ),
    Entry(
        "validate",
        "Prove that a topic keeps its pipeline's promises, or show where it does not.",
    ),
    Entry(
        "repair",
        "Rebuild replicas that an audit finds wrong from a correct one, then audit again.",
    ),
    Entry(
        "cluster status",
        "Show a cluster's brokers, what each leads and holds, and the state of its partitions.",
    ),
    Entry(
        "cluster offsets",
        "Show every replica's offsets, including the four of coordinated compaction.",
    ),
    Entry(
        "cluster topics",
        "List topics, show where their replicas are, create topics or delete them.",
    ),
    Entry(
        "cluster kill",
        "Kill a broker of a running `sexton up` at once, as kill -9 would.",
    ),
    Entry(
        "cluster restart",
        "Restart a broker of a running `sexton up`, stopping it first if it is running.",
    ),
    Entry(
        "cluster pause",
        "Pause a broker of a running `sexton up`, as SIGSTOP would, until it is resumed.",
    ),
    Entry(
        "cluster resume",
        "Resume a broker that was paused.",
    ),
    Entry(
        "cluster isolate",
        "Cut a broker of a running `sexton up` off from all other nodes, but not from clients.",
    ),
    Entry(
        "cluster heal",
        "Reconnect brokers that `isolate` cut off.",
    ),
    Entry(
        "cluster elect",
        "Elect leaders: the preferred ones, a given one, or one that is not in sync.",
    ),
    Entry(
        "cluster reassign",
        "Move partitions to other brokers, list moves in progress, or cancel them.",
    ),
    Entry(
        "cluster clean",
        "Clean compacted topics of a running `sexton up` now, whether dirty enough or not.",
    ),
    Entry(
        "guard run",
        "Freeze compacted topics while a replica is away, and thaw them when all are back.",
    ),
    Entry(
        "guard status",
        "Show every compacted topic: whether it is frozen, why, and what a thaw will restore.",
    ),
    Entry(
        "guard plan",
        "Show what a guard would do now and what it could not protect, without changing anything.",
    ),
    Entry(
        "guard freeze",
        "Stop topics from being cleaned until `guard thaw`; no guard thaws them before that.",
    ),
    Entry(
        "guard thaw",
        "Restore exactly the settings that topics had before they were frozen.",
    ),
    Entry(
        "guard maintenance",
        "Freeze every compacted topic for a while, before brokers are restarted.",
    ),
    Entry(
        "guard panic",
        "Stop the cleaning of all topics at once, through the default that all brokers share.",
    ),
    Entry(
        "lab list",
        "List the lab's scenarios: what each one shows, where it runs, and about how long "
        "it takes.",
    ),
    Entry(
        "lab run",
        "Run a lab scenario, and show what each broker holds after every step.",
    ),
    Entry("log dump", "Show every record of logs on disk, with the outcome of its transaction."),
    Entry(
        "log verify",
        "Check that segments, indexes and snapshots are what a broker would have written.",
    ),
    Entry(
        "log clean",
        "Compact logs on disk as Apache Kafka's cleaner would, or show what it would remove.",
    ),
    Entry("log stats", "Count bytes, records, keys, tombstones and transactions in logs on disk."),
    Entry(
        "retry status",
        "Show what is waiting in each partition of an ordered retry, and for how long.",
    ),
    Entry(
        "retry locks",
        "List waiting messages: the key each one holds, attempts so far, and why it failed.",
    ),
    Entry(
        "retry explain",
        "Explain why a key waits: its messages in order, what the first waits for, what to do.",
    ),
    Entry(
        "retry dead",
        "List dead letters: what failed, when and why, and whether anybody has dealt with it.",
    ),
    Entry(
        "retry reap",
        "Have the instances find and release stale locks, or show what they would find.",
    ),
    Entry(
        "retry redrive",
        "Retry waiting, held or freed messages now, counting their attempts from zero.",
    ),
    Entry(
        "retry skip",
        "Give up on waiting messages so that their keys go on; keep dead letters, or discard them.",
    ),
    Entry(
        "sim run",
        "Run simulated clusters through faults and check that no replica forgets too early.",
    ),
    Entry(
        "sim replay",
        "Replay one seed and tell its story: faults, elections, cleaning, and how it ended.",
    ),
    Entry(
        "sim shrink",
        "Find the fewest faults with which a seed still fails, and the command that replays them.",
    ),
    Entry("sim faults", "List every kind of fault that the simulator knows."),
    Entry(
        "sink doctor",
        "Show where exactly-once pipelines stand and what they left open; with --end, end it.",
    ),
    Entry(
        "stores status",
        "Show an application's tasks: who runs each one, how far it is, and who has copies.",
    ),
    Entry(
        "stores inspect",
        "Show local stores: each one's changelog, its position there, and what it contains.",
    ),
    Entry(
        "stores verify",
        "Compare local stores, key by key, with what their changelogs say.",
    ),
    Entry(
        "txn list",
        "List the transactions that the brokers coordinate, with their states.",
    ),
    Entry(
        "txn describe",
        "Show a transaction as its coordinator sees it: state, producer, partitions, since when.",
    ),
    Entry(
        "txn describe-producers",
        "Show a partition's producers as each of its replicas knows them, leader and followers.",
    ),
    Entry(
        "txn find-hanging",
        "Find transactions that have been open for a long time and that no coordinator will end.",
    ),
    Entry("txn abort", "Abort a hanging transaction, after asking every replica how it ended."),
    Entry(
        "txn explain",
        "Explain why read_committed consumers of a partition wait, since when, and what to do.",
    ),
    Entry(
        "doctor",
        "Show which parts of sexton work on this machine, and what to install for the rest.",
    ),
    Entry("warmup", "Compile the kernels now, so that the next command starts at once."),
)

EXAMPLES: Examples = (
    ("See replicas disagree, and how to prevent it, in about a minute", "sexton demo"),
    (
        "Check whether the replicas of a Kafka cluster agree",
        "sexton audit -b kafka:9092 --all-compacted",
    ),
    ("Start a cluster of your own", "sexton up"),
    ("See what works on this machine", "sexton doctor"),
    ("Get help on one command", "sexton audit --help"),
)
