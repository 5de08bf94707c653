"""The server that a command talks to: the client, with its errors in the words of the command line."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from costguard.errors import CostguardError, Invalid
from costguard_client.answers import HOW_NAMED
from costguard_client.clients import THIS_COMPUTER as THIS_COMPUTER
from costguard_client.clients import TIMEOUT_S, Client
from costguard_client.steps import Flow

DEFAULT_URL = ""  # the profile's server, else this computer's
# Options that are not named like the query parameter or the body's field.
_QUERY_OPTIONS = {"end_reason": "reason", "gce_id": "id", "group_by": "by"}
BODY_OPTIONS = {  # `launch_options` adds those of jobs
    "code": "--workdir",
    "deadline_in_hours": "--deadline",
    "by": "--owner",
    "permissions": "--permission",
    "members": "--member",
}
_NO_OPTION = {"", "budget", "guard_url"}  # fields that no option sets
# For the advice of a 404: the command that lists what its REST path lists.
_LISTED_BY = {
    "jobs": "costguard jobs --all",
    "instances": "costguard ps --all",
    "tokens": "costguard token list",
    "sessions": "costguard session list",
}
_LISTING = re.compile(r"GET /api/v1/(\w+)(?:\?\S*)? lists")
_ATTEMPTS = re.compile(r"GET /api/v1/jobs/(\w+)/attempts")

Result = TypeVar("Result")


class WrongUsage(CostguardError):
    """The server rejects the value of an option."""


class ServerClient(Client):
    """A server by its address. Its token comes from the environment or the profile: others can read arguments."""

    def __init__(
        self,
        url: str,
        environ: Mapping[str, str] = os.environ,
        pause: Callable[[float], object] = threading.Event().wait,
        timeout: float = TIMEOUT_S,
    ) -> None:
        super().__init__(url, environ=environ, pause=pause, timeout=timeout, program="cli")

    def finish(self, flow: Flow[Result]) -> Result:
        try:
            return super().finish(flow)
        except CostguardError as error:
            raise _as_typed(error) from None


def _as_typed(error: CostguardError) -> CostguardError:
    """Fields as the options that set them, and commands in place of REST paths."""
    if isinstance(error, Invalid):
        wrong = [f"{_option(where)}{message}" for where, message in error.fields]
        if not wrong:
            return WrongUsage(error.message, error.what_next)
        return WrongUsage("\n".join(wrong), "Add --help to see what each option takes.")
    error.what_next = _as_command(error.what_next.replace(HOW_NAMED, "with --url or COSTGUARD_URL"))
    return error


def _as_command(what_next: str) -> str:
    """The advice of a problem with commands in place of REST paths: `costguard jobs --all` instead of a GET."""

    def named(listing: re.Match[str]) -> str:
        command = _LISTED_BY.get(listing[1])
        return f"`{command}` lists" if command else listing[0]

    return _ATTEMPTS.sub(r"`costguard job \1`", _LISTING.sub(named, what_next))


def _option(where: str) -> str:
    """`--id: ` for `query.gce_id`; the items of a list, such as `query.status.0`, are one option."""
    place, _, name = where.partition(".")
    first, _, rest = name.partition(".")
    if place != "body":
        parameter = first or place
        return f"--{_QUERY_OPTIONS.get(parameter, parameter)}: "
    field = f"{first}.{rest.partition('.')[0]}" if rest and first in {"checkpoint", "overrides"} else first
    if field in _NO_OPTION:
        return ""
    named = BODY_OPTIONS.get(field) or BODY_OPTIONS.get(f"{field}.location")
    return f"{named or '--' + field.rpartition('.')[2].replace('_', '-')}: "
