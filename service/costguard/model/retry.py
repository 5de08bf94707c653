"""Decides where a command that failed may do better."""

from __future__ import annotations

from enum import StrEnum


class Retry(StrEnum):
    """The VM on which another attempt may do better."""

    NO = "no"  # nowhere: it would fail in the same way
    OTHER_VM = "other_vm"
    SAME = "same"  # also on the same VM: what was missing may be back
