"""A file sink's log fits its checkpoint at every moment of a batch; anything else is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints.samples import LAST, good, offsets_text, put
from headrace.checkpoints import checkpoint_content, identity, sink_mismatch
from headrace.driver import running_queries
from headrace.errors import CheckpointError

Change = Callable[[Path, Path], object]
OWNER = running_queries.Claim("shop", "orders", "kept")


def enter(sink: Path, *names: str) -> None:
    """Entries of the log, as Spark writes those of batches without rows."""
    (sink / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    for name in names:
        (sink / "_spark_metadata" / name).write_text("v1")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of batches 0 to 5."""
    return good(tmp_path / "checkpoints" / "v1")


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    """Of the same batches; the folder's name has to be quoted."""
    folder = tmp_path / "my rows"
    enter(folder, *map(str, range(LAST + 1)))
    return folder


def plan_next(checkpoint: Path) -> None:
    put(checkpoint / "offsets" / str(LAST + 1), offsets_text(LAST))


def forget(sink: Path, *names: str) -> None:
    for name in names:
        (sink / "_spark_metadata" / name).unlink()


FITS: dict[str, Change] = {
    "between two batches": lambda checkpoint, sink: None,
    "a batch planned": lambda checkpoint, sink: plan_next(checkpoint),
    "a batch written, not committed": lambda checkpoint, sink: (
        plan_next(checkpoint),
        enter(sink, str(LAST + 1)),
    ),
    "compacted and cleaned up": lambda checkpoint, sink: (
        forget(sink, "0", "1", "2", "4"),
        enter(sink, "4.compact"),
    ),
    "compacted just now": lambda checkpoint, sink: (forget(sink, "5"), enter(sink, "5.compact")),
    "a hole behind a compact entry": lambda checkpoint, sink: (
        enter(sink, "4.compact"),
        forget(sink, "2", "4"),
    ),
    "nothing begun": lambda checkpoint, sink: (shutil.rmtree(checkpoint), shutil.rmtree(sink)),
    "a log without batches for a new checkpoint": lambda checkpoint, sink: (
        shutil.rmtree(checkpoint),
        shutil.rmtree(sink),
        enter(sink),
    ),
    "files without a log for a new checkpoint": lambda checkpoint, sink: (
        shutil.rmtree(checkpoint),
        shutil.rmtree(sink),
        sink.mkdir(),
        (sink / "old.json").touch(),
    ),
    "a first batch that never ended": lambda checkpoint, sink: (
        shutil.rmtree(checkpoint),
        shutil.rmtree(sink),
        put(checkpoint / "offsets" / "0", offsets_text(0)),
    ),
}


@pytest.mark.parametrize("moment", FITS)
def test_what_spark_can_have_left_is_not_refused(checkpoint: Path, sink: Path, moment: str) -> None:
    FITS[moment](checkpoint, sink)

    assert sink_mismatch.mismatch("orders/kept", checkpoint_content.read(checkpoint), sink) is None


