"""Decides whether a VM is idle. What was not measured is unknown, never idle. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from costguard.model.duration import span_text
from costguard.model.instance import InstanceKind, Shape
from costguard.model.managed.machines import ManagedMachines
from costguard.model.utilisation import Evidence, IdleRule, IdleState, Metric, Sample, Series, Usage
from costguard.model.words import count_text
from costguard_vm.diagnosis.power import LOW, not_computing

# Longer without a value, and nobody knows what happened in between.
GAP = timedelta(minutes=6)
# Google may show a measurement as late as four minutes after it was made; the newest may be a period older.
LAG = timedelta(minutes=10)
# Below this, in bytes a second, nothing worth a VM comes or goes: heartbeats, logs, someone's idle shell.
NETWORK_BELOW = 10_000

_MODEL = InstanceKind.DEPLOYED_MODEL
_NO_AGENT = "no GPU figures: the Ops Agent is not installed"
_BY_UTILISATION = ", by utilisation alone, which one busy SM fills"


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A lifetime that is open: what was measured before it says nothing.

    `gce_id` is as `measured_as` has it. `idle_shutdown`, of a Colab runtime: seconds without activity, as text, or
    "off"; "" where it is not known.
    """

    gce_id: str
    shape: Shape
    started_at: datetime
    kind: InstanceKind = InstanceKind.INSTANCE
    idle_shutdown: str = ""

    @property
    def wanted_series(self) -> int:
        """Counts the series that make it known whole: one for each GPU or TPU chip, of Vertex AI for each machine."""
        machines = ManagedMachines.read(self.shape.machine_type) if self.kind.is_of_vertex else None
        return max(1, self.shape.gpu_count if machines is None else machines.count)


@dataclass(frozen=True, slots=True)
class Before:
    """The evidence about the same run at the last measurement."""

    evidence: Evidence
    measured_at: datetime


def evidence(run: MeasuredRun, rule: IdleRule, usage: Usage, now: datetime, before: Before | None = None) -> Evidence:
    """Judges the figures up to `now`: busy by a single value in the window, idle only if the whole of it is known.

    The multiprocessors (SMs) of the GPUs decide where they are measured, else the GPUs' utilisation: idle where it is
    low, and weakly busy where it is high, as one busy SM of 132 reads as 100 %. Without either, CPU and network decide,
    which for a VM with GPUs is weak evidence. TPUs are judged by their own duty cycle alone: without it a VM is
    unknown, since a training on TPUs may leave the CPU to wait.
    """
    return _continued(_judged(run, rule, usage, now, before), usage, run, rule, before)


def _judged(run: MeasuredRun, rule: IdleRule, usage: Usage, now: datetime, before: Before | None) -> Evidence:
    if run.kind.is_of_vertex:
        return _of_vertex(run, rule, usage, now, None if before is None else before.evidence)
    if run.shape.gpu_count == 0:
        return _by_cpu(run, rule, usage, now)
    last = None if before is None else before.evidence
    if run.shape.has_tpus:
        return _by_tpu(run, rule, usage, now, last)
    by_sm = _by_sm(run, rule, usage, now)
    if by_sm is not None:
        return by_sm
    if Metric.GPU in usage.unread:
        return _use_unknown(now, "GPU", usage.unread[Metric.GPU], last)
    lived = _lived(run, usage.of(run.gce_id, Metric.GPU), now)
    if lived:
        judged = _by_gpu(run, rule, lived, _lived(run, usage.of(run.gce_id, Metric.POWER), now), now)
        if judged.state is IdleState.BUSY and last is not None and last.sm_max is not None:
            return _unknown(now, f"{judged.sentence}, but SM activity is not measured any more", last)
        return replace(judged, is_weak=judged.state is IdleState.BUSY)
    if last is not None and last.gpu_max is not None:
        return _use_unknown(now, "GPU", "the Ops Agent has stopped telling it", last)
    judged = _by_cpu(run, rule, usage, now)
    is_weak = judged.state is not IdleState.UNKNOWN
    return replace(judged, sentence=f"{judged.sentence}; {_NO_AGENT}", is_weak=is_weak)


