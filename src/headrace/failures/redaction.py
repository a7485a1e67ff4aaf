"""Removes secrets from text before it is stored or shown.

By value (secrets resolved from settings) and by key (text like `password=…`), because a value may
be unknown here, and an error message may lack the key.

Invariant: runs before truncation, because half a secret is still a secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
SECRET_CHARS_MIN = 4  # shorter values would hide ordinary words

# A longer key may have any prefix. Bounded, so that no text takes long to search.
_KEY = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|access[._-]?key(?![._-]?name)"
    r"|account[._-]?key"
    r"|shared[._-]?access[._-]?(?:key(?![._-]?name)|signature)|private[._-]?key|api[._-]?key"
    r"|routing[._-]?key|integration[._-]?key|webhook(?:[._-]?url)?|credentials?|sasl\.jaas\.config)"
    r"[\w.-]{0,60}"
)
# Words that follow in prose; a passphrase is rarely one of these.
_PROSE = (
    r"(?:is|was|are|has|had|does|did|must|may|might|can|cannot|could|should|will|would|for|of|from"
    r"|to|in|on|with|without|and|or|not|given|required|needed|expected|provided|supplied|entered"
    r"|missing|wrong|incorrect|invalid|mismatch|protected|prompt|file|length|when|that|it|too)"
)
# A pattern alone keeps its first group, the key, and hides the rest.
_RULES: tuple[str | tuple[str, str], ...] = (
    (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", HIDDEN),
    # A JAAS line contains quoted values and ends with a semicolon.
    r"(?im)(jaas[._-]?config[\"']?\s{0,8}[=:]\s{0,8}[\"']?)[^\n]*?(?:;[\"']?(?=\s|$|,|\})|$)",
    r"(?i)(LoginModule\s+(?:required|requisite|sufficient|optional)\s)[^\n;]*",
    r"(?i)\b(Endpoint=sb://)[^\s\"']+",
    (r"(?i)(\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@\"']*:)[^\s/\"']+(@)", rf"\1{HIDDEN}\2"),
    r"(?i)(\bauthorization[\"']?\s{0,8}[=:]\s{0,8}[\"']?)[^\s\"',]+(?:[ \t]+[^\s\"',]+)?",
    (r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}", rf"\1\2{HIDDEN}"),
    (
        r"(?i)https://hooks\.slack\.com/\S+"
        r"|https://[^\s\"'/]{1,253}/(?:[^\s\"'/]{1,100}/){0,8}(?:incoming)?webhook\w{0,40}/[^\s\"']+",
        HIDDEN,
    ),
    (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", HIDDEN),
    (rf"(?i)({_KEY}[\"']?\s{{0,8}}[=:]\s{{0,8}})\"(?:[^\"\\\n]|\\.)*\"", rf'\1"{HIDDEN}"'),
    (rf"(?i)({_KEY}[\"']?\s{{0,8}}[=:]\s{{0,8}})'(?:[^'\\\n]|\\.)*'", rf"\1'{HIDDEN}'"),
    rf"(?i)({_KEY}\s{{0,8}}[=:]\s{{0,8}})(?!\[hidden\])[^\s\"',;&)}}\]]+",
    # On a command line a space separates the two: `--password x`, or ['--password', 'x'].
    rf"(?i)((?<![\w-])--?[\w.-]{{0,60}}?{_KEY}[ \t]{{1,8}})"
    r"(?:\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|(?!-|\[hidden\])[^\s\"',;]+)",
    rf"(?i)(--?[\w.-]{{0,60}}?{_KEY}[\"'],\s{{0,8}}[\"'])(?!\[hidden\])[^\"'\n]+",
    r"(?i)(\b(?:passphrase|passw(?:or)?d|pwd)[ \t]{1,8})(?:\"(?:[^\"\\\n]|\\.)+\"|'[^'\n]+')",
    rf"(?i)(\bpassphrase[ \t]{{1,8}})(?!{_PROSE}\b|[-=:]|\[hidden\])[^\s\"',;]+",
    # "password authentication failed" is prose: hide only text that does not look like a word.
    r"(?i)(\b(?:passw(?:or)?d|pwd)[ \t]{1,8})"
    r"(?![-=:\[(])(?=[^\s\"',;]{0,60}[\d!@#$%^&*+~])[^\s\"',;]{4,}",
)
_COMPILED = tuple(
    (re.compile(pattern), by)
    for pattern, by in ((r, rf"\1{HIDDEN}") if isinstance(r, str) else r for r in _RULES)
)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """Hides the given values, also URL- and base64-encoded, and text that looks like a secret."""
    for form in sorted(_forms(secrets), key=len, reverse=True):  # longest first: may contain others
        text = text.replace(form, HIDDEN)
    for pattern, by in _COMPILED:
        text = pattern.sub(by, text)
    return text


def _forms(secrets: Collection[str]) -> set[str]:
    forms: set[str] = set()
    for secret in secrets:
        for value in {secret, secret.strip()}:
            if len(value) < SECRET_CHARS_MIN:
                continue
            encoded = base64.b64encode(value.encode()).decode()
            escaped = value.encode("unicode_escape").decode()
            forms |= {value, quote(value, safe=""), quote_plus(value), encoded, escaped}
            forms.add(value.replace("\\", "\\\\").replace('"', '\\"'))
            # A log may split a PEM into lines.
            forms |= {line for line in value.splitlines() if len(line) >= 16}
    return forms
