"""Draws the pictures of the concept pages into docs/images/, each told once, here.

`make docs` runs this, and a test compares. What a picture says is said in words beside it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.drawing import Drawing

FOLDER = Path(__file__).parent.parent / "docs/images"


def compaction() -> Drawing:
    """How far each replica is clean, and what follows from the lowest."""
    d = Drawing("What a group may forget: tombstones below the lowest clean offset", 720, 300)
    replicas = (("broker 1", 470, ""), ("broker 2", 530, ""), ("broker 3", 250, "away"))
    for row, (name, clean, note) in enumerate(replicas):
        y = 60 + 62 * row
        d.text(10, y + 20, name, "bold")
        d.text(10, y + 38, note, "bad")
        d.box(100, y, clean - 100, 32, kind="clean")
        d.box(clean, y, 640 - clean, 32)
        for x in (180, 400):
            d.text(x, y + 21, "†", "bold", "middle")
        d.text(clean - 6, y + 21, "MCCO", "soft", "end")
    d.line((250, 42), (250, 240), kind="dashed")
    d.text(250, 32, "MTRO: the lowest MCCO", "bold", "middle")
    d.text(180, 262, "† below it may go,", "good", "middle")
    d.text(180, 280, "if its time is over", "good", "middle")
    d.text(440, 262, "† above it stays: broker 3 may still hold", "bad", "middle")
    d.text(440, 280, "what it buries, and says nothing", "bad", "middle")
    d.text(700, 81, "log end", "soft", "end")
    return d


def marker() -> Drawing:
    """The two steps in which a transaction's marker becomes superfluous."""
    d = Drawing("The life of a marker in two steps", 720, 330)
    for at, offset in enumerate(range(5)):
        d.text(145 + 118 * at, 24, str(offset), "soft", "middle")
    d.text(10, 24, "offset", "soft")
    rows = (
        ("written", ("@7 a=1", "@8 b=1", "@7 a=2", "@7 ABORT", "@8 COMMIT")),
        ("step 1", ("", "b=1", "", "@7 ABORT", "@8 COMMIT")),
        ("step 2", ("", "b=1", "", "", "")),
    )
    for row, (name, cells) in enumerate(rows):
        y = 38 + 98 * row
        d.text(10, y + 21, name, "bold")
        for at, cell in enumerate(cells):
            if cell:
                ends = cell.endswith(("ABORT", "COMMIT"))
                kind = "wrong" if ends else ("clean" if cell == "b=1" else "box")
                d.box(88 + 118 * at, y, 114, 32, cell, kind=kind, code=True)
    d.text(
        88,
        98,
        "each replica by itself: a pass has seen both ends. Aborted records go, committed",
        "soft",
    )
    d.text(
        88,
        116,
        "ones lose their transactional bit. Its MXFO moves on; the markers stay for the others.",
        "soft",
    )
    d.text(
        88,
        196,
        "all together: every replica has done step 1 (MXRO is the lowest MXFO), and the",
        "soft",
    )
    d.text(
        88,
        214,
        "delete horizon has passed. Nobody can copy a record that needs a marker any more.",
        "soft",
    )
    d.text(88, 294, "b=1 is an ordinary record: whoever copies it waits for nothing.", "good")
    return d


def guard() -> Drawing:
    d = Drawing("The guard's loop: look, decide, note, act", 720, 304)
    boxes = (
        (20, "look", "ISR, moves, options"),
        (195, "decide", "freeze, keep, thaw"),
        (370, "note", "what was set before"),
        (545, "act", "set the options"),
    )
    for x, name, about in boxes:
        d.box(x, 30, 155, 60, name, about)
    for x in (175, 350, 525):
        d.arrow((x, 60), (x + 20, 60))
    d.arrow((622, 90), (622, 122), (97, 122), (97, 90))
    d.text(360, 140, "every 5 seconds", "soft", "middle")
    d.box(20, 195, 155, 54, "Apache Kafka", "as it is")
    d.box(370, 195, 155, 54, "_sexton_guard", "a compacted topic")
    d.arrow((50, 195), (50, 90))
    d.arrow((447, 90), (447, 195))
    d.arrow((670, 90), (670, 278), (97, 278), (97, 249))
    d.text(455, 170, "first", "soft")
    d.text(662, 170, "then", "soft", "end")
    d.text(360, 296, "min.compaction.lag.ms: frozen, or exactly as it was", "soft", "middle")
    return d


