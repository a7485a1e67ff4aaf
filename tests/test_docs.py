"""The docs match the code: every name in the code is documented, every example works.

An example is a fenced block. Python must compile, TOML and bash must parse. A comment on the line
above it asks for more: `<!-- file: NAME -->` writes it into the page's project folder,
`<!-- runs -->` executes it there (Python or bash), in the order of the page.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pytest

from headrace.cli import service

REPO = Path(__file__).parent.parent
DOCS = REPO / "docs"
REFERENCE = DOCS / "reference"
SRC = REPO / "src" / "headrace"
PAGES = sorted([*REPO.glob("*.md"), *DOCS.rglob("*.md")])
LENGTHS = {"README.md": 150, "ARCHITECTURE.md": 150, "CONTRIBUTING.md": 100}


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    note: str  # the comment above it

    @property
    def file(self) -> str | None:
        return self.note.removeprefix("file:").strip() if self.note.startswith("file:") else None

    @property
    def runs(self) -> bool:
        return self.note == "runs"


def blocks(page: str, text: str) -> list[Block]:
    found: list[Block] = []
    note, fence, body, start, language = "", "", list[str](), 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"(`{3,}|~{3,})\s*([\w-]*)", line)
        if fence and line.rstrip() == fence:
            found.append(Block(page, start, language, "\n".join(body) + "\n", note))
            fence, note = "", ""
        elif fence:
            body.append(line)
        elif opened:
            fence, language, body, start = opened[1], opened[2], [], number
        elif comment := re.fullmatch(r"<!--\s*(.*?)\s*-->", line.strip()):
            note = comment[1]
        elif line.strip():
            note = ""
    return found


BLOCKS = [b for page in PAGES for b in blocks(str(page.relative_to(REPO)), page.read_text())]
RUN = sorted({b.page for b in BLOCKS if b.runs})


def complaint(block: Block) -> str | None:
    """Why the block is not valid in its language, or None."""
    place = f"{block.page}:{block.line}"
    try:
        if block.language == "python":
            compile(block.text, place, "exec")
        elif block.language == "toml":
            tomllib.loads(block.text)
    except (SyntaxError, tomllib.TOMLDecodeError) as exc:
        return f"{place}: {exc}"
    if block.language in ("bash", "sh"):
        done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True)
        return f"{place}: {done.stderr}" if done.returncode else None
    return None


def headings(path: Path) -> list[str]:
    lines = re.findall(r"^#{2,4}\s+(.*)$", path.read_text(), flags=re.MULTILINE)
    return [line.replace("`", "").strip() for line in lines]


def slugs_in(tree: ast.Module) -> Iterator[str]:
    """`slug="…"` in a call, `slug = "…"` in a class or a function, and tables of them."""
    has_table = any(isinstance(given_as_slug(node), ast.Name) for node in ast.walk(tree))
    for node in ast.walk(tree):
        if has_table and isinstance(node, ast.Tuple) and len(node.elts) > 2:  # (slug, what, …)
            first = getattr(node.elts[0], "value", None)
            if isinstance(first, str) and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", first):
                yield first
        value = given_as_slug(node)
        branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        for branch in branches:
            if isinstance(branch, ast.Constant) and isinstance(branch.value, str):
                yield branch.value


def given_as_slug(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.keyword):
        return node.value if node.arg == "slug" else None
    if isinstance(node, ast.Assign):
        return node.value if "slug" in [getattr(t, "id", "") for t in node.targets] else None
    if isinstance(node, ast.AnnAssign):
        return node.value if getattr(node.target, "id", "") == "slug" else None
    return None


def all_slugs() -> set[str]:
    trees = (ast.parse(file.read_text(), file.name) for file in SRC.rglob("*.py"))
    return {slug for tree in trees for slug in slugs_in(tree) if slug}


def settings_below(shape: Any, above: str = "") -> Iterator[str]:
    """Dotted names of all settings; NAME is a name that the user chooses."""
    for name, hint in get_type_hints(shape).items():
        if name.startswith("__"):
            continue
        path, each = f"{above}{name}", get_args(hint)[-1:] or (None,)
        if is_dataclass(hint):
            yield from settings_below(hint, f"{path}.")
        elif is_dataclass(each[0]):
            yield from settings_below(each[0], f"{path}.NAME.")
        else:
            yield path


# ---- reference pages


def test_every_setting_is_documented() -> None:
    from headrace import settings_schema

    text = (REFERENCE / "settings.md").read_text()
    # Settings of one pipeline are documented once, as those of the project.
    own = {p for p in settings_below(settings_schema.File) if not p.startswith("pipelines.NAME.")}

    assert len(own) > 10
    assert {path for path in own if f"`{path}`" not in text} == set()


def default_of(path: str) -> Any:
    """The default of a dotted setting, by the dataclasses of the schema."""
    from headrace import settings_schema

    value: Any = settings_schema.File()
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_every_default_of_a_setting_is_documented_as_it_is() -> None:
    text = (REFERENCE / "settings.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (`[^|]+`|[\d.]+) \|", text, flags=re.M)
    shown = {path: default.strip("`") for path, default in rows}
    wrong = {
        path: default
        for path, default in shown.items()
        if path != "project.production"  # depends on the profile
        and not (path == "project.pipelines" and default_of(path) == [])  # found by the loader
        and json.loads(default if default != '"unlimited"' else "null") != default_of(path)
    }

    assert len(shown) > 25
    assert wrong == {}


def test_no_page_calls_a_feature_missing_that_exists() -> None:
    """`(not in this version)` once outlived the day on which live tables and quarantine came."""
    assert [str(page) for page in PAGES if "not in this version" in page.read_text().lower()] == []


def test_every_error_slug_has_a_heading_and_no_heading_is_left_over() -> None:
    pages = [REFERENCE / f"{name}.md" for name in ("errors", "failures", "findings")]
    documented = [h for page in pages if page.exists() for h in headings(page)]
    slugs = all_slugs()

    assert len(documented) == len(set(documented))
    assert slugs - set(documented) == set()
    kebab = {h for h in documented if re.fullmatch(r"[a-z0-9-]+", h)}
    assert kebab - slugs == set()


def test_the_exit_code_of_each_error_is_documented_as_it_is() -> None:
    from headrace import errors

    text = (REFERENCE / "errors.md").read_text()
    written = dict(re.findall(r"^### ([a-z0-9-]+)\n\n\((\d)\)", text, flags=re.MULTILINE))
    real: dict[str, set[str]] = {}
    for file in SRC.rglob("*.py"):
        for kind, slug in raised_in(ast.parse(file.read_text(), file.name)):
            if kind != "Error" and hasattr(errors, kind):  # the boundary decides on a bare Error
                real.setdefault(slug, set()).add(str(getattr(errors, kind).exit_code))

    assert len(real) > 20
    assert {s: codes for s, codes in real.items() if written.get(s) not in {None, *codes}} == {}


def raised_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(class, slug) of each error that is created with a slug."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for keyword in node.keywords:
                if keyword.arg == "slug" and isinstance(keyword.value, ast.Constant):
                    yield node.func.id, keyword.value.value


def test_every_event_kind_is_documented() -> None:
    from headrace.model.events import EventKind

    assert {kind.value for kind in EventKind} - set(headings(REFERENCE / "events.md")) == set()


def test_every_state_and_ending_is_documented() -> None:
    from headrace.model.runs import Ending
    from headrace.model.status import State

    words = {*(s.value for s in State), *(e.value for e in Ending)}
    text = (DOCS / "glossary.md").read_text()

    assert {word for word in words if f"*{word}*" not in text} == set()


def test_every_exit_code_is_documented() -> None:
    from headrace import errors

    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    codes = {kind.exit_code for kind in kinds} | {0, 4, 5, 6}
    text = (REFERENCE / "exit-codes.md").read_text()

    assert {code for code in codes if f"| {code} |" not in text} == set()


def commands() -> Iterator[tuple[str, list[str]]]:
    import click

    from headrace.cli.main import main

    assert isinstance(main, click.Group)
    ctx = click.Context(main)
    for name in sorted(main.list_commands(ctx)):
        command = main.get_command(ctx, name)
        assert command is not None
        options = [o for p in command.params if isinstance(p, click.Option) for o in p.opts]
        yield name, [o for o in options if o.startswith("--") and o != "--help"]


def test_every_command_and_option_is_documented() -> None:
    page = REFERENCE / "cli.md"
    text = page.read_text()
    heads = " ".join(headings(page))

    missing = [name for name, _ in commands() if not re.search(rf"\b{name}\b", heads)]
    options = {o for _, found in commands() for o in found}

    assert missing == []
    assert {option for option in options if option not in text} == set()


GLOSSARY = (
    "pipeline, query, view, table, source, sink, run, version, event, progress, checkpoint, rule, "
    "alert, notifier, delivery, plan, step, quarantine, store"
)


_CALL = re.compile(r"\bheadrace((?: +(?:--?)?[A-Za-z-]+\b(?!_))+)")
_PROSE = {"as", "is", "brings"}  # "run headrace as that user", and what a headrace is


def wrong_calls(text: str) -> list[str]:
    """Commands and options of `headrace …` in a text that do not exist."""
    from headrace.cli.main import main as group

    found = []
    for call in _CALL.finditer(re.sub(r"--(?:project|profile) \S+ |--help.*", "", text)):
        command: click.Command = group
        for word in call[1].split():
            known = {o for p in (*command.params, *group.params) for o in p.opts}
            if word.startswith("-"):
                is_wrong = word not in {*known, "--help", "-h"}
            elif isinstance(command, click.Group):
                named = command.get_command(click.Context(command), word)
                is_wrong = named is None and word.islower() and word not in _PROSE
                command = named or click.Command(word)
            else:
                continue
            found += [f"headrace{call[1]}: {word}"] if is_wrong else []
    return found


def words_of(file: Path) -> Iterator[str]:
    """The texts of a file that people read; in Python code the strings, with X for values."""
    if file.suffix != ".py":
        yield re.sub(r"^(?:import|from) headrace\b.*$|\\n", "", file.read_text(), flags=re.M)
        return
    for node in ast.walk(ast.parse(file.read_text(), file.name)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"^(?:import|from) headrace\b.*$", "", node.value, flags=re.M)


def test_every_command_that_a_text_names_exists() -> None:
    files = [*SRC.rglob("*.py"), *SRC.rglob("*.js"), *PAGES, *DOCS.rglob("*.service")]

    wrong = {
        f"{file.relative_to(REPO)}: {call}"
        for file in files
        for text in words_of(file)
        for call in wrong_calls(text)
    }

    assert wrong == set()


def test_the_glossary_defines_every_word() -> None:
    defined = re.findall(r"^\*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(), flags=re.MULTILINE)

    assert set(GLOSSARY.split(", ")) - set(defined) == set()


# ---- ARCHITECTURE.md and CONTRIBUTING.md


def architecture() -> str:
    return (REPO / "ARCHITECTURE.md").read_text()


def packages() -> set[str]:
    """Those with code in them: an empty package has nothing to describe."""
    modules = [path for path in SRC.glob("*/*.py") if path.name != "__init__.py"]
    return {path.parent.name for path in modules}


def described_packages(text: str) -> set[str]:
    return set(re.findall(r"^\*\*(\w+)/\*\*", text, flags=re.MULTILINE))


def test_architecture_describes_every_package_and_no_other() -> None:
    assert described_packages(architecture()) == packages()


def test_every_package_has_an_invariant() -> None:
    paragraphs = architecture().split("\n\n")
    described = [p for p in paragraphs if described_packages(p)]

    assert [p.splitlines()[0] for p in described if "**Invariant:**" not in p] == []


def unknown_modules(text: str) -> list[str]:
    """Names in backticks that look like modules and are none: `web/doors`, `words.py`, and in the
    paragraph of a package also a bare `doors`."""
    wrong = []
    for paragraph in text.split("\n\n"):
        inside = [SRC / name for name in described_packages(paragraph)]
        for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/)?)`", paragraph):
            is_path = "/" in name or name.endswith(".py")
            if is_path or inside:
                places = [folder / name for folder in [*inside, SRC, REPO]]
                if not any(p.exists() or p.with_suffix(".py").exists() for p in places):
                    wrong.append(name)
    return wrong


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_module_that_a_page_names_exists(page: str) -> None:
    assert unknown_modules((REPO / page).read_text()) == []


def test_every_layer_of_the_imports_exists() -> None:
    (layers,) = re.findall(r"^Imports point downward.*?\n\n", architecture(), re.M | re.S)
    names = {name for group in re.findall(r"`([a-z_, |]+)`", layers) for name in group.split()}
    known = {path.stem for path in SRC.iterdir()}

    assert {name.strip(",") for name in names} - {"|"} - known == set()


def test_contributing_gives_the_worker_count_of_the_makefile() -> None:
    workers = re.findall(r"^WORKERS \?= (\d+)$", (REPO / "Makefile").read_text(), re.M)
    text = (REPO / "CONTRIBUTING.md").read_text()

    assert re.findall(r"(\w+) workers", text) == workers


def test_the_five_files_to_read_exist() -> None:
    listed = re.findall(r"^\d\. `(.+?)`", architecture(), flags=re.MULTILINE)

    assert len(listed) == 5
    assert [file for file in listed if not (SRC / file).is_file()] == []


@pytest.mark.parametrize(("page", "most"), LENGTHS.items())
def test_first_pages_stay_short(page: str, most: int) -> None:
    assert len((REPO / page).read_text().splitlines()) <= most


# ---- README.md


def readme() -> str:
    return (REPO / "README.md").read_text()


def test_the_readme_names_the_versions_that_the_package_requires() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    (versions,) = re.findall(r"^## Supported versions\n\n(.*)$", readme(), re.M)
    (pyspark,) = [one for one in project["dependencies"] if one.startswith("pyspark")]

    assert f"Python {project['requires-python'].strip('>=')} or newer" in versions
    assert pyspark == "pyspark>=4.2.0,<4.3"
    assert "PySpark 4.2," in versions


def test_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    rows = re.findall(r"^\| \[.*?\]\(docs/benchmarks\.md#(.*?)\) \| (.*?) \|$", readme(), re.M)
    sections = {
        re.sub(r"[^a-z]+", "-", part.partition("\n")[0].lower()): part
        for part in (DOCS / "benchmarks.md").read_text().split("\n## ")[1:]
    }

    assert len(rows) >= 4
    for anchor, figures in rows:
        numbers = re.findall(r"(?<!p)\b\d+(?:\.\d+)?(?: (?:ms|MB|%))?", figures)
        assert numbers
        assert [n for n in numbers if n not in sections[anchor]] == [], anchor


def test_the_readme_says_what_needs_a_service_manager_and_where_there_is_no_lock() -> None:
    assert "service manager" in readme()
    assert "Object stores have no lock" in readme()


def broken_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [t for t in targets if not re.match(r"[a-z]+:", t)]
    return [f"{page.name}: {t}" for t in local if not (page.parent / t).exists()]


def test_links_between_pages_lead_somewhere() -> None:
    assert [broken for page in PAGES for broken in broken_links(page)] == []


def anchors(page: Path) -> set[str]:
    """Of headings, as GitHub makes them, and `<a id="…">`."""
    text = page.read_text()
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings(page)]
    return {word.replace(" ", "-") for word in words} | set(re.findall(r'<a id="(.+?)"', text))


def broken_anchors(page: Path) -> list[str]:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text())
    targets = [(page if not file else page.parent / file, anchor) for file, anchor in links]
    return [f"{page.name}: {file.name}#{a}" for file, a in targets if a not in anchors(file)]


def test_links_to_a_section_lead_to_one() -> None:
    assert [broken for page in PAGES for broken in broken_anchors(page)] == []


# ---- what no file may contain

MACHINE = re.compile(
    r"(?<![\w.$}])/(?:work|root|home/\w+|Users/\w+|tmp/hr)/"  # a path of one machine
    r"|(?:extra-)?index-url|trusted-host|https?://\S+/simple\b"  # a package registry
    r"|\b[\w.-]*(?:jfrog|artifactory|nexus|pypi|maven)[\w-]*\.(?:org|com|io|net|internal|local)\b"
)


def text_files() -> Iterator[Path]:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPO, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in tracked:
        path = REPO / name
        if path.is_file() and path.stat().st_size < 1_000_000 and b"\0" not in path.read_bytes():
            yield path


def test_no_file_names_a_machine_or_a_registry() -> None:
    files = [f for f in text_files() if f != Path(__file__)]

    assert len(files) > 20
    assert [
        str(f.relative_to(REPO)) for f in files if MACHINE.search(f.read_text(errors="replace"))
    ] == []


# ---- examples


def test_every_example_can_be_read() -> None:
    assert len(BLOCKS) > 5
    assert [c for c in map(complaint, BLOCKS) if c] == []


def test_the_readme_and_the_tutorial_have_examples_that_run() -> None:
    assert {"README.md", "docs/tutorial.md"} - set(RUN) == set()


@pytest.mark.spark
@pytest.mark.parametrize("page", RUN)
def test_examples_run(page: str, tmp_path: Path) -> None:
    run_examples([b for b in BLOCKS if b.page == page], tmp_path)


def run_examples(page_blocks: list[Block], folder: Path) -> None:
    binaries = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    for block in page_blocks:
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.runs:
            command = [sys.executable, "-"] if block.language == "python" else ["bash", "-eu"]
            done = subprocess.run(
                command, input=block.text, cwd=folder, env=env, text=True,
                capture_output=True, timeout=240,
            )  # fmt: skip
            place = f"{block.page}:{block.line}"
            assert done.returncode == 0, f"{place}\n{done.stdout}\n{done.stderr}"


# ---- the systemd unit


def test_the_command_prints_the_systemd_unit() -> None:
    from click.testing import CliRunner

    from headrace.cli.main import main

    done = CliRunner().invoke(main, ["service", "print"])

    assert done.stdout == service.unit()
    assert "ExecStart=" in done.stdout


def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze: apt-get install systemd")
    unit = unit_on_this_machine(service.unit(), tmp_path)

    done = verify(unit)

    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""


def test_the_check_of_the_unit_can_fail(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze: apt-get install systemd")
    text = service.unit()
    unit = unit_on_this_machine(text.replace("ExecStart=", "ExecStrat="), tmp_path)

    done = verify(unit)

    assert done.returncode != 0 or "ExecStrat" in done.stderr


def test_the_guide_deploys_the_profile_of_the_unit() -> None:
    """Without it, `headrace up` beside the service would deploy the profile dev."""
    guide = (DOCS / "guides" / "deploy.md").read_text()
    (commands,) = [b.text for b in blocks("deploy.md", guide) if "headrace rollback" in b.text]

    assert commands.index("export HEADRACE_PROFILE=production") < commands.index("headrace up")


def unit_on_this_machine(text: str, folder: Path) -> Path:
    """The unit with an account and programs that exist here; the rest is as in the guide."""
    program = folder / "headrace"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = re.sub(r"^(Exec\w+=)\S+/headrace\b", rf"\1{program}", text, flags=re.MULTILINE)
    text = re.sub(r"^User=.*", "User=root", text, flags=re.MULTILINE)
    unit = folder / "headrace.service"
    unit.write_text(text)
    return unit


def verify(unit: Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


# ---- the checkers themselves


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see `web/doors` and `words.py`", ["web/doors", "words.py"]),
        ("**web/** `doors` is the table, `routes` is, too", ["doors"]),
        ("`driver/listener`, `errors.py`, `tests/house.py`, `driver/`, `headrace`", []),
    ],
)
def test_a_module_that_does_not_exist_is_caught(text: str, wrong: list[str]) -> None:
    assert unknown_modules(text) == wrong


def test_blocks_are_found_with_their_notes() -> None:
    text = (
        "<!-- file: a.py -->\n```python\nx = 1\n```\n\nwords\n\n<!-- runs -->\n```bash\ntrue\n```\n"
    )

    first, second = blocks("page.md", text)

    assert (first.file, first.text, first.runs) == ("a.py", "x = 1\n", False)
    assert (second.language, second.runs, second.line) == ("bash", True, 9)


@pytest.mark.parametrize(("language", "text"), [("python", "x ="), ("toml", "x"), ("bash", "if")])
def test_a_broken_example_is_caught(language: str, text: str) -> None:
    assert complaint(Block("page.md", 1, language, text, "")) is not None


def test_an_example_that_fails_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:3"):
        run_examples([Block("page.md", 3, "bash", "false\n", "runs")], tmp_path)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("fix: headrace checkpoint doctor NAME", ["checkpoint"]),
        ("see headrace alerts forget, or headrace up --now", ["forget", "--now"]),
        ("`headrace start X --accept-gap`; headrace --profile prod status -w", []),
    ],
)
def test_a_command_that_does_not_exist_is_caught(text: str, wrong: list[str]) -> None:
    assert [call.rpartition(": ")[2] for call in wrong_calls(text)] == wrong


def test_a_link_to_a_missing_section_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("## What it costs\n[here](#what-it-costs) [there](page.md#what-it-gains)\n")

    assert broken_anchors(page) == ["page.md: page.md#what-it-gains"]


def test_slugs_are_found_where_they_are_given() -> None:
    text = (
        'raise E("x", slug="a-b")\n'
        'class C(E):\n    slug = "c-d"\n    slug: str = "e-f"\n'
        'E(slug="g" if x else "h")\n'
        'E(slug=slug)\nT = (("i-j", "what", "fix"),)\n'
    )

    assert set(slugs_in(ast.parse(text))) == {"a-b", "c-d", "e-f", "g", "h", "i-j"}


@pytest.mark.parametrize(
    "text", [f"see /{'work'}/x", f"cd /{'root'}/project", "--extra-index-url x", "x.jfrog.io"]
)
def test_a_machine_s_path_or_a_registry_is_caught(text: str) -> None:
    assert MACHINE.search(text)