def _of_vertex(run: MeasuredRun, rule: IdleRule, usage: Usage, now: datetime, last: Evidence | None) -> Evidence:
    """Judges a custom job by its GPUs, and a deployed model by its requests and then its GPUs, else CPU and network.

    A model that answers a request now and then is in use, however little its GPUs do. Of the other kinds nothing is
    measured.
    """
    if run.kind is InstanceKind.COLAB_RUNTIME:
        return _use_unknown(now, "its", f"Colab Enterprise has no metric of it; {_stopped_by_colab(run)}")
    if run.kind not in (InstanceKind.CUSTOM_JOB, InstanceKind.DEPLOYED_MODEL):
        return _use_unknown(now, "its", f"no metric of Google's is of a {run.kind.in_words}'s")
    if usage.vertex_unread:
        return _use_unknown(now, "its", usage.vertex_unread, last)
    begin = now - rule.window
    lived = [series for series in _lived(run, usage.of(run.gce_id, Metric.GPU), now) if series[-1].at > begin]
    if run.kind is InstanceKind.CUSTOM_JOB:
        if not run.shape.gpu_count or not lived:
            return _use_unknown(now, "its", "Cloud Monitoring has no GPU use of its machines", last)
        judged = _by_duty(run, rule, lived, now)
        return replace(judged, is_weak=judged.state is IdleState.BUSY)
    answered = [one for one in _requests(run, usage, now) if one.value]
    inside = [one for one in answered if one.at > begin]
    if inside:
        count = count_text(sum(one.value for one in inside), "request")
        sentence = f"{count} answered in the last {span_text(rule.window)}"
        return Evidence(IdleState.BUSY, min(one.at for one in inside), sentence)
    if run.shape.gpu_count and not lived:
        return _use_unknown(now, _name(run.shape), "Cloud Monitoring has none of its replicas", last)
    judged = _by_duty(run, rule, lived, now) if run.shape.gpu_count else _by_cpu(run, rule, usage, now)
    if judged.state is not IdleState.IDLE:
        return judged
    return replace(judged, since=max([judged.since, *(one.at for one in answered)]))


def _requests(run: MeasuredRun, usage: Usage, now: datetime) -> list[Sample]:
    return [one for series in _lived(run, usage.of(run.gce_id, Metric.REQUESTS), now) for one in series]


def _stopped_by_colab(run: MeasuredRun) -> str:
    if run.idle_shutdown.isdecimal():
        return f"Colab stops it after {span_text(timedelta(seconds=int(run.idle_shutdown)))} without activity"
    if run.idle_shutdown:
        return "Colab does not stop it: its idle shutdown is off"
    return "whether Colab stops it without activity is not known"


def _by_tpu(run: MeasuredRun, rule: IdleRule, usage: Usage, now: datetime, last: Evidence | None) -> Evidence:
    if Metric.TPU in usage.unread:
        return _use_unknown(now, "TPU", usage.unread[Metric.TPU], last)
    lived = _lived(run, usage.of(run.gce_id, Metric.TPU), now)
    if not lived:
        return _use_unknown(now, "TPU", "Cloud Monitoring has no duty cycle of its chips", last)
    return _by_duty(run, rule, lived, now)


def _by_sm(run: MeasuredRun, rule: IdleRule, usage: Usage, now: datetime) -> Evidence | None:
    """Judges by SMs; None where they are not known for the whole window, and none of the known values was work."""
    lived = _lived(run, usage.of(run.gce_id, Metric.SM), now)
    begin = now - rule.window
    inside = [sample.value for series in lived for sample in series if sample.at > begin]
    if not inside:
        return None
    mean, most = sum(inside) // len(inside), max(inside)
    if most >= rule.sm_below:
        window = span_text(rule.window)
        sentence = f"up to {_percent(most)} of the GPU's SMs busy in the last {window} ({_percent(mean)} on average)"
        since = _first_busy(lived, rule.sm_below, begin)
        return Evidence(IdleState.BUSY, since, sentence, sm_mean=mean, sm_max=most)
    if _missing(run, lived, max(1, run.shape.gpu_count), rule.window, now):
        return None
    since = max(_quiet_since(run, series, rule.sm_below) for series in lived)
    utilised = _most(_lived(run, usage.of(run.gce_id, Metric.GPU), now), since)
    return Evidence(IdleState.IDLE, since, "", gpu_max=utilised, sm_mean=mean, sm_max=_most(lived, since))


def _useful(power: int | None) -> str:
    """Describes the worth of a high utilisation; `power` is the mean of the best over idle, in basis points, where
    known.
    """
    if power is None:
        return _BY_UTILISATION
    share = power / 10_000
    return f", but {not_computing(share)}" if share < LOW else f", at {share:.0%} of the most power over idle seen"


