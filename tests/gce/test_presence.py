"""A VM's presence is asked by its address, once, and without Google's client."""

from __future__ import annotations

import pytest
from tests.gce.bodies import single
from tests.gce.conftest import Connect
from tests.gce.server import Answer, google_error, json_answer

from costguard.model.instance import InstanceKey
from costguard.model.observation import Presence

# What proxies and gateways answer with 200 in place of the VM that was asked for.
NOT_THE_VM = (
    json_answer({}),
    json_answer([]),
    json_answer(None),
    json_answer({"status": "ok"}),
    Answer(b""),
    Answer(b"<html><body>Sign in to go on</body></html>"),
    json_answer(single(gce_id="0")),
    json_answer(single(gce_id="")),
    json_answer(single(id=None)),
    json_answer(single(kind=None)),
    json_answer(single("another", "102")),
    json_answer(single(kind="compute#instanceList")),
    json_answer(single(kind="compute#operation", gce_id="102")),
    json_answer({"kind": "compute#instanceList", "id": "102", "items": [single()]}),
    json_answer(single("trainer", "102", "us-east1-b")),
    json_answer({"error": {"code": 404, "message": "not found"}}),
)
KEY = InstanceKey("p", "101")
MISSING = "The resource 'projects/p/zones/us-central1-a/instances/trainer' was not found"


def missing(resource: str) -> Answer:
    return google_error(404, "notFound", f"The resource '{resource}' was not found")


@pytest.mark.parametrize(
    ("answer", "presence"),
    [
        (json_answer(single(status="TERMINATED")), Presence.THERE),
        (json_answer(single(gce_id="102")), Presence.GONE),
        *((answer, Presence.NOT_KNOWN) for answer in NOT_THE_VM),
        (missing("projects/p/zones/us-central1-a/instances/trainer"), Presence.GONE),
        (missing("projects/p"), Presence.NOT_KNOWN),
        (missing("projects/p/zones/us-central1-a"), Presence.NOT_KNOWN),
        (Answer(b"<html>Not found</html>", 404), Presence.NOT_KNOWN),
        (google_error(403, "forbidden"), Presence.NOT_KNOWN),
        (google_error(403, "rateLimitExceeded"), Presence.NOT_KNOWN),
        (google_error(503, "backendError"), Presence.NOT_KNOWN),
        (Answer(b"not JSON"), Presence.NOT_KNOWN),
    ],
)
def test_presence(connect: Connect, answer: Answer, presence: Presence) -> None:
    """Gone means that Google says this VM is missing, or that its name has another id; all else is not known."""
    setup = connect(lambda _: answer)
    assert setup.cloud.presence(KEY, "us-central1-a", "trainer") is presence
    assert [one.path for one in setup.server.requests] == [
        "/compute/v1/projects/p/zones/us-central1-a/instances/trainer"
    ]


def test_an_endpoint_with_a_trailing_slash(connect: Connect) -> None:
    """The slash that people write at the end of an address does no harm."""
    from tests.gce.conftest import Ticking

    from costguard.gce.client import ComputeCloud

    setup = connect(lambda _: json_answer(single()))
    cloud = ComputeCloud(setup.server.url + "/", Ticking())
    assert cloud.presence(KEY, "us-central1-a", "trainer") is Presence.THERE
    cloud.close()


def test_presence_is_asked_without_googles_client() -> None:
    """A guard that only watches does without its 75 to 120 MB, also when a VM is missing from a list."""
    import subprocess
    import sys

    code = """
import sys
from costguard.clock import SystemClock
from costguard.gce.client import ComputeCloud
from costguard.model.instance import InstanceKey
cloud = ComputeCloud("http://127.0.0.1:1", SystemClock())
print(cloud.presence(InstanceKey("p", "101"), "us-central1-a", "trainer").name)
print("google.cloud.compute_v1" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["NOT_KNOWN", "False"]


def test_importing_the_adapter_costs_little() -> None:
    """Neither Google's client nor its authentication is imported before it is needed."""
    import subprocess
    import sys

    code = "import sys, costguard.gce.client; print([m for m in sys.modules if m.startswith(('google.', 'requests'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
