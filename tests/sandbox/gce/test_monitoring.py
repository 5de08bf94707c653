"""Cloud Monitoring's figures over HTTP: what they look like, how they are aligned, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import requests
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, START, T4, new_world, up

from costguard_sandbox.gce.routes.metrics import CPU, GKE_TPU, GPU, RECEIVED, SENT, SM_V1, SM_V2, TPU, VISIBLE_AFTER
from costguard_sandbox.gce.vm import Load
from costguard_sandbox.server import running
from costguard_sandbox.world import World

SECOND = timedelta(seconds=1)


@pytest.fixture
def world() -> World:
    """A busy VM with two GPUs, an idle one, and one that has an Ops Agent no more; two hours old."""
    world = new_world()
    accelerators = [{**T4["guestAccelerators"][0], "acceleratorCount": 2}]
    for load in Load:
        up(world, load.value, **{**T4, "guestAccelerators": accelerators} if load is Load.BUSY else T4)
        world.set_load(PROJECT, load.value, load)
    world.advance(2 * HOUR)
    return world


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url


def ask(url: str, metric: str = GPU, project: str = PROJECT, **query: Any) -> requests.Response:
    wanted = {
        "filter": f'metric.type = "{metric}" AND resource.type = "gce_instance"',
        "interval.startTime": text(START),
        "interval.endTime": text(START + 3 * HOUR),
        **{name.replace("__", "."): value for name, value in query.items()},
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    return requests.get(f"{url}/v3/projects/{project}/timeSeries", params=given, timeout=30)


def listed(url: str, metric: str = GPU, **query: Any) -> list[dict[str, Any]]:
    answer = ask(url, metric, **query)
    assert answer.status_code == 200, answer.text
    series: list[dict[str, Any]] = answer.json().get("timeSeries", [])
    return series


def aligned(aligner: str, period: str = "300s", reducer: str | None = None, *by: str) -> dict[str, Any]:
    return {
        "aggregation__perSeriesAligner": aligner,
        "aggregation__alignmentPeriod": period,
        "aggregation__crossSeriesReducer": reducer,
        "aggregation__groupByFields": list(by),
    }


def text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def ends(series: dict[str, Any]) -> list[datetime]:
    return [datetime.fromisoformat(point["interval"]["endTime"]) for point in series["points"]]


def values(series: dict[str, Any]) -> list[float]:
    return [float(next(iter(point["value"].values()))) for point in series["points"]]


def test_tpus_have_a_duty_cycle_by_worker_and_no_gpu_use() -> None:
    """Each chip has a series, on the resource of TPU workers; the Ops Agent finds no GPU there."""
    world = new_world()
    body: dict[str, Any] = {
        "machineType": "zones/us-east5-a/machineTypes/ct6e-standard-4t",
        "scheduling": {"onHostMaintenance": "TERMINATE"},
    }
    vm = up(world, "tpu", zone="us-east5-a", **body)
    world.advance(HOUR)
    with running(world) as url:
        workers = listed(
            url, TPU, filter=f'metric.type = "{TPU}" AND resource.type = "tpu.googleapis.com/GceTpuWorker"'
        )
        assert listed(url, TPU) == listed(url, GPU) == []
    assert [one["metric"]["labels"]["accelerator_id"] for one in workers] == ["0", "1", "2", "3"]
    assert {one["resource"]["labels"]["worker_id"] for one in workers} == {str(vm.id)}
    assert all(0 <= value <= 100 for one in workers for value in values(one))


def test_tpus_of_a_gke_node_have_gke_s_duty_cycle_alone() -> None:
    """Each chip is named by its VM's id and number; the filter takes only TPUs."""
    world = new_world()
    body: dict[str, Any] = {
        "machineType": "zones/us-east5-a/machineTypes/ct6e-standard-1t",
        "scheduling": {"onHostMaintenance": "TERMINATE"},
        "labels": {"goog-gke-node": "", "goog-k8s-cluster-name": "train"},
    }
    vm = up(world, "node", zone="us-east5-a", **body)
    world.advance(HOUR)
    wanted = f'metric.type = "{GKE_TPU}" AND resource.type = "k8s_node" AND metric.labels.make = '
    with running(world) as url:
        (chip,) = listed(url, GKE_TPU, filter=f'{wanted}"cloud-tpu"')
        assert listed(url, GKE_TPU, filter=f'{wanted}"nvidia"') == []
        worker = f'metric.type = "{TPU}" AND resource.type = "tpu.googleapis.com/GceTpuWorker"'
        assert listed(url, TPU, filter=worker) == []
    assert chip["metric"]["labels"]["accelerator_id"] == f"{vm.id}-0"
    assert chip["resource"]["labels"]["cluster_name"] == "train"


