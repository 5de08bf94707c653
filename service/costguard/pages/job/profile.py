"""The page of a job's profile: its flame graph next to an earlier job's, the cures that it names, and its functions.

The drawing stretches with the page from `_WIDTH` pixels on; below that it is scrolled, so that names stay in boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.errors import CostguardError
from costguard.jobs.decide.profile.flame import FlameNode, HotFunction, draw, hottest
from costguard.jobs.reports.profile import JobProfileAnswer, profile_of
from costguard.ledger.narrate import sentence
from costguard.model.job import Job
from costguard.pages.page import Given, page_router
from costguard.pages.query import BadAddress, texts
from costguard.pages.show import link
from costguard.web.problems import status_of

_WIDTH = 960  # pixels
_LETTER = 7.0  # pixels of a letter of a name, at most
_ROW = 22  # pixels
_FUNCTIONS = 25
_CHANGED = 0.01  # of all looks: what is less is no change
_LARGE, _MIDDLE = 0.10, 0.03
_GROUPS = {"main": "Main thread", "workers": "Loader workers"}
_NONE = "none"

router = page_router()


@dataclass(frozen=True, slots=True)
class FlameBox:
    """A function in the drawing: percent across, pixels down. `kind` is its class, which `label` says in words."""

    x: float
    y: int
    width: float
    text: str  # as much of its name as fits; "" none
    label: str
    kind: str
    address: str


@dataclass(frozen=True, slots=True)
class FlameStep:
    """A function above the one that the drawing is enlarged to; `address` enlarges it to that one."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class HotRow:
    """A line of the table. `change` is "" without an earlier profile."""

    function: str
    place: str
    is_own: bool
    own: str
    total: str
    change: str


@dataclass(frozen=True, slots=True)
class FlameTab:
    title: str
    address: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class ProfileView:
    """The page's values. `whole` is the address of the drawing of all stacks; "" where that is shown."""

    job: Job
    earlier: Job | None
    why_none: str
    taken: str
    cures: Sequence[str]
    tabs: Sequence[FlameTab]
    title: str
    boxes: Sequence[FlameBox]
    height: int
    path: Sequence[FlameStep]
    whole: str
    hidden: int
    other: str
    rows: Sequence[HotRow]
    without: str  # the address of the page without a comparison; "" where there is none
    download: str


@router.get("/jobs/{job_id}/profile")
def show_profile(request: Request, pages: Given, job_id: str) -> HTMLResponse:
    here = f"/jobs/{job_id}/profile"
    given = texts(request.query_params, here)
    compared = given.get("compare")
    try:
        with pages.source.database.read() as connection:
            answer = profile_of(connection, job_id, "" if compared == _NONE else compared)
    except CostguardError as error:
        raise BadAddress(error.message, f"Start again from {here}.", status_of(error)) from error
    as_of: datetime = pages.source.clock.now()
    view = profile_view(answer, here, given)
    return pages.renderer.page(request, "profile.html", as_of, view=view)


def profile_view(answer: JobProfileAnswer, here: str, given: dict[str, str]) -> ProfileView:
    """Draws the group that is asked for; the main thread where that has no looks."""
    stacks, before = answer.profile.stacks, answer.earlier_profile
    compare = given.get("compare")
    name = "workers" if given.get("group") == "workers" and stacks.workers.looks else "main"
    group = stacks.workers if name == "workers" else stacks.main
    earlier = None
    if before is not None:
        earlier = before.stacks.workers if name == "workers" else before.stacks.main
    graph = draw(group, earlier, given.get("at", ""))

    def to(at: str | None, threads: str = name) -> str:
        return link(here, group=threads if threads != "main" else None, at=at, compare=compare)

    looks = {"main": stacks.main.looks, "workers": stacks.workers.looks}
    return ProfileView(
        job=answer.job,
        earlier=answer.earlier,
        why_none=answer.why_none,
        taken=_taken(answer),
        cures=[sentence(cure.text) for cure in answer.cures],
        tabs=[FlameTab(_GROUPS[one], to(None, one), one == name) for one, count in looks.items() if count],
        title=_GROUPS[name],
        boxes=[_box(node, to(node.address)) for node in graph.nodes],
        height=graph.depth * _ROW,
        path=[FlameStep(node.frame.function, to(node.address)) for node in graph.path],
        whole=to(None) if graph.path else "",
        hidden=graph.hidden,
        other=f"{group.other / group.looks:.1%}" if group.other else "",
        rows=[_row(one) for one in (hottest(group, _FUNCTIONS, earlier) if group.looks else [])],
        without=link(here, group=name if name != "main" else None, compare=_NONE) if answer.earlier else "",
        download=link(f"/api/v1{here}", format="speedscope"),
    )


def _taken(answer: JobProfileAnswer) -> str:
    profile = answer.profile
    windows = f"{profile.windows} {'window' if profile.windows == 1 else 'windows'}"
    return (
        f"{windows}, {profile.stacks.seconds:.0f} s in all; {answer.data_share:.0%} of the main thread's time waits "
        "for data, or prepares it"
    )


def _box(node: FlameNode, address: str) -> FlameBox:
    change = _change_words(node.change)
    label = f"{node.frame.text}: {node.total:.1%} of the time{f', {change}' if change else ''}"
    mark = _mark(node.change)
    fits = int((node.share * _WIDTH - 8) / _LETTER)
    name = f"{mark}{node.frame.function}"
    text = name if len(name) <= fits else f"{name[: fits - 1]}…" if fits > 3 else ""
    return FlameBox(
        round(100 * node.left, 3), node.depth * _ROW, round(100 * node.share, 3), text, label, _kind(node), address
    )


def _kind(node: FlameNode) -> str:
    """Returns a class: by its change where there is an earlier profile, else by whose code it is."""
    change = node.change
    if change is None:
        return "own" if node.frame.is_own else "library"
    if abs(change) < _CHANGED:
        return "same"
    size = 3 if abs(change) >= _LARGE else 2 if abs(change) >= _MIDDLE else 1
    return f"{'more' if change > 0 else 'less'}-{size}"


def _mark(change: float | None) -> str:
    if change is None or abs(change) < _CHANGED:
        return ""
    return f"{100 * change:+.0f} "


def _change_words(change: float | None) -> str:
    if change is None:
        return ""
    if abs(change) < _CHANGED:
        return "as much as in the earlier job"
    return f"{abs(100 * change):.0f} points {'more' if change > 0 else 'less'} than in the earlier job"


def _row(one: HotFunction) -> HotRow:
    frame, change = one.frame, "" if one.before is None else f"{100 * (one.own - one.before):+.1f}"
    place = f"{frame.file}:{frame.line}" if frame.line else frame.file
    return HotRow(frame.function, place, frame.is_own, f"{one.own:.1%}", f"{one.total:.1%}", change)
