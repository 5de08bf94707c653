"""The options of a job's VM, and of what is watched in its output."""

from __future__ import annotations

from collections.abc import Callable

from costguard.model import buying
from costguard.model.job import JobKind, OnHang
from costguard.model.launch import NOTICES, Placement
from costguard.model.options.node_count import EXAMPLE
from costguard.model.options.option import LONGEST_TEXT, Flag, Input, Option, Panel, Takes
from costguard.model.tracker import is_mlflow_run, is_wandb_run
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


VM = (
    Option(
        place="project",
        takes=Takes.TEXT,
        panel=Panel.VM,
        description="The project's id; empty: the watched project, where there is only one.",
        flag=Flag(
            "--project", "PROJECT", "The project, needed only where several are watched.", "-p", "COSTGUARD_PROJECT"
        ),
        of_dev=True,
        in_job=False,
        holds_text=False,
    ),
    Option(
        place="owner",
        takes=Takes.TEXT,
        panel=Panel.VM,
        description="The address of the person responsible; default: the caller. Only admins name another.",
        examples=("ana@example.com",),
        of_dev=True,
        in_job=False,
        holds_text=False,
    ),
    Option(
        place="nodes",
        attribute="vm_count",
        takes=Takes.NODES,
        default=1,
        panel=Panel.VM,
        description="The number of VMs that run the command together, all in one zone; 1: a job of one VM. A range "
        'such as "2..8" runs with what can be had: its launcher must take any number of them.',
        examples=(4, EXAMPLE),
        flag=Flag(
            "--nodes",
            "N",
            "Run the command on N VMs together, in one zone; torchrun, JAX, Accelerate, Lightning and DeepSpeed read "
            "each VM's place from the environment. 2..8: with what can be had, as torchrun and JAX can. Default: 1.",
        ),
        input=Input("VMs together", "1: a job of one VM; 2..8: what can be had", EXAMPLE),
        details=("VMs together", "{}"),
    ),
    Option(
        place="labels",
        takes=Takes.PAIRS,
        panel=Panel.VM,
        description="Labels on its VMs, in Google's characters, such as the execution of a workflow that it is a "
        "part of.",
        description_in_job="The labels that were asked for on its VMs, next to those of its preset.",
        examples=({"flyte-execution": "f3b1c7d2"},),
        flag=Flag("--label", "KEY=VALUE", "A label on its VMs, such as the execution of a workflow; repeatable."),
        input=Input("Labels of its VMs", "KEY=VALUE, one per line", "flyte-execution=f3b1c7d2"),
        filled=True,
        of_dev=True,
        holds_text=False,
    ),
    Option(
        place="placement",
        takes=Takes.CHOICE,
        choices=Placement,
        default=Placement.ANY,
        panel=Panel.VM,
        description="`compact`: Google places its VMs close together in their zone, which takes a machine series that "
        "has compact placement policies; fewer places may have room for them.",
        flag=Flag(
            "--placement",
            "any|compact",
            "compact: have Google place the VMs close together, for a faster network between them; fewer places may "
            "have room. Default: any.",
        ),
        input=Input("Placement of the VMs", words=(("", "wherever the zone has room"), ("compact", "close together"))),
        details=("Placement of the VMs", "{}"),
    ),
    Option(
        place="overrides.zones",
        takes=Takes.LINES,
        panel=Panel.VM,
        description="The only zones to use.",
        flag=Flag("--zone", "ZONE", "Only this zone; repeatable."),
        input=Input("Zones", "only these", "us-central1-a us-central1-b"),
        of_dev=True,
    ),
    Option(
        place="overrides.buy",
        takes=Takes.TEXT,
        panel=Panel.VM,
        default=None,
        description=f"The way to buy its VMs: {buying.EXAMPLES}; null: as in the preset.",
        examples=("flex",),
        flag=Flag("--buy", "WAY", f"Buy its VMs this way, and not as the preset does: {buying.EXAMPLES}."),
        input=Input("Buy as", "the preset's way", buying.EXAMPLES),
        of_dev=True,
    ),
    Option(
        place="overrides.flex_wait_hours",
        attribute="overrides.flex_wait",
        takes=Takes.HOURS,
        panel=Panel.VM,
        description="The hours for which a request for a flex-start VM may wait, at most 2; 0: now or not at all.",
        flag=Flag("--flex-wait", "SPAN", "The longest that a request for a flex-start VM waits, such as 2h."),
        input=Input("Longest wait for flex-start", "hours", "2"),
        of_dev=True,
    ),
    Option(
        place="overrides.notice",
        takes=Takes.CHOICE,
        choices=tuple(NOTICES),
        panel=Panel.VM,
        description="The time from the announcement of a Spot VM's preemption to its shutdown; null: as in the preset.",
        flag=Flag(
            "--notice", "120s|0s", "The notice of a preemption that Spot VMs are asked for, instead of the preset's."
        ),
        input=Input(
            "Notice of a preemption",
            words=(("", "as in the preset"), ("120s", "120 s before the shutdown"), ("0s", "with the shutdown")),
        ),
        of_dev=True,
    ),
    Option(
        place="overrides.on_demand_fallback",
        takes=Takes.SWITCH,
        panel=Panel.VM,
        description="Whether to use on-demand when what is bought otherwise is out of stock everywhere.",
        flag=Flag("--fallback/--no-fallback", "", "Use on-demand where Spot or flex-start is out of stock, or wait."),
        input=Input(
            "When it is out of stock",
            words=(("", "as in the preset"), ("yes", "use on demand"), ("no", "wait")),
        ),
        of_dev=True,
    ),
    Option(
        place="overrides.machine_type",
        takes=Takes.TEXT,
        panel=Panel.VM,
        description="The machine type; null: the preset's.",
        flag=Flag("--machine-type", "TYPE", "Use this machine type instead of the preset's."),
        input=Input("Machine type", "", "n1-standard-16"),
        of_dev=True,
    ),
    Option(
        place="overrides.disk_gib",
        takes=Takes.COUNT,
        panel=Panel.VM,
        unit="GiB",
        description="The size of the boot disk in GiB; null: the preset's.",
        flag=Flag("--disk", "GIB", "Size of the boot disk."),
        input=Input("Disk", "GiB", "200"),
        of_dev=True,
    ),
    Option(
        place="overrides.max_run_hours",
        attribute="overrides.max_run",
        takes=Takes.HOURS,
        panel=Panel.VM,
        description="The hours that each VM may run; then Google ends it.",
        flag=Flag("--max-run", "SPAN", "The longest that each VM may run, such as 12h."),
        input=Input("Longest run of a VM", "hours", "24"),
        of_dev=True,
    ),
    Option(
        place="overrides.image",
        takes=Takes.TEXT,
        panel=Panel.VM,
        description="The boot image: projects/P/global/images/family/F.",
        flag=Flag("--boot-image", "IMAGE", "The VM's image, instead of the preset's."),
        input=Input("Boot image", "", "projects/P/global/images/family/F", wide=True),
        task=None,
        of_dev=True,
    ),
    Option(
        place="kind",
        takes=Takes.CHOICE,
        choices=JobKind,
        default=JobKind.TRAINING,
        panel=Panel.VM,
        description="`dev`: a VM to work on, without a command; it is not replaced when it ends.",
        task=None,
        of_dev=True,
        in_job=False,
    ),
)

WATCH = (
    Option(
        place="step_pattern",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        panel=Panel.WATCH,
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
        panel=Panel.WATCH,
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
        panel=Panel.WATCH,
        flag=Flag("--better", "lower|higher", "The better direction of the metric."),
        input=Input("The metric is better when", words=(("", "lower"), ("higher", "higher"))),
        agent="metric_better",
    ),
    Option(
        place="mlflow_run",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        panel=Panel.WATCH,
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
        panel=Panel.WATCH,
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
        panel=Panel.WATCH,
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
        place="stacks",
        takes=Takes.SWITCH,
        default=False,
        panel=Panel.WATCH,
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
        place="drill",
        takes=Takes.SWITCH,
        default=False,
        panel=Panel.WATCH,
        description="Whether to try a save on a notice once, early.",
        flag=Flag("--drill", "", "Try a save on a notice once, early."),
        input=Input("Preemption drill", words=(("", "none"), ("yes", "once, early, while nothing is at stake"))),
    ),
)
