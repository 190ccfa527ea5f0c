"""How many tasks send at the same time?

One, unless more are asked for. Several senders are a barrier stage: Spark starts all of them at the
same moment or none, so there must be a slot for each. How many there are may change from one batch
to the next, when executors come and go, and nothing depends on it: every attempt counts anew. More
senders than partitions would have nothing to do.

With dynamic allocation Spark refuses barrier stages, after the batch has been encoded. We say so
before anything runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sexton.base.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Senders = int | Literal["auto"]  # at most so many; auto: as many as can work at once
_DYNAMIC = "spark.dynamicAllocation.enabled"


def checked_senders(given: object) -> Senders:
    if given == "auto":
        return "auto"
    text = str(given)
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError("senders", f"is {given!r}", "a number from 1, or auto")
    return int(text)


def refuse_dynamic_allocation(spark: SparkSession, wanted: Senders) -> None:
    check_allocation(wanted, str(spark.conf.get(_DYNAMIC, "false")))


def check_allocation(wanted: Senders, dynamic: str) -> None:
    if wanted != 1 and dynamic.lower() == "true":
        why = f"is {wanted}, and Spark cannot start several at once with {_DYNAMIC}=true"
        raise ConfigError("senders", why, "turn that off, or leave senders at 1")


def senders_for(spark: SparkSession, wanted: Senders, partitions: int) -> int:
    """For a batch that goes to so many partitions, as far as that is known."""
    if wanted == 1 or partitions == 1:
        return 1
    most = partitions if wanted == "auto" else min(wanted, partitions)
    return max(1, min(most, _slots(spark)))


def _slots(spark: SparkSession) -> int:
    try:
        context = spark.sparkContext._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        return int(context.maxNumConcurrentTasks(profile))
    except Exception as error:
        why = "this session does not tell how many tasks run at once"
        hint = "several senders need a session without Spark Connect; or leave senders at 1"
        raise ConfigError("senders", why, hint) from error


def spread(blobs: DataFrame, senders: int) -> DataFrame:
    """Every output partition to one sender, in the order of the source."""
    from pyspark.sql.functions import expr

    if senders == 1:
        spread_out = blobs.repartition(1)
    else:
        chosen = expr(f"cast(pmod(xxhash64(topic), {senders}) + partition AS int)")
        spread_out = blobs.repartitionById(senders, chosen)
    return spread_out.sortWithinPartitions("source", "number")
