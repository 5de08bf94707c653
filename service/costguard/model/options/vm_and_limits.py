"""The options of a job's VM."""

from __future__ import annotations

from costguard.model import buying
from costguard.model.job import JobKind
from costguard.model.launch import NOTICES, Placement
from costguard.model.options.node_count import EXAMPLE
from costguard.model.options.option import Flag, Input, Option, Panel, Takes, in_panel

VM = in_panel(
    Panel.VM,
    Option(
        place="project",
        takes=Takes.TEXT,
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
        description="The number of VMs that run the command together, all in one zone; 1: a job of one VM. A range "
        'such as "2..8" runs with what can be had: its launcher must take any number of them.',
        examples=(4, EXAMPLE),
        flag=Flag(
            "--nodes",
            "N",
            "Run the command on N VMs together, in one zone; torchrun, JAX, Accelerate, Lightning and DeepSpeed read "
            "each VM's place from the environment. 2..8: as many as can be had, for torchrun and JAX. Default: 1.",
        ),
        input=Input("VMs together", "1: a job of one VM; 2..8: what can be had", EXAMPLE),
        details=("VMs together", "{}"),
    ),
    Option(
        place="labels",
        takes=Takes.PAIRS,
        description="Labels on its VMs, in Google's characters, such as the execution of a workflow that it is a "
        "part of.",
        description_in_job="The requested labels of its VMs, in addition to those of its preset.",
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
        description="The only zones to use.",
        flag=Flag("--zone", "ZONE", "Only this zone; repeatable."),
        input=Input("Zones", "only these", "us-central1-a us-central1-b"),
        of_dev=True,
    ),
    Option(
        place="overrides.buy",
        takes=Takes.TEXT,
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
        description="The hours for which a request for a flex-start VM may wait, at most 2; 0: now or not at all.",
        flag=Flag("--flex-wait", "SPAN", "The longest that a request for a flex-start VM waits, such as 2h."),
        input=Input("Longest wait for flex-start", "hours", "2"),
        of_dev=True,
    ),
    Option(
        place="overrides.notice",
        takes=Takes.CHOICE,
        choices=tuple(NOTICES),
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
        description="The machine type; null: the preset's.",
        flag=Flag("--machine-type", "TYPE", "Use this machine type instead of the preset's."),
        input=Input("Machine type", "", "n1-standard-16"),
        of_dev=True,
    ),
    Option(
        place="overrides.disk_gib",
        takes=Takes.COUNT,
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
        description="The hours that each VM may run; then Google ends it.",
        flag=Flag("--max-run", "SPAN", "The longest that each VM may run, such as 12h."),
        input=Input("Longest run of a VM", "hours", "24"),
        of_dev=True,
    ),
    Option(
        place="overrides.image",
        takes=Takes.TEXT,
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
        description="`dev`: a VM to work on, without a command; it is not replaced when it ends.",
        task=None,
        of_dev=True,
        in_job=False,
    ),
)
