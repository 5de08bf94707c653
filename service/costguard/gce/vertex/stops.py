"""Gives the machines of a resource of Vertex AI back: cancels a job, stops a runtime, undeploys a model.

The id of a resource is never used again, and the request names it: so no other thing can be stopped in its place. Each
is read first, and none is asked for that does not run.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from costguard.errors import BadAnswer, CloudError, KeptByAnother, NotFound
from costguard.gce.errors import NoAnswer, Service
from costguard.gce.fields import Garbled, moment
from costguard.gce.session import Deadline, Http
from costguard.gce.vertex.look import service_of
from costguard.gce.vertex.resources import OVER
from costguard.model.instance import kind_of_collection, vertex_id
from costguard.model.keeper import COLAB_RUNTIME, CUSTOM_JOB, DEPLOYED_MODEL, Keeper
from costguard.model.launch import OperationAnswer
from costguard.model.observation import OperationStatus, SeenOperation

_MOST_ASKED = 20  # operations that one look reads
_CANCEL = "cancel."  # begins our name for a cancellation, which Google answers without an operation
_COLLECTIONS = {CUSTOM_JOB: "customJobs", COLAB_RUNTIME: "notebookRuntimes", DEPLOYED_MODEL: "endpoints"}
_ROLE_FILE = "deploy/iam-role-stop-kept.yaml"


def stop_resource(http: Http, keeper: Keeper, project: str, gce_id: str, deadline: Deadline) -> str:
    """Begins to stop it; returns the operation's id. CloudUnavailable means that it may have begun."""
    kind = keeper.product
    if kind not in _COLLECTIONS or not gce_id.startswith(_prefix(keeper)):
        raise KeptByAnother(keeper.refusal(keeper.name, project))
    path, service = _path(keeper, project), _service(keeper)
    what = f"The stop of {kind} {keeper.name}"
    shown = http.get_json(
        path, {}, project=project, what=f"Reading {kind} {keeper.name}", deadline=deadline, service=service
    )
    if kind == CUSTOM_JOB:
        if (state := str(shown.get("state") or "")) in OVER or state == "JOB_STATE_CANCELLING":
            raise NoAnswer(f"{keeper.name} is not cancelled now: its state is {state}.")
        http.post_json(f"{path}:cancel", {}, project=project, what=what, deadline=deadline, service=service)
        return f"{_CANCEL}{keeper.name}"
    if kind == COLAB_RUNTIME:
        if (state := str(shown.get("runtimeState") or "")) != "RUNNING":
            raise NoAnswer(f"{keeper.name} is not stopped now: its state is {state or 'not known'}.")
        answer = http.post_json(f"{path}:stop", {}, project=project, what=what, deadline=deadline, service=service)
    else:
        if not any(str(model.get("id")) == keeper.pool for model in shown.get("deployedModels") or ()):
            raise NoAnswer(f"Model {keeper.pool} is not deployed on endpoint {keeper.name} any more.")
        body = {"deployedModelId": keeper.pool}
        answer = http.post_json(
            f"{path}:undeployModel", body, project=project, what=what, deadline=deadline, service=service
        )
    return _operation(answer, what, project)


