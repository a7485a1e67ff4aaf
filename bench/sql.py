"""What `headrace sql` costs above DuckDB: the same questions over the same ten thousand files.

A real stream has committed the files. DuckDB alone gets their names for nothing; Headrace reads the
log, translates the text and locks DuckDB in. Both answer in this process, in turns; the answers are
compared. Beside it stands the time of the whole command, from Enter to its end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from bench import sides, tree
from headrace import config
from headrace.checkpoints import committed_files
from headrace.explore import catalog, query

BATCHES, DAYS, TASKS, ROWS_PER_FILE = 10, 100, 10, 100
FILES = BATCHES * DAYS * TASKS
PAIRS = 3  # a round
WRITE_S = 1800.0
TOML = """\
[project]
name = "bench"

[sinks.many]
kind = "parquet"
path = "{path}"
partition_by = ["day"]
"""
QUESTIONS = {
    "all": "SELECT level, count(*) AS n, sum(id) AS total FROM {table} "
    "GROUP BY level ORDER BY level",
    "part": "SELECT customer, count(*) AS n, max(id) AS newest FROM {table} "
    "WHERE level IN ('WARN', 'ERROR') AND customer = 'customer-7' AND day = '2026-01-08' "
    "GROUP BY customer ORDER BY customer",
}
WORDS = {"all": "all rows of all files", "part": "one day of a hundred, one customer"}
Rows = Sequence[tuple[Any, ...]]


def run(folder: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    files = written(folder)
    home = folder / "home"
    home.mkdir()
    (home / "headrace.toml").write_text(TOML.format(path=folder / "writer" / "output"))
    known = catalog.collect(config.load(home), ())
    for question in QUESTIONS:  # once before it counts: the files are in memory then, for both
        compared(question, files, known, is_ours_first=True)
    found = []
    for number in range(1, rounds + 1):
        for question in QUESTIONS:
            for pair in range(PAIRS):
                one = compared(question, files, known, is_ours_first=pair % 2 == 0)
                one |= {"round": number, "question": question, "files": len(files)}
                one["command_s"] = by_command(question, home, one.pop("rows"))
                print(f"sql {number}: {one}", flush=True)
                found.append(one)
    return found


def written(folder: Path) -> list[str]:
    """The files that a stream has committed; it has ended."""
    source = folder / "numbers"
    source.mkdir(parents=True)
    step = DAYS * TASKS * ROWS_PER_FILE
    for batch in range(BATCHES):
        (source / f"{batch}.txt").write_text(f"{batch * step}\n")
    home = folder / "writer"
    shape = [str(number) for number in (DAYS, TASKS, ROWS_PER_FILE)]
    places = [str(source), str(home / "output"), str(home / "checkpoint")]
    settings = sides.our_settings(home)
    with sides.bare(home, "many_files.py", [*places, *shape], settings) as running:
        deadline = time.monotonic() + WRITE_S
        while tree.is_alive(running.root):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {WRITE_S:.0f} s: {FILES} files\n{running.logs()}")
            time.sleep(0.5)
    files = [one.path for one in committed_files.files(home / "output")]
    if len(files) != FILES:
        raise AssertionError(f"{len(files)} files are committed, not {FILES}")
    return files


def compared(
    question: str, files: list[str], known: catalog.Catalog, *, is_ours_first: bool
) -> dict[str, Any]:
    """Seconds of both sides, and the rows that both found."""
    if is_ours_first:
        ours_s, ours = ours_of(question, known)
        alone_s, alone = alone_of(question, files)
    else:
        alone_s, alone = alone_of(question, files)
        ours_s, ours = ours_of(question, known)
    if not alone or alone != ours:
        raise AssertionError(f"{question}: DuckDB says {alone}, Headrace {ours}")
    return {"alone_s": round(alone_s, 4), "headrace_s": round(ours_s, 4), "rows": ours}


def ours_of(question: str, known: catalog.Catalog) -> tuple[float, Rows]:
    begin = time.perf_counter()
    answer = query.ask(QUESTIONS[question].format(table="many"), known)
    return time.perf_counter() - begin, list(answer.rows)


def alone_of(question: str, files: list[str]) -> tuple[float, Rows]:
    begin = time.perf_counter()
    with duckdb.connect(":memory:") as conn:
        conn.execute("SET VARIABLE files = $files", {"files": files})
        table = "read_parquet(getvariable('files'), hive_partitioning = true)"
        rows = conn.execute(QUESTIONS[question].format(table=table)).fetchall()
    return time.perf_counter() - begin, rows


def by_command(question: str, home: Path, expected: Rows) -> float:
    begin = time.perf_counter()
    said = sides.headrace(home, "sql", QUESTIONS[question].format(table="many"), "--json")
    took = time.perf_counter() - begin
    rows = [tuple(row) for row in json.loads(said)["rows"]]
    if rows != list(expected):
        raise AssertionError(f"{question}: the command says {rows}, not {expected}")
    return round(took, 3)
