"""The profile of a job: its windows added up, over runs and attempts. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from costguard.jobs.decide.profile.patterns import Pattern, pattern_of
from costguard_vm.profile.window import StackProfile, merged

MOST_STACKS = 400  # of a group in a job's profile
MOST_SHARES = 60  # windows whose share of reading for an evaluation is kept


@dataclass(frozen=True, slots=True)
class ProfileWindow:
    """A window that an agent reported. `at` is its report, by the guard's clock."""

    run: int
    number: int  # grows within an attempt
    at: datetime
    profile: StackProfile


@dataclass(frozen=True, slots=True)
class JobProfile:
    """All windows of a job, added up. `rereads` is, by window, the share of the main thread's looks in which an
    evaluation read its data. `error` says why the last window is empty; "" where it is not.
    """

    stacks: StackProfile = field(default_factory=StackProfile)
    windows: int = 0
    since: datetime | None = None
    until: datetime | None = None
    rereads: tuple[float, ...] = ()

    @property
    def is_known(self) -> bool:
        return self.stacks.main.looks > 0

    @property
    def error(self) -> str:
        return self.stacks.error


def added(before: JobProfile, window: ProfileWindow) -> JobProfile:
    """Adds a window. One without stacks only says why there are none."""
    total = merged(before.stacks, window.profile, MOST_STACKS)
    if not window.profile.main.looks:
        return replace(before, stacks=total)
    return JobProfile(
        total,
        before.windows + 1,
        before.since or window.at,
        window.at,
        (*before.rereads, reread_share(window.profile))[-MOST_SHARES:],
    )


def reread_share(profile: StackProfile) -> float:
    """Returns the share of the main thread's looks in which an evaluation read its data."""
    main = profile.main
    matches = ((pattern_of(stack, ran=True), count) for stack, (count, _) in main.stacks.items())
    looks = sum(count for match, count in matches if match is not None and match.pattern is Pattern.VALIDATION)
    return looks / main.looks if main.looks else 0.0
