"""Cloud Monitoring is asked for deployed models and custom jobs as Google's list of metrics has them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.gce.conftest import START, Connect
from tests.gce.server import Answer, Asked, google_error, json_answer
from tests.gce.vertex import OTHER, PROJECT, REGION, T4, Watched, job, watched

from costguard.ledger.idle.evidence import MeasuredRun, evidence
from costguard.model.instance import SeenInstance, measured_as
from costguard.model.utilisation import IdleRule, IdleState, Usage
from costguard_sandbox.gce.vm import Load

__all__ = ["watched"]
HOUR = timedelta(hours=1)
RULE = IdleRule(gpu_below=500, cpu_below=500, window=2 * HOUR)
_ONLINE = "aiplatform.googleapis.com/prediction/online"
# Google's list of metrics: each type, and the label that tells its series apart last of all.
LISTED = {
    f"{_ONLINE}/accelerator/duty_cycle": "metric.labels.replica_id",
    f"{_ONLINE}/cpu/utilization": "metric.labels.deployed_model_id",
    f"{_ONLINE}/network/received_bytes_count": "metric.labels.deployed_model_id",
    f"{_ONLINE}/network/sent_bytes_count": "metric.labels.deployed_model_id",
    f"{_ONLINE}/response_count": "metric.labels.deployed_model_id",
    f"{_ONLINE}/private/response_count": "metric.labels.deployed_model_id",
    "ml.googleapis.com/training/accelerator/utilization": "resource.labels.task_name",
}


def requests_for(connect: Connect, answer: Any = None, with_vertex: bool = True) -> tuple[list[Asked], Usage]:
    setup = connect(answer or (lambda _: json_answer({})))
    usage = setup.cloud.usage("demo", START - HOUR, START, with_vertex=with_vertex)
    return [one for one in setup.server.requests if "timeSeries" in one.path], usage


def test_only_a_project_with_vertex_ai_is_asked_for_its_metrics(connect: Connect) -> None:
    """Each with the resource and the labels that Google lists."""
    plain, _ = requests_for(connect, with_vertex=False)
    requests, usage = requests_for(connect)
    more = requests[len(plain) :]
    assert usage.vertex_unread == ""
    assert {one.query["filter"].split('"')[1] for one in more} == LISTED.keys()
    assert len(more) == len(LISTED)
    for one in more:
        _, name, _, resource, *_ = one.query["filter"].split('"')
        assert resource == ("cloudml_job" if name.startswith("ml.") else "aiplatform.googleapis.com/Endpoint")
        assert one.query["aggregation.groupByFields"] == LISTED[name]


def test_a_metric_that_was_never_written_is_no_failure(connect: Connect) -> None:
    """Google answers 404 where a project has never had a deployed model; a refusal is said."""
    never = google_error(404, "notFound", "Cannot find metric(s) that match type.")

    def answer(request: Asked) -> Answer:
        return never if "aiplatform" in request.query["filter"] else json_answer({})

    _, usage = requests_for(connect, answer)
    assert (usage.vertex_unread, usage.unread) == ("", {})

    def refusal(request: Asked) -> Answer:
        if "ml.googleapis.com" in request.query["filter"]:
            return google_error(403, "forbidden", "Permission monitoring.timeSeries.list denied.")
        return json_answer({})

    _, usage = requests_for(connect, refusal)
    assert "monitoring" in usage.vertex_unread
    assert usage.unread == {}


def _judged(watched: Watched, one: SeenInstance) -> tuple[IdleState, str]:
    now = watched.world.now
    usage = watched.cloud.usage(PROJECT, now - 6 * HOUR, now - timedelta(minutes=4), with_vertex=True)
    started_at = one.last_started_at or one.created_at
    run = MeasuredRun(measured_as(one.key.gce_id), one.shape, started_at, one.key.kind)
    judged = evidence(run, RULE, usage, now)
    return judged.state, judged.sentence


@pytest.mark.parametrize("load", [Load.BUSY, Load.IDLE])
def test_the_simulated_cloud_measures_models_and_jobs(watched: Watched, load: Load) -> None:
    """Two models on one endpoint, and two jobs of one name, differ by their numbers."""
    vertex = watched.world.vertex
    things = [
        vertex.deploy(PROJECT, REGION, "chat", "llama", T4, replicas=2),
        vertex.deploy(PROJECT, REGION, "chat", "mistral", T4),
        vertex.deploy(PROJECT, OTHER, "tabular", "trees", {"machineType": "n1-standard-4"}),
        vertex.custom_job(PROJECT, REGION, "train", job((T4, 2))),
        vertex.custom_job(PROJECT, REGION, "train", job((T4, 1))),
    ]
    others = {things[1].part, things[4].id}
    for thing in things:
        busy = Load.BUSY if load is Load.IDLE else Load.IDLE
        thing.loads.append((watched.world.now, busy if {thing.part, thing.id} & others else load))
    watched.world.advance(5 * HOUR)
    seen = {one.key.gce_id.rpartition(".")[2]: one for one in watched.all_lists().instances}
    states = {number: _judged(watched, one) for number, one in seen.items()}
    expected = IdleState.BUSY if load is Load.BUSY else IdleState.IDLE
    other = IdleState.IDLE if load is Load.BUSY else IdleState.BUSY
    for thing in things:
        state, sentence = states[thing.part or thing.id]
        assert state is (other if {thing.part, thing.id} & others else expected), sentence
        assert ("request" in sentence) == (thing.collection == "endpoints"), sentence
