"""Makes one message of each kind, as people will see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from costguard.model.delivery.message import (
    Button,
    Content,
    DigestContent,
    DigestLine,
    EphemeralContent,
    ListContent,
    NotificationContent,
    ReminderContent,
    ReminderState,
    ReportContent,
    StateKind,
    VmCard,
)
from costguard.model.instance import InstanceKey
from costguard.model.money import Money, Priced
from costguard.model.reminder import RequestKind, Subject, SubjectKind, Target
from costguard.model.utilisation import Evidence, IdleState

NOW = datetime(2026, 9, 23, 12, 0, tzinfo=UTC)
STARTED = NOW - timedelta(hours=12, minutes=5)
RUN = Subject(SubjectKind.RUN, 12, 7)
REST = Subject(SubjectKind.REST, 12, 7)
URL = "https://costguard.example.com/vm/lab/4711"

IDLE = Evidence(IdleState.IDLE, NOW - timedelta(hours=3), "GPU 0.4 % on average and 3 % at most in the last 3 h.")
WEAK = Evidence(
    IdleState.IDLE, NOW - timedelta(hours=3), "CPU under 5 % for 3 h (max 2 %), and next to no network", is_weak=True
)
BUSY = Evidence(IdleState.BUSY, NOW - timedelta(hours=1), "GPU 87 % on average in the last hour.")
UNKNOWN = Evidence(IdleState.UNKNOWN, NOW, "Cloud Monitoring could not be read.")

CARD = VmCard(
    subject=RUN,
    key=InstanceKey("lab", "4711"),
    name="trainer-7",
    zone="us-central1-a",
    preset="a100",
    what="a2-highgpu-1g, 1 × A100, on demand",
    owner="ana@example.com",
    owner_id="U0ANA",
    owner_how="label owner",
    since=STARTED,
    cost=Priced(Money.of("44.38")),
    rate=Priced(Money.of("3.673385")),
    by_monday=Priced(Money.of("462.12")),
    monday_at=datetime(2026, 9, 28, 7, 0, tzinfo=UTC),
    limit=timedelta(hours=12),
    idle=IDLE,
    url=URL,
)
UNCLAIMED = replace(CARD, owner="", owner_id="", owner_how="", idle=WEAK)
STRANGER = replace(CARD, owner="zoe@example.com", owner_id="", owner_how="created it at 14:02 on 3 Nov", idle=BUSY)
STOPPED_CARD = replace(
    CARD,
    subject=REST,
    name="notebook-ben",
    preset="t4",
    what="n1-standard-8, 1 × T4, 500 GiB pd-ssd",
    owner="ben@example.com",
    owner_id="U0BEN",
    since=NOW - timedelta(days=3),
    cost=Priced(Money.of("8.40")),
    rate=Priced(Money.of("0.116438")),
    by_monday=Priced(Money.of("22.12")),
    limit=timedelta(hours=8),
    idle=None,
)
STOP = Button(RequestKind.STOP, "Stop now", is_danger=True)
KEEP_4 = Button(RequestKind.KEEP, "Keep 4 h (+$14.69)", hours=4)
TOMORROW = Button(RequestKind.KEEP, "Until tomorrow (+$58.11)")
MINE = Button(RequestKind.CLAIM, "Mine")
NOT_MINE = Button(RequestKind.DISOWN, "Not mine")

FIRST = ReminderContent(
    card=CARD,
    stage=0,
    target=Target.OWNER,
    reason="It has run for 12 h, which is the limit of preset a100.",
    state=ReminderState(StateKind.OPEN),
    buttons=(KEEP_4, TOMORROW, STOP, NOT_MINE),
    due_at=STARTED + timedelta(hours=12),
)
LAST = replace(
    FIRST,
    stage=3,
    target=Target.CONTACT,
    reason="Three reminders were not answered.",
    stop_at=NOW + timedelta(hours=1),
)
RESTING = ReminderContent(
    card=STOPPED_CARD,
    stage=0,
    target=Target.OWNER,
    reason="It was stopped 3 d ago, and its disks go on billing.",
    state=ReminderState(StateKind.OPEN),
    buttons=(Button(RequestKind.KEEP, "Ask again in a week", hours=168), NOT_MINE),
    due_at=NOW,
)
DAILY = DigestContent(
    weekly=False,
    first=date(2026, 9, 22),
    last=date(2026, 9, 22),
    headline="$412.20 yesterday, $96 more than the day before. $61.70 of it was idle.",
    sections=(
        (
            "Most expensive",
            (
                DigestLine("trainer-7", "$88.16", "ana@example.com, idle for 9 h"),
                DigestLine("sweep-31", "$61.02", "ben@example.com"),
            ),
        ),
        ("Stopped by Costguard", ()),
        ("Past their limit", (DigestLine("notebook-ben", "$2.79", "reminded twice"),)),
    ),
    url="https://costguard.example.com/",
)
WEEKLY = replace(
    DAILY,
    weekly=True,
    first=date(2026, 9, 14),
    last=date(2026, 9, 20),
    headline="$2,871.44 last week. Stops that people asked for, or did not prevent, saved at least $340.",
)
REPORT = ReportContent(
    title="Costguard's first day in shadow mode",
    headline="2 VMs would have been stopped, and cost $61.40 after that: $1,867.58 a month at that pace. "
    "1 VM is past its limit or idle.",
    sections=(
        (
            "Would have been stopped, with the cost since",
            (
                DigestLine(
                    "trainer-7",
                    "$55.10",
                    "ana@example.com, lab: past the limit of preset a100 (24 h) by 15 h; would have been stopped "
                    "Tue 22 Sep 21:00 UTC; $3.67 an hour, $2,681.57 a month if it runs on",
                ),
                DigestLine(
                    "notebook", "$6.30", "unowned, lab: idle for 14 h; would have been stopped Tue 22 Sep 23:00 UTC"
                ),
            ),
        ),
    ),
    notes=(
        "Watching since Tue 22 Sep 12:00 UTC (1 d), in shadow mode: rules stop nothing.",
        "Left alone: 12 busy and within their limits, 4 kept by GKE.",
        "GPU use: 12 %, known for 62 % of GPU-hours; the field's: 5 % (average of 23,000 Kubernetes clusters, Cast AI, "
        "2026).",
    ),
    what_next="To let rules stop VMs, set in costguard.toml:",
    settings=("[presets.a100]", 'when_unanswered = "stop"', "[enforcement]", "shadow = false"),
    url="https://costguard.example.com/savings",
)
BUDGET = NotificationContent(
    icon="budget",
    title="80 % of the budget “research” is spent",
    text="$4,012.80 of $5,000 since 1 September, with 8 days to go.",
    figures={"Spent": "$4,012.80", "Limit": "$5,000.00", "Forecast": "$5,310.00", "Who answers": "chiara@example.com"},
    what_next="Look at what runs, and stop what nobody needs.",
    url="https://costguard.example.com/budgets",
)
ANOMALY = NotificationContent(
    icon="anomaly",
    title="Spend of project lab is unusual",
    text="$310 today until noon; on such a day it is $90 on average.",
    figures={"Today": "$310.00", "Usual": "$90.00"},
)
TROUBLE = NotificationContent(
    icon="trouble",
    title="Project lab cannot be read",
    text="Google refuses: the service account may not list instances.\nWhat runs there is not watched.",
    what_next="Grant it the role in deploy/iam-role.yaml.",
)
JOB = NotificationContent(
    icon="job",
    title="llama-7 runs",
    text="Attempt 3 runs in us-central1-b since 11:02. It was preempted twice, and lost 12 min of work.",
    figures={
        "Job": "j7k2m9q4, preset a100",
        "Owner": "ana@example.com",
        "VM": "cg-j7k2m9q4-3 in us-central1-b, Spot",
        "Step": "41,200",
        "Attempts": "3, 2 preempted",
        "Cost so far": "$18.44 of $60.00 at most",
        "Work lost": "12 min, $0.31",
    },
    url="https://costguard.example.com/jobs/j7k2m9q4",
)
ALARM = replace(
    JOB,
    icon="alarm",
    title="llama-7 started again from zero",
    text="Nothing complete lies at gs://ana/llama-7: the work of 4 h 10 min, $6.20, is lost.",
    what_next="See what lies there, and why none of it could be used, with: costguard checkpoints gs://ana/llama-7",
)
CRASHED = replace(
    JOB,
    icon="failed",
    title="llama-7 has failed",
    text="The command ended with code 1 three times within 10 minutes.",
    what_next="See more of its output with: costguard output j7k2m9q4",
    output="""step 41200 loss 1.731
