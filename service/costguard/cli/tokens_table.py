"""Tokens and sessions as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from costguard.cli.format import when
from costguard.cli.tables import Row, cell, say, show_table


def show_tokens(console: Console, answer: dict[str, Any]) -> None:
    rows: list[Row] = [
        {
            "Id": cell(token["id"]),
            "Name": cell(token["name"]),
            "Speaks for": cell(token["owner"]),
            "May": cell(", ".join(token["permissions"])),
            "Made": cell(when(token["made_at"])),
            "Used": cell(when(token["last_used_at"]) or "never"),
            "Until": cell(_until(token), "" if token["is_usable"] else "dim"),
        }
        for token in answer["tokens"]
    ]
    if rows:
        show_table(console, tuple(rows[0]), rows, prose=("May",), spare=("Made", "May", "Speaks for"))
    else:
        say(console, "There is no token yet: `costguard token create NAME` makes one.")


def show_sessions(console: Console, answer: dict[str, Any]) -> None:
    rows: list[Row] = [
        {
            "Id": cell(session["id"]),
            "Who": cell(f"{session['address']}{' (this one)' if session['is_this'] else ''}"),
            "Role": cell(session["role"]),
            "By": cell({"link": "a link", "oidc": "the provider"}.get(session["via"], session["via"])),
            "From": cell(session["client"] or "-"),
            "Began": cell(when(session["began_at"])),
            "Used": cell(when(session["last_used_at"]) or "not yet"),
            "Until": cell(when(session["expires_at"])),
        }
        for session in answer["sessions"]
    ]
    if rows:
        show_table(console, tuple(rows[0]), rows, spare=("Role", "By", "Began"))
    else:
        say(console, "Nobody is signed in with a session: `costguard sign-in` makes a link.")


def _until(token: dict[str, Any]) -> str:
    if token["revoked_at"]:
        return f"revoked {when(token['revoked_at'])} by {token['revoked_by']}"
    if not token["expires_at"]:
        return "without an end"
    if token["is_usable"] and token["is_provisional"]:
        return f"{when(token['expires_at'])}, unless confirmed"
    return when(token["expires_at"]) if token["is_usable"] else f"over since {when(token['expires_at'])}"
