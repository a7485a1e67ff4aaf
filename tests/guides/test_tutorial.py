"""Pages of commands, word for word: files are written, commands run, outputs compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from guidebook import SHORT_LIVED, page_blocks

from test_docs import REPO, blocks

SKIPPED = "pip install"  # the package is installed already
COMMAND_S = 240
QUICKER = f"""
[restart]
delay_s_min = 0.2
[spark]
"spark.driver.extraJavaOptions" = "{SHORT_LIVED}"
"spark.sql.shuffle.partitions" = "1"
"""
# What is different in every run: times, run names, versions, process ids.
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|shop-\d{8}T\d{6}-\w+|\b[0-9a-f]{12}\b|\d+")


@pytest.mark.e2e
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    outputs = follow("tutorial.md", tmp_path)

    assert missing_from("\n".join(outputs)) == []


@pytest.mark.e2e
def test_the_script_of_the_guide_runs_unchanged(tmp_path: Path) -> None:
    outputs = follow("guides/scripts.md", tmp_path)

    assert "finished" in "\n".join(outputs)


def test_the_tutorial_shows_the_output_of_each_command_and_needs_no_python_for_a_pid() -> None:
    page = [block for block in page_blocks("tutorial.md") if not block.file]
    after = dict(pairwise(page))
    commands = [b for b in page if b.language == "bash" and "headrace" in b.text]
    silent = [b.line for b in commands if SKIPPED not in b.text and after[b].language]

    assert len(commands) > 10
    assert silent == []
    assert [b.line for b in commands if "python" in b.text and SKIPPED not in b.text] == []


def tutorial_section(heading: str) -> str:
    """Its text in one line, without code blocks."""
    page = (REPO / "docs" / "tutorial.md").read_text()
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    (text,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", prose, re.MULTILINE | re.DOTALL)
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("heading", "use"),
    [
        ("Deploy it", "Open the link after `page:` in a browser"),
        ("Kill it", "On the page, the state changed"),
        ("Break it", "at the top of the page"),
        ("Query the results", "run the same query on the page"),
    ],
)
def test_the_tutorial_uses_the_page(heading: str, use: str) -> None:
    assert use in tutorial_section(heading)


def test_the_tutorial_says_when_to_undo_a_deploy_and_what_that_changes() -> None:
    text = tutorial_section("Undo a deploy")

    assert "Undo a deploy when the new version fails or its results are wrong" in text
    assert "`headrace rollback shop`" in text
    assert "does not change checkpoints" in text


def follow(page: str, folder: Path) -> list[str]:
    """Do what the page says, in its order, and compare each block without a language with the
    output of the commands above it. Returns all outputs."""
    binaries = str(Path(sys.executable).parent)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HEADRACE_WEB": "on"}
    outputs = [""]
    try:
        for block in page_blocks(page):
            place = f"{block.page}:{block.line}"
            if block.file:
                (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
                more = QUICKER if block.file == "headrace.toml" else ""
                (folder / block.file).write_text(block.text + more)
            elif block.language == "bash" and SKIPPED not in block.text:
                done = subprocess.run(
                    ["bash", "-eu"], input=block.text, cwd=folder, env=env, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_S,
                    check=False,
                )  # fmt: skip
                print(f"{place}\n{done.stdout}")
                assert done.returncode == 0, place
                outputs.append(done.stdout)
            elif not block.language:
                assert ends_like(outputs[-1], block.text), f"{place}\n{outputs[-1]}"
    finally:
        down = ["headrace", "down"]
        subprocess.run(down, cwd=folder, env=env, capture_output=True, timeout=120, check=False)
    return outputs


def ends_like(output: str, shown: str) -> bool:
    """Whether the output ends as the page shows it. `…` is any text, a line with only `…` any
    lines; how many spaces separate two columns does not matter."""
    lines = [
        r"(?:.*\n)*" if line.strip() == "…" else rf"\s*{_pattern(line)}\s*\n"
        for line in shown.splitlines()
        if line.strip()
    ]
    text = "".join(f"{line}\n" for line in output.splitlines() if line.strip())
    return re.search(rf"^{''.join(lines)}\Z", text, re.MULTILINE) is not None


def _pattern(line: str) -> str:
    words = [".*".join(map(re.escape, word.split("…"))) for word in line.split()]
    return r"\s+".join(words).replace(r"\s+.*\s+", r"\s+(?:.*\s+)?")


def missing_from(outputs: str) -> list[str]:
    """Lines that the README shows of this session, and nothing printed."""
    page = blocks("README.md", (REPO / "README.md").read_text())
    (session,) = [block for block in page if block.language == "console"]
    lines = [line for line in session.text.splitlines() if line[:1] not in ("$", "…", "")]
    printed = {VARIES.sub("#", line.rstrip()) for line in outputs.splitlines()}
    return [line for line in lines if VARIES.sub("#", line) not in printed]


@pytest.mark.parametrize(
    ("output", "shown", "is_same"),
    [
        ("a  1\nb   22\n", "a 1\nb 22\n", True),
        ("first\na 1\n", "a 1\n", True),
        ("a 1\nlast\n", "a 1\n", False),
        ("a pid 12, x\n", "a pid …, x\n", True),
        ("a\nb\nc\nd\n", "a\n…\nd\n", True),
        ("a\nd\n", "a\n…\nd\n", True),
        ("kept 1 2 once\n", "kept … once\n", True),
        ("kept once\n", "kept … once\n", True),
        ("kept twice\n", "kept … once\n", False),
        ("page: http://x/?token=1\nlook\n", "page: …\n…\n", True),
    ],
)
def test_outputs_are_compared_but_for_what_varies(output: str, shown: str, is_same: bool) -> None:
    assert ends_like(output, shown) is is_same
