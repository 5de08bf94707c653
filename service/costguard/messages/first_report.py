"""The first report: sent once, a day after watching began in shadow mode, to the person who set Costguard up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.ledger import projects
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.delivery.message import DigestLine, ReportContent
from costguard.model.moments import zone_of
from costguard.model.ports import Clock
from costguard.reminders import message_rows, report_words
from costguard.reminders.message_rows import NewMessage
from costguard.reminders.report import FIRST_DAY, FleetReport, ReportedVm, RuleOutcome
from costguard.reminders.report_rows import fleet_report
from costguard.reminders.report_words import cost_text, month_text, stop_text

KIND, KEY = "report", "report/first"
# Where watching began before that, as in a database of an earlier version, a first report is no news.
GOOD_FOR = timedelta(days=3)
_DAYS = 7  # of the report: more than can have passed until it is sent
_SHOWN = 5


class FirstReportWatch:
    """Stores the first report once; without a channel, or where rules stop VMs, none."""

    def __init__(self, database: Database, clock: Clock, rules: Rules) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._is_over = False  # it was stored, or is too late: nothing changes that

    def intend(self, fence: Lease | None = None) -> bool:
        """Says whether it is new. Writes nothing else."""
        if self._is_over or not self._rules.channel or not self._rules.is_shadow:
            return False
        now = self._clock.now()
        with self._database.read() as connection:
            since = projects.first_watched_at(connection)
            if since is None or now < since + FIRST_DAY:
                return False
            self._is_over = now >= since + GOOD_FOR or bool(message_rows.known(connection, [KEY]))
        if self._is_over:
            return False
        data = {"good_until": (since + GOOD_FOR).isoformat()}
        new = NewMessage(key=KEY, kind=KIND, address=self._rules.contact or self._rules.channel, data=data)
        with self._database.write(fence) as connection:
            return message_rows.intend(connection, new, now)


class FirstReportComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """The report as it is now."""
        if now >= datetime.fromisoformat(str(message.data["good_until"])):
            return Withdrawn("it could not be sent in time; `costguard report` shows it")
        if not self._rules.is_shadow:
            return Withdrawn("rules stop VMs now; `costguard report` says what they did")
        report = fleet_report(connection, self._rules, now, _DAYS)
        url = f"{self._url}/savings" if self._url else ""
        return Composed(content(report, zone_of(self._rules.time_zone), url), shown="", is_final=True)


def content(report: FleetReport, zone: ZoneInfo, url: str = "") -> ReportContent:
    settings = report_words.what_next(report)
    return ReportContent(
        title="Costguard's first day in shadow mode",
        headline=report_words.summary(report),
        sections=tuple(_sections(report, zone)),
        notes=(report_words.mode(report, zone), *report_words.notes(report)),
        what_next="To let rules stop VMs, set in costguard.toml:" if settings else "",
        settings=settings,
        url=url,
    )


_TITLES = {
    RuleOutcome.STOPPED: "Stopped by rules",
    RuleOutcome.WOULD_STOP: "Would have been stopped, with the cost since",
    RuleOutcome.REMINDED: "Past their limits or idle, with the cost since",
}


def _sections(report: FleetReport, zone: ZoneInfo) -> Iterator[tuple[str, tuple[DigestLine, ...]]]:
    for step, title in _TITLES.items():
        if vms := report.of(step):
            more = [DigestLine(f"{len(vms) - _SHOWN} more", "")] if len(vms) > _SHOWN else []
            yield title, (*(_line(vm, zone) for vm in vms[:_SHOWN]), *more)


def _line(vm: ReportedVm, zone: ZoneInfo) -> DigestLine:
    cost = vm.due_cost if vm.step is RuleOutcome.REMINDED else vm.left_cost if vm.saved is None else vm.saved
    remark = f"{vm.owner or 'unowned'}, {vm.key.project}: {vm.why}; {stop_text(vm, zone)}; {month_text(vm)}"
    return DigestLine(vm.name, cost_text(cost), remark)
