"""Calls through google-cloud-compute, which is imported at the first of them: 1.2 to 1.7 s of CPU, 75 to 120 MB."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from costguard.errors import BadAnswer, CloudError, NotFound, RequestRefused
from costguard.gce.errors import COMPUTE, LAUNCHING, STOPPING, NoAnswer, Service, from_exception, is_missing
from costguard.gce.machine_types import MachineShape, accelerator, partition_gib
from costguard.gce.session import Http

_MOST_AT_ONCE = 32  # threads that ask


class Official:
    """Thread-safe. Every method raises CloudError, and nothing else, when Google does not answer as hoped."""

    def __init__(self, http: Http, *, timeout_s: float) -> None:
        self._http = http
        self._timeout_s = timeout_s
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def load(self) -> None:
        """Imports the library now, so that no call waits for it."""
        from google.cloud import compute_v1

        del compute_v1

    def machine_type(self, project: str, zone: str, name: str) -> MachineShape:
        answer = self._get(
            "MachineTypesClient", f"Reading machine type {name} in {zone}", project, zone, machine_type=name
        )
        must_be("machineType", answer, name, f"Reading machine type {name} in {zone} of project {project}")
        if answer.guest_cpus <= 0 or answer.memory_mb <= 0:
            raise BadAnswer(f"Machine type {name} in {zone} of project {project} has no vCPUs or no memory.")
        gpu = answer.accelerators[0] if answer.accelerators else None
        return MachineShape(
            vcpus=answer.guest_cpus,
            memory_mib=answer.memory_mb,
            gpu_type=accelerator(gpu.guest_accelerator_type.rsplit("/", 1)[-1]) if gpu else None,
            gpu_count=gpu.guest_accelerator_count if gpu else 0,
            local_ssd_gib=answer.bundled_local_ssds.partition_count * partition_gib(name),
        )

    def instance(self, project: str, zone: str, name: str) -> Any | None:
        """The VM that has this address now, as Google's client gives it; None when there is none.

        Raises NoAnswer where something came that is not this VM: whether it is there is then not known.
        """
        what = f"Reading instance {name} in {zone}"
        instance_body = self._get("InstancesClient", what, project, zone, missing=f"/instances/{name}", instance=name)
        if instance_body is not None:
            must_be("instance", instance_body, name, f"{what} of project {project}", zone)
        return instance_body

    def operation(self, project: str, zone: str, operation: str) -> Any | None:
        """An operation by its name or id, as Google's client gives it; None where Google does not know it."""
        what = f"Reading operation {operation} in {zone}"
        names = {"missing": f"/operations/{operation}", "operation": operation}
        operation_body = self._get("ZoneOperationsClient", what, project, zone, LAUNCHING, **names)
        if operation_body is not None:
            must_be("operation", operation_body, operation, f"{what} of project {project}", zone)
        return operation_body

    def region(self, project: str, region: str) -> Any:
        """A region with its quotas, as Google's client gives it."""
        what = f"Reading the quotas of region {region}"
        region_body = self.call("RegionsClient", "get", what, project, LAUNCHING, project=project, region=region)
        must_be("region", region_body, region, f"{what} of project {project}")
        return region_body

    def capacity_history(self, project: str, location: str, machine_type: str, kind: str) -> Any:
        """Returns Google's record of Spot VMs of this type in a zone or region, as Google's client gives it.

        `kind` is `PREEMPTION` or `PRICE`; `location` is `zones/Z` or `regions/R`.
        """
        what = f"Reading the {kind.lower()} history of {machine_type} in {location.partition('/')[2]}"
        wanted = {
            "instance_properties": {"machine_type": machine_type, "scheduling": {"provisioning_model": "SPOT"}},
            "location_policy": {"location": location},
            "types": [kind],
        }
        scope, _, place = location.partition("/")
        region = place.rsplit("-", 1)[0] if scope == "zones" else place
        request = {"project": project, "region": region, "capacity_history_request_resource": wanted}
        return self.call("AdviceClient", "capacity_history", what, project, COMPUTE, request=request)

    def capacity_advice(self, project: str, region: str, machine_type: str, model: str) -> Any:
        """Returns Google's advice on one such VM in the best zone of the region, as Google's client gives it."""
        what = f"Reading the capacity advice on {machine_type} in {region}"
        wanted = {
            "instance_properties": {"scheduling": {"provisioning_model": model}},
            "instance_flexibility_policy": {"instance_selections": {"one": {"machine_types": [machine_type]}}},
            "distribution_policy": {"target_shape": "ANY_SINGLE_ZONE"},
            "size": 1,
        }
        request = {"project": project, "region": region, "capacity_advice_request_resource": wanted}
        return self.call("AdviceClient", "capacity", what, project, COMPUTE, request=request)

    def reservation(self, project: str, zone: str, name: str) -> Any:
        """A reservation, as Google's client gives it."""
        what = f"Reading reservation {name} in {zone}"
        reservation = self._get("ReservationsClient", what, project, zone, LAUNCHING, reservation=name)
        must_be("reservation", reservation, name, f"{what} of project {project}", zone)
        return reservation

    def future_reservations(self, project: str, zone: str) -> list[Any]:
        """The zone's future reservations, as Google's client gives them."""
        what = f"Listing future reservations in {zone}"
        named = {"project": project, "zone": zone}
        return self.listed("FutureReservationsClient", "list", what, project, LAUNCHING, **named)

    def insert(self, project: str, zone: str, body: Mapping[str, Any], request_id: str) -> str:
        """Ask once for a VM, described in the words of Google's client. The operation's id."""
        from google.cloud import compute_v1

        what = f"The insert of instance {body['name']} in {zone}"
        # Made here, so that what cannot be said to Google at all is no "may have begun".
        request = compute_v1.InsertInstanceRequest(
            project=project, zone=zone, instance_resource=body, request_id=request_id
        )
        try:
            return self.begun("InstancesClient", "insert", what, project, LAUNCHING, request, body["name"])
        except NotFound as error:
            raise RequestRefused(
                error.message, "Change what is asked for: it names something that is not there."
            ) from None

    def begin(
        self, verb: str, project: str, zone: str, instance: str, request_id: str, service: Service = STOPPING
    ) -> str:
        """Ask once, without repeating it, for what `verb` says of one VM. The operation's id."""
        what = f"The {verb} of instance {instance} in {zone}"
        request: dict[str, Any] = {"project": project, "zone": zone, "instance": instance, "request_id": request_id}
        if verb == "stop":
            # Without it Google refuses to stop a VM that has local SSDs; to keep their data is billed, and for many
            # machine types impossible.
            request["discard_local_ssd"] = True
        return self.begun("InstancesClient", verb, what, project, service, request, instance)

    def begun(
        self, client: str, verb: str, what: str, project: str, service: Service, request: Any, instance: str
    ) -> str:
        """Asks once for a change of `instance`, or of a group of this name. The operation's id."""
        operation = self.operation_of(client, verb, what, project, service, request)
        # Every operation names its kind and its target; another is the answer to another request.
        targets = {operation.target_link.rpartition("/")[2], str(operation.target_id or "")} - {""}
        # A group's are called `compute.instanceGroupManagers.resize` (a recorded one of kubernetes/autoscaler).
        kind = operation.operation_type.rpartition(".")[2]
        is_other = kind.lower() not in ("", verb.replace("_", ""))
        if is_other or (targets and instance not in targets):
            came = f"the {operation.operation_type or 'operation'} of {operation.target_link or operation.target_id}"
            raise NoAnswer(
                f"{what} of project {project}: the answer is about {came}, so it may have begun.",
                "Check whether a proxy answers in Google's place; it is asked again under the same request id.",
            )
        return str(operation.id)

    def operation_of(self, client: str, verb: str, what: str, project: str, service: Service, request: Any) -> Any:
        """Asks once for a change, and returns the operation that it began, whatever that is about."""
        # Without "_unary" the client builds a second one for the operation, which asks Google whatever the endpoint.
        operation = self.call(client, f"{verb}_unary", what, project, service, request=request)
        if not operation.id or operation.kind != "compute#operation":
            raise NoAnswer(f"{what} of project {project}: the answer names no operation, so it may have begun.")
        return operation

    def _get(self, client: str, what: str, project: str, zone: str, service: Service = COMPUTE, **names: str) -> Any:
        return self.call(client, "get", what, project, service, project=project, zone=zone, **names)

    def listed(self, client: str, method: str, what: str, subject: str, service: Service, **given: Any) -> list[Any]:
        """All members of a list that comes in pages."""
        pages = self.call(client, method, what, subject, service, **given)
        try:
            return list(pages)
        except Exception as error:  # of a page after the first
            raise from_exception(error, subject, what, self._http.account, service) from error

    def call(
        self,
        client: str,
        method: str,
        what: str,
        subject: str,
        service: Service,
        missing: str | tuple[str, ...] = (),
        **given: Any,
    ) -> Any:
        """Calls a method of Google's client. None where Google does not find what has a path that ends with `missing`.

        Raises CloudError.
        """
        try:
            return getattr(self._client(client), method)(**given, timeout=self._timeout_s, retry=None)
        except CloudError:
            raise
        except Exception as error:
            if is_missing(error, missing):
                return None
            # The client lets through what requests, google-auth and protobuf raise; all of it means "not known".
            raise from_exception(error, subject, what, self._http.account, service) from error

    def _client(self, name: str) -> Any:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import compute_v1
        from requests.adapters import HTTPAdapter

        with self._lock:
            if name not in self._clients:
                credentials = (
                    self._http.google_credentials() if self._http.is_authorised else AnonymousCredentials()  # type: ignore[no-untyped-call]
                )
                # With its scheme, or the client takes https for granted; without a slash, or paths begin with two.
                client = getattr(compute_v1, name)(
                    credentials=credentials, client_options={"api_endpoint": self._http.base}
                )
                # The client keeps ten connections, and would make the others again for each call, and warn of it.
                adapter = self._http.adapter or HTTPAdapter(pool_maxsize=_MOST_AT_ONCE)
                client.transport._session.mount(self._http.base, adapter)
                self._clients[name] = client
            return self._clients[name]


def must_be(kind: str, body: Any, name: str, what: str, zone: str = "") -> None:
    """Raises NoAnswer unless this is the thing of this name (or id) and kind, in this zone.

    A proxy may answer 200 in Google's place, with `{}` or with something else: that tells nothing.
    """
    names = {body.name, str(body.id)}
    is_elsewhere = zone and body.zone and body.zone.rsplit("/", 1)[-1] != zone
    if body.kind == f"compute#{kind}" and (body.id or kind == "machineType") and name in names and not is_elsewhere:
        return
    came = f"{body.kind or 'something without a kind'} named {body.name!r} with the id {body.id or 'none'}"
    raise NoAnswer(
        f"{what}: what came is not that {kind} but {came}.",
        "Check whether a proxy answers in Google's place, and the endpoint if one is set; it is asked again.",
    )
