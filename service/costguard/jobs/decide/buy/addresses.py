"""Decides whether the VMs of a recipe get external addresses. Pure."""

from __future__ import annotations

from costguard.model.job import JobKind
from costguard.model.launch import AddressChoice, Recipe, WayOut


def is_open(kind: JobKind, recipe: Recipe) -> bool:
    """Says whether the subnetwork decides. Whether people get to a VM without an address, it does not tell."""
    return recipe.external_address is None and kind is not JobKind.DEV


def choice_of(kind: JobKind, recipe: Recipe, way_out: WayOut | str = "") -> AddressChoice:
    """`way_out` is what was read of the subnetwork, or why it could not be read. It counts where `is_open` says so.

    Private Google Access does not decide it: whether a command needs anything beyond Google is not known before it
    runs, and the guard itself may be elsewhere. A job that reaches neither costs more than an address.
    """
    if recipe.external_address is not None:
        return AddressChoice(recipe.external_address, "its preset says so")
    if kind is JobKind.DEV:
        return AddressChoice(True, "people connect to it")
    if isinstance(way_out, str):
        return AddressChoice(True, f"whether its subnetwork has Cloud NAT could not be read: {way_out}")
    if way_out.nat:
        return AddressChoice(False, f"subnetwork {way_out.subnetwork} has Cloud NAT {way_out.nat}")
    why = f"subnetwork {way_out.subnetwork} has no Cloud NAT"
    if way_out.reaches_google:
        why += " (its Private Google Access reaches Google alone: external_address = false if jobs need nothing else)"
    return AddressChoice(True, why)
