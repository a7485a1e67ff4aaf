"""`init`: creates a small working project, complete and commented.

Invariant: no existing file is touched; if one would be, nothing at all is written.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from headrace.cli.options import Options, pass_options
from headrace.errors import ConfigError, SetupError

_SETTINGS = """\
[project]
name = {name}
state = ".headrace"             # runs, history, deployed versions; keep out of Git
checkpoints = "checkpoints"     # the position and state of each query; do not delete

[sources.lines]                 # a parameter named `lines` in a pipeline reads this
kind = "text"
path = "incoming"               # every new file here is input

[sinks.words]
kind = "parquet"
path = "data/words"

[sinks.counts]
kind = "parquet"
path = "data/counts"
"""

_PIPELINE = '''\
"""Hello: reads words from text files, stores them as Parquet and counts them per minute.

    headrace check        finds mistakes before anything runs
    headrace run hello    runs it in the foreground; Ctrl-C drains it
    headrace up           keeps it running; headrace status shows its state
"""

from pyspark.sql import functions as F

import headrace as hr


@hr.view
def words(lines):
    """Parameters name sources, tables, views and streams. `lines` is in headrace.toml."""
    word = F.explode(F.split(F.lower("value"), "[^a-z]+")).alias("word")
    return lines.select(F.current_timestamp().alias("at"), word).where("word != ''")


@hr.stream(to="words", every="2 seconds")
def kept(words):
    """Every word, exactly once, even if the process is killed."""
    return words


@hr.stream(to="counts", every="5 seconds")
def counted(words):
    """Counts per minute; a minute is written once the watermark has passed it."""
    minute = F.window("at", "1 minute")
    counts = words.withWatermark("at", "10 seconds").groupBy(minute, "word").count()
    return counts.select(F.col("window.start").alias("minute"), "word", "count")
'''

_LINES = """\
a headrace is the channel that brings water to the turbine
headrace brings streams to spark and keeps them running
"""

_IGNORED = """\
.headrace/
checkpoints/
data/
__pycache__/
.venv/
"""

_README = """\
# {name}

    headrace check        # describe the pipelines and report all problems
    headrace run hello    # run it in the foreground; Ctrl-C drains it
    echo "one more line" > incoming/more.txt     # in another terminal: new input
    headrace up           # keep it running (show it: headrace status; stop it: headrace down)
"""


@click.command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(file_okay=False))
@pass_options
def init(options: Options, directory: str) -> None:
    """Create a small working project.

    The project has settings, one pipeline and sample input.

    Existing files are never overwritten: if any of the project's files exists, nothing is written.
    """
    folder = Path(options.project or ".") / directory
    for path in write(folder):
        click.echo(f"  wrote {path}")
    click.echo(next_steps(folder))


def files(name: str) -> dict[str, str]:
    return {
        "headrace.toml": _SETTINGS.format(name=json.dumps(name)),
        "pipelines/hello.py": _PIPELINE,
        "incoming/hello.txt": _LINES,
        ".gitignore": _IGNORED,
        "README.md": _README.format(name=name),
    }


def write(folder: Path) -> list[Path]:
    """Return the paths written. Raises before the first write if one exists."""
    folder = folder.resolve()
    content = files(folder.name or "hello")
    clashes = [name for name in content if (folder / name).exists()]
    if clashes:
        raise ConfigError(
            f"{folder} already contains {', '.join(clashes)}.",
            why="init never overwrites a file, so nothing was written.",
            where=str(folder),
            fix="Choose a new folder: headrace init DIR",
            slug="init-clash",
        )
    try:
        for name, text in content.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise SetupError(
            f"Cannot write to {folder}: {exc.strerror or exc}.",
            where=str(exc.filename or folder),
            fix="Choose a folder that you can write to: headrace init DIR",
            slug="cannot-write",
        ) from exc
    return [folder / name for name in content]


def next_steps(folder: Path) -> str:
    inside = folder.resolve() == Path.cwd()
    step = "" if inside else f"  cd {folder}\n"
    return (
        f"\nNext:\n{step}  headrace check        find mistakes before anything runs\n"
        "  headrace run hello    run it in the foreground; Ctrl-C drains it\n"
        "  headrace up           keep it running"
    )
