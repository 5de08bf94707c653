"""Makes a submission of the values that a face was given, and validates each option by its own declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costguard.jobs.submit.submission import JobRefusal, Overrides, Submission, shown
from costguard.model.job import CheckpointPlan, JobInput, JobMetric, JobOutput, JobSpec
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.node_count import parts_of
from costguard.model.options.option import Takes, in_group
from costguard_vm.model.checkpoint import LookFor


def submission_of(values: Mapping[str, Any], owner: str) -> Submission:
    """Returns the job with these values, by their options' places. What is left out stays unset.

    A checkpoint or a metric is there where any option of it is given.
    """
    spec = {option.path: values.get(option.place, option.unset) for option in in_group(JOB_OPTIONS, "")}
    spec["owner"] = owner
    spec["nodes"], spec["least_nodes"] = parts_of(spec.pop("vm_count"))
    spec["inputs"] = tuple(JobInput(source, path) for source, path in spec["inputs"])
    spec["outputs"] = tuple(JobOutput(path, destination) for path, destination in spec["outputs"])
    if plan := _given(values, "checkpoint"):
        look_for = LookFor(plan.pop("framework"), plan.pop("pattern"), plan.pop("marker"))
        spec["checkpoint"] = CheckpointPlan(look_for=look_for, **plan)
    if metric := _given(values, "metric"):
        spec["metric"] = JobMetric(**metric)
    overrides = {
        option.path.partition(".")[2]: values.get(option.place) for option in in_group(JOB_OPTIONS, "overrides")
    }
    return Submission(JobSpec(**spec), Overrides(**overrides))


def _given(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    options = in_group(JOB_OPTIONS, group)
    if not any(option.place in values for option in options):
        return {}
    return {option.name: values.get(option.place, option.unset) for option in options}


def option_problems(spec: JobSpec) -> Iterator[JobRefusal]:
    """Checks each text that its option's declaration can judge alone."""
    for option in JOB_OPTIONS:
        if option.check is not None and option.is_set_in(spec) and (wrong := option.check(option.value_in(spec))):
            yield JobRefusal(option.place, f"{shown(option.value_in(spec))} {wrong}")


_HARMLESS = frozenset({"deadline_in_hours", "total_steps"})  # limits, as those with defaults are


def unused_by_dev(spec: JobSpec) -> Iterator[JobRefusal]:
    """Finds what a development VM, which runs nothing by itself, has no use for."""
    unused = dict.fromkeys(
        option.group or option.place
        for option in JOB_OPTIONS
        if not option.of_dev and option.default is None and option.place not in _HARMLESS and option.is_set_in(spec)
    )
    for where in unused:
        hint = " (what it boots from is overrides.image)" if where == "image" else ""
        yield JobRefusal(where, f"A development VM runs nothing by itself, so this means nothing{hint}: leave it out.")


def free_texts(spec: JobSpec) -> dict[str, str]:
    """Returns the texts that could hold a credential by mistake, by part of the request."""
    texts: dict[str, str] = {}
    for option in JOB_OPTIONS:
        if not option.holds_text or option.group == "overrides":
            continue
        value = option.value_in(spec)
        if option.takes is Takes.TEXT:
            texts[option.place] = value
        elif option.takes is Takes.LINES:
            texts[option.place] = "\n".join(value)
        elif option.takes is Takes.PLACES:
            for number, one in enumerate(value):
                texts |= {f"{option.place}.{number}.{side}": getattr(one, side) for side in option.sides}
    return texts
