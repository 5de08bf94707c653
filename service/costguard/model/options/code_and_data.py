"""The options of a job's command, code, checkpoints and data."""

from __future__ import annotations

import re
from datetime import timedelta

from costguard.model.job import ASKED_BY, AUTO, PUBLISHED, CheckpointPlan, Staging
from costguard.model.options.option import LONGEST_TEXT, LONGEST_WORD, Flag, Input, Option, Panel, Takes, in_panel
from costguard_vm.model.checkpoint import Framework

# docs.aws.amazon.com/IAM/latest/UserGuide: reference_identifiers.html and, for the names, reference_iam-quotas.html.
_SHORTEST = timedelta(minutes=1)
_ROLE = re.compile(r"arn:aws(?:-[a-z]+)*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}", re.ASCII)


def _span(text: str) -> str:
    if text == AUTO:
        return ""
    span = CheckpointPlan("", save_every=text).fixed_interval
    if span is None:
        return "is no interval: write auto, or a span such as 20min or 1h30m."
    return "" if span >= _SHORTEST else "is too short: write a minute or more."


CODE = in_panel(
    Panel.CODE,
    Option(
        place="preset",
        takes=Takes.TEXT,
        required=True,
        task="preset",
        of_dev=True,
        in_job=False,
        holds_text=False,
    ),
    Option(
        place="name",
        takes=Takes.TEXT,
        description="A name for people.",
        flag=Flag("--name", "NAME", "A name for people, by which it is found too."),
        filled=True,
        of_dev=True,
        in_job=False,
    ),
    Option(
        place="command",
        takes=Takes.COMMAND,
        longest=LONGEST_WORD,
        description="The command, run directly on the VM or in the image, without a shell.",
        filled=True,
        in_job=False,
    ),
    Option(
        place="image",
        takes=Takes.TEXT,
        description="A container image by tag or digest; empty: run on the VM itself.",
        flag=Flag("--image", "REF", "Container image, by tag or digest."),
        input=Input(
            "Image",
            "a container image by tag or digest; leave empty to run on the VM itself",
            "europe-docker.pkg.dev/lab/train/llama:7",
            wide=True,
        ),
        in_job=False,
    ),
    Option(
        place="pull",
        takes=Takes.SWITCH,
        default=False,
        description="Whether to resolve the tag on each VM; by default all run the digest that the first one pulled.",
        description_in_job="Whether each VM resolves the image's tag again.",
        flag=Flag("--pull", "", "Pull the image's tag again on each VM; else all run the first VM's digest."),
        input=Input("Image tag", words=(("", "resolved at the first pull"), ("yes", "pulled again on each VM"))),
        agent="pull",
    ),
    Option(
        place="code",
        takes=Takes.CODE,
        description="The code that is unpacked on each VM; the command runs in it.",
        description_in_job="The code that is unpacked on each VM; null: it is in the image, or on the VM already.",
        input=Input(
            "Code of an earlier job",
            "its id; new code comes from a shell, with costguard launch --workdir",
            "j7k2m9q4",
            wide=True,
        ),
    ),
    Option(
        place="workdir",
        takes=Takes.TEXT,
        description="The folder on the VM to run the command in; relative: below the code's.",
        flag=Flag("--cd", "PATH", "The folder on the VM to run the command in; relative: below --workdir's."),
        input=Input("Working directory", "on the VM, or in the image", "/app"),
        details=("Runs in", ""),
        agent="workdir",
    ),
    Option(
        place="setup",
        takes=Takes.TEXT,
        longest=LONGEST_WORD,
        description="A shell command, run once on each VM before the command.",
        examples=("pip install -e .",),
        flag=Flag("--setup", "COMMAND", "A shell command to run once on each VM before the command."),
        input=Input(
            "Setup",
            "a shell command that runs once on each VM before the command, where the code is",
            "pip install -r requirements.txt",
            wide=True,
        ),
        details=("Setup", ""),
        agent="setup",
        holds_text=False,  # with the code, it is looked through as a command is
    ),
    Option(
        place="environment",
        takes=Takes.PAIRS,
        description="Environment variables. They are not secret: do not put passwords here.",
        flag=Flag("--env", "NAME=VALUE", "A variable; repeatable. Not for secrets.", "-e"),
        examples=({"EPOCHS": "3"},),
        input=Input("Environment", "NAME=VALUE, one per line; not secret, so no passwords", "EPOCHS=3"),
        filled=True,
    ),
    Option(
        place="secrets",
        takes=Takes.PAIRS,
        description="References to Secret Manager; the VM reads the values itself.",
        description_in_job="References to secrets, never their values.",
        examples=({"WANDB_API_KEY": "projects/lab/secrets/wandb"},),
        flag=Flag("--secret", "NAME=REF", "A variable that holds a secret, by reference; repeatable."),
        input=Input(
            "Secrets",
            "references to Secret Manager, which the VM reads itself",
            "WANDB_API_KEY=projects/lab/secrets/wandb",
        ),
    ),
)

