"""`costguard google-role`: a custom role of Google's, with what one part of Costguard may do in a project."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from costguard.cli.options import AsJson, print_json
from costguard.doctor.permissions import ROLES, held_by

_EXAMPLES = """Examples:

  costguard google-role                     what Costguard may read

  costguard google-role costguardStop | gcloud iam roles create costguardStop --project ml-lab --file /dev/stdin
"""
_CUSTOM = {role.name: role for role in ROLES if role.file}
RoleName = StrEnum("RoleName", {name: name for name in _CUSTOM})  # type: ignore[misc]  # its names are in one list


def register(app: typer.Typer) -> None:
    app.command("google-role", epilog=_EXAMPLES)(google_role)


def google_role(
    name: Annotated[RoleName, typer.Argument(metavar="NAME", help=f"The role: {', '.join(_CUSTOM)}.")] = RoleName(
        next(iter(_CUSTOM))
    ),
    as_json: AsJson = False,
) -> None:
    """Print a role with the permissions that Costguard needs, as `gcloud iam roles create --file` reads it.

    The first only reads; the others stop VMs, stop those that a group or notebook keeps, run jobs, and find projects.
    """
    role = _CUSTOM[name]
    fields = {
        "title": role.title,
        "description": role.description,
        "stage": "GA",
        "includedPermissions": held_by(role),
    }
    if as_json:
        print_json(fields)
        return
    for key, value in fields.items():
        if isinstance(value, str):
            print(f"{key}: {json.dumps(value)}")
        else:
            print(f"{key}:", *(f"  - {one}" for one in value), sep="\n")
