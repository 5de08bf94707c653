"""Jobs and deployed models of Vertex AI are idle by its own metrics, a model only without requests."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.builders import PROJECT, at
from tests.ledger.test_idle import HOUR, NOW, RULE, line

from costguard.ledger.idle.evidence import Before, MeasuredRun, evidence
from costguard.model.instance import InstanceKind, Shape, measured_as
from costguard.model.utilisation import Evidence, IdleState, Metric, Sample, Series, Usage

GPUS, HOST = ("nvidia-tesla-t4", 2), (16, 60 * 1024)
TWO = Shape("2 x n1-standard-8 (Vertex prediction)", *HOST, *GPUS)
JOBS = Shape("2 x n1-standard-8 (Vertex training, 100 GiB pd-ssd)", *HOST, *GPUS)
WITHOUT = Shape("n1-standard-8 (Vertex prediction)", 8, 30 * 1024)
MODEL_ID, JOB_ID = "vertex.endpoints.us-central1.88.99", "vertex.customJobs.us-central1.4567"
RUNTIME = "its use is not known: Colab Enterprise has no metric of it; "
KEYS = {MODEL_ID: "endpoints/88/99", JOB_ID: "customJobs/4567"}


def run(gce_id: str, kind: InstanceKind, shape: Shape, idle_shutdown: str = "") -> MeasuredRun:
    return MeasuredRun(measured_as(gce_id), shape, at("06:00"), kind, idle_shutdown)


MODEL = run(MODEL_ID, InstanceKind.DEPLOYED_MODEL, TWO)
JOB = run(JOB_ID, InstanceKind.CUSTOM_JOB, JOBS)


def usage(measured: MeasuredRun, unread: str = "", **series: tuple[Series, ...]) -> Usage:
    named = {(measured.gce_id, Metric(name)): lines for name, lines in series.items()}
    return Usage(PROJECT, named, vertex_unread=unread)


def judged(
    measured: MeasuredRun, before: Before | None = None, unread: str = "", **series: tuple[Series, ...]
) -> Evidence:
    return evidence(measured, RULE, usage(measured, unread, **series), NOW, before)


def requests(*moments: datetime) -> tuple[Series, ...]:
    return (tuple(Sample(moment, 3) for moment in moments),)


@pytest.mark.parametrize("gce_id", KEYS)
def test_series_are_of_the_numbers_in_an_id(gce_id: str) -> None:
    """A VM's are of its own id."""
    assert measured_as(gce_id) == KEYS[gce_id]
    assert measured_as("4711") == "4711"
    assert measured_as("tpu.77") == "tpu.77"


def test_a_model_without_requests_whose_gpus_rest_is_idle() -> None:
    """Both replicas are known for the whole window."""
    idle = judged(MODEL, gpu=(line(20), line(40)))
    assert (idle.state, idle.is_weak, idle.since) == (IdleState.IDLE, False, at("09:01"))
    assert idle.sentence == "no request, and GPU under 5 % for 2 h 55 min (max 0.4 %)"


def test_a_model_that_answers_now_and_then_is_in_use() -> None:
    """The sender of the request would miss it, however little its GPUs do."""
    busy = judged(MODEL, gpu=(line(20), line(20)), requests=requests(at("11:20"), at("11:40")))
    assert (busy.state, busy.since) == (IdleState.BUSY, at("11:20"))
    assert busy.sentence == "6 requests answered in the last 1 h"


def test_it_is_idle_since_its_last_request() -> None:
    """The GPUs rested before that."""
    idle = judged(MODEL, gpu=(line(20), line(20)), requests=requests(at("10:10")))
    assert (idle.state, idle.since) == (IdleState.IDLE, at("10:10"))


def test_gpus_that_work_without_requests_are_work() -> None:
    """Requests on other ways than the counted ones keep a model."""
    assert judged(MODEL, gpu=(line(20), line(9000))).state is IdleState.BUSY


