"""The output of `--help` is complete."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest
import typer
from tests.docstrings import is_fragment
from typer.core import TyperGroup
from typer.testing import CliRunner

from costguard.cli.app import app

COSTGUARD = typer.main.get_command(app)  # once: it takes a tenth of a second


def _paths(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from _paths(inner, (*path, name))


def _help(*path: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        code = COSTGUARD.main([*path, "--help"], "costguard", standalone_mode=False, terminal_width=200)
    assert code == 0
    return " ".join(printed.getvalue().replace("│", " ").split())


@pytest.mark.parametrize("path", list(_paths(COSTGUARD, ())), ids=" ".join)
def test_no_word_of_the_help_is_eaten(path: tuple[str, ...]) -> None:
    """Square brackets would be taken for markup, so no text of ours has them, and every word is shown."""
    command: object = COSTGUARD
    for name in path:
        assert isinstance(command, TyperGroup)
        command = command.commands[name]
    texts = [getattr(command, "help", ""), getattr(command, "epilog", "")]
    texts += [getattr(parameter, "help", "") for parameter in getattr(command, "params", ())]
    shown = _help(*path)
    for text in filter(None, texts):
        assert "[" not in text
        assert [word for word in text.split() if word not in shown] == []


def test_settings_are_named_as_the_readme_names_them() -> None:
    """`serve` and `sandbox` name keys of the settings whole, and who follows a clock that was sped up."""
    assert "server.listen" in _help("serve")
    assert "compute.endpoint and prices.endpoint" in _help("sandbox")
    assert "Only `costguard demo` follows a clock that was sped up" in _help("sandbox")


@pytest.mark.parametrize("path", list(_paths(COSTGUARD, ())), ids=" ".join)
def test_no_help_is_a_fragment(path: tuple[str, ...]) -> None:
    """The help of a command begins with its verb, and that of an option with what it sets or does."""
    command: object = COSTGUARD
    for name in path:
        assert isinstance(command, TyperGroup)
        command = command.commands[name]
    texts = [getattr(command, "help", "")]
    texts += [getattr(parameter, "help", "") for parameter in getattr(command, "params", ())]
    assert [text for text in texts if is_fragment(text or "") and not text.startswith("Only ")] == []


def test_every_command_has_json_and_says_what_for() -> None:
    """Scripts use any of them; help is a sentence and an example. `mcp` speaks JSON alone."""
    for path in _paths(COSTGUARD, ()):
        command: object = COSTGUARD
        for name in path:
            assert isinstance(command, TyperGroup)
            command = command.commands[name]
        if isinstance(command, TyperGroup) and not command.invoke_without_command:
            continue
        options = [option for parameter in getattr(command, "params", ()) for option in parameter.opts]
        assert "--json" in options or path == ("mcp",), path
        assert (getattr(command, "help", "") or "").strip(), path
        assert "xample" in (getattr(command, "epilog", "") or ""), path


def test_shells_complete_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The completion is what Typer prints for the shell that is named; which one runs the tests does not matter."""
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    for shell in ("bash", "zsh", "fish"):
        done = CliRunner().invoke(app, ["--show-completion", shell], prog_name="costguard")
        assert (done.exit_code, "costguard" in done.output) == (0, True)


_TYPES = re.compile(r"\b(?:TEXT|INTEGER|FLOAT|BOOLEAN|FILENAME)\b|<(?!\w+(?:\|\w+)+>)[^>]*>")


@pytest.mark.parametrize("path", list(_paths(COSTGUARD, ())), ids=" ".join)
def test_values_have_names_in_place_of_types(path: tuple[str, ...]) -> None:
    """TIME, JOB and FILE say what to type; TEXT, <str> and a switch's <bool> do not."""
    with redirect_stdout(io.StringIO()) as printed:
        COSTGUARD.main([*path, "--help"], "costguard", standalone_mode=False, terminal_width=200)
    rows = [line for line in printed.getvalue().splitlines() if re.match(r"│ \*?\s+\S|│ --", line)]
    assert [row for row in rows if _TYPES.search(row)] == []


def test_commands_that_work_on_the_servers_database_say_where_to_run() -> None:
    """The commands are those that read its settings and ask no server.

    `serve` is the server, and `checkpoints` needs none.
    """
    for path in _paths(COSTGUARD, ()):
        command: object = COSTGUARD
        for name in path:
            assert isinstance(command, TyperGroup)
            command = command.commands[name]
        options = [option for parameter in getattr(command, "params", ()) for option in parameter.opts]
        is_here = "--config" in options and path[0] not in ("serve", "checkpoints")
        if is_here and path[0] != "token":  # which asks a server where one is named
            assert "Run it where the server runs." in " ".join(str(getattr(command, "help", "")).split()), path
