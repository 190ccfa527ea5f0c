"""`sexton lab list`: the scenarios there are."""

from __future__ import annotations

from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, Row, number

EXAMPLES = (
    ("List the scenarios", "sexton lab list"),
    ("The same for a program", "sexton lab list --format json"),
)
SCENARIOS = (
    Column("scenario"),
    Column("early"),
    number("sim_s"),
    number("embedded_s"),
    number("kafka_s"),
    Column("shows"),
)


def command(format: FormatOption = Format.table) -> None:
    """List the lab's scenarios: what each one shows, where it runs, and about how long it takes.

    They run in the simulator, on the embedded cluster and on Apache Kafka; a dash means not there.
    The seconds are rough, for two cores, and include the start. Scenarios marked early also have a
    form in which no producer has to expire (`lab run --early`).
    """
    from sexton.lab.divergences import LAB, Scenario
    from sexton.lab.eos_story import Story
    from sexton.lab.stores_eos import STORIES

    def row(scenario: Scenario) -> Row:
        about = scenario.about_s
        early = scenario.has_early_form
        return (scenario.name, early, about.sim, about.embedded, about.kafka, scenario.shows)

    def story_row(story: Story) -> Row:
        on_kafka = story.about_s + 10 if story.on_kafka else None
        return (story.name, False, None, story.about_s, on_kafka, story.shows)

    with Output("lab list", format) as out:
        rows = [*map(row, LAB.values()), *map(story_row, STORIES.values())]
        out.rows("scenarios", SCENARIOS, rows)