def test_a_model_on_cpus_is_judged_by_cpu_and_network() -> None:
    """Requests make it busy as well."""
    on_cpus = run(MODEL_ID, InstanceKind.DEPLOYED_MODEL, WITHOUT)
    quiet: dict[str, Any] = {
        "cpu": (line(100, every=5),),
        "received": (line(200, every=5),),
        "sent": (line(200, every=5),),
    }
    idle = judged(on_cpus, **quiet)
    assert (idle.state, idle.is_weak) == (IdleState.IDLE, False)
    assert idle.sentence.startswith("no request, and CPU under 5 % for 2 h 5")
    assert judged(on_cpus, **{**quiet, "requests": requests(at("11:30"))}).state is IdleState.BUSY


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (MODEL, "GPU use is not known whole: only 1 of 2 machines are measured"),
        (JOB, "GPU use is not known whole: only 1 of 2 machines are measured"),
    ],
    ids=["model", "job"],
)
def test_a_machine_that_is_not_measured_makes_nothing_idle(measured: MeasuredRun, said: str) -> None:
    """The other machine may work."""
    unknown = judged(measured, gpu=(line(0),))
    assert (unknown.state, unknown.sentence) == (IdleState.UNKNOWN, said)


def test_a_replica_that_is_gone_does_not_stand_in_the_way() -> None:
    """It was scaled down before the window; the two of now are whole."""
    assert judged(MODEL, gpu=(line(9000, ended=at("10:30")), line(0), line(0))).state is IdleState.IDLE


def test_a_job_is_idle_by_its_gpus() -> None:
    """High utilisation is weak evidence of work, as of a VM."""
    idle, busy = judged(JOB, gpu=(line(0), line(10))), judged(JOB, gpu=(line(0), line(9000)))
    assert (idle.state, idle.sentence) == (IdleState.IDLE, "GPU under 5 % for 2 h 55 min (max 0.1 %)")
    assert (busy.state, busy.is_weak) == (IdleState.BUSY, True)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (MODEL, "GPU use is not known: Cloud Monitoring has none of its replicas"),
        (JOB, "its use is not known: Cloud Monitoring has no GPU use of its machines"),
        (
            run("vertex.persistentResources.r.warm", InstanceKind.PERSISTENT_RESOURCE, JOBS),
            "its use is not known: no metric of Google's is of a persistent resource's",
        ),
        (
            run("vertex.notebookRuntimes.r.12", InstanceKind.COLAB_RUNTIME, TWO, "10800"),
            f"{RUNTIME}Colab stops it after 3 h without activity",
        ),
        (
            run("vertex.notebookRuntimes.r.12", InstanceKind.COLAB_RUNTIME, TWO, "off"),
            f"{RUNTIME}Colab does not stop it: its idle shutdown is off",
        ),
        (
            run("vertex.notebookRuntimes.r.12", InstanceKind.COLAB_RUNTIME, TWO),
            f"{RUNTIME}whether Colab stops it without activity is not known",
        ),
    ],
    ids=["model", "job", "persistent", "runtime", "runtime-never", "runtime-unknown"],
)
def test_what_is_not_measured_is_unknown_and_says_why(measured: MeasuredRun, said: str) -> None:
    """Each kind has its own reason, and a runtime the time after which Colab stops it."""
    unknown = judged(measured)
    assert (unknown.state, unknown.sentence) == (IdleState.UNKNOWN, said)


@pytest.mark.parametrize("measured", [MODEL, JOB], ids=["model", "job"])
def test_a_refusal_leaves_it_unknown(measured: MeasuredRun) -> None:
    """Google's words are the reason."""
    unknown = judged(measured, unread="Google said no.", gpu=(line(0), line(0)))
    assert (unknown.state, unknown.sentence) == (IdleState.UNKNOWN, "its use is not known: Google said no.")


def test_a_young_model_is_not_idle() -> None:
    """The whole window has to be known."""
    young = MeasuredRun(MODEL.gce_id, TWO, NOW - HOUR + timedelta(minutes=5), InstanceKind.DEPLOYED_MODEL)
    assert judged(young, gpu=(line(0), line(0))).state is IdleState.UNKNOWN
