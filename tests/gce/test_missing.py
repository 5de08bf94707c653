"""Google's missing resource is named: a machine type is not a project.

Google's words are recorded ones: a 404 of 2019 in Cloud Custodian's flight data (an instance template), the same for a
zone's accelerator type in fastai/course-v3#430, for a whole project in hashicorp/terraform#4031, and the 400 by which
an insert refuses a machine type in taskcluster/community-tc-config#75.
"""

from __future__ import annotations

import pytest
from tests.gce.bodies import ZONE, cloud_of, instance, page
from tests.gce.conftest import Connect
from tests.gce.server import google_error

from costguard.errors import NotFound, RequestRefused
from costguard.gce.errors import COMPUTE, LAUNCHING, from_status
from costguard.model.instance import ProvisioningModel

UNKNOWN = f"Unknown machine type n9-huge-4 in zone {ZONE} of project p."
NOT_FOUND = f"The resource 'projects/p/zones/{ZONE}/machineTypes/n9-huge-4' was not found"


def body(message: str) -> bytes:
    return google_error(404, "notFound", message).body


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (NOT_FOUND, UNKNOWN),
        (
            "The resource 'projects/p/zones/us-west1-b/acceleratorTypes/nvidia-tesla-p4' was not found",
            "nvidia-tesla-p4",
        ),
        ("The resource 'projects/p/global/instanceTemplates/instance-template-to-delete' was not found", "to-delete"),
    ],
)
def test_what_is_missing_inside_a_project_is_not_the_project(message: str, said: str) -> None:
    """The advice is about what is missing; nothing doubts the project."""
    error = from_status(404, body(message), "p", "Reading it")
    assert isinstance(error, NotFound)
    assert said in str(error)
    assert "Check that project" not in str(error)


@pytest.mark.parametrize("message", ["The resource 'projects/p' was not found", "no explanation", ""])
def test_a_missing_project_is_still_one(message: str) -> None:
    """Where Google names the project, or nothing, its spelling is what to check."""
    assert "Check that project p exists" in str(from_status(404, body(message), "p", "Reading it"))


def test_an_insert_of_an_unknown_type_says_which_and_where() -> None:
    """Google answers such an insert with a 400; it would be refused again, so it is a refusal."""
    message = (
        "Invalid value for field 'resource.machineType': 'zones/us-east4-a/machineTypes/n2-highcpu-16'. "
        "Machine type with name 'n2-highcpu-16' does not exist in zone 'us-east4-a'."
    )
    error = from_status(400, body(message), "p", "The insert of instance i in us-east4-a", service=LAUNCHING)
    assert isinstance(error, RequestRefused)
    assert str(error).startswith("Unknown machine type n2-highcpu-16 in zone us-east4-a of project p. Check how it is")


def test_other_refusals_keep_google_s_words() -> None:
    """A 400 about something else is reported as before."""
    message = (
        "Invalid value for field 'resource.disks[0].initializeParams.diskType': 'zones/us-east1-b/diskTypes/pd-x'."
    )
    assert message.rstrip(".") in str(from_status(400, body(message), "p", "The insert", service=LAUNCHING))
    assert COMPUTE.tells_refusals is False


def test_a_vm_of_an_unknown_type_is_seen_and_the_log_says_why(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The look is whole; the VM's shape is not known; a lookup of the type reports what Google said."""
    lists = cloud_of(
        instances=page("instances", {f"zones/{ZONE}": [instance(machineType=f"zones/{ZONE}/machineTypes/n9-huge-4")]})
    )
    setup = connect(
        lambda request: google_error(404, "notFound", NOT_FOUND) if "/machineTypes/" in request.path else lists(request)
    )
    look = setup.cloud.observe("p", None)
    assert look.instances_complete
    assert look.unread == ()
    (seen,) = look.instances
    assert not seen.shape.is_known
    assert seen.provisioning_model is ProvisioningModel.STANDARD
    assert UNKNOWN in caplog.text
    with pytest.raises(NotFound, match="Unknown machine type n9-huge-4"):
        setup.cloud.shape("p", ZONE, "n9-huge-4")