Traceback (most recent call last):
  File "/opt/train.py", line 88, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB""",
)
TEST = NotificationContent(
    icon="test", title="Costguard is connected", text="This is a test message. Nothing is wrong."
)
EPHEMERAL = EphemeralContent("Only ana@example.com, an operator of the team or an admin may stop trainer-7.")
LIST = ListContent(
    title="Your VMs",
    cards=(
        (CARD, (KEEP_4, TOMORROW, STOP), "You are reminded in 25 min."),
        (STOPPED_CARD, (), "Its storage bills; you are reminded on Saturday."),
    ),
    more=3,
)
NOTHING = ListContent("Your VMs", ())
_OUTCOMES = {
    StateKind.ASKED: "ana asked at 14:02 to stop it; it is being stopped.",
    StateKind.KEPT: "ana keeps it until 24 September, 09:00. Reason: last epoch.",
    StateKind.REASSIGNED: "ben says that it is theirs.",
    StateKind.ENDED: "Stopped by ana at 14:02 after 12 h; it cost $44.38.",
    StateKind.FAILED: "Google refused to stop it: the service account may not stop VMs.",
}


def states() -> Iterator[ReminderContent]:
    """The first reminder in each state that it can come to."""
    for kind, sentence in _OUTCOMES.items():
        yield replace(FIRST, state=ReminderState(kind, sentence, NOW))


SAMPLES: Mapping[str, Content | ListContent] = {
    "first": FIRST,
    "second": replace(FIRST, stage=1, card=replace(CARD, idle=UNKNOWN)),
    "channel": replace(FIRST, stage=2, target=Target.CHANNEL),
    "unclaimed": replace(FIRST, card=UNCLAIMED, target=Target.CHANNEL, buttons=(MINE, STOP)),
    "stranger": replace(FIRST, card=STRANGER, target=Target.CHANNEL, buttons=(MINE, KEEP_4, STOP)),
    "last": LAST,
    "unpriced": replace(FIRST, card=replace(CARD, cost=Priced(Money.of(3), False), rate=Priced(Money(0), False))),
    "rest": RESTING,
    **{one.state.kind.value: one for one in states()},
    "daily": DAILY,
    "first-report": REPORT,
    "weekly": WEEKLY,
    "budget": BUDGET,
    "anomaly": ANOMALY,
    "trouble": TROUBLE,
    "job": JOB,
    "alarm": ALARM,
    "crashed": CRASHED,
    "test": TEST,
    "ephemeral": EPHEMERAL,
    "list": LIST,
    "nothing": NOTHING,
}
