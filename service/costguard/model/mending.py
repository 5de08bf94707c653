"""The commands that mend what Google refused: an API to enable, a role to grant."""

from __future__ import annotations

import re
import shlex

from costguard.model.observation import Unread

_COMMAND = re.compile(r"`(gcloud [^`]+)`")
_ACCOUNT = re.compile(r"\bto ([^\s@]+@[^\s@]+\.iam\.gserviceaccount\.com)")


def enabling(api: str, project: str) -> str:
    """The command that enables an API by its full name, such as `compute.googleapis.com`."""
    return shlex.join(["gcloud", "services", "enable", api, f"--project={project}"])


def command_for(project: str, part: Unread) -> str:
    """The command that the reason names, or that gives the role of `deploy/iam-role.yaml`; "" where none helps.

    `ACCOUNT` stands for the service account where the credentials do not say which one it is.
    """
    if named := _COMMAND.search(part.reason):
        return named[1]
    if part.code != "permission":
        return ""
    account = _ACCOUNT.search(part.reason)
    member = f"serviceAccount:{account[1] if account else 'ACCOUNT'}"
    role = f"projects/{project}/roles/costguard"
    return shlex.join(["gcloud", "projects", "add-iam-policy-binding", project, f"--member={member}", f"--role={role}"])


def with_command(project: str, part: Unread) -> str:
    """The reason, and the command where the reason does not name it."""
    command = command_for(project, part)
    return part.reason if not command or command in part.reason else f"{part.reason} Run `{command}`."
