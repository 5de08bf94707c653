"""The frame of every command: groups in the help, and types that are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def _named(parameters: list[Any]) -> list[Any]:
    """A switch has no value, and an argument's name says what it is: no type of Python's stands next to them."""
    for one in parameters:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
        if one.param_type_name == "argument":
            one.display_type_rich = _no_type
    return parameters


def _no_type(ctx: object) -> None:  # noqa: ARG001 as Typer asks
    return None


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _named(super().get_params(ctx))


class CommandGroup(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _named(super().get_params(ctx))


class CommandGroupWithDefault(CommandGroup):
    """A group in which `default` may be left out: what begins with no command and no option is for it."""

    default = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class CommandLine(typer.Typer):
    """Typer's, whose commands are made by these classes. Commands that are added stand under `panel` in the help."""

    panel: str | None = None

    def __init__(self, *, cls: type[TyperGroup] = CommandGroup, **settings: Any) -> None:
        super().__init__(cls=cls, **settings)

    def command(  # type: ignore[override]
        self, name: str | None = None, *, cls: type[TyperCommand] = Command, **settings: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return super().command(name, cls=cls, rich_help_panel=self.panel, **settings)

    def add_typer(self, typer_instance: typer.Typer, **settings: Any) -> None:
        super().add_typer(typer_instance, rich_help_panel=self.panel, **settings)
