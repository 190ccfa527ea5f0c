"""`sexton stores verify`: is a local store what its changelog says?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.base.digests import digest
from sexton.base.errors import SextonError
from sexton.base.findings import Finding
from sexton.cli.cluster_reach import (
    BootstrapOption,
    CommandConfigOption,
    DataOption,
    Reach,
    SettingsOption,
)
from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.stores_inspect import store_skipped
from sexton.cli.writers import Format
from sexton.log.inspect.rendering import Renderer, Rendering
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.client.client import Client
    from sexton.stores.verifying import Difference, Place, Verified

EXAMPLES = (
    ("Verify all stores of an instance", "sexton stores verify state -b localhost:9092"),
    (
        "Verify one store, for a program",
        "sexton stores verify state/word-counts/counts-0 -b localhost:9092 --format json",
    ),
)
COLUMNS = (
    Column("store"), number("position"), number("keys"), number("not_known"),
    number("differences"),
)  # fmt: skip
CODE = "store-divergence"
MOST_SHOWN = 20  # of one store; the table has the number of all
_WORDS = {
    "missing": "the changelog has the key {key}, the store does not",
    "extra": "the store has the key {key}, the changelog has deleted it or never had it",
    "different": "the key {key} has another value in the store than in the changelog",
    "position": "the store has another input position than the changelog",
    "input": "the store names another input topic than the changelog",
    "epoch": "the store names another leader epoch of its input than the changelog",
    "foreign": "the store is of another cluster, or of a changelog that was made again since",
    "beyond": "the store is further than its changelog",
}
_REMEDY = (
    "stop the instance, delete this directory and start it again: it rebuilds the store. "
    "If the store is right and the changelog is not, audit the changelog topic first"
)


def command(
    path: Annotated[Path, typer.Argument(help="A state directory, or one store in it.")],
    bootstrap: BootstrapOption = None,
    settings: SettingsOption = None,
    command_config: CommandConfigOption = None,
    data: DataOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Compare local stores, key by key, with what their changelogs say.

    Each store is compared as of its own position, so an instance may keep working. Keys whose
    record below that position has been compacted away since are counted as `not known`.
    """
    from sexton.stores.verifying import places_in

    reach = Reach(bootstrap, settings, command_config, data)
    with Output("stores verify", format) as out:
        places = places_in(path)

        async def work(client: Client) -> list[Verified]:
            return [each for place in places if (each := await _one(client, place, out))]

        found = reach.with_client(work)
        for verified in found:
            _tell(out, verified)
        out.rows(
            "stores",
            COLUMNS,
            [(v.place.name, v.position, v.keys, v.unknown, len(v.differences)) for v in found],
        )
        out.say_findings()
        out.summarize(stores=len(found), differences=sum(len(v.differences) for v in found))


async def _one(client: Client, place: Place, out: Output) -> Verified | None:
    from sexton.stores.verifying import verify

    try:
        return await verify(client, place)
    except SextonError as error:
        store_skipped(out, place, error)
        return None


def _tell(out: Output, verified: Verified) -> None:
    for each in verified.differences[:MOST_SHOWN]:
        out.finding(_finding(verified.place, each))


def _finding(place: Place, found: Difference) -> Finding:
    shown = Renderer(Rendering.auto, most_bytes=80)
    return Finding(
        CODE,
        "error",
        str(place.path),
        _WORDS[found.kind].format(key=shown(found.key)),
        {
            "kind": found.kind,
            "key": shown(found.key),
            "stored": None if found.stored is None else digest(found.stored),
            "logged": None if found.logged is None else digest(found.logged),
            "changelog": str(place.changelog),
            "offset": found.offset,
        },
        _REMEDY,
    )
