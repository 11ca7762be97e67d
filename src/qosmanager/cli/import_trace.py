"""`qosmanager import`: public traces and tables of usage made into scenarios (docs/simulate.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qosmanager.cli.amounts import LENGTH, SPAN, read_as
from qosmanager.documents.quantities import Rule
from qosmanager.model.count import counted

if TYPE_CHECKING:
    from qosmanager.traces.trace import Trace


_SHORT = read_as(Rule(unit="duration", low=0.000001, high=60))
_MEMORY = read_as(Rule(unit="bytes", low=1 << 20))

_SHARED = (
    click.option("--into", "folder", type=click.Path(path_type=Path), required=True, help="The folder to be made; it must not be there."),
    click.option("--from", "begin", default="0s", show_default=True, callback=SPAN, help="Where to begin, from the trace's beginning."),
    click.option("--length", callback=LENGTH, help="How much of it. [default: to its end]"),
    click.option("--slo", default="100ms", show_default=True, callback=_SHORT, help="The services' objective for p99: no trace tells it."),
    click.option("--request-time", default="10ms", show_default=True, callback=_SHORT, help="CPU of one request: no trace tells it."),
)


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHARED):
        command = option(command)
    return command


@click.group(
    "import",
    short_help="Make a scenario of a public trace or a table of usage.",
    epilog="""\b
Examples:
  qosmanager import alibaba-2018 trace/ --machine m_1932 --into m1932
  qosmanager import csv usage.csv --cpus 32 --into mynode""",
)
def import_trace() -> None:
    """Make a scenario for `qosmanager simulate` of a public trace, or of a table of usage of your own.

    What is made is a folder: scenario.yaml and a CSV file for each workload, to be looked at and changed.
    """


@import_trace.command(
    "alibaba-2018",
    epilog="""\b
Examples:
  qosmanager import alibaba-2018 trace/ --machine m_1932 --from 24h --length 24h --into m1932
  qosmanager simulate m1932/scenario.yaml""",
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--machine", required=True, help="The machine, as the trace names it (m_1932).")
@click.option("--cpus", type=click.IntRange(1, 8192), default=96, show_default=True, help="Its CPUs.")
@click.option("--memory", default="512Gi", show_default=True, callback=_MEMORY, help="Its memory: the trace tells shares only.")
@click.option("--batch-pods", type=click.IntRange(1, 1000), default=4, show_default=True, help="In how many BE pods its batch work lies.")
@_shared
def alibaba_2018(trace: Path, **options: Any) -> None:
    """Make a scenario of one machine of the Alibaba cluster trace of 2018.

    TRACE is the folder with container_meta.csv, container_usage.csv, batch_instance.csv and machine_usage.csv, without headers, as they
    were published (or each gzipped). Containers become LS pods, all batch instances together BE pods, what the machine used beside them
    the system's share. Values of -1 and 101, which mark invalid ones there, are left out and counted.
    """
    from qosmanager.traces.alibaba import Wanted, read  # noqa: PLC0415 - the other commands need none of it
    from qosmanager.traces.trace import Span  # noqa: PLC0415

    wanted = Wanted(
        machine=options["machine"],
        span=Span(options["begin"], options["length"]),
        cpus=options["cpus"],
        memory=int(options["memory"]),
        batch_pods=options["batch_pods"],
    )
    _write(read(trace, wanted), options)


@import_trace.command(
    "csv",
    epilog="""\b
Examples:
  qosmanager import csv usage.csv --cpus 32 --memory 128Gi --into mynode
  qosmanager simulate mynode/scenario.yaml

\b
usage.csv:
  seconds,workload,qos,cores,request,limit,memory
  0,api,LS,1.5,2,4,4294967296
  60,api,,3.2,,,
  0,batch,BE,5,,,""",
)
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--cpus", type=click.IntRange(1, 8192), required=True, help="The node's CPUs.")
@click.option("--memory", default="64Gi", show_default=True, callback=_MEMORY, help="Its memory.")
@_shared
def table(table: Path, **options: Any) -> None:
    """Make a scenario of TABLE, a CSV file with a row for each workload and moment.

    Its first line names the columns: seconds, workload and cores, and if wanted qos (LS without it), request and limit in cores, memory in
    bytes. Of these a workload's first row counts. A value holds until the workload's next row.
    """
    from qosmanager.traces.table import read  # noqa: PLC0415 - the other commands need none of it
    from qosmanager.traces.trace import Span  # noqa: PLC0415

    _write(read(table, options["cpus"], int(options["memory"]), Span(options["begin"], options["length"])), options)


def _write(trace: Trace, options: dict[str, Any]) -> None:
    from qosmanager.traces.scenario_file import Serving, write  # noqa: PLC0415

    path = write(trace, Serving(options["request_time"], options["slo"]), options["folder"])
    kinds = ", ".join(f"{usage.count} x {usage.name} ({usage.qos.value})" for usage in trace.workloads[:8])
    more = f" and {len(trace.workloads) - 8} more" if len(trace.workloads) > 8 else ""
    click.echo(f"{trace.about} {trace.duration / 3600:.4g} h, {counted(trace.cpus, 'CPU')}: {kinds}{more}")
    for reason, count in trace.left_out.items():
        click.echo(f"left out: {counted(count, 'line')}, {reason}")
    click.echo(f"{path} is ready: qosmanager simulate {path}")