def sink() -> Drawing:
    d = Drawing("One micro-batch, one Kafka transaction", 720, 400)
    lives = (
        (110, "sender", "a task on an executor"),
        (360, "Kafka", ""),
        (610, "driver", "of the query"),
    )
    for x, name, about in lives:
        d.box(x - 90, 14, 180, 44, *filter(None, (name, about)))
        d.line((x, 58), (x, 386))
    said = (
        (110, 360, "1  a fresh epoch", "fences every earlier attempt"),
        (360, 110, "2  the marker", "is this batch there already?"),
        (110, 360, "3  all record batches", "only if it is not"),
        (110, 610, "4  producer id, epoch, marker", "one whole attempt has finished"),
        (610, 360, "5  the new marker", "into the same transaction"),
        (610, 360, "6  commit, with that epoch", "refused if a later attempt began"),
    )
    for at, (start, end, what, why) in enumerate(said):
        y = 92 + 50 * at
        d.arrow((start, y), (end, y))
        middle = 235 if {start, end} == {110, 360} else 485
        d.text(middle, y - 7, what, "bold", "middle")
        d.text(middle, y + 17, why, "soft", "middle")
    return d


def retry() -> Drawing:
    d = Drawing("Ordered retry: a message that fails blocks its key, and nothing else", 720, 330)
    d.box(10, 40, 120, 54, "main topic", "orders-3")
    d.box(180, 40, 170, 54, "does its key wait?", "pending ids, per key")
    d.box(410, 40, 120, 54, "handler", "your function")
    d.box(600, 40, 110, 54, "output", "and offset", kind="clean")
    d.arrow((130, 67), (180, 67))
    d.arrow((350, 67), (410, 67))
    d.text(378, 60, "no", "good", "middle")
    d.arrow((530, 67), (600, 67))
    d.text(565, 60, "done", "good", "middle")
    d.box(190, 210, 150, 54, "lock topic", "id ▶ attempts", kind="wrong")
    d.box(350, 210, 150, 54, "retry topic", "id ▶ the message", kind="wrong")
    d.box(580, 210, 130, 54, "dead letters", "with the reason")
    d.arrow((240, 94), (240, 210))
    d.text(232, 150, "yes: behind the others", "bad", "end")
    d.arrow((440, 94), (440, 210))
    d.text(432, 130, "failed", "bad", "end")
    d.arrow((490, 210), (490, 94))
    d.text(498, 150, "its turn, and due", "soft")
    d.arrow((500, 237), (580, 237))
    d.text(538, 230, "ceiling", "soft", "middle")
    d.text(
        360,
        296,
        "What a round came to is one transaction: outputs, locks, retry records, offset.",
        "",
        "middle",
    )
    d.text(
        360,
        316,
        "Done means a tombstone for lock and retry record; then the key's next id has its turn.",
        "soft",
        "middle",
    )
    return d


def promotion() -> Drawing:
    d = Drawing("A promotion: the questions, and why in this order", 720, 320)
    d.text(10, 38, "changelog", "bold")
    d.box(110, 18, 360, 32, kind="clean")
    d.box(470, 18, 120, 32, kind="wrong")
    d.text(464, 39, "104: the copy's checkpoint", "", "end")
    d.line((590, 10), (590, 60), kind="dashed")
    d.text(598, 38, "110: its end", "bold")
    d.text(530, 72, "what the copy lacks", "bad", "middle")
    steps = (
        ("InitProducerId", "the last owner's transaction is ended, its next one refused"),
        ("committed offset", "a witness: the changelog must not know of less"),
        ("end of the changelog", "read after the first step, so it lies behind every commit"),
        ("read up to it", "committed records only; if that fails, the task stops"),
        ("process", "110 + 1 = 111, never 105"),
    )
    for at, (what, why) in enumerate(steps):
        y = 92 + 46 * at
        d.box(60, y, 190, 32, what, kind="clean" if at == 4 else "box")
        d.text(270, y + 21, why, "good" if at == 4 else "soft")
        if at:
            d.arrow((155, y - 14), (155, y))
    return d


DIAGRAMS: dict[str, Callable[[], Drawing]] = {
    "compaction.svg": compaction,
    "marker.svg": marker,
    "guard.svg": guard,
    "sink.svg": sink,
    "retry.svg": retry,
    "promotion.svg": promotion,
}


def pictures() -> dict[str, str]:
    """File name to SVG."""
    return {name: draw().svg() for name, draw in DIAGRAMS.items()}


def main() -> None:
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    print(f"docs: drew {len(DIAGRAMS)} pictures in docs/images")


if __name__ == "__main__":
    main()
