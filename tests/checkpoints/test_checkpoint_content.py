"""A good checkpoint has no problem; each kind of damage has one, with one name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import samples
from checkpoints.samples import LAST, QUERY_ID, good, offsets_text, plain, put
from headrace.checkpoints import checkpoint_content, source_logs

Change = Callable[[Path], object]


def slugs(path: Path) -> list[str]:
    return [problem.slug for problem in checkpoint_content.read(path).problems]


def test_a_good_checkpoint_is_read_whole_and_has_no_problem(tmp_path: Path) -> None:
    found = checkpoint_content.read(good(tmp_path / "v1"))

    assert found.problems == ()
    assert (found.query_id, found.sources, found.operators) == (QUERY_ID, 2, (0,))
    assert found.offsets == found.commits == tuple(range(LAST + 1))
    assert found.last_offsets == offsets_text(LAST)
    assert checkpoint_content.source_lines(found.last_offsets or "")[0] == '{"logOffset":5}'
    assert checkpoint_content.last_committed_batch(tmp_path / "v1") == LAST


def test_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    shutil.rmtree(path / "state")
    for batch in range(LAST + 1, 12):
        put(
            path / "offsets" / str(batch), offsets_text(0).replace('"logOffset":0', '"logOffset":5')
        )
        put(path / "commits" / str(batch), "v1\n{}")

    found = checkpoint_content.read(path)

    assert found.offsets == found.commits == tuple(range(12))
    assert checkpoint_content.last_committed_batch(path) == 11


def test_nothing_at_all_is_no_problem(tmp_path: Path) -> None:
    found = checkpoint_content.read(tmp_path / "v1")

    assert (found.exists, found.is_started, found.problems) == (False, False, ())
    assert checkpoint_content.last_committed_batch(tmp_path / "v1") is None


def unlink(name: str) -> Change:
    return lambda path: (path / name).unlink()


def rmtree(name: str) -> Change:
    return lambda path: shutil.rmtree(path / name)


def write(name: str, content: bytes | str) -> Change:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: (path / name).write_bytes(data)


def put_file(name: str, content: bytes | str) -> Change:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: (
        (path / name).parent.mkdir(parents=True, exist_ok=True),
        (path / name).write_bytes(data),
    )


def cut(name: str, share: float) -> Change:
    def change(path: Path) -> None:
        content = (path / name).read_bytes()
        (path / name).write_bytes(content[: int(len(content) * share)])

    return change


def folder_instead(name: str) -> Change:
    return lambda path: ((path / name).unlink(), (path / name).mkdir())


def both(*changes: Change) -> Change:
    return lambda path: [change(path) for change in changes]


def no_offsets_since(first: int) -> Change:
    return both(*(unlink(f"offsets/{n}") for n in range(first, LAST + 1)))


HARMLESS: dict[str, Change] = {
    "a first batch that never ended": lambda path: (
        [(path / "commits" / str(n)).unlink() for n in range(LAST + 1)],
        [(path / "offsets" / str(n)).unlink() for n in range(1, LAST + 1)],
    ),
    "one planned batch": write("offsets/6", offsets_text(5)),
    "only metadata": both(rmtree("offsets"), rmtree("commits"), rmtree("state"), rmtree("sources")),
    "an empty folder": both(
        rmtree("offsets"), rmtree("commits"), rmtree("state"), rmtree("sources"), unlink("metadata")
    ),
    "stray .tmp": write("offsets/.6.1b2c-uuid.tmp", ""),
    "stray tmp of another writer": write("commits/6.tmp", "half"),
    "other names": both(write("offsets/README", "?"), write("offsets/5.bak", ""), write("x", "y")),
    "a lonely .crc": write("offsets/.99.crc", b"crc\0"),
    "a checksum that is itself cut": write("offsets/.5.crc", b"cr"),
    "no checksums": lambda path: [crc.unlink() for crc in path.rglob(".*.crc")],
    "old batches purged": both(
        *(unlink(f"offsets/{n}") for n in range(3)), *(unlink(f"commits/{n}") for n in range(2))
    ),
    "a commit without metadata": both(unlink("commits/.5.crc"), write("commits/5", "v1")),
    "a commit with names of state files": both(
        unlink("commits/.5.crc"), write("commits/5", 'v2\n{"nextBatchWatermarkMs":0}')
    ),
    "a source without an offset": both(
        unlink("offsets/.5.crc"), write("offsets/5", 'v1\n{}\n{"logOffset":5}\n-')
    ),
    "a plain number as offset": both(
        unlink("offsets/.5.crc"), write("offsets/5", "v1\n{}\n42\n43")
    ),
    "old state cleaned up behind a snapshot": both(
        *(unlink(f"state/0/{p}/{v}.delta") for p in (0, 1) for v in (1, 2, 3)),
        *(write(f"state/0/{p}/4.snapshot", b"s") for p in (0, 1)),
    ),
    "state of RocksDB": both(
        *(unlink(f"state/0/{p}/{v}.delta") for p in (0, 1) for v in range(1, 7)),
        *(write(f"state/0/{p}/5_a-b.zip", b"s") for p in (0, 1)),
        *(write(f"state/0/{p}/6_c-d.changelog", b"s") for p in (0, 1)),
    ),
    "the state of a batch under way": write("state/0/0/7.delta", b"s"),
    "a source log made compact": both(
        *(unlink(f"sources/0/{n}") for n in range(6)), write("sources/0/5.compact", "v1\n{}")
    ),
    "a source that has looked ahead": write("sources/0/6", "v1\n{}"),
    "old entries of a source log cut behind a compact one": both(
        write("sources/0/3", ""),
        write("sources/0/4.compact", "v1\n{}"),
        unlink("sources/0/4"),
    ),
    "where Kafka began": put_file("sources/1/0", '\0v1\n{"logs":{"0":0,"1":0}}'),
    "where a rate began": put_file("sources/1/0", "v1\n1794957478691"),
    "what an unknown source keeps": put_file("sources/1/0", b"\xff\x00binary"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_spark_can_live_with_is_no_problem(tmp_path: Path, name: str) -> None:
    path = good(tmp_path / "v1")

    HARMLESS[name](path)

    assert checkpoint_content.read(path).problems == ()


BAD: dict[str, tuple[Change, str]] = {
    "metadata missing": (unlink("metadata"), "checkpoint-metadata-missing"),
    "metadata empty": (write("metadata", ""), "checkpoint-metadata-damaged"),
    "metadata half": (cut("metadata", 0.5), "checkpoint-metadata-damaged"),
    "metadata garbage": (write("metadata", b"\x8fgarbage"), "checkpoint-metadata-damaged"),
    "metadata without id": (write("metadata", '{"name":"x"}'), "checkpoint-metadata-damaged"),
    "metadata of a list": (write("metadata", "[1]"), "checkpoint-metadata-damaged"),
    "metadata with a bad id": (write("metadata", '{"id":"x"}'), "checkpoint-metadata-damaged"),
    "metadata a folder": (folder_instead("metadata"), "checkpoint-metadata-damaged"),
    "metadata zeros": (write("metadata", bytes(45)), "checkpoint-metadata-damaged"),
    "offsets empty": (write("offsets/5", ""), "checkpoint-offsets-empty"),
    "offsets of spaces": (write("offsets/5", " \n\n"), "checkpoint-offsets-empty"),
    "old offsets empty": (write("offsets/2", ""), "checkpoint-offsets-empty"),
    "offsets zeros": (write("offsets/5", bytes(300)), "checkpoint-offsets-damaged"),
    "offsets garbage": (write("offsets/5", "garbage"), "checkpoint-offsets-damaged"),
    "offsets not UTF-8": (write("offsets/5", b"v1\n{}\n\xff\xfe"), "checkpoint-offsets-damaged"),
    "offsets half": (cut("offsets/5", 0.5), "checkpoint-offsets-damaged"),
    "offsets without the last byte": (cut("offsets/5", 0.999), "checkpoint-offsets-damaged"),
    "offsets only a version": (write("offsets/5", "v1"), "checkpoint-offsets-damaged"),
    "offsets without a source": (write("offsets/5", "v1\n{}"), "checkpoint-offsets-damaged"),
    "offsets with a source less": (
        write("offsets/5", 'v1\n{}\n{"logOffset":5}'),
        "checkpoint-offsets-damaged",
    ),
    "offsets with an empty line": (
        write("offsets/5", 'v1\n{}\n\n{"logOffset":5}'),
        "checkpoint-offsets-damaged",
    ),
    "offsets with bad metadata": (write("offsets/5", "v1\nx\n-\n-"), "checkpoint-offsets-damaged"),
    "offsets a folder": (folder_instead("offsets/5"), "checkpoint-offsets-damaged"),
    "offsets a dangling link": (
        lambda path: ((path / "offsets/5").unlink(), os.symlink("nowhere", path / "offsets/5")),
        "checkpoint-offsets-damaged",
    ),
    "offsets too new": (write("offsets/5", "v7\n{}\n-\n-"), "checkpoint-version-unknown"),
    "offsets of named sources": (write("offsets/5", "v2\n{}\na\nb"), "checkpoint-version-unknown"),
    "offsets with a gap": (unlink("offsets/3"), "checkpoint-offsets-gap"),
    "offsets far ahead": (
        both(write("offsets/8", offsets_text(5)), write("offsets/9", offsets_text(5))),
        "checkpoint-offsets-ahead",
    ),
    "offsets two ahead": (
        both(write("offsets/6", offsets_text(5)), write("offsets/7", offsets_text(5))),
        "checkpoint-offsets-ahead",
    ),
    "offsets with a changed byte": (
        write("offsets/5", offsets_text(5).replace("1700000000005", "1700000000006")),
        "checkpoint-crc-mismatch",
    ),
    "offsets with a foreign checksum": (
        lambda path: shutil.copy(path / "offsets/.4.crc", path / "offsets/.5.crc"),
        "checkpoint-crc-mismatch",
    ),
    "metadata with another id": (
        write("metadata", '{"id":"00000000-fc3e-4a65-b648-74a36a7ea07c"}'),
        "checkpoint-crc-mismatch",
    ),
    "offsets with a copy's name": (write("offsets/005", "v1"), "checkpoint-stray-file"),
    "offsets not a folder": (
        both(rmtree("commits"), rmtree("offsets"), write("offsets", "x")),
        "checkpoint-unreadable",
    ),
    "newest offsets missing": (unlink("offsets/5"), "checkpoint-commits-ahead"),
    "all offsets missing": (rmtree("offsets"), "checkpoint-commits-ahead"),
    "later offsets missing": (no_offsets_since(2), "checkpoint-commits-ahead"),
    "commits empty": (write("commits/5", ""), "checkpoint-commits-empty"),
    "commits half": (cut("commits/5", 0.6), "checkpoint-commits-damaged"),
    "commits garbage": (write("commits/5", b"\xfe\xff"), "checkpoint-commits-damaged"),
    "commits of text": (write("commits/5", "done"), "checkpoint-commits-damaged"),
    "commits of a list": (write("commits/5", "v1\n[]"), "checkpoint-commits-damaged"),
    "commits too new": (write("commits/5", "v3\n{}"), "checkpoint-version-unknown"),
    "commits with a gap": (unlink("commits/3"), "checkpoint-commits-gap"),
    "commits lost": (rmtree("commits"), "checkpoint-commits-missing"),
    "commits emptied": (
        both(*(unlink(f"commits/{n}") for n in range(LAST + 1))),
        "checkpoint-commits-missing",
    ),
    "newest state missing": (unlink("state/0/1/6.delta"), "checkpoint-state-missing"),
    "state delta missing": (unlink("state/0/0/3.delta"), "checkpoint-state-missing"),
    "state of a partition empty": (
        both(*(unlink(f"state/0/0/{v}.delta") for v in range(1, 7))),
        "checkpoint-state-missing",
    ),
    "source log missing": (rmtree("sources"), "checkpoint-source-log-missing"),
    "source log too short": (unlink("sources/0/5"), "checkpoint-source-log-missing"),
    "source log empty": (write("sources/0/5", ""), "checkpoint-source-log-damaged"),
    "source log garbage": (write("sources/0/5", b"\xff\x00"), "checkpoint-source-log-damaged"),
    "source log half": (cut("sources/0/5", 0.5), "checkpoint-source-log-damaged"),
    "source log of a version": (write("sources/0/5", "v1\n"), "checkpoint-source-log-damaged"),
    "source log bad JSON": (write("sources/0/5", "v1\n{,}"), "checkpoint-source-log-damaged"),
    "source log of zeros": (write("sources/0/5", bytes(50)), "checkpoint-source-log-damaged"),
    "old source log half": (cut("sources/0/2", 0.9), "checkpoint-source-log-damaged"),
    "source log half, looked ahead": (
        write("sources/0/6", 'v1\n{"path":'),
        "checkpoint-source-log-damaged",
    ),
    "source log with a gap": (unlink("sources/0/3"), "checkpoint-source-log-missing"),
    "source log with a changed byte": (
        write("sources/0/5", 'v1\n{"path":"/in/7","batchId":5}'),
        "checkpoint-crc-mismatch",
    ),
    "compact source log half": (
        both(
            *(unlink(f"sources/0/{n}") for n in range(6)),
            write("sources/0/5.compact", 'v1\n{}\n{"pa'),
        ),
        "checkpoint-source-log-damaged",
    ),
    "where Kafka began, half": (
        put_file("sources/1/0", '\0v1\n{"logs":{"0"'),
        "checkpoint-source-log-damaged",
    ),
    "where Kafka began, empty": (put_file("sources/1/0", ""), "checkpoint-source-log-damaged"),
    "where a rate began, cut": (put_file("sources/1/0", "v"), "checkpoint-source-log-damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_each_damage_has_one_name_and_a_fix(tmp_path: Path, name: str) -> None:
    path = good(tmp_path / "v1")
    change, slug = BAD[name]

    change(path)

    problems = checkpoint_content.read(path).problems
    assert [p.slug for p in problems] == [slug]
    assert str(tmp_path) in problems[0].text
    assert problems[0].fix


# On an object store there are none: one damage of each kind that can then still be seen.
ONE_OF_EACH = {slug: name for name, (_, slug) in BAD.items() if slug != "checkpoint-crc-mismatch"}


@pytest.mark.parametrize("name", ONE_OF_EACH.values())
def test_damage_is_found_without_checksums_too(tmp_path: Path, name: str) -> None:
    path = plain(tmp_path / "v1")
    change, slug = BAD[name]

    change(path)

    assert slugs(path) == [slug]


def test_a_torn_source_log_is_found_before_any_batch_is_planned(tmp_path: Path) -> None:
    path = plain(tmp_path / "v1")
    for folder in ("offsets", "commits", "state"):
        shutil.rmtree(path / folder)

    (path / "sources" / "0" / "5").write_text('v1\n{"path":"/in')

    assert slugs(path) == ["checkpoint-source-log-damaged"]


def test_of_a_large_source_log_the_beginning_and_the_end_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_logs, "BYTES_MAX", 400)
    path = plain(tmp_path / "v1")
    shutil.rmtree(path / "sources" / "0")
    line = '{"path":"/in/a","timestamp":1,"batchId":0}\n'
    put_file("sources/0/5.compact", "v1\n" + (line * 1000).strip())(path)
    whole = slugs(path)

    cut("sources/0/5.compact", 0.9999)(path)

    assert whole == []
    assert slugs(path) == ["checkpoint-source-log-damaged"]


def test_a_file_in_place_of_the_checkpoint_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "v1").write_text("x")

    assert slugs(tmp_path / "v1") == ["checkpoint-unreadable"]


def test_damage_does_not_hide_what_can_be_read(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    (path / "metadata").unlink()
    (path / "commits" / "5").write_bytes(b"")
    (path / "offsets" / "3").unlink()

    found = checkpoint_content.read(path)

    assert sorted(p.slug for p in found.problems) == [
        "checkpoint-commits-empty",
        "checkpoint-metadata-missing",
        "checkpoint-offsets-gap",
    ]
    assert found.commits[-1] == 5
    assert found.last_offsets == offsets_text(5)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in path.rglob("*")}

    checkpoint_content.read(path)

    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in path.rglob("*")} == before


FILES = ["metadata", "offsets/5", "offsets/2", "commits/5", "commits/0", "sources/0/5"]


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One sample for many examples; each puts back what it changed."""
    return plain(tmp_path_factory.mktemp("checkpoint") / "v1")


