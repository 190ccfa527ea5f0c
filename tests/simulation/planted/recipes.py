"""Under which circumstances does each planted mistake show, and how soon?

    hunt = recipe, a seed that finds it, how many seeds it may take, and as what it may be found

From seed 1 on each is found within its number of seeds; the seed that is named finds it by itself,
which saves time on every change. Recipes are shared where that costs little: the same seed without
any mistake has to be run once only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sexton.sim.options import HOUR_MS, MINUTE_MS
from tests.simulation.planted import (
    cleaner_plants,  # noqa: F401  its mistakes can be planted from now on
    protocol_plants,  # noqa: F401
    store_plants,  # noqa: F401
)
from tests.simulation.planted.trials import SMALL, Pace, Recipe

# Replicas are away for longer than deletes are retained; there are keys enough to stay deleted.
AWAY = Recipe(
    replace(
        SMALL, faults=("killed-broker", "isolated-broker"), keys=12,
        fault_pause_ms=60 * MINUTE_MS, fault_lasts_ms=120 * MINUTE_MS,
    )
)  # fmt: skip

# The power goes while cleaned segments take the place of the old ones.
CLEANER_DIES = Recipe(
    replace(
        SMALL, faults=("power-cut-in-a-cleaning",), keys=12, segment_bytes=2_000,
        fault_pause_ms=6 * MINUTE_MS,
    )
)  # fmt: skip

# Snapshots that were never synced: most are torn by a power cut, now and then an old one is not.
TORN_SNAPSHOTS = Recipe(
    replace(
        SMALL, faults=("power-cut",), hours=4, writers=3, transactional_writers=8,
        write_pause_ms=4 * MINUTE_MS, segment_bytes=1_000, fault_pause_ms=8 * MINUTE_MS,
        fault_lasts_ms=MINUTE_MS,
    ),
    retention_ms=3 * MINUTE_MS,
    transactions=Pace(2 * MINUTE_MS, burst=4, rest_ms=60 * MINUTE_MS),
    whole_files=0.15,
)  # fmt: skip

# Producers that are silent for a while, and replicas that know of them by the log alone.
QUIET_PRODUCERS = Recipe(
    replace(
        SMALL, faults=("new-disk", "killed-broker"), writers=4, transactional_writers=1,
        write_pause_ms=10 * MINUTE_MS, fault_lasts_ms=10 * MINUTE_MS,
    )
)  # fmt: skip

# Replicas start over again and again.
NEW_REPLICAS = Recipe(
    replace(
        SMALL, faults=("new-disk", "removed-replica"), keys=12, write_pause_ms=2 * MINUTE_MS,
        fault_pause_ms=10 * MINUTE_MS, fault_lasts_ms=3 * MINUTE_MS,
    )
)  # fmt: skip

# The same, and nothing else.
NEW_DISKS = Recipe(
    replace(
        SMALL, faults=("new-disk",), keys=12, write_pause_ms=2 * MINUTE_MS,
        fault_pause_ms=12 * MINUTE_MS, fault_lasts_ms=MINUTE_MS,
    )
)  # fmt: skip

# Disks are put back to an earlier state.
OLD_DISKS = Recipe(
    replace(
        SMALL, faults=("old-disk", "killed-leader", "killed-broker"),
        fault_pause_ms=12 * MINUTE_MS,
    )
)  # fmt: skip

# Followers lag, and leaders die with what they have not passed on.
LAGGING = Recipe(
    replace(
        SMALL, faults=("killed-broker", "late-fetches"), transactional_writers=4,
        fault_lasts_ms=20 * MINUTE_MS,
    )
)  # fmt: skip

# Empty replicas are made leaders, and announcements arrive from before.
LATE_WORDS = Recipe(
    replace(
        SMALL, hours=10, keys=12, unclean=True,
        faults=("late-announcements", "unclean-election") * 2 + ("new-disk",),
        fault_pause_ms=10 * MINUTE_MS, fault_lasts_ms=12 * MINUTE_MS,
    )
)  # fmt: skip

# Replicas that are behind are made leaders.
LOSSES = Recipe(
    replace(
        SMALL, hours=8, unclean=True, faults=("unclean-election", "killed-broker", "paused-broker"),
        fault_pause_ms=12 * MINUTE_MS, fault_lasts_ms=20 * MINUTE_MS,
    )
)  # fmt: skip

# Leaders are cut off with what nobody else has, and while they are away others copy and clean.
COPIES = Recipe(
    replace(
        SMALL, faults=("isolated-leader",) * 2 + ("new-disk", "moved-replica"), hours=10, brokers=4,
        keys=3, writers=3, write_pause_ms=MINUTE_MS, fault_pause_ms=8 * MINUTE_MS,
        fault_lasts_ms=70 * MINUTE_MS,
    )
)  # fmt: skip

NO_CONTROLLER = Recipe(replace(SMALL, faults=("killed-controller", "paused-controller")))

# Who joins the ISR stops to fetch, while the leader does not hear that it has joined.
DEAF_LEADERS = Recipe(
    replace(
        SMALL, faults=("deaf-leader", "killed-leader", "killed-broker", "cut-between-two"),
        fault_pause_ms=6 * MINUTE_MS, fault_lasts_ms=15 * MINUTE_MS,
    )
)  # fmt: skip

# Fetches are under way for longer than it takes to get a new disk, and little is written.
LATE_FETCHES = Recipe(
    replace(
        SMALL, faults=("late-fetches",) * 3 + ("new-disk",), hours=8, transactional_writers=1,
        write_pause_ms=15 * MINUTE_MS, fault_pause_ms=2 * MINUTE_MS, fault_lasts_ms=3 * MINUTE_MS,
    )
)  # fmt: skip

# Markers are sent twice, and the first copy arrives some transactions later.
LATE_MARKERS = Recipe(
    replace(
        SMALL, faults=("late-markers",), hours=3, transactional_writers=4, transaction_version=1,
        write_pause_ms=MINUTE_MS, fault_pause_ms=6 * MINUTE_MS, fault_lasts_ms=2 * MINUTE_MS,
    )
)  # fmt: skip

# Instances with state stores come and go, and stand still while others take over.
STORES = Recipe(
    replace(
        SMALL, faults=("killed-instance", "paused-instance", "closed-instance"), hours=4, stores=3,
        transactional_writers=1, store_pause_ms=5 * MINUTE_MS, fault_pause_ms=12 * MINUTE_MS,
        fault_lasts_ms=20 * MINUTE_MS,
    )
)  # fmt: skip

# The same, and brokers fail in the middle of commits.
STORES_AND_BROKERS = Recipe(
    replace(
        STORES.options,
        faults=(*STORES.options.faults, "killed-broker", "coordinator-move", "dropped-messages"),
        fault_lasts_ms=10 * MINUTE_MS,
    )
)  # fmt: skip

# Whoever does not talk to its group does not hear that others have taken over.
ZOMBIES = Recipe(
    replace(
        STORES.options, faults=("hanging-member",), fault_pause_ms=20 * MINUTE_MS,
        fault_lasts_ms=40 * MINUTE_MS,
    )
)  # fmt: skip

# Who is promoted asks leaders that were replaced while its predecessor went on without them.
UNSEEN = Recipe(
    replace(
        STORES.options, faults=("taken-over-unseen",), hours=9, store_pause_ms=3 * MINUTE_MS,
        write_pause_ms=5 * MINUTE_MS, fault_pause_ms=20 * MINUTE_MS,
    )
)  # fmt: skip

# They are away for longer than the tombstones of the changelog are kept; many keys stay deleted.
STORES_AWAY = Recipe(
    replace(
        STORES.options, faults=("back-after-long",), hours=8, keys=40, deletes=0.5,
        store_retention_ms=10 * MINUTE_MS, fault_pause_ms=20 * MINUTE_MS,
        segment_bytes=1_500, stretch=12, transactional_writers=0,
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hunt:
    """Where to look for one planted mistake."""

    recipe: Recipe
    first: int  # a seed that finds it
    seeds: int  # within so many it is found, from seed 1 on: more than twice what was needed
    kinds: tuple[str, ...]  # what it may be found as
    first_counts: bool = True  # or else it may do other harm first, and the run goes on


EARLY, FALSE, BEYOND = "witness-removed-early", "false-claim", "beyond-own-progress"
LOST, STALE, BEHIND = "committed-lost", "stale-value", "behind-in-isr"
STALE_STORE = "stale-store"
WRONG_END = ("stuck", "aborted-as-committed", "committed-as-aborted")

# How cleaners have gone wrong, here or elsewhere, and the mistake that stands for it.
OF_THE_CLEANER = {
    "a marker removed while its data remains": "markers-gone-before-their-data",
    "two ABORT markers deduplicated by their equal key": "markers-deduplicated",
    "an offset map filled up, so that a pass stops midway": "half-a-pass",
    "a crash between delete and rename": "deleted-before-renamed",
    "a producer snapshot that holds an open transaction": "snapshots-kept",
    "the last batch of a producer dropped": "last-batch-dropped",
}

# The wordings of the protocol that looked right until a search of a small model found them wrong.
OF_THE_PROTOCOL = {
    "MTRO over the ISR only": "minimum-over-isr",
    "a replica that never reported ignored": "silence-counts-as-done",
    "MXFO = the last stable offset": "stable-offset-as-mxfo",
    "a kept report of an earlier incarnation": "kept-reports",
    "a stale disk judged by its own checkpoint": "trusted-disk",
    "superseded by an uncommitted later record": "uncommitted-supersedes",
    "a marker above the high watermark taken as resolved": "unreplicated-marker-resolves",
    "the log end counted as clean for an added replica": "added-replica-is-clean",
    "MCCO reported before fsync": "reported-before-sync",
    "a marker record emptied without MXRO": "markers-without-bound",
    "a late announcement of an old term accepted": "late-announcements-believed",
    "an unclean election without discard": "unclean-without-discard",
}

# Other rules that must be there for a reason.
EXTRA = (
    "tombstones-without-bound",
    "minima-before-the-controller",
    "unfit-leader",
    "joining-do-not-vouch",
    "earlier-session-fetches",
    "late-markers-believed",
    "epochs-of-what-is-left",
    "cut-off-batches-hold-producers",
)

# Rules of state stores, each of which a design or a release of Kafka Streams has gone without.
OF_THE_STORES = (
    "trusted-checkpoint",
    "acknowledged-before-applied",
    "resumed-from-the-group",
    "generation-left-out",
    "nobody-fenced",
    "overlay-before-commit",
    "landed-anywhere",
    "no-horizon",
)

HUNTS: dict[str, Hunt] = {
    "markers-gone-before-their-data": Hunt(AWAY, 1, 3, (EARLY,), first_counts=False),
    "markers-deduplicated": Hunt(AWAY, 1, 3, (EARLY,)),
    "half-a-pass": Hunt(AWAY, 1, 3, (FALSE,)),
    "deleted-before-renamed": Hunt(CLEANER_DIES, 1, 3, (LOST, STALE, "stuck")),
    "snapshots-kept": Hunt(TORN_SNAPSHOTS, 1, 3, ("producer-forgotten", *WRONG_END)),
    "last-batch-dropped": Hunt(QUIET_PRODUCERS, 1, 3, ("producer-forgotten",)),
    "minimum-over-isr": Hunt(AWAY, 1, 3, (EARLY,)),
    "silence-counts-as-done": Hunt(AWAY, 1, 3, (EARLY,)),
    "stable-offset-as-mxfo": Hunt(AWAY, 1, 3, (FALSE,)),
    "kept-reports": Hunt(NEW_DISKS, 1, 3, (BEYOND, EARLY)),
    "trusted-disk": Hunt(OLD_DISKS, 1, 3, (LOST, BEYOND)),
    "uncommitted-supersedes": Hunt(AWAY, 1, 3, (EARLY, LOST)),
    "unreplicated-marker-resolves": Hunt(LAGGING, 4, 10, ("open-as-ended", EARLY)),
    "added-replica-is-clean": Hunt(NEW_REPLICAS, 1, 3, (FALSE,)),
    "reported-before-sync": Hunt(CLEANER_DIES, 1, 3, (FALSE,)),
    "markers-without-bound": Hunt(AWAY, 1, 3, (EARLY,)),
    "late-announcements-believed": Hunt(LATE_WORDS, 13, 30, (BEYOND,)),
    "unclean-without-discard": Hunt(LOSSES, 3, 8, (STALE, "record-changed")),
    "tombstones-without-bound": Hunt(AWAY, 1, 3, (EARLY,)),
    "minima-before-the-controller": Hunt(NO_CONTROLLER, 1, 3, ("unknown-minima",)),
    "unfit-leader": Hunt(OLD_DISKS, 1, 3, (LOST, BEYOND)),
    "joining-do-not-vouch": Hunt(DEAF_LEADERS, 1, 3, (BEHIND, LOST)),
    "earlier-session-fetches": Hunt(LATE_FETCHES, 6, 15, (BEHIND, LOST)),
    "late-markers-believed": Hunt(LATE_MARKERS, 1, 3, ("transaction-broken",)),
    "epochs-of-what-is-left": Hunt(COPIES, 1, 3, ("late-epoch",)),
    "cut-off-batches-hold-producers": Hunt(COPIES, 2, 6, ("producer-forgotten",)),
    "trusted-checkpoint": Hunt(STORES, 1, 3, (STALE_STORE,)),
    "acknowledged-before-applied": Hunt(STORES, 1, 3, ("offset-went-back",)),
    "resumed-from-the-group": Hunt(STORES, 1, 3, ("counted-twice",), first_counts=False),
    "generation-left-out": Hunt(ZOMBIES, 1, 3, ("old-generation-commits",)),
    "nobody-fenced": Hunt(ZOMBIES, 1, 3, ("counted-twice",), first_counts=False),
    "overlay-before-commit": Hunt(STORES_AND_BROKERS, 1, 3, (STALE_STORE,)),
    "landed-anywhere": Hunt(UNSEEN, 4, 10, (STALE_STORE,)),
    "no-horizon": Hunt(STORES_AWAY, 3, 5, (STALE_STORE,)),
}


# Under the policy `independent`: replicas are away for hours while tombstones and markers go. Most
# keys are seldom written, so that what comes back stays. Many writers have a transaction or two and
# then rest: whose marker a replica has missed, nobody ends for it.
DIVERGENCES = ("deleted-key-lives", "aborted-as-committed", "committed-as-aborted", "stuck")
DIVERGING = Recipe(
    replace(
        SMALL, policy="independent", faults=("killed-broker", "isolated-broker"),
        hours=30, keys=40, writers=4, transactional_writers=30, write_pause_ms=8 * MINUTE_MS,
        stretch=100, fault_pause_ms=150 * MINUTE_MS, fault_lasts_ms=4 * HOUR_MS,
    ),
    retention_ms=10 * MINUTE_MS,
    transactions=Pace(3 * MINUTE_MS, burst=4, rest_ms=4 * HOUR_MS),
)  # fmt: skip
