"""The commands that documents print."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = frozenset({"cd", "costguard", "docker", "gcloud", "make", "pip"})


def documents() -> list[Path]:
    """Every Markdown file of the checkout, without what is installed or made in it."""
    made = {".venv", ".venv-lowest", ".cache", ".git", "node_modules", "build", "dist"}
    return sorted(path for path in ROOT.rglob("*.md") if not made & {*path.relative_to(ROOT).parts})


def section(text: str, heading: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    (body,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(body)


def commands_of(text: str) -> list[str]:
    """Returns commands in the order of the text: the lines of its blocks of commands, and commands named in its
    sentences.
    """
    commands: list[str] = []
    at = 0
    for block in re.finditer(r"^ *```(\w*)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        commands += _in_sentences(text[at : block.start()])
        commands += _in_block(block[2]) if not block[1] else []
        at = block.end()
    return list(dict.fromkeys([*commands, *_in_sentences(text[at:])]))


def _in_sentences(text: str) -> list[str]:
    """Returns commands in sentences, with those that stand alone, four spaces in."""
    alone = re.findall(r"^ {4,}(costguard .*)$", text, re.MULTILINE)
    return [" ".join(one.partition("  #")[0].split()) for one in [*re.findall(r"`(costguard [^`]+)`", text), *alone]]


def _in_block(block: str) -> list[str]:
    lines = [line.strip() for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.strip()]
    if any(line.startswith("[") for line in lines):  # a part of a settings file
        return []
    unknown = {line.split()[0] for line in lines} - PROGRAMS
    assert not unknown, f"a block of commands begins with {unknown}: say here what that program is"
    return [" ".join(line.partition("  #")[0].split()) for line in lines]
