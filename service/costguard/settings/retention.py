"""[retention]: how long single charges, events, operations, messages and outputs stay in the database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from costguard.daemon.retention import Retention
from costguard.settings.values import DurationOrNever, Section, between

_LONGEST = timedelta(days=36_500)
# The bill of a month is final within weeks of its end, and Google forgets operations after about two weeks.
_BILLED = between(timedelta(days=45), _LONGEST)
_SEEN = between(timedelta(days=90), _LONGEST)


def _folder(value: object) -> object:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError("a folder, such as costguard-archive or /var/lib/costguard/archive")
    return Path(value)


class RetentionSection(Section):
    """The ages from which on rows go to compressed files in `folder`. `never`: they stay."""

    folder: Annotated[Path, BeforeValidator(_folder)] = Path("costguard-archive")
    charges: Annotated[DurationOrNever, _BILLED] = None
    events: Annotated[DurationOrNever, _SEEN] = None
    operations: Annotated[DurationOrNever, _BILLED] = None
    messages: Annotated[DurationOrNever, _SEEN] = None
    outputs: Annotated[DurationOrNever, _BILLED] = None

    @property
    def retention(self) -> Retention:
        return Retention(self.folder, self.charges, self.events, self.operations, self.messages, self.outputs)