@pytest.mark.thorough
@settings(max_examples=150)
@given(file=st.sampled_from(FILES), content=st.binary(max_size=200), is_tail=st.booleans())
def test_no_content_makes_reading_fail(
    lasting: Path, file: str, content: bytes, is_tail: bool
) -> None:
    old = (lasting / file).read_bytes()
    (lasting / file).write_bytes(old + content if is_tail else content)

    try:
        found = checkpoint_content.read(lasting)
    finally:
        (lasting / file).write_bytes(old)

    assert found.exists
    assert all(p.slug.startswith("checkpoint-") and p.fix for p in found.problems)
    if not is_tail and not content.strip():
        assert found.problems


@pytest.mark.parametrize("depth", [1000, 200_000])
def test_deep_json_is_a_problem_and_not_a_crash(tmp_path: Path, depth: int) -> None:
    path = plain(tmp_path / "v1")
    (path / "offsets" / "5").write_text("v1\n{}\n" + "[" * depth + "\n-")

    assert slugs(path) == ["checkpoint-offsets-damaged"]


def test_a_join_has_one_folder_a_store(tmp_path: Path) -> None:
    path = good(tmp_path / "v1")
    for partition in ("0", "1"):
        folder = path / "state" / "0" / partition
        for store in ("left-keyToNumValues", "right-keyToNumValues"):
            (folder / store).mkdir()
            for file in folder.glob("*.delta"):
                shutil.copy(file, folder / store / file.name)
        for file in folder.glob("*.delta"):
            file.unlink()
    healthy = slugs(path)

    (path / "state/0/1/right-keyToNumValues/6.delta").unlink()

    assert healthy == []
    assert slugs(path) == ["checkpoint-state-missing"]


def test_the_sample_has_as_many_mutations_as_promised() -> None:
    assert len(BAD) >= 30
    assert samples.LAST >= 3  # room for a gap
