"""The results as a page in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.peers.contestants import CONTESTANTS, variant
from bench.peers.results import CORES, CPU, MEMORY, QUANTILES, RATE, WHOLE, Results
from bench.peers.workload import GROWTH, LATENCY, STEPS, WORKLOADS
from bench.spread import Spread
from sparkapp.model.job.spark_settings import STATE_MEBIBYTES

NOT_RUN = "not run"
BASES = {
    "flink-exactly-once": "Flink exactly once", "flink-sql": "Flink SQL", "spark": "Spark's connector",
    "c-exactly-once": "C loop exactly once",
}  # fmt: skip
"""Titles of the contestants that the others are compared with."""
_FIGURES = """\
A figure is the median of the rounds, with its lowest and highest round in brackets. A ratio compares two contestants in
the same round. After each run a `read_committed` reader counted the sink's records, outside of the time.

A contestant's process stays for all its rounds, so that later rounds find compiled code. Memory is the largest
proportional set size of all its processes, in a process that may have done other tasks before. The broker's CPU time
and memory are not included. All programs run with the allocator of our image, jemalloc, which Flink's image has, too.
"""
_METHOD = """
*Warm* begins when the sink's log has a fifth of the records, and *whole* with the task. A task has one to three million
records and takes some seconds, in which a JVM still compiles its code. *Longer tasks* have ten million records, so
Flink and Spark's connector run more compiled code.

Every contestant copies key and value. Our continuous engine does that by a Python function over Arrow batches. Another
row has the SQL of the micro-batch engine. A row shows what it does without a transform: it keeps time and headers, too.

A checkpoint takes about a second. Flink and the C loop commit every second. Our continuous engine reads half of the
records in a checkpoint, and two million at most. Our micro-batch engine and Spark's connector read a fifth of them in a
micro-batch, which takes Spark's connector two seconds, and four with longer tasks. The local pace commits every 50 ms.
Flink's producers have batches of 1 MiB and a linger of 5 ms, except with the clients' defaults. The C loop has no
engine: its threads read, write and commit with librdkafka.

Latency is the time from `send` until a `read_committed` reader has the record. No producer lingers for
latency. With *offsets OnCheckpoint* we commit offsets to the group after a checkpoint, as Flink does. Otherwise they
are in the transactions."""
_STATE_METHOD = f"""
The rate is that of the whole task, until its last result is committed. Most windows end with the input. Flink SQL
writes them there, and we in a micro-batch behind it.

State is in RocksDB with {STATE_MEBIBYTES} MiB of memory for its caches and buffers, and checkpoints have its changes
alone. Flink SQL has a checkpoint each second. Our micro-batch reads a fifth of the records, and at most the million of
a job that sets nothing. That takes some ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the documentation, which a run writes that has one of its workloads.

    :param arguments: of the run that writes it.
    :param method: how the figures were measured.
    """

    file: str
    title: str
    arguments: str
    method: str
    workloads: frozenset[str]


_KEYED = tuple(each.name for each in WORKLOADS if each.shape.keeps_state)
PAGES = (
    Page(
        file="peers.md", title="The engine and its peers", arguments="--publish", method=_FIGURES + _METHOD,
        workloads=frozenset({*(each.name for each in WORKLOADS), LATENCY, GROWTH} - {*_KEYED}),
    ),
    Page(
        file="peers-state.md", title="Operators with state and their peers",
        arguments=f'"--publish --workloads {" ".join(_KEYED)}"', method=_FIGURES + _STATE_METHOD,
        workloads=frozenset(_KEYED),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a table.

    :param variant: as in :class:`bench.peers.results.Run`.
    """

    variant: str
    title: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A workload that ran, with a line for each contestant that can do it.

    :param plot: the name of its plot's file.
    :param rate: the figure that is compared and drawn.
    """

    workload: str
    title: str
    plot: str
    rows: tuple[Row, ...]
    rate: str = RATE

    def table(self, results: Results) -> list[str]:
        """The section's table."""
        if self.workload == LATENCY:
            return latency_table(results, self.rows)
        variants = {row.variant for row in self.rows}
        bases = {variant: title for variant, title in BASES.items() if variant in variants}
        names = ("parallelism", "partitions") if self.workload == GROWTH else ("contestant", "guarantee")
        return throughput_table(results, self.workload, self.rows, bases, names=names, compared=self.rate)


