"""docs/guides/metrics.md against the code. `test_docs.py` runs its commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import config
from headrace.metrics import exporters, packaged_files, statsd_lines, table
from headrace.metrics.metric import Family, Sample
from test_docs import DOCS

PAGE = (DOCS / "guides" / "metrics.md").read_text()
TABLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
NAMES = ("prometheus", "statsd", "otlp")


def test_the_guide_shows_every_exporter() -> None:
    shown = {name for text in TABLES for name in re.findall(r"\[metrics\.(\w+)\]", text)}

    assert shown == set(NAMES)


@pytest.mark.parametrize("text", TABLES)
def test_the_settings_of_the_guide_are_valid(tmp_path: Path, text: str) -> None:
    (tmp_path / "headrace.toml").write_text(text)

    exporters.check(config.load(tmp_path))


def test_what_the_guide_calls_a_default_is_one(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("".join(f"[metrics.{name}]\n" for name in NAMES))
    settings = config.load(tmp_path)
    built = {name: getattr(exporters, name)(settings) for name in NAMES}
    defaults = re.findall(r'^(\w+) = "(.*?)" +# the default', "\n".join(TABLES), re.MULTILINE)

    assert len(defaults) == 4
    for field, value in defaults:
        owners = [one for one in built.values() if getattr(one, field, None) == value]
        assert owners, (field, value)


def test_prometheus_accepts_the_files_of_the_guide(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))
    (tmp_path / "prometheus.yml").write_text(blocks["prometheus.yml"])
    (tmp_path / "rules.yml").write_text(packaged_files.read(packaged_files.RULES))
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: run scripts/system-parts"

    command = [promtool, "check", "config", str(tmp_path / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert '"127.0.0.1:9464"' in blocks["prometheus.yml"]


@pytest.mark.parametrize("has_tags", [True, False])
def test_statsd_lines_are_as_the_guide_shows_them(has_tags: bool) -> None:
    metric = next(one for one in table.METRICS if one.dotted_name == "query.input_rows")
    family = Family(metric, (Sample(("orders", "kept"), 100.0),))
    before = statsd_lines.write([family], "headrace", has_tags=has_tags, before={}).counters
    later = replace(family, samples=(Sample(("orders", "kept"), 220.0),))
    found = statsd_lines.write([later], "headrace", has_tags=has_tags, before=before)

    assert [line for line in found.lines if f"`{line}`" in PAGE] == list(found.lines)
    assert len(found.lines) == 1
