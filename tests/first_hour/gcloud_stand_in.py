"""A `gcloud` for computers without it: it knows the commands of README.md alone, and asks the same calls.

`gcloud_stand_in.py ARGUMENTS`, with the address of the simulated cloud in CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import yaml


def main(words: list[str]) -> None:
    options, plain = _parted(words)
    match plain:
        case ["services", "enable", *names]:
            _post(f"projects/{options['project']}/services:batchEnable", {"serviceIds": names})
        case ["iam", "service-accounts", "create", name]:
            _post(f"projects/{options['project']}/serviceAccounts", {"accountId": name, "serviceAccount": {}})
            print(f"Created service account [{name}].")
        case ["iam", "roles", "create", name]:
            role = yaml.safe_load(Path(options["file"]).read_text("utf-8"))
            _post(f"projects/{options['project']}/roles", {"roleId": name, "role": role})
            print(f"Created role [{name}].")
        case ["iam", "roles", "update", name]:
            path = f"projects/{options['project']}/roles/{name}"
            held = _ask("GET", path)["includedPermissions"]
            wanted = sorted({*held, options["add-permissions"]})
            _ask("PATCH", f"{path}?updateMask=includedPermissions", {"includedPermissions": wanted})
        case ["projects", "add-iam-policy-binding", project]:
            _bind(f"projects/{project}", options)
        case ["iam", "service-accounts", "add-iam-policy-binding", account]:
            _bind(f"projects/{options['project']}/serviceAccounts/{account}", options)
        case ["config", "get", "account"]:
            print(os.environ["CLOUDSDK_CORE_ACCOUNT"])
        case _:
            sys.exit(f"this stand-in for gcloud does not know {' '.join(words)}")


def _parted(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options, as `--name value` or `--name=value`, and the other words."""
    options, plain, at = {}, [], iter(words)
    for word in at:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            options[name] = value if equals else next(at)
        else:
            plain.append(word)
    return options, plain


def _bind(resource: str, options: dict[str, str]) -> None:
    policy = _post(f"{resource}:getIamPolicy", {})
    binding = {"role": options["role"], "members": [options["member"]]}
    _post(f"{resource}:setIamPolicy", {"policy": {**policy, "bindings": [*policy.get("bindings", ()), binding]}})
    print(f"Updated IAM policy for {resource.partition('/')[2]}.")


def _post(path: str, body: dict[str, Any]) -> Any:
    return _ask("POST", path, body)


def _ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    url = f"{os.environ['CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM']}v1/{path}"
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}, method=method), timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(sys.argv[1:])
