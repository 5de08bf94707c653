"""Says of VMs that were not reached which firewall rule may be missing. Pure.

VMs reach each other where a rule lets them: a network of one's own denies all ingress, and the network `default` has
the rule default-allow-internal (cloud.google.com/firewall/docs/firewalls). The command is by gcloud's reference
(cloud.google.com/sdk/gcloud/reference/compute/firewall-rules/create).
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple, Sequence

from .peers import SILENT, Unreached

RULE = "costguard-gang"


class VmNetwork(NamedTuple):
    """A VM's place in the network, by its metadata: `network` is projects/NUMBER/networks/NAME, and may be another
    project's. What is not known is empty.
    """

    network: str = ""
    project: str = ""
    number: str = ""
    tags: Sequence[str] = ()
    netmask: str = ""


def unreached_text(
    node: int,
    addresses: Sequence[str],
    unreached: Sequence[Unreached],
    network: VmNetwork,
    waited_s: float,
    vms: Sequence[str] = (),
) -> str:
    """Returns the error's text. `vms` are their names by their places in the round, which are no numbers of nodes where
    a round may have fewer VMs; a guard of an earlier version says none.
    """
    names = vms if len(vms) == len(addresses) else [f"node {place}" for place in range(len(addresses))]
    parts = [
        f"{names[node]} ({addresses[node]}) cannot reach {names[one.node]} at {one.address}, port {one.port}: {one.why}"
        for one in unreached[:4]
    ]
    more = f" and {len(unreached) - 4} more" if len(unreached) > 4 else ""
    text = f"the VMs of this job do not reach each other, after {waited_s:g} s: {'; '.join(parts)}{more}."
    if any(one.why == SILENT for one in unreached):
        text += f" If those VMs run, a firewall drops what they send; allow it with: {rule_command(addresses, network)}"
    return text


def rule_command(addresses: Sequence[str], network: VmNetwork) -> str:
    """Returns the command that makes the rule: for the VMs' tags, else for their subnet, else for their addresses."""
    parts = network.network.split("/")
    name = parts[-1] or "NETWORK"
    owner = parts[1] if len(parts) == 4 and parts[1] != network.number else network.project
    if network.tags:
        who = [f"--source-tags={','.join(network.tags)}", f"--target-tags={','.join(network.tags)}"]
    else:
        who = [f"--source-ranges={','.join(_ranges(addresses, network.netmask))}"]
    words = [
        "gcloud compute firewall-rules create",
        RULE,
        f"--network={name}",
        *([f"--project={owner}"] if owner else []),
    ]
    return " ".join([*words, "--direction=INGRESS", "--allow=tcp:0-65535,udp,icmp", *who])


def _ranges(addresses: Sequence[str], netmask: str) -> list[str]:
    try:
        return sorted({str(ipaddress.ip_network(f"{one}/{netmask or 32}", strict=False)) for one in addresses})
    except ValueError:
        return list(addresses)
