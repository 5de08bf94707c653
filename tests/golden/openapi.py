"""The OpenAPI document with its keys sorted, and what each type of problem means."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fastapi.testclient import TestClient
from tests.api import story
from tests.golden.databases import migrated

from costguard.errors import KINDS


def texts() -> Mapping[str, str]:
    with migrated() as database:
        sample = story.make_story(database)
        document = sample.app.openapi()
        client = TestClient(sample.app, headers={"Authorization": f"Bearer {story.MASTER}"})
        problems = {kind: client.get(f"/problems/{kind}").json() for kind in sorted(KINDS)}
        sample.authenticator.close()
    return {"openapi/openapi.json": _json(document), "openapi/problems.json": _json(problems)}


def _json(value: object) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