REFUSED: dict[str, tuple[Change, str, str]] = {
    "a new checkpoint": (
        lambda checkpoint, sink: shutil.rmtree(checkpoint),
        "sink-log-ahead",
        "has batches up to 5, but the checkpoint is new",
    ),
    "a new checkpoint, its first batch planned": (
        lambda checkpoint, sink: (
            shutil.rmtree(checkpoint),
            put(checkpoint / "offsets" / "0", offsets_text(0)),
        ),
        "sink-log-ahead",
        "has batches up to 5, but the checkpoint ends at batch 0",
    ),
    "an older checkpoint": (
        lambda checkpoint, sink: enter(sink, "6", "7"),
        "sink-log-ahead",
        "has batches up to 7, but the checkpoint ends at batch 5",
    ),
    "no folder": (lambda checkpoint, sink: shutil.rmtree(sink), "sink-log-lost", "does not exist"),
    "no log": (
        lambda checkpoint, sink: (
            shutil.rmtree(sink / "_spark_metadata"),
            (sink / "part-0.json").touch(),
        ),
        "sink-log-lost",
        "orders/kept committed batch 5",
    ),
    "an empty log": (
        lambda checkpoint, sink: forget(sink, *map(str, range(LAST + 1))),
        "sink-log-lost",
        "contains no batches",
    ),
    "the newest entry gone": (
        lambda checkpoint, sink: forget(sink, "5"),
        "sink-log-lost",
        "ends at batch 4",
    ),
    "the first entry gone": (
        lambda checkpoint, sink: forget(sink, "0"),
        "sink-log-lost",
        "but not entry 0",
    ),
    "an entry between gone": (
        lambda checkpoint, sink: forget(sink, "3"),
        "sink-log-lost",
        "has entry 5, but not entry 3",
    ),
    "the compact entry gone": (
        lambda checkpoint, sink: forget(sink, "0", "1", "2", "3", "4"),
        "sink-log-lost",
        "but not entry 0",
    ),
    "an entry torn": (
        lambda checkpoint, sink: (sink / "_spark_metadata" / "4").write_text(""),
        "sink-log-lost",
        "is damaged",
    ),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_a_log_that_does_not_fit_is_refused_and_the_commands_of_the_fix_start_over(
    checkpoint: Path, sink: Path, damage: str
) -> None:
    change, slug, words = REFUSED[damage]
    change(checkpoint, sink)

    error = sink_mismatch.mismatch("orders/kept", checkpoint_content.read(checkpoint), sink)

    assert isinstance(error, CheckpointError)
    assert (error.code, error.where) == (slug, str(sink / "_spark_metadata"))
    assert words in error.what
    start_over(error)
    assert sink_mismatch.mismatch("orders/kept", checkpoint_content.read(checkpoint), sink) is None
    assert not checkpoint.exists()
    assert not sink.exists()


def start_over(error: CheckpointError) -> None:
    """What the fix says, to the letter."""
    commands = (error.fix or "").partition("still have, run: ")[2]
    assert commands.startswith("mv "), error.fix
    subprocess.run(["sh", "-c", commands], check=True)


def test_what_was_moved_aside_before_stays_where_it_is(checkpoint: Path, sink: Path) -> None:
    sink.with_name("my rows.old").mkdir()
    identity.write(checkpoint, identity.Identity("orders", "kept", "shop"))

    subprocess.run(
        ["sh", "-c", identity.start_over(checkpoint, sink).partition("still have, run: ")[2]],
        check=True,
    )

    assert list(sink.with_name("my rows.old").iterdir()) == []
    assert (sink.with_name("my rows.old1") / "_spark_metadata" / "5").exists()
    assert sorted(p.name for p in checkpoint.parent.iterdir()) == ["v1.json.old", "v1.old"]


def test_a_start_is_refused_by_the_sink_only_if_it_is_a_file_sink_of_this_machine(
    checkpoint: Path, sink: Path
) -> None:
    shutil.rmtree(checkpoint)

    with_files = running_queries.unusable(
        str(checkpoint), running_queries.Claim("shop", "orders", "kept", sink=sink)
    )

    assert with_files is not None
    assert with_files.code == "sink-log-ahead"
    assert running_queries.unusable(str(checkpoint), OWNER) is None


def test_an_emptied_checkpoint_names_the_sink_s_folder_beside_it(
    checkpoint: Path, sink: Path
) -> None:
    owner = running_queries.Claim("shop", "orders", "kept", sink=sink)
    query_id = checkpoint_content.read(checkpoint).query_id
    identity.write(checkpoint, identity.Identity("orders", "kept", "shop", query_id))
    shutil.rmtree(checkpoint)

    error = running_queries.unusable(str(checkpoint), owner)

    assert error is not None
    assert error.code == "checkpoint-metadata-lost"
    start_over(error)
    assert running_queries.unusable(str(checkpoint), owner) is None
    assert not sink.exists()
