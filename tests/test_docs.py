"""The docs say what the code does: every name in the code has its place, every example works.

An example is a fenced block. Python must compile, TOML and bash must parse. A comment on the line
above it asks for more: `<!-- file: NAME -->` puts it into the document's project folder,
`<!-- runs -->` executes it there (Python or bash), in the order of the document.
"""

from __future__ import annotations

import ast
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

REPO = Path(__file__).parent.parent
DOCS = REPO / "docs"
REFERENCE = DOCS / "reference"
SRC = REPO / "src" / "headrace"
PAGES = sorted([*REPO.glob("*.md"), *DOCS.rglob("*.md")])
LENGTHS = {"README.md": 150, "ARCHITECTURE.md": 150, "CONTRIBUTING.md": 100}
NOT_ROOMS = {"__pycache__"}


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
    """Why the block cannot be what it says it is."""
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
    """Dotted names of all settings; NAME stands for a name that the user chooses."""
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
    from headrace import shapes

    text = (REFERENCE / "settings.md").read_text()
    # What a pipeline may have of its own is described once, at the top.
    own = {p for p in settings_below(shapes.File) if not p.startswith("pipelines.NAME.")}

    assert len(own) > 10
    assert {path for path in own if f"`{path}`" not in text} == set()


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
            if kind != "Error" and hasattr(errors, kind):  # of a bare Error the border decides
                real.setdefault(slug, set()).add(str(getattr(errors, kind).exit_code))

    assert len(real) > 20
    assert {s: codes for s, codes in real.items() if written.get(s) not in {None, *codes}} == {}


def raised_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(class, slug) of each error that is made with a slug of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for keyword in node.keywords:
                if keyword.arg == "slug" and isinstance(keyword.value, ast.Constant):
                    yield node.func.id, keyword.value.value


def test_every_event_kind_is_documented() -> None:
    from headrace.model.events import Kind

    assert {kind.value for kind in Kind} - set(headings(REFERENCE / "events.md")) == set()


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
    for name, command in sorted(main.commands.items()):
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
                is_wrong = word not in command.commands and word.islower() and word not in _PROSE
                command = command.commands.get(word, click.Command(word))
            else:
                continue
            found += [f"headrace{call[1]}: {word}"] if is_wrong else []
    return found


def words_of(file: Path) -> Iterator[str]:
    """What people read of it: of Python code its texts, with what is filled in as X."""
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


def test_the_glossary_has_every_word_of_the_house() -> None:
    defined = re.findall(r"^\*\*(.+?)\*\*", (DOCS / "glossary.md").read_text(), flags=re.MULTILINE)

    assert set(GLOSSARY.split(", ")) - set(defined) == set()


# ---- the map


def architecture() -> str:
    return (REPO / "ARCHITECTURE.md").read_text()


def rooms() -> set[str]:
    return {p.name for p in SRC.iterdir() if p.is_dir() and p.name not in NOT_ROOMS}


def rooms_on_the_map(text: str) -> set[str]:
    return set(re.findall(r"^\*\*(\w+)/\*\*", text, flags=re.MULTILINE))


def test_every_room_is_on_the_map_and_every_room_on_the_map_exists() -> None:
    assert rooms_on_the_map(architecture()) == rooms()


def test_every_room_has_an_invariant() -> None:
    paragraphs = architecture().split("\n\n")
    described = [p for p in paragraphs if rooms_on_the_map(p)]

    assert [p.splitlines()[0] for p in described if "**Invariant:**" not in p] == []


def test_the_five_files_to_read_exist() -> None:
    listed = re.findall(r"^\d\. `(.+?)`", architecture(), flags=re.MULTILINE)

    assert len(listed) == 5
    assert [file for file in listed if not (SRC / file).is_file()] == []


@pytest.mark.parametrize(("page", "most"), LENGTHS.items())
def test_first_pages_stay_short(page: str, most: int) -> None:
    assert len((REPO / page).read_text().splitlines()) <= most


def broken_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [t for t in targets if not re.match(r"[a-z]+:", t)]
    return [f"{page.name}: {t}" for t in local if not (page.parent / t).exists()]


def test_links_between_pages_lead_somewhere() -> None:
    assert [broken for page in PAGES for broken in broken_links(page)] == []


# ---- what may not stand in any file

MACHINE = re.compile(
    r"(?<![\w.$}])/(?:work|root|home/\w+|Users/\w+|tmp/hr)/"  # somebody's machine
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


def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze: apt-get install systemd")
    unit = unit_on_this_machine((DOCS / "guides" / "headrace.service").read_text(), tmp_path)

    done = verify(unit)

    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""


def test_the_check_of_the_unit_can_fail(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze: apt-get install systemd")
    text = (DOCS / "guides" / "headrace.service").read_text()
    unit = unit_on_this_machine(text.replace("ExecStart=", "ExecStrat="), tmp_path)

    done = verify(unit)

    assert done.returncode != 0 or "ExecStrat" in done.stderr


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


# ---- the checker itself


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
        ("see headrace alerts show, or headrace up --now", ["show", "--now"]),
        ("`headrace start X --accept-gap`; headrace --profile prod status -w", []),
    ],
)
def test_a_command_that_does_not_exist_is_caught(text: str, wrong: list[str]) -> None:
    assert [call.rpartition(": ")[2] for call in wrong_calls(text)] == wrong


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