def stop_progress(http: Http, keeper: Keeper, project: str, operation: str, deadline: Deadline) -> OperationAnswer:
    """Returns the progress of what `stop_resource` began. Raises NotFound where Google does not know it any more."""
    service = _service(keeper)
    if operation.startswith(_CANCEL):
        what = f"Reading custom job {keeper.name}"
        shown = http.get_json(
            _path(keeper, project), {}, project=project, what=what, deadline=deadline, service=service
        )
        return OperationAnswer(is_done=shown.get("state") in OVER, error_code="", error_message="")
    shown = _read_operation(http, project, keeper.place, operation, deadline, service)
    error = shown.get("error") or {}
    return OperationAnswer(
        is_done=shown.get("done") is True,
        error_code=str(error.get("code") or ""),
        error_message=str(error.get("message") or ""),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    gce_id: str
    name: str
    region: str
    operation: str


@dataclass(slots=True)
class AskedStops:
    """Remembers the stops of runtimes and models that this process asked for, until Google says when they ended.

    No list says when a runtime stopped or a model was undeployed; the operation does. Of a job its list does.
    """

    _asked: dict[str, list[_Asked]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, project: str, gce_id: str, name: str, region: str, operation: str) -> None:
        if not operation.startswith(_CANCEL):
            with self._lock:
                self._asked.setdefault(project, []).append(_Asked(gce_id, name, region, operation))

    def ended(self, http: Http, project: str, running: Collection[str], deadline: Deadline) -> list[SeenOperation]:
        """Returns those that are done. What still shows as running is asked about again at the next look."""
        with self._lock:
            pending = [one for one in self._asked.get(project, ()) if one.gce_id not in running]
        seen: list[SeenOperation] = []
        for one in pending[:_MOST_ASKED]:
            try:
                shown = _read_operation(http, project, one.region, one.operation, deadline, service_of(one.region))
                if shown.get("done") is not True:
                    continue
                if "error" not in shown:
                    seen.append(_stop_of(project, one, shown))
            except (Garbled, NotFound):  # nothing more will be known of it
                pass
            except CloudError:
                continue
            with self._lock:
                self._asked[project].remove(one)
        return seen


def _stop_of(project: str, one: _Asked, shown: dict[str, Any]) -> SeenOperation:
    """Makes an operation at the end of the stop: until then machines may bill. Raises Garbled.

    "If the operation has finished (successfully or not), this is the finish time" (updateTime of
    GenericOperationMetadata, aiplatform.v1 of Google's API discovery).
    """
    metadata = (shown.get("metadata") or {}).get("genericMetadata") or {}
    ended_at = moment(metadata.get("updateTime"))
    return SeenOperation(
        project=project,
        operation_id=f"stop.{one.gce_id}.{one.operation}",
        kind="stop",
        target_id=one.gce_id,
        target_name=one.name,
        zone=one.region,
        user="",
        status=OperationStatus.DONE,
        inserted_at=ended_at,
        started_at=ended_at,
        ended_at=ended_at,
    )


def _read_operation(
    http: Http, project: str, region: str, operation: str, deadline: Deadline, service: Service
) -> dict[str, Any]:
    return http.get_json(
        f"/v1/projects/{quote(project, safe=':')}/locations/{region}/operations/{quote(operation)}",
        {},
        project=project,
        what=f"Reading operation {operation}",
        deadline=deadline,
        service=service,
    )


def _prefix(keeper: Keeper) -> str:
    """The begin of the id that the ledger has of what this keeper names: a stop for another id is not asked for."""
    kind = kind_of_collection(_COLLECTIONS[keeper.product])
    assert kind is not None  # the collections are of kinds
    return vertex_id(kind, keeper.place, keeper.name, keeper.pool)


def _path(keeper: Keeper, project: str) -> str:
    collection = _COLLECTIONS[keeper.product]
    return f"/v1/projects/{quote(project, safe=':')}/locations/{keeper.place}/{collection}/{quote(keeper.name)}"


def _service(keeper: Keeper) -> Service:
    reading = service_of(keeper.place)
    return Service(reading.name, reading.host, "roles/aiplatform.user", role_file=_ROLE_FILE)


def _operation(answer: dict[str, Any], what: str, project: str) -> str:
    error = answer.get("error") or {}
    if isinstance(error, dict) and (said := error.get("message")):
        raise BadAnswer(f"{what} of project {project}: Vertex AI did not do it: {str(said).rstrip('.')}.")
    operation = str(answer.get("name") or "").rpartition("/operations/")[2]
    if not operation:
        raise NoAnswer(f"{what} of project {project}: the answer names no operation, so it may have begun.")
    return operation
