"""`sexton warmup`: pay for compilation now."""

from __future__ import annotations

from time import perf_counter

from sexton.cli.options import FormatOption
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column

EXAMPLES = (
    ("Compile while building a container image", "sexton warmup"),
    ("See as JSON what was compiled, and how long it took", "sexton warmup --format json"),
)
COLUMNS = (Column("kernel"),)
HIGHER_KERNEL_MODULES = (
    "sexton.audit.field_kernels",
    "sexton.audit.fold_kernels",
    "sexton.audit.state_kernels",
    "sexton.log.cleaner_kernels",
    "sexton.log.gather_kernels",
    "sexton.log.index_kernels",
    "sexton.log.key_kernels",
    "sexton.log.walk_kernels",
)


def command(format: FormatOption = Format.table) -> None:
    """Compile the kernels now, so that the next command starts at once.

    sexton compiles the code that reads and cleans logs for this machine's processor when it is
    first needed, and keeps the result. That takes a few seconds, once after each installation or
    update.
    """
    with Output("warmup", format) as out:
        from sexton import records
        from sexton.records.warm import KERNEL_MODULES

        start = perf_counter()
        kernels = records.warmup((*KERNEL_MODULES, *HIGHER_KERNEL_MODULES))
        seconds = round(perf_counter() - start, 2)
        out.rows("kernels", COLUMNS, ([name] for name in kernels))
        out.summarize(kernels=len(kernels), seconds=seconds)
