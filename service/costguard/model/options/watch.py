"""The options of what is watched in a job's output, of what follows from it, and of what its agent may look at."""

from __future__ import annotations

from collections.abc import Callable

from costguard.model.delivery.tracker import is_mlflow_run, is_wandb_run
from costguard.model.job import OnHang
from costguard.model.options.option import LONGEST_TEXT, Flag, Input, Option, Panel, Takes, in_panel
from costguard_vm.model.log_pattern import LogPattern


def _mlflow_run(text: str) -> str:
    if is_mlflow_run(text):
        return ""
    return "is no id of an MLflow run: letters, digits, hyphens and underscores, as the run's page shows it."


def _wandb_run(text: str) -> str:
    return "" if is_wandb_run(text) else "is no path of a W&B run: give ENTITY/PROJECT/RUN, such as lab/bert/3k2j9x1p."


def _finds_a_number(noun: str, example: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        try:
            groups = LogPattern(text).groups
        except ValueError as wrong:
            return f"is no regular expression that can be used ({wrong}): write {example}."
        return "" if groups else f"has no group: put the {noun} into one, as in {example}."

    return check


WATCH = in_panel(
    Panel.WATCH,
    Option(
        place="step_pattern",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        description="A regular expression with a group that finds the step in the output.",
        flag=Flag("--step-pattern", "REGEX", "Find the step in the output; its first group is the number."),
        input=Input("Step in the output", "a regular expression with a group", "step (\\d+)"),
        agent="step_pattern",
        check=_finds_a_number("step", "step (\\d+)"),
    ),
    Option(
        place="metric.pattern",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        required=True,
        description="A regular expression with a group that finds the number in the output.",
        examples=(r"val_loss (\S+)",),
        flag=Flag("--metric", "REGEX", "Find a number in the output, such as 'val_loss (\\S+)'."),
        input=Input("Metric in the output", "the same, such as for a loss", "val_loss (\\S+)"),
        task="metric",
        agent="metric_pattern",
        check=_finds_a_number("number", "val_loss (\\S+)"),
    ),
    Option(
        place="metric.better",
        takes=Takes.CHOICE,
        choices=("lower", "higher"),
        default="lower",
        flag=Flag("--better", "lower|higher", "The better direction of the metric."),
        input=Input("The metric is better when", words=(("", "lower"), ("higher", "higher"))),
        agent="metric_better",
    ),
    Option(
        place="mlflow_run",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        description="The id of the MLflow run that its cost is logged to.",
        description_in_job="The MLflow run that its cost is logged to; empty: none.",
        examples=("0a1b2c3d4e5f60718293a4b5c6d7e8f9",),
        flag=Flag("--mlflow-run", "ID", "The MLflow run to log the job's cost to."),
        input=Input("MLflow run", "its id; the job's cost is logged to it", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"),
        filled=True,
        holds_text=False,
        check=_mlflow_run,
    ),
    Option(
        place="wandb_run",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        description="The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN.",
        description_in_job="The W&B run whose summary shows its cost; empty: none.",
        examples=("lab/bert/3k2j9x1p",),
        flag=Flag("--wandb-run", "ENTITY/PROJECT/RUN", "The W&B run whose summary shows the job's cost."),
        input=Input("W&B run", "its path; the summary shows the job's cost", "lab/bert/3k2j9x1p"),
        filled=True,
        holds_text=False,
        check=_wandb_run,
    ),
    Option(
        place="on_hang",
        takes=Takes.CHOICE,
        choices=OnHang,
        default=OnHang.TELL,
        description="`restart`: a command without progress is restarted from its newest checkpoint.",
        flag=Flag(
            "--on-hang",
            "tell|restart",
            "restart: a command without progress is restarted from its newest checkpoint.",
        ),
        input=Input(
            "Without progress",
            words=(("", "its owner is notified"), ("restart", "it is also restarted from its newest checkpoint")),
        ),
    ),
    Option(
        place="stop_when_flat",
        takes=Takes.SWITCH,
        default=False,
        description="Whether to finish it early once its metric, or loss, stands still. It needs checkpoints.",
        flag=Flag("--stop-when-flat", "", "Finish early, as succeeded, once the metric or loss stands still."),
        input=Input(
            "When its metric stands still",
            words=(("", "its owner gets a hint"), ("yes", "it is finished early, as succeeded")),
        ),
        details=("When its metric stands still", "it is finished early"),
    ),
    Option(
        place="stacks",
        takes=Takes.SWITCH,
        default=False,
        description="Whether the agent may look for 30 s at where the command's main thread stands.",
        flag=Flag("--stacks", "", "Allow 30-second looks at where the command's main thread stands."),
        input=Input(
            "Stacks of the command",
            words=(("", "are not read"), ("yes", "may be read while a GPU waits, or it hangs")),
        ),
        details=("Stacks", "may be read while a GPU waits, or the command hangs"),
        agent="stacks",
    ),
    Option(
        place="profile",
        takes=Takes.SWITCH,
        description="Whether the agent may take profiles of the command, now and then for 10 s; null: as the settings "
        "say.",
        flag=Flag(
            "--profile/--no-profile",
            "",
            "Take profiles of the command, at most 0.5 % of its time, or take none. Default: as the settings say.",
        ),
        input=Input(
            "Profiles of the command",
            words=(("", "as the settings say"), ("yes", "are taken"), ("no", "are not taken")),
        ),
    ),
    Option(
        place="drill",
        takes=Takes.SWITCH,
        default=False,
        description="Whether to try a save on a notice once, early.",
        flag=Flag("--drill", "", "Try a save on a notice of preemption once, early."),
        input=Input("Preemption drill", words=(("", "none"), ("yes", "once, early, while nothing is at stake"))),
    ),
)
