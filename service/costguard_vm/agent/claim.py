"""Asks the guard for the token of this VM's attempt, where the VM's metadata cannot hold it.

The VMs of a group share one metadata table. Each proves by Google's identity document which instance it is
(docs.cloud.google.com/compute/docs/instances/verifying-instance-identity), and gets its attempt, its place and its
token in answer.
"""

from __future__ import annotations

import json
import os
import secrets
import urllib.parse
from collections.abc import Callable
from typing import Any

from .calls import HttpCalls, Metadata
from .failures import Trouble, patiently
from .files import read_json, say, write_json
from .settings import NotStarted

MOST_PAUSE_S = 30.0  # the VM bills, and its guard sees it within seconds
IDENTITY = "instance/service-accounts/default/identity"


def claimed_settings(
    shared: str, metadata: Metadata, home: str, wait: Callable[[float], object]
) -> tuple[str, str] | None:
    """Returns the settings and the token of this VM's own attempt; None where the metadata hold them.

    The answer is kept on the VM's disk with the instance's id, so that a later agent needs no guard to begin, and a VM
    on a copy of the disk asks for itself. Raises NotStarted for settings that no guard wrote.
    """
    document = json.loads(shared)
    claim = document.get("claim") if isinstance(document, dict) else None
    if not isinstance(claim, dict):
        return None
    path = os.path.join(home, "claim.json")
    instance = patiently(lambda: metadata.get("instance/id")[0], wait, 0, 1).strip()
    kept = read_json(path)
    if kept.get("instance") != instance or "secret" not in kept:
        kept = {"instance": instance, "secret": secrets.token_hex(32)}
        write_json(path, kept)  # before it is shown: a repeat must be known as this agent's
    if "answer" not in kept:
        kept["answer"] = _answer(document, claim, kept["secret"], metadata, wait)
        write_json(path, kept)
    return json.dumps(_merged(document, kept["answer"])), str(kept["answer"]["token"])


def _answer(
    document: dict[str, Any], claim: dict[str, Any], secret: str, metadata: Metadata, wait: Callable[[float], object]
) -> dict[str, Any]:
    """Asks until the guard answers: it may not have seen this VM yet, or not reach Google's keys."""
    http, guard = HttpCalls(str(document.get("guard_ca", ""))), str(document.get("guard", "")).rstrip("/")
    if not guard.startswith(("http://", "https://")) or not isinstance(claim.get("audience"), str):
        raise NotStarted("costguard-attempt does not say how this VM proves which it is")
    query = urllib.parse.urlencode({"audience": claim["audience"], "format": "full"})
    pause, said = float(document.get("retry_s", 1.0)), ""
    while True:
        try:
            proof, _ = metadata.get(f"{IDENTITY}?{query}")
            body = json.dumps({"job": str(claim.get("job", "")), "document": proof.strip(), "secret": secret})
            answer, _ = http(f"{guard}/api/v1/vm-claims", {"Content-Type": "application/json"}, body.encode())
            return _checked(json.loads(answer))
        except (Trouble, ValueError) as trouble:
            if str(trouble) != said:
                said = str(trouble)
                say(f"the guard has not said yet which attempt this VM is for: {said}")
        wait(pause)
        pause = min(MOST_PAUSE_S, 2 * pause)


def _checked(answer: Any) -> dict[str, Any]:
    """Raises ValueError for what is no answer of a guard."""
    kinds = (("attempt", str), ("token", str), ("node", int), ("image", str))
    if not isinstance(answer, dict) or not all(isinstance(answer.get(name), kind) for name, kind in kinds):
        raise ValueError("the guard's answer is not understood")
    return answer


def _merged(document: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Puts what is this VM's own into the settings that all VMs of the group share."""
    merged = {name: value for name, value in document.items() if name != "claim"}
    merged["attempt"] = answer["attempt"]
    merged["gang"] = {**merged.get("gang", {}), "node": str(answer["node"])}
    if answer["image"]:
        merged["image"] = answer["image"]
    if merged.get("logs"):
        merged["logs"] = f"{merged['logs'].rstrip('/')}/{answer['attempt']}"
    return merged