def _mean_since(measured: Sequence[Series], begin: datetime) -> int | None:
    inside = [sample.value for series in measured for sample in series if sample.at > begin]
    return sum(inside) // len(inside) if inside else None


def _by_gpu(
    run: MeasuredRun, rule: IdleRule, lived: Sequence[Series], drawn: Sequence[Series], now: datetime
) -> Evidence:
    """`drawn` is the power, which tells work from kernels that wait; it makes no VM idle."""
    judged = _by_duty(run, rule, lived, now)
    if judged.state is not IdleState.BUSY:
        return judged
    return replace(judged, sentence=f"{judged.sentence}{_useful(_mean_since(drawn, now - rule.window))}")


def _by_duty(run: MeasuredRun, rule: IdleRule, lived: Sequence[Series], now: datetime) -> Evidence:
    """Judges by the time in which anything ran on its GPUs or TPU chips."""
    name, begin = _name(run.shape), now - rule.window
    inside = [sample.value for series in lived for sample in series if sample.at > begin]
    if not inside:
        teller = "Cloud Monitoring" if run.shape.has_tpus or run.kind.is_of_vertex else "the Ops Agent"
        return _use_unknown(now, name, f"{teller} has stopped telling it")
    mean, most = sum(inside) // len(inside), max(inside)
    window = span_text(rule.window)
    if most >= rule.gpu_below:
        sentence = f"{name} up to {_percent(most)} in the last {window} ({_percent(mean)} on average)"
        return Evidence(
            IdleState.BUSY, _first_busy(lived, rule.gpu_below, begin), sentence, gpu_mean=mean, gpu_max=most
        )
    if missing := _missing(run, lived, run.wanted_series, rule.window, now):
        return replace(_unknown(now, f"{name} use is not known whole: {missing}"), gpu_mean=mean, gpu_max=most)
    since = max(_quiet_since(run, series, rule.gpu_below) for series in lived)
    return Evidence(IdleState.IDLE, since, "", gpu_mean=mean, gpu_max=_most(lived, since))


def _name(shape: Shape) -> str:
    return "TPU" if shape.has_tpus else "GPU"


def _by_cpu(run: MeasuredRun, rule: IdleRule, usage: Usage, now: datetime) -> Evidence:
    unread = [usage.unread[metric] for metric in (Metric.CPU, Metric.RECEIVED, Metric.SENT) if metric in usage.unread]
    if unread:
        return _unknown(now, f"CPU and network use are not known: {unread[0]}")
    begin = now - rule.window
    cpu = _lived(run, usage.of(run.gce_id, Metric.CPU), now)
    network = [_lived(run, usage.of(run.gce_id, metric), now) for metric in (Metric.RECEIVED, Metric.SENT)]
    most = max((sample.value for series in cpu for sample in series if sample.at > begin), default=None)
    window = span_text(rule.window)
    if most is not None and most >= rule.cpu_below:
        since = _first_busy(cpu, rule.cpu_below, begin)
        return Evidence(IdleState.BUSY, since, f"CPU up to {_percent(most)} in the last {window}", cpu_max=most)
    carried = [series for series_list in network for series in series_list]
    if any(sample.value >= NETWORK_BELOW for series in carried for sample in series if sample.at > begin):
        since = _first_busy(carried, NETWORK_BELOW, begin)
        return Evidence(IdleState.BUSY, since, f"busy network in the last {window}", cpu_max=most)
    for series_list in (cpu, *network):
        if missing := _missing(run, series_list, 1, rule.window, now):
            return replace(_unknown(now, f"CPU and network use are not known whole: {missing}"), cpu_max=most)
    since = max(
        *(_quiet_since(run, series, rule.cpu_below) for series in cpu),
        *(_quiet_since(run, series, NETWORK_BELOW) for series in carried),
    )
    return Evidence(IdleState.IDLE, since, "", cpu_max=_most(cpu, since))


