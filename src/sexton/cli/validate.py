"""`sexton validate`: does a topic hold what its pipeline promised?"""

from __future__ import annotations

import typer

from sexton.cli.audit_options import (
    BaselineOption,
    HtmlOption,
    MaxOption,
    ParquetOption,
    ShowKeysOption,
    SinceOption,
    WriteBaselineOption,
)
from sexton.cli.engines import THIS_MACHINE, EngineOption, MasterOption
from sexton.cli.options import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    FormatOption,
    IntervalOption,
    SettingsOption,
    refuse_interval,
)
from sexton.cli.validate_options import (
    CheckpointOption,
    CompareIsolationOption,
    CompleteOption,
    ContentOption,
    FollowOption,
    IdOption,
    IsolationLevel,
    IsolationOption,
    KeyOption,
    MostKeysOption,
    RisingOption,
    SequenceOption,
    SettleOption,
    SkipOption,
    SourceIdOption,
    SourceOption,
    TableKeyOption,
    TableOption,
    TableValueOption,
    TopicArgument,
    UntilOption,
    ValueOption,
)
from sexton.cli.writers import Format

EXAMPLES = (
    (
        "Check a counter per key that must never fall, as committed readers see it",
        "sexton validate counts -b localhost:9092 --value json:count",
    ),
    (
        "Check for repeated ids and skipped numbers, and write a report to read",
        "sexton validate payments -b kafka:9092 --id json:id --sequence json:seq --html page.html",
    ),
    (
        "Check counters that Kafka's LongSerializer wrote, on a Spark cluster",
        "sexton validate counts -b kafka:9092 --value int64 --engine spark --master spark://h:7077",
    ),
    (
        "Check that everything was processed, in the order of its source",
        "sexton validate shipped -b kafka:9092 --id json:order_id --source orders --complete",
    ),
    (
        "The same while the pipeline runs, which lags by five minutes at most",
        "sexton validate shipped -b kafka:9092 --id json:id --source orders --complete --settle 5m",
    ),
    (
        "Check whether a table in the lake still has what was deleted",
        "sexton validate users -b kafka:9092 --table lake/users --table-key user_id",
    ),
    (
        "Watch a topic, continuing where it was after a restart",
        "sexton validate counts -b kafka:9092 --value int --follow --checkpoint /var/lib/sexton/v",
    ),
)
EXIT_CODES = (
    "0 everything holds, 1 it does not, or the check failed, 2 wrong usage, or an EXPR finds "
    "nothing in a record, 3 a partition could not be read, or nothing was judged."
)


def command(
    context: typer.Context,
    topic: TopicArgument,
    bootstrap: BootstrapOption = None,
    value: ValueOption = None,
    rising: RisingOption = False,
    sequence: SequenceOption = None,
    id: IdOption = None,
    content: ContentOption = "value",
    source: SourceOption = None,
    source_id: SourceIdOption = None,
    complete: CompleteOption = False,
    settle: SettleOption = None,
    compare_isolation: CompareIsolationOption = False,
    table: TableOption = None,
    table_key: TableKeyOption = "key",
    table_value: TableValueOption = None,
    key: KeyOption = "key",
    isolation_level: IsolationOption = IsolationLevel.read_committed,
    skip_unreadable: SkipOption = False,
    since: SinceOption = None,
    until: UntilOption = None,
    follow: FollowOption = False,
    checkpoint: CheckpointOption = None,
    interval: IntervalOption = "5s",
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    engine: EngineOption = None,
    master: MasterOption = THIS_MACHINE,
    max_mb_per_s: MaxOption = None,
    most_keys: MostKeysOption = None,
    baseline: BaselineOption = None,
    write_baseline: WriteBaselineOption = None,
    html: HtmlOption = None,
    parquet: ParquetOption = None,
    show_keys: ShowKeysOption = False,
    format: FormatOption = Format.table,
) -> None:
    """Prove that a topic keeps its pipeline's promises, or show where it does not.

    An EXPR says where something is in a record: a SOURCE (key, header:NAME, timestamp, offset,
    partition; value if none is named) and how to read it (int, float, text; int32, int64, double as
    Kafka's serializers write them; json:a.b). Several joined by commas form one id.

    A state that goes back, an id that comes twice with the same or other content, a number that is
    skipped, an order that is not kept, a record that is lost, a table that does not match its
    topic: each is a finding, with the records that show it. Nothing is written to the cluster.
    """
    given = locals()  # by name: `Request.of` says what becomes of each
    from sexton.cli.validate_request import Request
    from sexton.cli.validate_run import run_validate

    if not follow:
        refuse_interval(context, "--follow")
    del given["context"], given["format"]
    run_validate(Request.of(**given), format)
