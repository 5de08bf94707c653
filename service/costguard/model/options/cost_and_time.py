"""The options of a job's cost and time, and of its place in the queues of limits on what is in use at once."""

from __future__ import annotations

from costguard.model.job import WhenLate
from costguard.model.options.option import Flag, Input, Option, Panel, Takes, in_panel

LEAST_PRIORITY, MOST_PRIORITY = -100, 100

COST = in_panel(
    Panel.COST,
    Option(
        place="ceiling",
        takes=Takes.DOLLARS,
        description="The most that all its VMs together may cost.",
        flag=Flag("--ceiling", "USD", "The most that the whole job may cost."),
        of_dev=True,
        in_job=False,
    ),
    Option(
        place="max_vm_hours",
        attribute="max_vm_time",
        takes=Takes.HOURS,
        description="The most hours that its VMs may run, added up over all of them and all attempts: four VMs use "
        "four an hour.",
        description_in_job="The most seconds that its VMs may run, added up over all of them.",
        flag=Flag("--max-vm-hours", "HOURS", "The most hours that its VMs may run, added up over all of them."),
        input=Input("VM hours", "the most that its VMs may run, added up over all of them", "40"),
        of_dev=True,
    ),
    Option(
        place="deadline",
        takes=Takes.MOMENT,
        description="The time by which it must be finished.",
        flag=Flag(
            "--deadline", "TIME|SPAN", "The time by which it must be finished: 2026-11-22T08:00Z, or 18h from now."
        ),
        input=Input("Deadline", "UTC"),
        of_dev=True,
        in_job=False,
    ),
    Option(
        place="deadline_in_hours",
        attribute="deadline_in",
        takes=Takes.HOURS,
        description="The deadline in hours from its launch; give one of the two.",
        description_in_job="The deadline, in seconds from its launch.",
        input=Input("or hours from now", "finish within", "18"),
    ),
    Option(
        place="work_hours",
        attribute="work",
        takes=Takes.HOURS,
        description="The hours that it takes on its preset without interruptions.",
        description_in_job="The seconds that it takes on its preset without interruptions.",
        flag=Flag("--work", "SPAN", "The time that it takes without interruptions, such as 16h."),
        input=Input("Expected hours", "without interruptions", "10"),
    ),
    Option(
        place="total_steps",
        takes=Takes.COUNT,
        least=1,
        most=10**12,
        description="The number of steps that it takes in all.",
        flag=Flag("--steps", "N", "The total number of steps."),
        input=Input("Steps", "in all; the speed is then measured", "30000"),
    ),
    Option(
        place="when_late",
        takes=Takes.CHOICE,
        choices=WhenLate,
        default=WhenLate.FINISH,
        description="finish: it goes on past the deadline, within its ceiling; stop: it stops at the deadline, after "
        "a checkpoint.",
        flag=Flag(
            "--when-late",
            "finish|stop",
            "finish: go on past the deadline, within the ceiling; stop: stop at the deadline, after a checkpoint.",
        ),
        input=Input(
            "If the deadline cannot be met",
            words=(("", "finish late, within the ceiling"), ("stop", "stop at the deadline, after a checkpoint")),
        ),
    ),
    Option(
        place="max_preemptions",
        takes=Takes.COUNT,
        most=10_000,
        default=100,
        description="The number of preemptions that it survives.",
        flag=Flag("--max-preemptions", "N", "The preemptions that it survives. Default: 100."),
        input=Input("Preemptions allowed", "", "100"),
    ),
    Option(
        place="max_crashes",
        takes=Takes.COUNT,
        most=10_000,
        default=0,
        description="The number of times that a command that failed after progress is run again. A command that fails "
        "at its start is never run again.",
        flag=Flag("--max-crashes", "N", "The crashes after progress that it survives. Default: 0."),
        input=Input("Crashes allowed", "", "0"),
    ),
    Option(
        place="priority",
        takes=Takes.COUNT,
        least=LEAST_PRIORITY,
        most=MOST_PRIORITY,
        default=0,
        description="The priority where a limit has jobs wait: higher ones first, from -100 to 100. Only operators of "
        "its owner's team and admins go above 0.",
        flag=Flag(
            "--priority", "N", "The priority where a limit has jobs wait: higher first, -100 to 100. Default: 0."
        ),
        input=Input("Priority", "where a limit has jobs wait: higher first, -100 to 100", "0"),
        details=("Priority", "{}"),
        of_dev=True,
    ),
    Option(
        place="queue",
        takes=Takes.SWITCH,
        description="Whether it waits in line where it is over a limit or a budget, or is refused; null: it waits "
        "for limits, and a spent budget refuses it.",
        flag=Flag(
            "--queue/--no-queue",
            "",
            "Wait in line where it is over a limit or a budget, or be refused. Default: wait for limits alone.",
        ),
        input=Input(
            "Over a limit or a budget",
            words=(
                ("", "wait for limits; a budget refuses it"),
                ("yes", "wait for limits and budgets"),
                ("no", "be refused"),
            ),
        ),
        of_dev=True,
    ),
)