def _continued(judged: Evidence, usage: Usage, run: MeasuredRun, rule: IdleRule, before: Before | None) -> Evidence:
    """The same state as before began when it began then, if nothing unmeasured lies in between."""
    last = before.evidence if before is not None else None
    if before is not None and last is not None and last.state is judged.state and last.since < judged.since:
        if judged.state is not IdleState.IDLE:
            judged = replace(judged, since=last.since)
        elif last.is_weak == judged.is_weak and judged.since <= before.measured_at - LAG:
            judged = replace(
                judged,
                since=last.since,
                gpu_max=_larger(judged.gpu_max, last.gpu_max),
                sm_max=_larger(judged.sm_max, last.sm_max) if judged.sm_max is not None else None,
                cpu_max=_larger(judged.cpu_max, last.cpu_max),
            )
    if judged.state is not IdleState.IDLE:
        return judged
    newest = max(
        sample.at
        for metric in (Metric.SM, Metric.GPU, Metric.TPU, Metric.CPU)
        for series in usage.of(run.gce_id, metric)
        for sample in series[-1:]
    )
    sentence = _idle_sentence(judged, rule, newest - judged.since, _name(run.shape))
    return replace(judged, sentence=f"no request, and {sentence}" if run.kind is _MODEL else sentence)


def _idle_sentence(judged: Evidence, rule: IdleRule, lasted: timedelta, name: str) -> str:
    span = span_text(timedelta(minutes=lasted // timedelta(minutes=1)))
    if judged.sm_max is not None:
        text = f"under {_percent(rule.sm_below)} of the GPU's SMs busy for {span} (max {_percent(judged.sm_max)})"
        if judged.gpu_max is None or judged.gpu_max < rule.gpu_below:
            return text
        return f"{text}, though its utilisation reads {_percent(judged.gpu_max)}"
    if judged.gpu_max is not None:
        return f"{name} under {_percent(rule.gpu_below)} for {span} (max {_percent(judged.gpu_max)})"
    most = f" (max {_percent(judged.cpu_max)})" if judged.cpu_max is not None else ""
    text = f"CPU under {_percent(rule.cpu_below)} for {span}{most}, and next to no network"
    return f"{text}; {_NO_AGENT}" if judged.is_weak else text


def _unknown(now: datetime, sentence: str, last: Evidence | None = None) -> Evidence:
    """`last` is kept in it, so that what fell silent stays unknown and does not pass for never measured."""
    if last is None:
        return Evidence(IdleState.UNKNOWN, now, sentence)
    return Evidence(IdleState.UNKNOWN, now, sentence, gpu_max=last.gpu_max, sm_max=last.sm_max)


def _use_unknown(now: datetime, whose: str, why: str, last: Evidence | None = None) -> Evidence:
    """`whose` use it is, such as "GPU"; `why` is a clause. `last` is as `_unknown` has it."""
    return _unknown(now, f"{whose} use is not known: {why}", last)


def _lived(run: MeasuredRun, measured: Sequence[Series], now: datetime) -> list[Series]:
    cut = (tuple(sample for sample in series if run.started_at < sample.at <= now) for series in measured)
    return [series for series in cut if series]


def _missing(run: MeasuredRun, measured: Sequence[Series], wanted: int, window: timedelta, now: datetime) -> str:
    """Explains why the window is not known whole, in words; "" when it is."""
    if now - run.started_at < window:
        return f"it runs for {span_text(now - run.started_at)}, and {span_text(window)} are asked about"
    if not measured:
        return "nothing was measured"
    if len(measured) < wanted:
        things = "machines" if run.kind.is_of_vertex else "TPU chips" if run.shape.has_tpus else "GPUs"
        return f"only {len(measured)} of {wanted} {things} are measured"
    for series in measured:
        inside = [sample.at for sample in series if sample.at > now - window - GAP]
        if not inside or now - inside[-1] > LAG:
            return "the newest figures are missing"
        edges = [now - window, *(at for at in inside if at > now - window)]
        if any(later - earlier > GAP for earlier, later in pairwise(edges)):
            return f"figures are missing in the last {span_text(window)}"
    return ""


def _quiet_since(run: MeasuredRun, series: Series, below: int) -> datetime:
    """Returns the moment back to which the series has only values below the limit, and no gap."""
    since = series[-1].at
    for sample in reversed(series):
        if sample.value >= below or since - sample.at > GAP:
            return since
        since = sample.at
    return run.started_at if since - run.started_at <= GAP else since


def _first_busy(measured: Sequence[Series], below: int, begin: datetime) -> datetime:
    return min(sample.at for series in measured for sample in series if sample.at > begin and sample.value >= below)


def _most(measured: Sequence[Series], since: datetime) -> int | None:
    return max((sample.value for series in measured for sample in series if sample.at >= since), default=None)


def _larger(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


def _percent(basis_points: int) -> str:
    """`3 %`, `0.4 %`: a decimal only below one, and never a nothing that is something."""
    if 0 < basis_points < 100:
        return f"0.{max(1, basis_points // 10)} %"
    return f"{basis_points // 100} %"