def test_a_series_as_google_shows_it(url: str, world: World) -> None:
    """Labels tell VM and GPU, the newest point is first, a gauge's begins where it ends, a whole number is a text."""
    answer = ask(url).json()
    assert answer["unit"] == "%"
    one = answer["timeSeries"][0]
    vm = world.instance(PROJECT, "busy")
    assert one["resource"] == {
        "type": "gce_instance",
        "labels": {"project_id": PROJECT, "instance_id": str(vm.id), "zone": vm.zone},
    }
    assert (one["metric"]["type"], one["metric"]["labels"]["gpu_number"]) == (GPU, "0")
    assert (one["metricKind"], one["valueType"]) == ("GAUGE", "DOUBLE")
    point = one["points"][0]
    assert point["interval"]["startTime"] == point["interval"]["endTime"]
    assert isinstance(point["value"]["doubleValue"], float)
    assert ends(one) == sorted(ends(one), reverse=True)
    received = listed(url, RECEIVED)[0]
    assert (received["metricKind"], received["valueType"]) == ("DELTA", "INT64")
    assert isinstance(received["points"][0]["value"]["int64Value"], str)
    begun = datetime.fromisoformat(received["points"][0]["interval"]["startTime"])
    assert ends(received)[0] - begun == MINUTE


def test_series_belong_to_vms_and_gpus(url: str) -> None:
    """A series for each GPU, none where no Ops Agent tells; everybody has CPU and network."""
    numbers = [one["metric"]["labels"]["gpu_number"] for one in listed(url)]
    assert numbers == ["0", "1", *["0"] * (len(Load) - 2)]
    for metric in (CPU, RECEIVED, SENT):
        assert [one["metric"]["labels"]["instance_name"] for one in listed(url, metric)] == [*Load]


def test_dcgm_tells_a_spinning_kernel_from_work(url: str) -> None:
    """Both read as 100 % utilisation; each version of the receiver writes a metric of its own, as a fraction."""
    (works,), (spins,) = listed(url, SM_V1), listed(url, SM_V2)
    assert min(values(works)) > 0.2
    assert max(values(spins)) <= 1 / 40
    assert {value for one in listed(url)[3:5] for value in values(one)} == {100}


