"""Finds credentials where they do not belong: in a command, an environment variable, or the text of an error."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log2

# Bounded wherever a text could begin to match at every place: what is looked through may be long and hostile.
_SHAPES = (
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a Google API key", re.compile(r"\bAIza[\w-]{35}")),
    ("a Google access token", re.compile(r"\bya29\.[\w.-]{20,}")),
    ("a Google refresh token", re.compile(r"(?<![\w/])1//0[\w-]{20,}")),
    ("a Google client secret", re.compile(r"\bGOCSPX-[\w-]{20,}")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})")),
    ("a GitLab token", re.compile(r"\bglpat-[\w-]{20,}")),
    ("a Slack token", re.compile(r"\bx(?:ox[abceoprs]|app)-[\w-]{10,}")),
    ("an OpenAI or Anthropic key", re.compile(r"(?<![\w-])sk-(?=[\w-]{0,200}\d)[\w-]{20,}")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")),
    ("a signed token (JWT)", re.compile(r"(?<![\w-])eyJ[\w-]{10,1000}\.eyJ[\w-]{10,}")),
    (
        "a password in an address",
        re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,19}://[^\s/:@$]{0,100}:[^\s/:@$]{1,300}@"),
    ),
)
# A value at the end of its word, its quotes left out.
_ASSIGNED = re.compile(r"""(?<![\w.-])(-{0,2}[A-Za-z][\w.-]*)=["']?([^\s"';&|]+)""")
_OPTION = re.compile(r"""(?<![\w.-])(--[A-Za-z][\w.-]*)\s+["']?([^\s"';&|-][^\s"';&|]*)""")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_PASSWORDS = frozenset({"password", "passwd", "pwd", "passphrase"})
_KEYS = frozenset({"token", "secret", "apikey", "credential", "credentials"})
_KINDS_OF_KEY = frozenset({"api", "access", "secret", "private", "auth", "account", "service"})
_ELSEWHERE = re.compile(r"[$%<{*]|/|\.{1,2}/|~|[a-z0-9]+://|projects/")  # a variable, a file, a reference
_LEAST_BITS = 3.0  # a character; English is below, random letters and digits of this length are above
_SHORTEST_KEY = 16


def in_command(words: Sequence[str]) -> str | None:
    """Names the kind of credential that the command holds, without any of it; None: none was recognised."""
    for word in words:
        if kind := in_text(word):
            return kind
    for name, value in pairwise(words):
        if name.startswith("--") and "=" not in name and (kind := _of_pair(name, value)):
            return kind
    return None


def in_environment(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names of variables that hold a credential, each with its kind."""
    for name, value in variables.items():
        if kind := in_text(value) or _of_pair(name, value):
            yield name, kind


def in_text(text: str) -> str | None:
    for kind, shape in _SHAPES:
        if shape.search(text):
            return kind
    for pairs in (_ASSIGNED, _OPTION):
        for name, value in pairs.findall(text):
            if secret := _of_pair(name, value):
                return secret
    return None


_KEY_BEGINS, _KEY_ENDS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"), re.compile(r"-----END [A-Z ]*PRIVATE KEY")


def hidden(text: str) -> str:
    """The text without lines that hold what looks like a credential. A change's sign, `+` or `-`, stays."""
    kept = []
    is_key = False
    for line in text.split("\n"):
        is_key = is_key or _KEY_BEGINS.search(line) is not None
        kind = "a private key" if is_key else in_text(line)
        if _KEY_ENDS.search(line):
            is_key = False
        kept.append(f"{line[:1] if line[:1] in ('+', '-') else ''}[hidden: {kind}]" if kind else line)
    return "\n".join(kept)


_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.{0,6000}?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s{1,3}[\w.~+/=-]{12,4000}", re.IGNORECASE)
_NAMED = re.compile(
    r"""(?<![\w.-])([\w-]{0,30}(?:token|secret|password|passwd|key)["']?\s{0,3}[:=]\s{0,3}["']?)([^\s"',;&}]{6,4000})""",
    re.IGNORECASE,
)
_REST = r"[\w.~+/=-]{0,4000}"


def masked(text: str) -> str:
    """The text with a word in the place of each thing that looks like a credential, and all else as it was."""
    text = _KEY_BLOCK.sub("[hidden: a private key]", text)
    for kind, shape in _SHAPES:
        text = re.sub(f"(?:{shape.pattern}){_REST}", f"[hidden: {kind}]", text)
    text = _BEARER.sub(r"\1 [hidden: a token]", text)
    return _NAMED.sub(_masked_pair, text)


def _masked_pair(pair: re.Match[str]) -> str:
    name = pair[1].rstrip(" :=\"'")
    return f"{pair[1]}[hidden: a secret]" if _of_pair(name, pair[2]) else pair[0]


def _of_pair(name: str, value: str) -> str | None:
    """A token counts where it looks random: `--token_budget 2048` and `HF_TOKEN=$TOKEN` are no secrets."""
    if not value or value.startswith("-") or _ELSEWHERE.match(value):
        return None
    words = [word.lower() for word in _WORDS.findall(name)]
    last, before = words[-1:], words[-2:-1]
    if last and last[0] in _PASSWORDS:
        return f"a password ({name})"
    is_key = bool(last) and (last[0] in _KEYS or (last[0] == "key" and bool(before) and before[0] in _KINDS_OF_KEY))
    return f"a secret ({name})" if is_key and _looks_random(value) else None


def _looks_random(text: str) -> bool:
    if len(text) < _SHORTEST_KEY or not re.search(r"[0-9]", text) or not re.search(r"[A-Za-z]", text):
        return False
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * log2(share) for share in shares) >= _LEAST_BITS
