"""Decides whether a launch is expensive enough to be confirmed by the person who makes it."""

from __future__ import annotations

from datetime import timedelta

from costguard.jobs.submit.cost.expected import ExpectedJobCost
from costguard.jobs.submit.cost.offers import PlaceOffer
from costguard.model.duration import span_text
from costguard.model.job import JobSpec
from costguard.model.launch import Recipe
from costguard.model.money import Money, about_text, money_text, rate_text


def question_of(
    spec: JobSpec,
    recipe: Recipe | None,
    first: PlaceOffer | None,
    expected: ExpectedJobCost | None,
    above: Money | None,
) -> str:
    """Asks about a cost above `above`, or one that is not known; "" where nothing has to be confirmed.

    A ceiling bounds it, and so do VM hours. Without a length of its work it counts as long as one VM may run.
    """
    if recipe is None or above is None:
        return ""
    span = spec.work or recipe.max_run
    if spec.max_vm_time is not None:
        span = min(span, spec.max_vm_time / spec.nodes)
    text, cost = _likely(first, expected, span)
    if spec.ceiling is not None and (cost is None or spec.ceiling < cost):
        text, cost = f"It may cost up to its ceiling of {money_text(spec.ceiling)}.", spec.ceiling
    return "" if cost is not None and cost <= above else text


def _likely(first: PlaceOffer | None, expected: ExpectedJobCost | None, span: timedelta) -> tuple[str, Money | None]:
    if expected is not None:
        return f"It may cost {about_text(money_text(expected.mean))} by its deadline.", expected.mean
    if first is None or first.rate is None:
        return "What it may cost is not known: it has no price.", None
    cost = first.rate.over(span)
    return f"It may cost {money_text(cost)}: {span_text(span)} at {rate_text(first.rate)} an hour.", cost
