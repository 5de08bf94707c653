"""Known vulnerabilities of locked packages, as OSV lists them: https://google.github.io/osv.dev/post-v1-querybatch/."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import requests

OSV = "https://api.osv.dev"
ACCEPTED = Path(__file__).with_name("accepted.toml")
_LONGEST_S = 30
_MOST_PAGES = 20


class NotReached(Exception):
    """The database of vulnerabilities did not answer, or not with what it promises."""


@dataclass(frozen=True, slots=True)
class Vulnerability:
    package: str
    version: str
    id: str
    summary: str = ""

    def __str__(self) -> str:
        return f"{self.package} {self.version}: {self.id} {self.summary}".rstrip()


def vulnerabilities(packages: Mapping[str, str], address: str = OSV) -> list[Vulnerability]:
    """Returns the vulnerabilities of these versions, in the order of their names; two lists can have the same one.

    Raises NotReached.
    """
    waiting = [(name, packages[name], "") for name in sorted(packages)]
    listed: list[Vulnerability] = []
    for _ in range(_MOST_PAGES):
        if not waiting:
            return [_described(one, address) for one in listed]
        answers = _asked(waiting, address)
        following = []
        for (name, version, _), answer in zip(waiting, answers, strict=True):
            listed += [Vulnerability(name, version, str(one["id"])) for one in answer.get("vulns", [])]
            if answer.get("next_page_token"):
                following.append((name, version, str(answer["next_page_token"])))
        waiting = following
    raise NotReached(f"{address} has more than {_MOST_PAGES} pages for {waiting[0][0]}")


def _asked(packages: list[tuple[str, str, str]], address: str) -> list[dict[str, Any]]:
    """Sends one request for all; the answers come in the same order."""
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version} | ({"page_token": page} if page else {})
        for name, version, page in packages
    ]
    try:
        answer = requests.post(f"{address}/v1/querybatch", json={"queries": queries}, timeout=_LONGEST_S)
        answer.raise_for_status()
        results = answer.json()["results"]
    except (requests.RequestException, ValueError, KeyError) as error:
        raise NotReached(f"{address} cannot be asked ({type(error).__name__})") from error
    if len(results) != len(packages):
        raise NotReached(f"{address} answered {len(results)} of {len(packages)} questions")
    return [result or {} for result in results]


def _described(one: Vulnerability, address: str) -> Vulnerability:
    """Adds its summary, where there is one: the list has ids alone."""
    try:
        answer = requests.get(f"{address}/v1/vulns/{one.id}", timeout=_LONGEST_S)
        answer.raise_for_status()
        summary = answer.json().get("summary", "")
    except (requests.RequestException, ValueError):
        return one
    return Vulnerability(one.package, one.version, one.id, str(summary))


def unaccepted(listed: list[Vulnerability], accepted: Mapping[str, Any], today: date) -> list[Vulnerability]:
    """Returns those that `accepted.toml` does not name with a reason, until the day that it names."""
    return [one for one in listed if not (one.id in accepted and accepted[one.id]["until"] >= today)]


def accepted_here() -> dict[str, Any]:
    """Returns the accepted ones by id: `reason`, and `until`, the last day on which it holds."""
    return tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))
