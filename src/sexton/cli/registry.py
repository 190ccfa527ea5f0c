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
    Group("cluster", "Look into a running cluster, and play tricks on that of `sexton up`."),
    Group("guard", "Keep a stock Kafka from forgetting too early while a broker is down."),
    Group("lab", "Let replicas come to disagree, in a simulator, in a process, on Apache Kafka."),
    Group("log", "Look at logs on disk, or clean them, without a broker."),
    Group(
        "retry", "Look into ordered retries: which keys wait, for what, and what to do about it."
    ),
    Group("sim", "Try to break a simulated cluster, from one seed."),
    Group("sink", "Look after exactly-once pipelines from Spark to Kafka."),
    Group("stores", "Look into applications with local state: tasks, copies, and stores on disk."),
    Group("txn", "Look into transactions, on every replica, and end those that hang."),
)

COMMANDS: tuple[Entry, ...] = (
    Entry(
        "demo",
        "Show four ways in which replicas come to disagree, find them, and show them not happen.",
    ),
    Entry(
        "up",
        "Run a replicated, transactional, compacting Kafka cluster in this process, until Ctrl-C.",
    ),
    Entry(
        "audit",
        "Read every replica of a topic from its own broker, and say where they disagree.",
    ),
    Entry(
        "validate",
        "Prove that a topic is what its pipeline promised, or show where it is not.",
    ),
    Entry(
        "repair",
        "Rebuild the replicas that an audit finds wrong from one that is right, and audit again.",
    ),
    Entry(
        "cluster status",
        "Show the brokers of a cluster, what each leads and holds, and how its partitions are.",
    ),
    Entry(
        "cluster offsets",
        "Show every replica's offsets, with the four of coordinated compaction.",
    ),
    Entry(
        "cluster topics",
        "List topics, show where the replicas of some are, create or delete them.",
    ),
    Entry(
        "cluster kill",
        "End a broker of a running `sexton up` at once, as by kill -9.",
    ),
    Entry(
        "cluster restart",
        "Start a broker of a running `sexton up` again, after stopping it if it runs.",
    ),
    Entry(
        "cluster pause",
        "Have a broker of a running `sexton up` do nothing, as by SIGSTOP, until it is resumed.",
    ),
    Entry(
        "cluster resume",
        "Let a broker go on that was paused.",
    ),
    Entry(
        "cluster isolate",
        "Cut a broker of a running `sexton up` off from all other nodes; clients still reach it.",
    ),
    Entry(
        "cluster heal",
        "Let brokers hear each other again after `isolate`.",
    ),
    Entry(
        "cluster elect",
        "Elect leaders: the preferred ones, a certain one, or one at any cost.",
    ),
    Entry(
        "cluster reassign",
        "Move partitions to other brokers, see which are being moved, or call a move off.",
    ),
    Entry(
        "cluster clean",
        "Clean compacted topics of a running `sexton up` now, dirty enough or not.",
    ),
    Entry(
        "guard run",
        "Freeze compacted topics while a replica is away, and thaw them when all are back.",
    ),
    Entry(
        "guard status",
        "Show every compacted topic: whether it is frozen, why, and what is to be set back.",
    ),
    Entry(
        "guard plan",
        "Say what a guard would do now and what it could not protect, and change nothing.",
    ),
    Entry(
        "guard freeze",
        "Stop cleaning of topics by hand, until `guard thaw`; no guard thaws them before.",
    ),
    Entry(
        "guard thaw",
        "Set topics back to exactly what they were before they were frozen.",
    ),
    Entry(
        "guard maintenance",
        "Freeze every compacted topic for a while, before brokers are restarted.",
    ),
    Entry(
        "guard panic",
        "Stop cleaning of all topics at once, by the default that brokers share.",
    ),
    Entry(
        "lab list",
        "List the scenarios of the lab: what each shows, and about how long it takes where.",
    ),
    Entry(
        "lab run",
        "Let replicas come to disagree, or not, and tell what each broker holds after every step.",
    ),
    Entry("log dump", "Show every record of logs on disk, with the outcome of its transaction."),
    Entry(
        "log verify",
        "Check that segments, indexes and snapshots are what a broker would have written.",
    ),
    Entry(
        "log clean",
        "Compact logs on disk as Apache Kafka's cleaner does, or say what that would remove.",
    ),
    Entry("log stats", "Count bytes, records, keys, tombstones and transactions of logs on disk."),
    Entry(
        "retry status",
        "Show what waits in each partition of an ordered retry, and for how long.",
    ),
    Entry(
        "retry locks",
        "List the messages that wait: which key each holds, attempts so far, and why it failed.",
    ),
    Entry(
        "retry explain",
        "Say why a key waits: its messages in order, what the first one waits for, what to do.",
    ),
    Entry(
        "retry dead",
        "List the dead letters: what failed, when and why, and whether anybody has dealt with it.",
    ),
    Entry(
        "retry reap",
        "Have the instances look for stale locks and release them, or show what they would find.",
    ),
    Entry(
        "retry redrive",
        "Try messages again at once, attempts counted anew: those that wait, are held, or were "
        "freed.",
    ),
    Entry(
        "retry skip",
        "Give up messages that wait, so that their keys go on: to the dead letter, or for good.",
    ),
    Entry(
        "sim run",
        "Run simulated clusters through faults, and check that no replica forgets too early.",
    ),
    Entry(
        "sim replay",
        "Run one seed again and tell its story: faults, elections, cleaning, and how it ended.",
    ),
    Entry(
        "sim shrink",
        "Find the fewest faults with which a seed still fails, and the command that replays them.",
    ),
    Entry("sim faults", "List every kind of fault that the simulator knows."),
    Entry(
        "sink doctor",
        "Show exactly-once pipelines: where each stands and what it has left open; or end that.",
    ),
    Entry(
        "stores status",
        "Show the tasks of an application: who works on each, how far it is, and who has copies.",
    ),
    Entry(
        "stores inspect",
        "Show local stores: which changelog each is of, up to where, and what is in it.",
    ),
    Entry(
        "stores verify",
        "Compare local stores with the fold of their changelogs, key by key.",
    ),
    Entry(
        "txn list",
        "List the transactions that the brokers coordinate, with the state of each.",
    ),
    Entry(
        "txn describe",
        "Show a transaction as its coordinator has it: state, producer, partitions, and since "
        "when.",
    ),
    Entry(
        "txn describe-producers",
        "Show the producers of a partition as each of its replicas knows them, the leader or not.",
    ),
    Entry(
        "txn find-hanging",
        "Find transactions that have been open for long and that no coordinator will end.",
    ),
    Entry("txn abort", "Abort a transaction that hangs, after asking every replica how it ended."),
    Entry(
        "txn explain",
        "Say why read_committed consumers of a partition wait, since when, and what to do about "
        "it.",
    ),
    Entry("doctor", "Say what of sexton works on this machine, and what to install for the rest."),
    Entry("warmup", "Compile the kernels now, so that the next command starts at once."),
)

EXAMPLES: Examples = (
    ("See replicas come to disagree, and then not, in about a minute", "sexton demo"),
    ("Ask a Kafka whether its replicas agree", "sexton audit -b kafka:9092 --all-compacted"),
    ("Start a cluster of your own, and look at it", "sexton up"),
    ("Learn what works on this machine", "sexton doctor"),
    ("Get help on one command", "sexton audit --help"),
)