CHECKPOINTS = in_panel(
    Panel.CHECKPOINTS,
    Option(
        place="checkpoint.location",
        takes=Takes.TEXT,
        required=True,
        description="gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is "
        "overwritten.",
        examples=("gs://lab/run-1",),
        flag=Flag(
            "--checkpoint",
            "URI",
            "The location of checkpoints: gs://, s3://, or a path on the disk; a folder or a file.",
        ),
        task="checkpoint",
        filled=True,
    ),
    Option(
        place="checkpoint.resume",
        takes=Takes.TEXT,
        description="The arguments added to the command to resume. {checkpoint}, {location} and {step} in it are "
        "replaced.",
        examples=("--from_checkpoint {checkpoint}",),
        flag=Flag("--resume", "TEMPLATE", "Appended to resume, such as '--from_checkpoint {checkpoint}'."),
        details=("Resumes with", ""),
        filled=True,
    ),
    Option(
        place="checkpoint.framework",
        attribute="checkpoint.look_for.framework",
        takes=Takes.CHOICE,
        choices=Framework,
        description="The framework that writes the checkpoints; null: detected by file names.",
        flag=Flag("--framework", "NAME", f"{', '.join(Framework)}. Default: recognised by the file names.", "-f"),
        input=Input("Framework", words=(("", "detect by file names"), *((one, one) for one in Framework))),
    ),
    Option(
        place="checkpoint.pattern",
        attribute="checkpoint.look_for.pattern",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        description="The path of plain files, with {step} in it.",
        examples=("ckpt_{step}.pt",),
        flag=Flag("--pattern", "PATH", "Path of plain checkpoint files, with {step}."),
        input=Input("Pattern of other names", "a path with {step} in it", "ckpt_{step}.pt"),
    ),
    Option(
        place="checkpoint.marker",
        attribute="checkpoint.look_for.marker",
        takes=Takes.TEXT,
        longest=LONGEST_TEXT,
        description="The name of the file that is written last.",
        examples=("DONE",),
        flag=Flag("--marker", "NAME", "File that is written last, in a checkpoint's folder."),
        input=Input("Marker", "the file written last", "DONE"),
    ),
    Option(
        place="checkpoint.local",
        takes=Takes.TEXT,
        description="The folder or file on the VM where the command saves. Complete checkpoints in it are uploaded to "
        "the location, and the newest is downloaded before the command resumes.",
        description_in_job="The folder or file on the VM whose checkpoints are uploaded; empty: none is.",
        examples=("/data/out",),
        flag=Flag(
            "--local",
            "PATH",
            "The folder or file on the VM whose checkpoints are uploaded to --checkpoint and brought back.",
        ),
        input=Input(
            "Where the command saves them on the VM",
            "complete ones are uploaded from here, and the newest is brought back",
            "/data/out",
            wide=True,
        ),
    ),
    Option(
        place="checkpoint.keep",
        takes=Takes.COUNT,
        most=1_000,
        default=3,
        description="The number of complete checkpoints that stay at the location, with `local`; 0: all.",
        flag=Flag("--keep", "N", "Checkpoints that stay at --checkpoint; 0: all. Default: 3."),
        input=Input("How many to keep in the bucket", "3 if left empty; 0 keeps all", "3"),
    ),
    Option(
        place="checkpoint.publish_to",
        takes=Takes.TEXT,
        description="The folder, with the provider of the location, to which one complete checkpoint is copied as the "
        "job's result once it has succeeded.",
        description_in_job="The folder to which one checkpoint is copied as the job's result; empty: none is.",
        examples=("gs://lab/models/bert",),
        flag=Flag("--publish-to", "URI", "The folder to which a checkpoint is copied as the result on success."),
        input=Input("Publish a checkpoint to", "as the result, once the job has succeeded", "gs://lab/models/bert"),
        filled=True,
    ),
    Option(
        place="checkpoint.publish",
        takes=Takes.CHOICE,
        choices=PUBLISHED,
        description="The checkpoint that is published: the `best` by the job's metric, or the `latest`; null: the best "
        "where the job names a metric, else the latest.",
        flag=Flag(
            "--publish",
            "|".join(PUBLISHED),
            "Publish the best checkpoint by --metric, or the latest. Default: the best, if there is a metric.",
        ),
        input=Input(
            "Which one",
            words=(("", "the best if there is a metric"), ("best", "the best"), ("latest", "the newest")),
        ),
    ),
    Option(
        place="checkpoint.uploads_itself",
        takes=Takes.SWITCH,
        default=False,
        description="True: the command itself writes to the location.",
        flag=Flag("--uploads-itself", "", "The command writes to --checkpoint by itself."),
        input=Input("Who uploads them", words=(("", "Costguard, from the VM"), ("yes", "the command itself"))),
    ),
    Option(
        place="checkpoint.save_every",
        takes=Takes.TEXT,
        description="The interval at which the agent asks the running command for a save: auto, chosen by what a save "
        "takes and how often VMs like it are preempted, or a span such as 20min. It needs `save_on`.",
        description_in_job="The interval at which the agent asks the command for a save; empty: it does not.",
        examples=("auto",),
        flag=Flag(
            "--save-every", "auto|SPAN", "Ask the command for a save this often, such as 20min; needs --save-on."
        ),
        input=Input("Ask for a save every", "auto, or a span such as 20min; empty leaves it to the command", "auto"),
        details=("Save interval", "{}, asked for by the agent"),
        check=_span,
        holds_text=False,
    ),
    Option(
        place="checkpoint.save_on",
        takes=Takes.CHOICE,
        choices=ASKED_BY,
        description="The way in which the agent asks the running command for a save: the file that "
        "COSTGUARD_SAVE_REQUEST names, or a signal that the command has a handler for; null: it does not ask.",
        description_in_job="The way in which the agent asks the command for a save; null: it does not.",
        flag=Flag("--save-on", "|".join(ASKED_BY), "Ask the running command for a save by this; see docs/jobs.md."),
        input=Input("Asked by", words=(("", "nothing"), *((one, one) for one in ASKED_BY))),
        agent="save_on",
    ),
)

