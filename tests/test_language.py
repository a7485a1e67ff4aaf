"""Plain English: texts use the ordinary word.

The list is short on purpose. It holds the words that once made this code base hard to read, each
with the word to write instead.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).parent.parent

# pattern -> what to write instead
BANNED = {
    r"\banew\b": "again",
    r"\btold\b": "reported, shown, set, given",
    r"\bwill not do\b": "Invalid ...",
    r"(?-i:\bis none\b)": "Unknown ..., is not a ...",
    r"(?-i:\bare none\b)": "are not ...",
    r"\bis behind it\b": "follows, is past it",
    r"\bwhoever\b": "the reader, any process that",
    r"\bsomebody\b": "a user, a person, another process",
    r"\bwithout a word\b": "silently",
    r"\bdoors?\b": "endpoint",
    r"\bof the house\b": "built-in, of Headrace",
    r"\bout of the house\b": "to other systems",
    r"\bwhere it stands\b": "its position",
    r"\bstands at\b": "is at",
    r"\bstood at\b": "was at",
    r"\bfor good\b": "permanently",
    r"\bthat is how it is\b": "by design",
    r"\bhow it is\b": "its status",
    r"\bwill be had\b": "is available",
    r"\bgets on\b": "progresses",
    r"\bin its hands\b": "under its control",
    r"\bholds? it against\b": "compares it with",
    r"\bheld against\b": "compared with",
    r"\bfor ever\b": "forever",
    r"\bnobody will ever\b": "will never",
}

ANY_BANNED = re.compile("|".join(BANNED), re.IGNORECASE)


def complaints(text: str, where: str) -> list[str]:
    if not ANY_BANNED.search(text):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, better in BANNED.items():
            if match := re.search(pattern, line, re.IGNORECASE):
                found.append(f"{where}:{number}: {match[0]!r}, better: {better}")
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Everything that people read, with the line numbers of its file."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPO, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in done.stdout.splitlines():
        path = REPO / name
        if name.startswith("src/") and path.suffix in (".py", ".js", ".html", ".toml"):
            yield name, path.read_text()
        if path.suffix == ".md" and name != "CHANGELOG.md":  # it names what was renamed
            yield name, path.read_text()


def test_texts_use_the_ordinary_word() -> None:
    assert [one for where, text in texts() for one in complaints(text, where)] == []


def test_a_banned_word_is_noticed_with_its_line_and_a_better_one() -> None:
    assert complaints("fine\nIt is made anew.", "a.py") == ["a.py:2: 'anew', better: again"]