def test_a_dcgm_metric_is_unknown_before_its_first_point() -> None:
    """Cloud Monitoring answers 404 for a type that nobody has written in the project."""
    world = new_world()
    up(world, "plain", **T4)
    world.advance(HOUR)
    with running(world) as url:
        answer = ask(url, SM_V1)
    assert (answer.status_code, answer.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert answer.json()["error"]["message"].startswith("Cannot find metric(s) that match type")


def test_measurements_exist_only_during_runs_and_appear_later(url: str, world: World) -> None:
    """The newest value is minutes old, the first is of the run's first whole minute, and a stopped VM has no more."""
    newest, *_, oldest = ends(listed(url)[0])
    assert world.timeline.now - newest >= VISIBLE_AFTER
    assert world.timeline.now - newest < VISIBLE_AFTER + MINUTE
    began = world.instance(PROJECT, "busy").runs[0].began
    assert MINUTE <= oldest - began < 2 * MINUTE
    world.stop(PROJECT, "busy")
    world.advance(30 * MINUTE)
    ended = world.instance(PROJECT, "busy").runs[0].ended
    assert ended is not None
    assert ends(listed(url)[0])[0] <= ended


def test_an_interval_leaves_out_its_start_and_holds_its_end(url: str) -> None:
    """(start, end], so that two readings side by side hold every value once."""
    begin, end = START + HOUR, START + HOUR + 10 * MINUTE
    (first, *_) = listed(url, interval__startTime=text(begin), interval__endTime=text(end))
    assert (ends(first)[0], ends(first)[-1]) == (end, begin + MINUTE)
    assert listed(url, interval__startTime=text(end), interval__endTime=text(end)) == []


def test_periods_end_at_the_end_of_the_interval(url: str) -> None:
    """Each aligned value is of the period before it, whatever the clock's minutes are."""
    end = START + HOUR + 2 * MINUTE + 30 * SECOND
    raw = listed(url, interval__endTime=text(end))[0]
    raw_values = dict(zip(ends(raw), values(raw), strict=True))
    series = listed(url, interval__endTime=text(end), **aligned("ALIGN_MAX"))[0]
    assert ends(series)[:2] == [end, end - 5 * MINUTE]
    for at, value in zip(ends(series), values(series), strict=True):
        assert value == max(one for moment, one in raw_values.items() if at - 5 * MINUTE < moment <= at)


def test_a_rate_is_the_sum_by_the_second(url: str) -> None:
    """Bytes of a period become bytes a second: a gauge of fractions, in a unit that says so."""
    end = text(START + HOUR)
    raw = listed(url, SENT, interval__endTime=end)[0]
    answer = ask(url, SENT, interval__endTime=end, **aligned("ALIGN_RATE")).json()
    series = answer["timeSeries"][0]
    assert values(series)[0] == pytest.approx(sum(values(raw)[:5]) / 300)
    assert (series["metricKind"], series["valueType"], answer["unit"]) == ("GAUGE", "DOUBLE", "By/s")
    whole = listed(url, SENT, interval__endTime=end, **aligned("ALIGN_DELTA"))[0]
    assert (whole["metricKind"], whole["valueType"]) == ("DELTA", "INT64")
    assert values(whole)[0] == sum(values(raw)[:5])


def test_reduced_series_keep_the_labels_they_are_grouped_by(url: str, world: World) -> None:
    """Two GPUs of one VM become one series by VM, the higher value of each minute; other labels are lost."""
    query = aligned("ALIGN_MAX", "60s", "REDUCE_MAX", "resource.labels.instance_id")
    busy = listed(url, **query)[0]
    assert busy["metric"]["labels"] == {}
    vm = world.instance(PROJECT, "busy")
    assert busy["resource"]["labels"] == {"project_id": PROJECT, "instance_id": str(vm.id)}
    gpus = listed(url, **aligned("ALIGN_MAX", "60s"))[:2]
    assert values(busy) == [max(pair) for pair in zip(*map(values, gpus), strict=True)]
    everything = listed(url, **aligned("ALIGN_MAX", "60s", "REDUCE_SUM"))
    assert [one["resource"]["labels"] for one in everything] == [{"project_id": PROJECT}]


def test_a_filter_chooses_by_labels(url: str, world: World) -> None:
    """The names `resource.label` and `resource.labels` are one, as in Google's filters."""
    wanted = str(world.instance(PROJECT, "idle").id)
    for word in ("label", "labels"):
        query = f'metric.type = "{CPU}" AND resource.{word}.instance_id = "{wanted}"'
        assert [one["resource"]["labels"]["instance_id"] for one in listed(url, filter=query)] == [wanted]


def test_pages_hold_every_point_once(url: str) -> None:
    """Points are counted over series, so that a series may go on on the next page."""
    whole = {point["metric"]["labels"]["instance_name"]: ends(point) for point in listed(url, CPU)}
    gathered: dict[str, list[datetime]] = {}
    token: str | None = None
    sizes = []
    while True:
        answer = ask(url, CPU, pageSize=50, pageToken=token).json()
        sizes.append(sum(len(one["points"]) for one in answer["timeSeries"]))
        for one in answer["timeSeries"]:
            gathered.setdefault(one["metric"]["labels"]["instance_name"], []).extend(ends(one))
        token = answer.get("nextPageToken")
        if token is None:
            break
    assert gathered == whole
    assert set(sizes[:-1]) == {50}


def test_an_empty_result_has_no_list(url: str) -> None:
    """Google leaves an empty list out; a project without VMs has one just so."""
    for answer in (ask(url, project="acme-research"), ask(url, interval__endTime=text(START))):
        assert (answer.status_code, answer.json()) == (200, {"unit": "%"})


def test_busy_and_idle_loads_differ(url: str) -> None:
    """Any sensible threshold distinguishes the loads, on GPUs, CPU and network alike."""
    for metric, low, high in ((GPU, 5, 50), (CPU, 0.05, 0.25), (RECEIVED, 600_000, 6_000_000)):
        by_vm = {one["resource"]["labels"]["instance_id"]: values(one) for one in listed(url, metric)}
        busy, idle, *_ = by_vm.values()
        assert min(busy) > high
        assert max(idle) < low


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"filter": None}, "filter"),
        ({"filter": 'resource.type = "gce_instance"'}, "filter"),
        ({"filter": 'metric.type = "agent.googleapis.com/gpu/warmth"'}, "filter"),
        ({"filter": f'metric.type = "{GPU}" AND ('}, "filter"),
        ({"interval__endTime": None}, "interval.endTime"),
        ({"interval__startTime": "yesterday"}, "interval.startTime"),
        ({"interval__startTime": "2026-11-20T09:00:00"}, "interval.startTime"),
        ({"interval__startTime": text(START + 4 * HOUR)}, "interval"),
        ({"pageSize": "many"}, "pageSize"),
        ({"pageToken": "elsewhere"}, "pageToken"),
        (aligned("ALIGN_MAX", "5m"), "aggregation.alignmentPeriod"),
        (aligned("ALIGN_MAX", "30s"), "aggregation.alignmentPeriod"),
        (aligned("ALIGN_BEST"), "aggregation.perSeriesAligner"),
        (aligned("ALIGN_RATE"), "aggregation.perSeriesAligner"),
        ({"metric": SENT, **aligned("ALIGN_MAX")}, "aggregation.perSeriesAligner"),
        ({"aggregation__alignmentPeriod": "60s"}, "aggregation.perSeriesAligner"),
        (aligned("ALIGN_MAX", reducer="REDUCE_BEST"), "aggregation.crossSeriesReducer"),
        ({"aggregation__crossSeriesReducer": "REDUCE_MAX"}, "aggregation.crossSeriesReducer"),
        (aligned("ALIGN_MAX", "60s", "REDUCE_MAX", "instance_id"), "aggregation.groupByFields"),
    ],
)
def test_an_invalid_query_is_refused_in_googles_words(url: str, changed: dict[str, Any], field: str) -> None:
    """400 INVALID_ARGUMENT that names the field, in the newer APIs' shape, which lists no `errors`."""
    answer = ask(url, **changed)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["message"].startswith(f"Field {field} had an invalid value")
    assert set(error) == {"code", "message", "status"}


def test_an_aligner_of_another_metric_kind_is_refused(url: str) -> None:
    """Google says so of bytes, which are counted and not gauged."""
    assert ask(url, SENT, **aligned("ALIGN_MEAN")).json()["error"]["message"] == (
        'Field aggregation.perSeriesAligner had an invalid value of "ALIGN_MEAN": '
        "The aligner cannot be applied to metrics with kind DELTA and value type INT64."
    )


def test_faults_apply_to_monitoring_too(url: str, world: World) -> None:
    """A project that does not exist, one that may not be read, a server error, and a page that fails."""
    assert ask(url, project="nobodys-project").status_code == 404
    world.faults.add("forbidden", project=PROJECT, path="timeSeries")
    assert ask(url).json()["error"]["status"] == "PERMISSION_DENIED"
    world.faults.clear()
    world.faults.add("server_error", path="timeSeries")
    assert ask(url).status_code == 503
    world.faults.clear()
    world.faults.add("failing_page", path="timeSeries", page=2)
    first = ask(url, CPU, pageSize=50)
    assert first.status_code == 200
    assert ask(url, CPU, pageSize=50, pageToken=first.json()["nextPageToken"]).status_code == 503
