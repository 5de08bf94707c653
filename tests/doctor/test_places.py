"""The doctor asks whether an organisation and folders may be searched, and names the role that lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from tests.gce.conftest import Waits

from costguard.doctor.ask_google import GoogleSetup
from costguard.doctor.examine import SetupPlan
from costguard.doctor.finding import CheckState, Finding
from costguard.doctor.permissions import Feature
from costguard.doctor.questions import Questions
from costguard.gce.asking import SetupQuestions
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
ORG, FOLDER = "organizations/123456789012", "folders/7"
PERMISSION = "cloudasset.assets.searchAllResources"


@contextmanager
def _findings(world: World, *places: str) -> Iterator[list[Finding]]:
    """The findings about these places."""
    plan = SetupPlan(("lab-one",), frozenset({Feature.WATCH, Feature.DISCOVERY}), places=places, reads_catalogue=False)
    with running(world) as url, Questions(30.0) as questions:
        google = SetupQuestions(url, wait=Waits(), now=world.clock.now)
        with closing(google):
            yield [one for one in GoogleSetup(plan, google, questions).findings() if one.where in places]


def _world() -> World:
    world = World(ManualClock(START), projects=["lab-one"])
    world.assets.folders["lab-one"] = "7"
    return world


def test_places_that_may_be_searched_are_ok() -> None:
    """Each place has one line."""
    with _findings(_world(), ORG, FOLDER) as findings:
        assert [(one.where, one.state) for one in findings] == [(ORG, CheckState.OK), (FOLDER, CheckState.OK)]


def test_a_place_that_may_not_be_searched_says_what_to_grant() -> None:
    """The role is made in the organisation, and bound on the folder."""
    world = _world()
    world.rights.withhold(FOLDER, PERMISSION)
    with _findings(world, ORG, FOLDER) as findings:
        (lacking,) = (one for one in findings if one.state is CheckState.NEEDS)
    assert (lacking.where, lacking.name) == (FOLDER, PERMISSION)
    assert "gcloud iam roles create costguardDiscovery --organization=123456789012" in lacking.command
    assert "gcloud resource-manager folders add-iam-policy-binding 7 " in lacking.command
    assert "--role=organizations/123456789012/roles/costguardDiscovery" in lacking.command


def test_a_place_that_does_not_answer_is_unknown() -> None:
    """A number that is wrong answers 403: nothing is claimed to lack."""
    with _findings(_world(), "organizations/9") as findings:
        assert [one.state for one in findings] == [CheckState.UNKNOWN]
