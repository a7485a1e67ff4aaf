"""headrace.toml: what it means, and every way in which it is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace import config, secrets
from headrace.durations import parse_duration
from headrace.errors import ConfigError, Error, Problems
from headrace.model.limits import DrainLimits, RestartLimits
from headrace.project import system_topics


def written(folder: Path, text: str) -> Path:
    (folder / "headrace.toml").write_text(text)
    return folder


def refused(folder: Path, text: str, profile: str = "dev") -> list[Error]:
    with pytest.raises(Error) as caught:
        config.load(written(folder, text), profile)
    found = caught.value
    return list(found.problems) if isinstance(found, Problems) else [found]


def test_without_a_file_everything_has_a_default(tmp_path: Path) -> None:
    settings = config.load(tmp_path)

    assert settings.name == tmp_path.name
    assert settings.state == tmp_path / ".headrace"
    assert settings.checkpoints == str(tmp_path / "checkpoints")
    assert settings.restart == RestartLimits()
    assert settings.production is False


def test_the_project_is_found_upwards(tmp_path: Path) -> None:
    written(tmp_path, "")
    (tmp_path / "a" / "b").mkdir(parents=True)

    assert config.find_project(tmp_path / "a" / "b") == tmp_path


def test_without_a_file_above_the_folder_itself_is_the_project(tmp_path: Path) -> None:
    assert config.find_project(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("10 seconds", 10),
        ("30s", 30),
        ("1 minute", 60),
        ("500ms", 0.5),
        ("1 hour 30 minutes", 5400),
        (2.5, 2.5),
        (0, 0),
        ("2 DAYS", 172800),
    ],
)
def test_a_length_of_time_is_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("wrong", ["soon", "10", "5 parsecs", "", "-3s", -1, True, None, "1s x"])
def test_what_is_no_length_of_time_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_duration(wrong)

    assert caught.value.code == "bad-duration"
    assert '"10 seconds"' in str(caught.value.fix)


def test_limits_are_read_as_text_or_numbers(tmp_path: Path) -> None:
    text = '[restart]\nretries = 5\ndelay_s_max = "2 minutes"\n[drain]\ntimeout_s = 4\n'

    settings = config.load(written(tmp_path, text))

    assert settings.restart == RestartLimits(retries=5, delay_s_max=120.0)
    assert settings.drain == DrainLimits(timeout_s=4.0)


@pytest.mark.parametrize("wrong", ["-1", "true", '"-5 seconds"', "[1]"])
def test_a_negative_or_other_length_of_time_is_refused(tmp_path: Path, wrong: str) -> None:
    (problem,) = refused(tmp_path, f"[drain]\ntimeout_s = {wrong}\n")

    assert (problem.code, problem.where) == ("bad-setting", "headrace.toml:2")


def test_unlimited_retries_are_no_limit(tmp_path: Path) -> None:
    settings = config.load(written(tmp_path, '[restart]\nretries = "unlimited"\n'))

    assert settings.restart.retries is None


def test_all_mistakes_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = '[project]\nstatee = "x"\n\n[restart]\nretries = "many"\n\n[drain]\ntimeout_s = "soon"\n'

    found = refused(tmp_path, text)

    assert {(p.code, p.where) for p in found} == {
        ("unknown-setting", "headrace.toml:2"),
        ("bad-setting", "headrace.toml:5"),
        ("bad-setting", "headrace.toml:8"),
    }


def test_an_unknown_setting_names_the_near_miss_and_the_known_ones(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "[pipelines.orders.queries.totals]\nevry = '1s'\n")

    assert problem.fix == "Did you mean 'every'?"
    assert "checkpoint, every, fresh_within" in str(problem.why)
    assert problem.where == "headrace.toml:2"


@pytest.mark.parametrize("name", ["mine", "{pipeline}", "{query}", "{pipeline}-{query}-{x}"])
def test_a_group_that_two_queries_would_share_is_refused(tmp_path: Path, name: str) -> None:
    (problem,) = refused(tmp_path, f'[lag]\nmirror = "{name}"\n')

    assert (problem.code, problem.where) == ("lag-mirror", "headrace.toml:2")


def test_a_group_of_each_query_is_taken(tmp_path: Path) -> None:
    text = '[lag]\nmirror = "{profile}-{pipeline}-{query}"\n'

    assert config.load(written(tmp_path, text)).mirror == "{profile}-{pipeline}-{query}"
    assert config.load(written(tmp_path, "")).mirror is None


def test_progress_goes_to_a_topic_with_the_fields_of_a_sink(tmp_path: Path) -> None:
    text = '[metrics.kafka]\nservers = "b:9092"\nca = "ca.pem"\nuser = "u"\npassword = "${env:P}"\n'

    found = system_topics.metrics(config.load(written(tmp_path, text)))

    assert found is not None
    assert (found.servers, found.topic, found.login.user) == ("b:9092", "headraceMetrics", "u")
    assert found.login.ca == str(tmp_path / "ca.pem")
    assert system_topics.metrics(config.load(written(tmp_path, ""))) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('servers = "b:9092"\ntopc = "t"', "unknown-field"),
        ('topic = "t"', "missing-field"),
        ("", "missing-field"),
        ('servers = "b:9092"\nsubscribe = "t"', "kafka-topics"),
        ('servers = "b:9092"\nuser = "u"\npassword = "plain"', "plain-secret"),
        ('servers = "b:9092"\nexactly_once = true', "bad-option"),
    ],
)
def test_what_is_wrong_with_the_topic_of_progress_is_told(
    tmp_path: Path, text: str, code: str
) -> None:
    settings = config.load(written(tmp_path, f"[metrics.kafka]\n{text}\n"))

    with pytest.raises(Error) as caught:
        system_topics.check(settings)

    assert (caught.value.code, caught.value.where) == (code, "headrace.toml:1")


def test_a_topic_of_progress_without_a_line_needs_servers(tmp_path: Path) -> None:
    settings = config.load(written(tmp_path, "[metrics.kafka]\n"))

    with pytest.raises(Error, match=r"needs servers"):
        system_topics.metrics(settings)


def test_an_exporter_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, '[metrics.kafkaa]\nservers = "b:9092"\n')

    assert (problem.code, problem.fix) == ("unknown-setting", "Did you mean 'kafka'?")


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "[source.x]\nkind = 'text'\n")

    assert problem.code == "unknown-setting"
    assert problem.fix == "Did you mean 'sources'?"


def test_bad_toml_names_the_line(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, "[project]\nname = orders\n")

    assert problem.code == "toml-syntax"
    assert problem.where == "headrace.toml:2"


@pytest.mark.parametrize(
    "deep",
    ["x = " + "[" * 2000 + "]" * 2000, "x = " + "{a = " * 2000 + "1" + "}" * 2000,
     "x" + ".a" * 2000 + " = 1", "[" + "a." * 2000 + "b]"],
    ids=["lists", "inline tables", "dotted key", "dotted table"],
)  # fmt: skip
def test_settings_nested_too_deep_are_refused_with_the_line(tmp_path: Path, deep: str) -> None:
    (problem,) = refused(tmp_path, f"# a comment\n{deep}\n")

    assert problem.code == "toml-syntax"
    assert problem.what == "headrace.toml nests tables or lists more than 32 levels deep."
    assert problem.where == "headrace.toml:2"


PROFILES = """
[sources.raw]
kind = "text"
path = "incoming"
[sources.more]
kind = "json"
path = "more"
[profiles.kafka.sources.raw]
kind = "kafka"
servers = "127.0.0.1:9092"
[profiles.kafka.sources.more]
path = "elsewhere"
[profiles.play.project]
production = false
"""


def test_a_profile_is_laid_over_the_base(tmp_path: Path) -> None:
    settings = config.load(written(tmp_path, PROFILES), "kafka")

    assert settings.sources["more"] == {"kind": "json", "path": "elsewhere"}


def test_a_connector_of_another_kind_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    settings = config.load(written(tmp_path, PROFILES), "kafka")

    assert settings.sources["raw"] == {"kind": "kafka", "servers": "127.0.0.1:9092"}


def test_the_dev_profile_always_exists(tmp_path: Path) -> None:
    assert config.load(written(tmp_path, PROFILES)).sources["raw"]["kind"] == "text"


def test_an_unknown_profile_lists_those_that_exist(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, PROFILES, "kafak")

    assert problem.code == "unknown-profile"
    assert "dev, kafka, play" in str(problem.why)
    assert "--profile kafka" in str(problem.fix)


@pytest.mark.parametrize(("profile", "is_it"), [("dev", False), ("kafka", True), ("play", False)])
def test_profiles_are_for_production_unless_they_say_otherwise(
    tmp_path: Path, profile: str, is_it: bool
) -> None:
    assert config.load(written(tmp_path, PROFILES), profile).production is is_it


def test_a_pipelines_own_settings_win(tmp_path: Path) -> None:
    text = (
        '[spark]\n"spark.a" = 1\n"spark.b" = true\n[restart]\nretries = 3\ndelay_s_min = 2\n'
        '[pipelines.orders]\nfresh_within = "2 minutes"\nrestart.retries = 7\n'
        '[pipelines.orders.spark]\n"spark.a" = "9"\n'
        "[pipelines.orders.queries.totals]\nevery = '5s'\n"
    )

    whole = config.load(written(tmp_path, text))
    own = whole.for_pipeline("orders")

    assert own.spark == {"spark.a": "9", "spark.b": "true"}
    assert own.restart == RestartLimits(retries=7, delay_s_min=2.0)
    assert own.fresh_within == 120.0
    assert own.queries["totals"].every == 5.0
    assert whole.for_pipeline("other").restart.retries == 3


def test_each_query_has_a_checkpoint_of_its_own_below_its_profile(tmp_path: Path) -> None:
    written(tmp_path, "[profiles.prod]\n")

    dev, prod = config.load(tmp_path), config.load(tmp_path, "prod")

    assert dev.checkpoint("orders", "totals") == f"{tmp_path}/checkpoints/orders/totals/v1"
    assert prod.checkpoint("orders", "totals") == f"{tmp_path}/checkpoints/prod/orders/totals/v1"


def test_checkpoints_may_be_on_an_object_store(tmp_path: Path) -> None:
    written(tmp_path, '[project]\ncheckpoints = "s3a://bucket/c/"\n')

    assert config.load(tmp_path).checkpoint("p", "q") == "s3a://bucket/c/p/q/v1"


def test_secrets_stay_references_until_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TEST_KEY", "s3cret")
    (tmp_path / "key").write_text("from a file\n")

    settings = config.load(written(tmp_path, "[notify.pager]\nkey = '${env:MY_TEST_KEY}'\n"))

    assert settings.notify["pager"]["key"] == "${env:MY_TEST_KEY}"
    assert secrets.resolve("a ${env:MY_TEST_KEY} b") == "a s3cret b"
    assert secrets.resolve(f"${{file:{tmp_path}/key}}") == "from a file"


@pytest.mark.parametrize("reference", ["${env:NO_SUCH_HEADRACE_KEY}", "${file:/no/such/file}"])
def test_a_missing_secret_is_named(reference: str) -> None:
    with pytest.raises(ConfigError) as caught:
        secrets.resolve(reference)

    assert caught.value.code == "missing-secret"
    assert reference in caught.value.what


def test_importing_the_settings_loads_no_pydantic() -> None:
    code = "import sys, headrace.config; print('pydantic' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
