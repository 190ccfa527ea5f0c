"""`python -m benchmarks`: run them, print the ratios, say which goals were missed.

    python -m benchmarks                       all, on 1 GiB of segments
    python -m benchmarks decode --size 100MiB  one, on less

Exits with 1 when a goal was missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from time import perf_counter

from rich.console import Console

from benchmarks.machine import this_machine
from benchmarks.page import HISTORY, PAGE, record
from benchmarks.registry import BENCHMARKS, Benchmark, Setting, chosen
from benchmarks.report import as_json, as_recorded, print_report, times
from benchmarks.result import Result
from benchmarks.segments import GIB, parse_size


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    setting = Setting(size=asked.size, repeat=asked.repeat, keep=asked.keep)
    machine = this_machine()
    results = [result for benchmark in asked.names for result in _run(benchmark, setting)]
    if asked.json:
        json.dump(as_json(machine, results), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        # A pipe has no width; a table folded to 80 columns would serve nobody.
        wide = None if sys.stdout.isatty() else 200
        print_report(Console(width=wide), machine, results)
    if asked.record:
        record(PAGE, HISTORY, as_recorded(machine, setting.size, results))
    return 1 if any(result.met is False for result in results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ours and its peers, back to back on the same bytes.",
        epilog="\n".join(f"  {each.name:10} {each.summary}" for each in BENCHMARKS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", action=_Chosen, help="which; all if none is named")
    parser.add_argument("--size", type=_size, default=GIB, help="of the segments; 1GiB")
    parser.add_argument("--repeat", type=_positive, default=5, help="the best of so many rounds; 5")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--record", action="store_true", help=f"write it to docs/{PAGE.name}")
    parser.add_argument(
        "--keep", action="store_true", help="keep the files of the Kafka that wrote the segments"
    )
    return parser


class _Chosen(argparse.Action):
    """Names to benchmarks; argparse's own `choices` refuses an empty list."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        del option_string
        assert isinstance(values, list)
        try:
            setattr(namespace, self.dest, chosen(values))
        except ValueError as error:
            parser.error(str(error))


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rounds")
    return int(text)


def _run(benchmark: Benchmark, setting: Setting) -> list[Result]:
    results = []
    start = perf_counter()
    for result in benchmark.run(setting):
        ratio = f" {times(result.ratio)}" if result.ratio is not None else ""
        beside = f" beside {result.peer_name}" if result.peer_name else ""
        since = f"{perf_counter() - start:.0f} s"
        sys.stderr.write(f"{benchmark.name}: {result.case}{beside}{ratio} ({since})\n")
        results.append(result)
    return results


if __name__ == "__main__":
    sys.exit(main())