def sections(results: Results) -> list[Section]:
    """The workloads that ran."""
    throughput = [
        Section(
            workload=workload.name, title=workload.title, plot=f"peers-{workload.name}.png",
            rate=WHOLE if workload.shape.keeps_state else RATE,
            rows=tuple(
                Row(variant=each.name, title=each.title, detail=each.delivery_guarantee.value)
                for each in CONTESTANTS
                if workload.shape in each.shapes
            ),
        )
        for workload in WORKLOADS
    ]  # fmt: skip
    latency = Section(
        workload=LATENCY, title="End to end, at a steady rate", plot=f"peers-{LATENCY}.png",
        rows=tuple(
            Row(variant=variant(each, pace), title=f"{each.title}, {each.delivery_guarantee.value}", detail=pace.name)
            for each in CONTESTANTS
            for pace in each.paces
        ),
    )  # fmt: skip
    growth = Section(
        workload=GROWTH, title="Growth of the continuous engine, exactly once", plot=f"peers-{GROWTH}.png",
        rows=tuple(
            Row(variant=step.variant, title=str(step.parallelism), detail=str(step.partitions)) for step in STEPS
        ),
    )  # fmt: skip
    return [section for section in (*throughput, latency, growth) if results.ran(section.workload)]


def page(results: Results, of: Page) -> str:
    """The whole page, with a link to each section's plot."""
    environment = results.environment
    machine, versions, options = environment["machine"], environment["versions"], environment["options"]
    lines = [
        f"# {of.title}",
        "",
        f"`make bench-peers ARGS={of.arguments}` writes this page. Edit `bench/peers/page.py` instead.",
        "",
        f"Measured on {environment['date']}, in {results.rounds} interleaved rounds of one run. The machine had",
        f"{machine['cores']} cores ({machine['cpu']}) and {machine['memoryGibibytes']} GiB, for broker and contestants",
        f"together. Every contestant had a parallelism of {options['parallelism']}.",
        "",
        *(f"- {name} {version}" for name, version in versions.items()),
        "",
        *of.method.splitlines(),
    ]
    for section in sections(results):
        if section.workload in of.workloads:
            lines += ["", f"## {section.title}", "", *section.table(results), "", f"![{section.title}]({section.plot})"]
    return "\n".join(lines) + "\n"


def throughput_table(
    results: Results,
    workload: str,
    rows: Sequence[Row],
    bases: Mapping[str, str],
    *,
    names: tuple[str, str] = ("contestant", "guarantee"),
    compared: str = RATE,
) -> list[str]:
    """Rates, CPU time and memory of a workload, and the ratios of the rates.

    :param bases: the title of each ratio's base by its variant.
    :param names: of the columns with a row's title and detail.
    :param compared: the rate with a spread and ratios. The whole rate has a column next to another.
    """
    rates = ["k records/s, warm", "whole"] if compared == RATE else ["k records/s"]
    heads = [*names, *rates, "CPU s per million", "peak MiB"]
    lines = _head([*heads, *(f"÷ {title}" for title in bases.values())])
    for row in rows:
        whole = results.figure(workload, row.variant, WHOLE)
        if whole is None:
            lines.append(_line([row.title, row.detail, NOT_RUN, *[""] * (len(heads) - 3 + len(bases))]))
            continue
        rate, cpu, memory = (results.figure(workload, row.variant, name) for name in (compared, CPU, MEMORY))
        ratios = [results.ratio(workload, row.variant, base, compared) for base in bases]
        lines.append(
            _line(
                [
                    row.title, row.detail, _spread(rate, 1000, 0),
                    *([f"{whole.median / 1000:,.0f}"] if compared == RATE else []), _spread(cpu, 1, 2),
                    _spread(memory, 1, 0), *(_spread(ratio, 1, 2) for ratio in ratios),
                ]
            )
        )  # fmt: skip
    return lines


def latency_table(results: Results, rows: Sequence[Row]) -> list[str]:
    """Milliseconds of each quantile, CPU and memory of a job at the steady rate.

    :param rows: their details are the intervals or triggers.
    """
    lines = _head(["contestant", "commits", *(f"{name} ms" for name in QUANTILES), "cores", "peak MiB"])
    for row in rows:
        figures = [results.figure(LATENCY, row.variant, name) for name in QUANTILES]
        if figures[0] is None:
            lines.append(_line([row.title, row.detail, NOT_RUN, *[""] * (len(QUANTILES) + 1)]))
            continue
        cores, memory = (results.figure(LATENCY, row.variant, name) for name in (CORES, MEMORY))
        lines.append(
            _line(
                [
                    row.title, row.detail, *(_spread(figure, 1, 0) for figure in figures), _spread(cores, 1, 2),
                    _spread(memory, 1, 0),
                ]
            )
        )  # fmt: skip
    return lines


def _head(cells: Sequence[str]) -> list[str]:
    return [_line(cells), "|" + "|".join(["---", "---", *["--:"] * (len(cells) - 2)]) + "|"]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _spread(figure: Spread | None, unit: float, digits: int) -> str:
    """Median, and lowest to highest of the rounds."""
    if figure is None:
        return "–"
    low, middle, high = (f"{each / unit:,.{digits}f}" for each in (figure.lowest, figure.median, figure.highest))
    return middle if low == high else f"{middle} ({low}–{high})"
