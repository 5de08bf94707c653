"""Reading Cloud Monitoring: few requests, series put together again, and nothing taken for no series."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.gce.conftest import START, Connect
from tests.gce.server import Answer, Asked, google_error, json_answer

from costguard.model.utilisation import Metric, Sample

HOUR = timedelta(hours=1)
# Cloud Monitoring is not asked for power, which the agent reads, nor for requests, which deployed models have.
_READ = set(Metric) - {Metric.POWER, Metric.REQUESTS}


def series(*values: Any, gce_id: str = "1", minute: int = 59) -> dict[str, Any]:
    points = [
        {"interval": {"endTime": f"2026-11-20T11:{minute - n:02d}:00Z"}, "value": {"doubleValue": value}}
        for n, value in enumerate(values)
    ]
    return {"resource": {"labels": {"instance_id": gce_id}}, "points": points}


def test_a_request_for_each_metric_and_page(connect: Connect) -> None:
    """A series that goes on on the next page is one series, the oldest value first, in basis points."""

    def answer(request: Asked) -> Answer:
        if "agent.googleapis.com/gpu" not in request.query["filter"]:
            return json_answer({})
        if "pageToken" in request.query:
            return json_answer({"timeSeries": [series(1.5, minute=57)]})
        return json_answer({"timeSeries": [series(4, 3.25)], "nextPageToken": "more"})

    setup = connect(answer)
    usage = setup.cloud.usage("demo", START - HOUR, START)
    (samples,) = usage.of("1", Metric.GPU)
    assert [sample.value for sample in samples] == [150, 325, 400]
    assert samples[-1] == Sample(START - timedelta(minutes=1), 400)
    assert (len(setup.server.requests), usage.unread) == (9, {})


def test_either_version_of_dcgm_tells_what_the_multiprocessors_do(connect: Connect) -> None:
    """Fractions become basis points; a GPU that both versions measure has one series, of the higher values."""
    versions = {"dcgm.gpu.profiling.sm_utilization": (0.01, 0.75), "gpu.dcgm.sm.utilization": (0.02, 0.5)}

    def answer(request: Asked) -> Answer:
        wanted = request.query["filter"]
        values = next(
            (values for name, values in versions.items() if f'"workload.googleapis.com/{name}"' in wanted), None
        )
        return json_answer({} if values is None else {"timeSeries": [series(*values)]})

    usage = connect(answer).cloud.usage("demo", START - HOUR, START)
    (samples,) = usage.of("1", Metric.SM)
    assert [sample.value for sample in samples] == [7500, 200]


def test_the_duty_cycle_of_tpus_is_read_by_worker(connect: Connect) -> None:
    """Workers are a resource of their own: a worker whose id is a VM's is that VM, with a series a chip."""

    def worker(number: str, chip: str, value: float) -> dict[str, Any]:
        labels = {"worker_id": number, "location": "us-east5-b"}
        return {**series(value), "resource": {"labels": labels}, "metric": {"labels": {"accelerator_id": chip}}}

    def answer(request: Asked) -> Answer:
        if "tpu.googleapis.com/accelerator/duty_cycle" not in request.query["filter"]:
            return json_answer({})
        assert 'resource.type = "tpu.googleapis.com/GceTpuWorker"' in request.query["filter"]
        return json_answer({"timeSeries": [worker("1", "0", 97.5), worker("1", "1", 3), worker("t1v-n-0", "0", 50)]})

    usage = connect(answer).cloud.usage("demo", START - HOUR, START)
    assert [[sample.value for sample in chip] for chip in usage.of("1", Metric.TPU)] == [[9750], [300]]
    assert usage.unread == {}


def test_the_duty_cycle_of_a_gke_node_is_read_by_its_chips(connect: Connect) -> None:
    """Each chip is named by the VM's id and its number; what is named otherwise is no TPU of a VM."""

    def chip(accelerator: str, value: float) -> dict[str, Any]:
        labels = {"node_name": "gke-train-tpu-1", "cluster_name": "train", "location": "us-east5"}
        named = {"accelerator_id": accelerator, "make": "cloud-tpu", "model": "tpu7x", "tpu_topology": "2x2x2"}
        return {**series(value), "resource": {"labels": labels}, "metric": {"labels": named}}

    def answer(request: Asked) -> Answer:
        if "kubernetes.io/node/accelerator/duty_cycle" not in request.query["filter"]:
            return json_answer({})
        assert 'resource.type = "k8s_node" AND metric.labels.make = "cloud-tpu"' in request.query["filter"]
        vm = "1234567890123456789"
        return json_answer({"timeSeries": [chip(f"{vm}-0", 0), chip(f"{vm}-4", 42), chip("GPU", 99)]})

    usage = connect(answer).cloud.usage("demo", START - HOUR, START)
    assert [[sample.value for sample in one] for one in usage.of("1234567890123456789", Metric.TPU)] == [[0], [4200]]
    assert usage.unread == {}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, 'Cannot find metric(s) that match type = "workload.googleapis.com/gpu.dcgm.sm.utilization".'),
        (400, "The provided filter doesn't refer to any known metric."),
    ],
)
def test_a_project_without_dcgm_has_no_sm_activity(connect: Connect, status: int, message: str) -> None:
    """Google knows no metric there that nobody ever wrote: that is not measured, and no failure to read."""

    def answer(request: Asked) -> Answer:
        if "dcgm" in request.query["filter"]:
            return google_error(status, "notFound", message)
        return json_answer({"timeSeries": [series(3)]} if "agent" in request.query["filter"] else {})

    usage = connect(answer).cloud.usage("demo", START - HOUR, START)
    assert usage.unread == {}
    assert usage.of("1", Metric.SM) == ()
    assert len(usage.of("1", Metric.GPU)) == 1


def test_a_refusal_is_asked_for_once_and_names_the_role(connect: Connect) -> None:
    """The metrics are all unknown without permission, and the sentence says what to grant."""
    setup = connect(lambda _asked: google_error(403, "forbidden"))
    usage = setup.cloud.usage("demo", START - HOUR, START)
    assert set(usage.unread) == _READ
    assert "roles/monitoring.viewer" in usage.unread[Metric.CPU]
    assert len(setup.server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"timeSeries": [{"points": []}]},
        {"timeSeries": [series("many")]},
        {"timeSeries": [series("NaN")]},
        {"timeSeries": [series(-1)]},
        {"executionErrors": [{"code": 13}]},
        {"nextPageToken": 7},
    ],
)
def test_what_is_not_understood_is_unread(connect: Connect, body: dict[str, Any]) -> None:
    """A garbled or partial answer makes its metric unknown, and gives no series."""
    usage = connect(lambda _asked: json_answer(body)).cloud.usage("demo", START - HOUR, START)
    assert (set(usage.unread), usage.series) == (_READ, {})
