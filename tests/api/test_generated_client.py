"""The API as client generators and validators see it: programs that nobody here wrote read its document."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from tests.api import story
from tests.serving import serving

from costguard.db.transaction import Database
from costguard.model.access import Role

_USE = """
import json, sys
from guard_client import AuthenticatedClient
from guard_client.api.instances import list_instances
from guard_client.api.jobs import cancel_job, get_job, launch_job
from guard_client.api.spend import get_spend
from guard_client.models import CancelBody, Grouping, JobBody

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)
fleet = list_instances.sync(client=client)
body = JobBody.from_dict({"preset": "t4", "image": "ghcr.io/lab/train:v1", "command": ["python", "train.py"]})
launched = launch_job.sync(client=client, body=body, idempotency_key="generated-1")
again = launch_job.sync(client=client, body=body, idempotency_key="generated-1")
cancelled = cancel_job.sync(launched.job.id, client=client, body=CancelBody(reason="a test"))
spend = get_spend.sync(client=client, group_by=[Grouping("preset")])
print(json.dumps({
    "names": [vm.name for vm in fleet.instances],
    "states": sorted({str(vm.status) for vm in fleet.instances}),
    "job": launched.job.id,
    "again": again.job.id,
    "asked_by": cancelled.job.cancel_asked_by,
    "shown": get_job.sync(launched.job.id, client=client).job.id,
    "grouped": [str(each) for each in spend.group_by],
}))
"""


@pytest.fixture
def lab(sqlite_database: Database) -> Iterator[story.Story]:
    lab = story.make_story(sqlite_database)
    yield lab
    lab.authenticator.close()


def test_the_document_is_openapi_31_by_an_independent_validator(lab: story.Story) -> None:
    """openapi-spec-validator, which holds it against the specification's own schema."""
    document = lab.app.openapi()
    assert document["openapi"].startswith("3.1.")
    assert [str(error.message) for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_a_generated_client_lists_launches_and_cancels(lab: story.Story, tmp_path: Path) -> None:
    """openapi-python-client makes a package of it without a warning, and that package works against a real server."""
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(lab.app.openapi()), "utf-8")
    made = tmp_path / "made"
    generated = _run(
        tmp_path, "-m", "openapi_python_client", "generate", f"--path={document}", f"--output-path={made}",
        "--meta=none", f"--config={_config(tmp_path)}", "--fail-on-warning",
    )  # fmt: skip
    assert generated.returncode == 0, generated.stdout + generated.stderr
    made.rename(tmp_path / "guard_client")
    with serving(lab.app) as site:
        used = _run(tmp_path, "-c", _USE, site, lab.token(Role.OPERATOR, story.ADA))
    assert used.returncode == 0, used.stderr
    answered = json.loads(used.stdout)
    assert "trainer-3" in answered["names"]
    assert "running" in answered["states"]
    assert answered["again"] == answered["shown"] == answered["job"]
    assert answered["asked_by"] == story.ADA
    assert answered["grouped"] == ["preset"]


def _config(folder: Path) -> Path:
    """No linters run over what is made: they would not change what it does."""
    path = folder / "client.yaml"
    path.write_text("post_hooks: []\n", "utf-8")
    return path


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
