"""The rules of the house, held against the code, and each held against an example that breaks it.

The rules themselves are in house.py. Who is excused stands here by name, with the reason.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import house
from house import Source

REPO = Path(__file__).parent.parent
SRC = REPO / "src" / "headrace"
ALL = house.sources(SRC)
MODULES = frozenset(source.module for source in ALL)

# module or module.name -> why it may be larger
LARGE: dict[str, str] = {}

# module.function -> why it may catch everything. Borders: each one reports what it caught.
BORDERS = {
    "headrace.cli.run_session.OwnSupervisor.run": "a thread: the main thread raises the error",
    "headrace.cli.main.Headrace.main": "every error ends as a message and an exit code",
    "headrace.define.loader.load": "the user's file may raise anything while it is loaded",
    "headrace.driver.quality_counts.BatchCounts._count_if_due": "Spark's bus: at worst no counts",
    "headrace.driver.count_plan.plan_pipeline_counts": "a plan may hold anything: no counts then",
    "headrace.driver.count_plan.plan_script_counts": "a plan may hold anything: no counts then",
    "headrace.driver.drain._stop_one": "a thread at the end of the process",
    "headrace.driver.example_rows.ExampleRows._read": "a thread: at worst no example",
    "headrace.driver.example_rows.ExampleRows.refresh": "Spark's bus: at worst no example",
    "headrace.driver.frames.Frames._placing_errors": "Spark and the user's code may raise anything",
    "headrace.driver.frames.Frames._from_connector": "Spark may raise anything",
    "headrace.driver.main._Run._write_exit": "the process must end with its exit code",
    "headrace.driver.main._Run._run": "exit.json is always written",
    "headrace.driver.pipeline.run": "Spark may refuse a start with anything",
    "headrace.driver.record_ages.RecordAges.fetch_times": "Spark's bus: at worst no record ages",
    "headrace.driver.run_loop.RunLoop.until_the_end": "py4j raises many things after the JVM ends",
    "headrace.driver.script._execute": "the user's script may raise anything",
    "headrace.driver.script_queries.ScriptQueries.add": "at worst a query is not described",
    "headrace.driver.sql_query.answer": "Spark may refuse a query with anything",
    "headrace.driver.user_listeners.UserListener._call": "the user's listener may raise anything",
    "headrace.driver.user_listeners._create": "the user's code may raise anything",
    "headrace.notebook.query_watch.QueryWatch.run": "py4j raises many things after the JVM ends",
    "headrace.project.sql_worker.answer": "every request line gets a reply line",
    "headrace.relay.acknowledgements.AcknowledgementThread._run": "the next round retries",
    "headrace.relay.channel_thread.ChannelThread._run": "a thread: no other serves its channel",
    "headrace.relay.heartbeats.HeartbeatThread._ping": "the next ping is tried all the same",
    "headrace.relay.alert_topic_reader.AlertTopicReader._run": "the only reader: it retries",
    "headrace.relay.duties.DutyThread._guard": "one duty fails, the others go on",
    "headrace.supervisor.loop.Supervisor._guard": "one step of a tick fails, the others go on",
    "headrace.web.auth.AuthMiddleware.__call__": "an unexpected error also gets our headers",
    "headrace.web.overview_feed.OverviewFeed._poll": "the page keeps polling and shows the error",
}

# module -> why it may start or end processes
PROCESSES = {
    "headrace.supervisor.process": "the room for it",
    "headrace.project.sql_workers": "a question of the page must be ended hard, and the web never"
    " imports the supervisor; headrace sql has the same limits",
    "headrace.project.channel_test": "a service that hangs must not hold a thread of the page",
}

# module -> why it may call eval, exec or print
CALLS = {
    "headrace.driver.script_execution": "exec: this is what running a script means",
}

# module -> why it may use a word that is also a key of Spark's progress object
KEYS = {
    "headrace.checkpoints.source_logs": "the log of a file source has the same word",
    "headrace.driver.lookup_metrics": "a metric of Spark's plan has the same name",
}


def unexcused(complaints: list[str], excused: dict[str, str]) -> list[str]:
    return [c for c in complaints if c.split(":")[0] not in excused]


def test_rooms_import_downward_only() -> None:
    assert [c for s in ALL for c in house.layers(s, MODULES)] == []


def test_the_driver_never_reaches_the_store_also_not_through_others() -> None:
    assert house.driver_reaches_store(ALL) == []


def test_no_import_cycles_also_no_hidden_ones() -> None:
    assert house.cycles(ALL) == []


def test_packages_with_a_room_of_their_own_stay_in_it() -> None:
    assert unexcused([c for s in ALL for c in house.forbidden_imports(s)], PROCESSES) == []


def test_only_the_connectors_know_their_classes() -> None:
    classes = house.connector_classes(ALL)

    assert {"Kafka", "EventHubs", "Files", "EachRow"} <= classes
    assert [c for s in ALL for c in house.connector_class_uses(s, classes)] == []


def test_one_module_knows_the_keys_of_sparks_progress() -> None:
    scripts = sorted((SRC / "web" / "static").glob("*.js"))

    assert unexcused([c for s in ALL for c in house.spark_keys(s)], KEYS) == []
    assert scripts
    assert [c for s in scripts for c in house.spark_keys_in_script(s.name, s.read_text())] == []


def test_processes_are_started_and_ended_in_one_file() -> None:
    assert unexcused([c for s in ALL for c in house.process_calls(s)], PROCESSES) == []


def test_no_eval_no_shell_no_printing() -> None:
    assert unexcused([c for s in ALL for c in house.dangerous_calls(s)], CALLS) == []


def test_modules_functions_and_classes_stay_below_the_wall() -> None:
    assert unexcused([c for s in ALL for c in house.sizes(s)], LARGE) == []


def test_names_say_what_a_thing_is() -> None:
    assert [c for s in ALL for c in house.names(s)] == []


def test_modules_have_a_docstring_and_no_relative_imports_or_re_exports() -> None:
    assert [c for s in ALL for c in house.shape(s)] == []


def test_every_todo_has_an_issue_number() -> None:
    files = [*ALL, *house.sources(REPO / "tests"), *house.sources(REPO / "bench")]
    seeded = {"tests.test_house", "tests.house"}  # these two speak about them

    assert [c for s in files if s.module not in seeded for c in house.unnumbered_todos(s)] == []


def test_only_borders_catch_everything() -> None:
    found = {c for s in ALL for c in house.broad_excepts(s)}

    assert found - set(BORDERS) == set()


def test_no_excuse_outlives_its_reason() -> None:
    small = [c.split(":")[0] for s in ALL for c in house.sizes(s)]
    broad = [c for s in ALL for c in house.broad_excepts(s)]
    calls = [c.split(":")[0] for s in ALL for c in house.dangerous_calls(s)]
    processes = [c for s in ALL for c in house.process_calls(s) + house.forbidden_imports(s)]

    assert set(LARGE) - set(small) == set()
    assert set(BORDERS) - set(broad) == set()
    assert set(CALLS) - set(calls) == set()
    assert set(KEYS) - {c.split(":")[0] for s in ALL for c in house.spark_keys(s)} == set()
    assert set(PROCESSES) - {c.split(":")[0] for c in processes} == set()


def test_importing_headrace_and_showing_help_load_nothing_heavy() -> None:
    start = {"headrace", "headrace.cli", "headrace.cli.main", "headrace.__main__"}

    assert house.heavy_start(ALL, start) == []


@pytest.mark.parametrize("code", ["import headrace", "from headrace.cli.main import main; main()"])
def test_a_fresh_python_loads_nothing_heavy(code: str) -> None:
    report = f"print('loaded:', *sorted(set(sys.modules) & {house.HEAVY!r}))"
    script = f"import sys, atexit; atexit.register(lambda: {report}); {code}"

    done = subprocess.run(
        [sys.executable, "-c", script, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].strip() == "loaded:"


def test_no_two_test_files_have_the_same_name() -> None:
    assert house.same_test_names(sorted((REPO / "tests").rglob("*.py"))) == []


# ---- the checker itself: each rule fails on an example that breaks it


def seeded(module: str, text: str = "", file: str = "") -> Source:
    return Source(module, f'"""Doc."""\n{text}\n', file)


LAYER_BREAKS = [
    ("headrace.model.runs", "from headrace.store import runs"),
    ("headrace.driver.main", "from headrace.supervisor import loop"),
    ("headrace.supervisor.loop", "import headrace.driver.main"),
    ("headrace.driver.main", "def f():\n    from headrace.store import db"),
    ("headrace.store.db", "from headrace import config\nfrom headrace.define import api"),
    ("headrace.define.api", "from headrace.explore.scan import scan"),
    ("headrace.connectors.kinds", 'KINDS = {"x": "headrace.store.db:Db"}'),
    ("headrace.connectors.files", "m = import_module('headrace.cli.main')"),
    ("headrace.newroom.x", ""),
]


@pytest.mark.parametrize(("module", "text"), LAYER_BREAKS)
def test_layer_rule_catches(module: str, text: str) -> None:
    assert house.layers(seeded(module, text), MODULES | {"headrace.config"}) != []


def test_layer_rule_allows_what_points_downward() -> None:
    good = seeded("headrace.cli.run", "from headrace import errors\nfrom headrace.store import db")

    assert house.layers(good, MODULES) == []


def test_store_rule_catches_a_way_through_another_room() -> None:
    bad = [
        seeded("headrace.driver.main", "from headrace.define import checks"),
        seeded("headrace.define.checks", "def f():\n    from headrace.store import runs"),
        seeded("headrace.store.runs"),
    ]

    assert house.driver_reaches_store(bad) == [
        "headrace.driver.main -> headrace.define.checks -> headrace.store.runs"
    ]


def test_cycle_rule_catches_one_hidden_in_a_function() -> None:
    bad = [
        seeded("headrace.model.a", "from headrace.model import b"),
        seeded("headrace.model.b", "from headrace.model import c"),
        seeded("headrace.model.c", "def f():\n    import headrace.model.a"),
    ]

    assert house.cycles(bad) != []


def test_cycle_rule_allows_what_only_a_type_checker_sees() -> None:
    good = [
        seeded("headrace.model.a", "from headrace.model import b"),
        seeded("headrace.model.b", "if TYPE_CHECKING:\n    from headrace.model import a"),
    ]

    assert house.cycles(good) == []


def test_heavy_rule_catches_a_package_behind_a_room_s_init() -> None:
    bad = [
        seeded("headrace.cli.main", "from headrace.model import runs"),
        seeded("headrace.model", "from headrace import config"),
        seeded("headrace.model.runs"),
        seeded("headrace.config", "import pydantic"),
    ]

    assert house.heavy_start(bad, {"headrace.cli.main"}) == [
        "headrace.cli.main -> headrace.model -> headrace.config -> pydantic (line 2)"
    ]


IMPORT_BREAKS = [
    ("headrace.driver.session", "from pyspark.sql import SparkSession"),
    ("headrace.supervisor.loop", "def f():\n    import pyspark"),
    ("headrace.define.api", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
    ("headrace.driver.checkpoint_lock", "from py4j.java_gateway import java_import"),
    ("headrace.cli.status", "import sqlite3"),
    ("headrace.store.db", "import duckdb"),
    ("headrace.driver.session", "import subprocess"),
    ("headrace.model.runs", "import pickle"),
    ("headrace.model.runs", "import psutil"),
]


@pytest.mark.parametrize(("module", "text"), IMPORT_BREAKS)
def test_import_rule_catches(module: str, text: str) -> None:
    assert house.forbidden_imports(seeded(module, text)) != []


IMPORT_GOODS = [
    ("headrace.driver.session", "def f():\n    from pyspark.sql import SparkSession"),
    ("headrace.connectors.files", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
    ("headrace.store.db", "import sqlite3"),
    ("headrace.explore.sql", "def f():\n    import duckdb"),
]


@pytest.mark.parametrize(("module", "text"), IMPORT_GOODS)
def test_import_rule_allows(module: str, text: str) -> None:
    assert house.forbidden_imports(seeded(module, text)) == []


CONNECTORS = [
    seeded("headrace.connectors.kafka.connector", "class Kafka(Connector): ..."),
    seeded("headrace.connectors.special", "class Special(Kafka): ..."),
]


@pytest.mark.parametrize(
    "text",
    [
        "from headrace.connectors.kafka.connector import Kafka",
        "def f():\n    from headrace.connectors.special import Special",
        "from headrace.connectors import special\nx = isinstance(y, special.Special)",
    ],
)
def test_connector_class_rule_catches(text: str) -> None:
    classes = house.connector_classes(CONNECTORS)

    assert house.connector_class_uses(seeded("headrace.driver.build", text), classes) != []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("headrace.connectors.alert", "from headrace.connectors.kafka.connector import Kafka"),
        ("headrace.driver.build", "from headrace.connectors.connector import Connector"),
        ("headrace.relay.lag", "if TYPE_CHECKING:\n    from headrace.connectors.x import Kafka"),
    ],
)
def test_connector_class_rule_allows(module: str, text: str) -> None:
    classes = house.connector_classes(CONNECTORS)

    assert house.connector_class_uses(seeded(module, text), classes) == []


@pytest.mark.parametrize(
    "call", ["os.kill(1, 9)", "os.killpg(1, 9)", "os.execv(a, b)", "p.terminate()", "sp.Popen(a)"]
)
def test_process_rule_catches(call: str) -> None:
    assert house.process_calls(seeded("headrace.driver.main", f"def f():\n    {call}")) != []


@pytest.mark.parametrize(
    "call", ["eval(x)", "exec(x)", "run(x, shell=True)", "yaml.load(x)", "print(x)"]
)
def test_dangerous_call_rule_catches(call: str) -> None:
    assert house.dangerous_calls(seeded("headrace.store.db", call)) != []


@pytest.mark.parametrize("text", ["p.get('batchId')", "x = {'numInputRows': 1}"])
def test_spark_key_rule_catches(text: str) -> None:
    assert house.spark_keys(seeded("headrace.web.pipeline_views", text)) != []
    assert house.spark_keys(seeded("headrace.model.progress", text)) == []


@pytest.mark.parametrize("text", ['["addBatch"]', "one.batchId", "{ numInputRows: 1 }"])
def test_spark_key_rule_catches_it_in_a_script(text: str) -> None:
    assert house.spark_keys_in_script("pipeline.js", f"const x = {text};") != []
    assert house.spark_keys_in_script("pipeline.js", "const x = found.phases;") == []


def test_size_rule_catches_a_long_module_function_and_class() -> None:
    assert house.sizes(seeded("m", "x = 1\n" * 400)) != []
    assert house.sizes(seeded("m", "def f():\n" + "    x = 1\n" * 70)) != []
    assert house.sizes(seeded("m", "class C:\n" + "    x = 1\n" * 200)) != []
    assert house.sizes(seeded("m", "def f():\n" + "    x = 1\n" * 69)) == []


@pytest.mark.parametrize("module", ["headrace.store.utils", "headrace.store._db"])
def test_name_rule_catches_a_file(module: str) -> None:
    assert house.names(seeded(module)) != []


@pytest.mark.parametrize("module", ["headrace.web.looking", "headrace.relay.alert_taking"])
def test_name_rule_catches_a_gerund(module: str) -> None:
    assert house.names(seeded(module)) != []


@pytest.mark.parametrize("module", ["headrace.testing", "headrace.spelling", "headrace.model.runs"])
def test_name_rule_allows_a_noun(module: str) -> None:
    assert house.names(seeded(module)) == []


@pytest.mark.parametrize("name", ["RunManager", "EventHandler", "PathHelper"])
def test_name_rule_catches_a_class(name: str) -> None:
    assert house.names(seeded("headrace.store.db", f"class {name}: ...")) != []


def test_shape_rule_catches() -> None:
    assert house.shape(Source("headrace.model.runs", "x = 1\n")) != []
    assert house.shape(seeded("headrace.model.runs", "from .events import Kind")) != []
    assert house.shape(seeded("headrace.model", "from headrace.model import runs", "__init__.py"))


def test_todo_rule_catches_only_those_without_a_number() -> None:
    assert house.unnumbered_todos(seeded("m", "x = 1  # TODO: later")) != []
    assert house.unnumbered_todos(seeded("m", "x = 1  # TODO(#12): later")) == []


@pytest.mark.parametrize(
    "caught", ["except Exception:", "except:", "except (OSError, BaseException) as exc:"]
)
def test_broad_except_rule_catches(caught: str) -> None:
    body = f"class C:\n  def f(self):\n    try:\n      g()\n    {caught}\n      pass"

    assert house.broad_excepts(seeded("m", body)) == ["m.C.f"]


def test_broad_except_rule_allows_cleaning_up_and_raising_again() -> None:
    body = "try:\n    g()\nexcept BaseException:\n    h()\n    raise"

    assert house.broad_excepts(seeded("m", body)) == []


def test_same_name_rule_catches() -> None:
    assert house.same_test_names([Path("store/test_runs.py"), Path("model/test_runs.py")]) != []
