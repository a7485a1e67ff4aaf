"""Pages of commands, word for word: files are written, commands run, outputs compared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from guidebook import SHORT_LIVED, page_blocks

SKIPPED = "pip install"  # the package is installed already
COMMAND_S = 240
QUICKER = f"""
[restart]
delay_s_min = 0.2
[spark]
"spark.driver.extraJavaOptions" = "{SHORT_LIVED}"
"spark.sql.shuffle.partitions" = "1"
"""


@pytest.mark.e2e
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    said = followed("tutorial.md", tmp_path)

    broken = said["headrace why shop"]
    assert "needs-attention" in broken
    assert "'ten'" in broken
    assert "pipelines/shop.py:9" in broken
    assert "edited since deploy" in said["says: edited since deploy"]
    assert "at a batch boundary" in said["headrace stop shop"]


@pytest.mark.e2e
def test_the_script_of_the_guide_runs_unchanged(tmp_path: Path) -> None:
    said = followed("guides/scripts.md", tmp_path)

    assert "finished" in said["headrace run"]


class Said(dict[str, str]):
    """Outputs by their commands; found by a part of them."""

    def __missing__(self, part: str) -> str:
        found = [said for commands, said in self.items() if part in commands]
        assert found, f"no command says {part!r}"
        return found[0]


def followed(page: str, folder: Path) -> Said:
    """Do what the page says, in its order. A block without a language is the end of the output
    of the commands before it."""
    binaries = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    said, last = Said(), ""
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
                    capture_output=True, timeout=COMMAND_S, check=False,
                )  # fmt: skip
                print(f"{place}\n{done.stdout}{done.stderr}")
                assert done.returncode == 0, place
                last = done.stdout
                said[block.text] = done.stdout + done.stderr
            elif not block.language:
                assert last.endswith(block.text), f"{place}\n{last}"
    finally:
        down = ["headrace", "down"]
        subprocess.run(down, cwd=folder, env=env, capture_output=True, timeout=120, check=False)
    return said
