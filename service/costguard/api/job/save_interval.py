"""The checkpoint interval of a job in answers."""

from __future__ import annotations

from pydantic import Field

from costguard.api.fields import Out, Seconds, Usd, read_from


class SaveIntervalOut(Out):
    """The checkpoint interval in use, and the one that costs least by the hazard of its VM's zone.

    What is lost is all that is billed and is not kept work: work that is done again, starts after preemptions, and
    saves.
    """

    uses_s: Seconds = read_from("uses", description="The usual work between two saves, in seconds.")
    best_s: Seconds = read_from("best", description="The interval that costs least, in seconds.")
    loses: Usd | None = Field(description="The expected loss of the whole job as it saves; null: its work is unknown.")
    would_lose: Usd | None = Field(
        description="The expected loss of the whole job at the best interval; null: unknown."
    )
    expected: Usd | None = Field(description="The expected cost of the whole job as it saves; null: unknown.")
    loses_share: float = Field(description="The expected loss as a share of the cost.")
    would_lose_share: float = Field(description="The expected loss at the best interval, as a share of the cost.")
    is_worth: bool = Field(description="True: the best interval saves more than 2% of the cost.")
    achieved: str = Field(
        description="The work lost at preemptions before and after a change of the interval; empty: there was none."
    )
    text: str = Field(
        examples=[
            "saving every 2 h loses $41.12 of an expected $312.40 to preemptions and saves; every 23 min would lose "
            "$9.04"
        ]
    )
