"""A report in sentences, as the command, the API and the Slack message say it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo

from costguard.model.duration import span_text
from costguard.model.instance import noun_of
from costguard.model.moments import moment_text
from costguard.model.money import Priced, priced_text, rate_text
from costguard.model.utilisation import GpuUse
from costguard.model.words import count_text, list_text
from costguard.reminders.report import FleetReport, ReportedVm, RuleOutcome

FIELD_PERCENT = 5
"""The mean GPU utilisation of the field, in percent, and where it is from: Kubernetes clusters, not VMs."""
FIELD_SOURCE = "average of 23,000 Kubernetes clusters, Cast AI, 2026"
_NO_PRICE = "an amount without a price"


def mode(report: FleetReport, zone: ZoneInfo) -> str:
    """`Watching since Thu 26 Nov 09:00 UTC (2 d), in shadow mode: rules stop nothing.`"""
    if report.watched_since is None:
        return "No project was looked at yet: `costguard pass` looks once, `costguard serve` goes on."
    begun = moment_text(report.watched_since, zone)
    rules = "in shadow mode: rules stop nothing" if report.is_shadow else "with enforcement: rules stop VMs"
    since = moment_text(report.since, zone)
    cut = f" Reported since {since}." if report.since > report.watched_since else ""
    return f"Watching since {begun} ({span_text(report.watched_for)}), {rules}.{cut}"


def summary(report: FleetReport) -> str:
    """The outcome in a sentence or two, beginning with what it comes to in money."""
    if report.watched_since is None:
        return "Nothing is known yet."
    early = ""
    if report.is_early:
        watched = span_text(report.watched_for)
        early = f"Watching for {watched}; a first report comes after a day. Known so far: "
    text = " ".join(_outcome(report))
    return f"{early}{text[0].lower()}{text[1:]}" if early else text


def _outcome(report: FleetReport) -> Iterator[str]:
    stopped, would_stop, reminded = (report.of(step) for step in RuleOutcome)
    if stopped:
        yield f"{_vms(stopped, 'was', 'were')} stopped by rules, which saved {cost_text(report.saved)}."
    if would_stop:
        cost = f"{cost_text(report.left_cost)} after that{_pace(report.left_month)}"
        yield f"{_vms(would_stop, 'would', 'would')} have been stopped, and cost {cost}."
    if reminded:
        late = f"{_vms(reminded, 'is', 'are')} past {'its limit' if len(reminded) == 1 else 'their limits'} or idle"
        yield f"{late}{', and no stop is due yet' if not would_stop else ''}."
    if reminded and not would_stop:
        they = "It has" if len(reminded) == 1 else "They have"
        yield f"{they} cost {cost_text(report.due_cost)} since then{_pace(report.due_month)}."
    if not report.vms:
        yield "Nothing was past its limit or idle."


def _vms(vms: tuple[ReportedVm, ...], one: str, many: str) -> str:
    return f"{count_text(len(vms), noun_of(vm.key.kind for vm in vms))} {one if len(vms) == 1 else many}"


def _pace(month: Priced | None) -> str:
    return "" if month is None else f": {cost_text(month)} a month at that pace"


def cost_text(cost: Priced) -> str:
    """`$41.20`, `at least $41.20`, `an amount without a price`"""
    return priced_text(cost, nothing=_NO_PRICE)


def reminded(report: FleetReport) -> str:
    """Says who is reminded about these VMs; "" where none is due."""
    if not report.vms:
        return ""
    if not report.channel:
        owners = sorted({vm.owner for vm in report.vms if vm.owner})
        whom = f" {count_text(len(owners), 'owner')} would be reminded: {list_text(owners)}." if owners else ""
        return f"Nobody is reminded: Slack is not set up.{whom}"
    sent = sum(vm.reminders for vm in report.vms)
    return f"Reminders go to {list_text(report.people)}; Slack accepted {sent} about them."


def left_alone(report: FleetReport) -> str:
    """`Left alone: 12 busy and within their limits, 4 kept by GKE.`; "" where no VM is."""
    if not report.left_alone:
        return ""
    return f"Left alone: {', '.join(f'{one.count:,} {one.words}' for one in report.left_alone)}."


def gpu_text(use: GpuUse) -> str:
    """`GPU use: 12 %, known for 62 % of GPU-hours; the field's: 5 % (average of ...).`"""
    field = f"the field's: {FIELD_PERCENT} % ({FIELD_SOURCE})"
    if not use.gpu_time:
        return f"GPU use: no GPU ran; {field}."
    if use.used_bp is None:
        return f"GPU use: not known, as no GPU's figures were read (`costguard doctor` says why); {field}."
    return f"GPU use: {_percent(use.used_bp)}, known for {use.known_percent} % of GPU-hours; {field}."


def _percent(basis_points: int) -> str:
    """`42 %`; one decimal below ten, and never a nothing that is something."""
    if basis_points >= 1000 or not basis_points:
        return f"{basis_points // 100} %"
    tenths = max(1, basis_points // 10)
    return f"{tenths // 10}.{tenths % 10} %"


def not_read(report: FleetReport) -> str:
    """Says which projects the report does not know whole; "" where it knows all."""
    return f"Not read whole, so not reported whole: {list_text(report.unread)}." if report.unread else ""


def notes(report: FleetReport) -> tuple[str, ...]:
    """Returns the sentences that say something: who is reminded, what is left alone, the GPU use, what was not read."""
    texts = (reminded(report), left_alone(report), gpu_text(report.gpu_use), not_read(report))
    return tuple(text for text in texts if text)


def what_next(report: FleetReport) -> tuple[str, ...]:
    """The settings that let rules stop VMs, line by line as they stand in costguard.toml; empty where they may."""
    lines: list[str] = []
    if not report.channel:
        lines += ["[slack]  # nothing is stopped without reminders: service/docs/slack.md", 'channel = "#gpu-costs"']
    for preset in report.only_remind:
        lines += [f"[presets.{preset}]", 'when_unanswered = "stop"']
    if report.is_shadow and (report.vms or report.running):
        lines += ["[enforcement]", "shadow = false"]
    return tuple(lines)


def stop_text(vm: ReportedVm, zone: ZoneInfo) -> str:
    """`would have been stopped Tue 3 Nov 09:00 UTC`, `a stop is due Tue 3 Nov 09:00 UTC if nobody answers`"""
    when = "" if vm.stop_at is None else moment_text(vm.stop_at, zone)
    match vm.step:
        case RuleOutcome.STOPPED:
            return f"stopped {when}"
        case RuleOutcome.WOULD_STOP:
            return f"would have been stopped {when}"
        case RuleOutcome.REMINDED:
            return f"a stop would be due {when} if nobody answers" if when else "ended before a stop was due"


def month_text(vm: ReportedVm) -> str:
    """`$0.53 an hour, $386.90 a month if it runs on`; of one that ended, its rate alone."""
    if vm.rate is None:
        return "no price is known"
    month = "" if vm.month_at_rate is None else f", {vm.month_at_rate} a month if it runs on"
    return f"{rate_text(vm.rate)} an hour{month}"
