"""The options of a job's place in the queues of limits on what is in use at once."""

from __future__ import annotations

from costguard.model.options.option import Flag, Input, Option, Panel, Takes, in_panel

LEAST_PRIORITY, MOST_PRIORITY = -100, 100

QUEUE = in_panel(
    Panel.COST,
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
