"""The command `sql`: questions about committed results. The work is in explore."""

from __future__ import annotations

import sys

import click

from headrace.cli.options import Options, Seconds, as_json, pass_options, shared


@click.command()
@click.argument("text", metavar="[SQL]", required=False)
@click.option(
    "-n",
    "rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Show at most so many rows.",
)
@click.option("--timeout", type=Seconds(), default="60s", show_default=True)
@click.option("--spark", is_flag=True, help="Ask Spark instead of DuckDB; a JVM starts for it.")
@as_json
@shared
@pass_options
def sql(
    options: Options, text: str | None, rows: int, timeout: float, spark: bool, json_: bool
) -> None:
    """Ask a question in SQL about committed results.

    \b
    Tables are sinks and streams by name, and files by path:
      headrace sql "SELECT level, count(*) FROM metrics GROUP BY level"
      headrace sql "SELECT * FROM parquet.`data/metrics` LIMIT 5"

    Spark's dialect, run by DuckDB: no JVM starts, and nothing is changed. Only what is committed is
    seen, never half a batch. `-` as SQL reads standard input; without SQL the tables are listed.
    """
    from headrace.cli import answers
    from headrace.project import tables

    work = options.open()
    if text is None:
        answers.show_tables(tables.listed(work), json_=json_)
        return
    question = sys.stdin.read() if text == "-" else text
    if spark:
        answer = answers.ask_spark(work, question, rows, timeout, quiet=json_)
    else:
        answer = answers.ask(work, question, rows, timeout)
    answers.show(answer, json_=json_)


COMMANDS = (sql,)