DATA = in_panel(
    Panel.DATA,
    Option(
        place="inputs",
        takes=Takes.PLACES,
        description="Data that is downloaded before the command starts.",
        sides=("source", "path"),
        side_descriptions=("An address: s3://bucket/path or gs://bucket/path.", "A path on the VM."),
        side_examples=("s3://acme-data/v7", "/data"),
        flag=Flag("--input", "URI=PATH", "Data to download before the command starts; repeatable."),
        input=Input(
            "Data to download",
            "before the command starts: from a bucket to a path on the VM, one per line",
            "s3://acme-data/v7=/data",
        ),
    ),
    Option(
        place="outputs",
        takes=Takes.PLACES,
        description="Data that is published when the command succeeds.",
        sides=("path", "destination"),
        side_descriptions=(
            "A path on the VM.",
            "The address s3://bucket/path or gs://bucket/path, published once the command has succeeded.",
        ),
        side_examples=("/data/model", "s3://acme-models/run-12"),
        flag=Flag("--output", "PATH=URI", "Data to publish when the command succeeds; repeatable."),
        input=Input(
            "Results to publish",
            "once the command has succeeded: from a path on the VM to a bucket, one per line",
            "/data/model=s3://acme-models/run-12",
        ),
    ),
    Option(
        place="stage",
        takes=Takes.CHOICE,
        choices=Staging,
        default=Staging.AUTO,
        description="Whether inputs come by way of a stage near the VMs, where each byte is fetched from its source "
        "once: `auto` stages those whose transfer is charged and that are large enough, `on` all from other clouds.",
        flag=Flag(
            "--stage", "auto|on|off", "Fetch inputs once into a bucket near the VMs, for all VMs. Default: auto."
        ),
        input=Input(
            "Stage inputs",
            words=(("", "large ones whose transfer is charged"), ("on", "all from other clouds"), ("off", "never")),
        ),
    ),
    Option(
        place="mounts",
        takes=Takes.LINES,
        description="Folders of the VM in the container: /on/the/vm:/in/the/image, and :ro to protect one.",
        examples=(["/var/data:/data:ro"],),
        flag=Flag("--mount", "FROM:TO", "A folder of the VM in the container; repeatable."),
        input=Input("Mounts", "from the VM into the container, one per line", "/var/data:/data:ro"),
    ),
    Option(
        place="aws_role",
        takes=Takes.TEXT,
        description="The role that the VM assumes at AWS with its Google identity, instead of keys.",
        examples=("arn:aws:iam::123456789012:role/training",),
        flag=Flag("--aws-role", "ARN", "The role at AWS that the VM assumes, instead of keys."),
        input=Input(
            "Role at AWS",
            "that the VM assumes with its Google identity, instead of keys",
            "arn:aws:iam::123456789012:role/training",
        ),
        details=("AWS role", ""),
        agent="aws_role",
        check=lambda text: "" if _ROLE.fullmatch(text) else "is no role: write arn:aws:iam::123456789012:role/name.",
    ),
    Option(
        place="bandwidth_mib_s",
        takes=Takes.COUNT,
        least=1,
        most=100_000,
        unit="MiB a second",
        description="The limit on uploads and downloads together, in MiB/s; null: unlimited.",
        flag=Flag("--bandwidth", "MIB_PER_S", "The limit on uploads and downloads together."),
        input=Input("Limit of uploads and downloads", "MiB a second, together; empty: none", "50"),
        details=("Bandwidth", "at most {} MiB a second for transfers"),
        agent="bandwidth_mib_s",
    ),
)
