"""Looks at a job's inputs and outputs before it is launched: what is there, how large it is, what moving it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costguard.errors import CheckpointError, CheckpointLocationMissing
from costguard.jobs.submit.cost import egress
from costguard.jobs.submit.submission import JobRefusal
from costguard.model.data import DataMove, StageRules, StoredSize
from costguard.model.job import JobKind, JobSpec, Staging, destinations_of
from costguard.model.ports import DataPlaces

# Of the command's environment, by which clients of S3 and of Cloud Storage find another endpoint than the cloud's own
# (docs.aws.amazon.com/sdkref, "Service-specific endpoints"; cloud.google.com/storage, STORAGE_EMULATOR_HOST).
_ENDPOINTS: Mapping[str, tuple[str, ...]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "gs": ("STORAGE_EMULATOR_HOST",),
}


@dataclass(frozen=True, slots=True)
class DataLook:
    """`moves` has the inputs, then the outputs."""

    moves: tuple[DataMove, ...] = ()
    refusals: tuple[JobRefusal, ...] = ()
    warnings: tuple[str, ...] = ()


def look_at_data(
    spec: JobSpec, places: DataPlaces, wrong: frozenset[str], stages: StageRules | None = None
) -> DataLook:
    """`wrong` are the parts of the request that are refused already, which nobody need look at.

    What this installation may not read its VMs may: that is a warning. A bucket that does not exist is refused, and so
    are an input with nothing in it and an output that was published before.
    """
    if spec.kind is not JobKind.TRAINING:
        return DataLook()
    moves: list[DataMove] = []
    refusals: list[JobRefusal] = []
    warnings: list[str] = []
    if spec.stage is Staging.ON and not (stages or StageRules()).is_set:
        message = "No bucket is set for stages: name one under [stage] in the settings, or leave --stage out."
        refusals.append(JobRefusal("stage", message))
    for number, one in enumerate(spec.inputs):
        where = f"inputs.{number}.source"
        endpoint = _endpoint(spec, one.source)
        size = None
        if where not in wrong:
            size = _size(where, one.source, endpoint, places, refusals, warnings)
        if size is not None and not size.files:
            message = f"There is nothing at {one.source}: check its bucket and its path."
            refusals.append(JobRefusal(where, message))
        moves.append(egress.of_input(number, spec, size, bool(endpoint), stages))
    for number, output in enumerate(spec.outputs):
        where = f"outputs.{number}.destination"
        endpoint = _endpoint(spec, output.destination)
        if where not in wrong:
            size = _size(where, output.destination, endpoint, places, refusals, warnings)
            _check_destination(where, output.destination, size, refusals, warnings)
        moves.append(egress.of_output(number, spec, bool(endpoint)))
    result, where = destinations_of(spec).get("checkpoint.publish_to"), "checkpoint.publish_to"
    if result and where not in wrong:
        size = _size(where, result, _endpoint(spec, result), places, refusals, warnings)
        _check_destination(where, result, size, refusals, warnings)
    return DataLook(tuple(moves), tuple(refusals), tuple(warnings))


def _check_destination(
    where: str, destination: str, size: StoredSize | None, refusals: list[JobRefusal], warnings: list[str]
) -> None:
    if size is None or not size.files:
        return
    if size.is_published:
        message = f"An output was published at {destination} before, and would be mixed with this one: name another"
        refusals.append(JobRefusal(where, f"{message} place, or delete that one."))
    else:
        warnings.append(f"There are files at {destination} already: those with other names than the output's stay.")


def _size(
    where: str,
    address: str,
    endpoint: str,
    places: DataPlaces,
    refusals: list[JobRefusal],
    warnings: list[str],
) -> StoredSize | None:
    try:
        return places.size(address, endpoint)
    except CheckpointLocationMissing as missing:
        if not address.startswith("file:"):
            refusals.append(JobRefusal(where, str(missing)))
            return None
        return StoredSize(0, 0)
    except CheckpointError as error:
        warnings.append(f"{error.message} Whether its VMs may use it shows when the first one starts.")
        return None


def _endpoint(spec: JobSpec, address: str) -> str:
    """Returns the endpoint in the job's environment; empty: the cloud's own, or this installation's."""
    names = _ENDPOINTS.get(address.partition("://")[0], ())
    return next((spec.environment[name] for name in names if spec.environment.get(name)), "")
