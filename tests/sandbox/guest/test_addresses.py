"""The internal addresses of VMs that run as processes: what one listens at, another reaches."""

from __future__ import annotations

from pathlib import Path

import requests
from tests.sandbox.guest.served_vms import ServedVMs, served_vms
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, ZONE, body

from costguard_sandbox.gce.vm import VM

_OWN = 'own=$(python3 -c "$ask")\n'
_ASKS = """ask='
import os, urllib.request as web
url = os.environ["COSTGUARD_METADATA"] + "/instance/network-interfaces/0/ip"
print(web.urlopen(web.Request(url, headers={"Metadata-Flavor": "Google"})).read().decode())
'
"""
_LISTENS = """
python3 -c '
import socket, sys
listener = socket.create_server((sys.argv[1], 29400))
print(sys.argv[1], file=open(sys.argv[2], "w"), flush=True)
with listener.accept()[0] as connection: connection.sendall(sys.argv[1].encode())
' "$own" "$say"
"""
_CONNECTS = """
python3 -c '
import socket, sys
print(socket.create_connection((sys.argv[1], 29400)).recv(99).decode(), file=open(sys.argv[2], "w"))
' {address} "$say"
"""


def _shown(made: ServedVMs, vm: VM) -> str:
    """Returns the address as the API shows it."""
    url = f"{made.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/{vm.name}"
    return str(requests.get(url, timeout=30).json()["networkInterfaces"][0]["networkIP"])


def test_vms_meet_at_one_port_of_their_own_addresses(tmp_path: Path) -> None:
    """Two VMs listen at the port of a rendezvous at once, and a third one reaches each."""
    with served_vms(tmp_path) as made:
        vms = [made.boot(_ASKS + _OWN + _LISTENS, name) for name in ("one", "two")]
        listening_at = {made.hear(), made.hear()}
        assert listening_at == {vm.network_ip for vm in vms} == {_shown(made, vm) for vm in vms}
        for number, vm in enumerate(vms):
            made.boot(_CONNECTS.format(address=vm.network_ip), f"asks-{number}")
            assert made.hear() == vm.network_ip


def test_no_two_vms_have_one_address(tmp_path: Path) -> None:
    """This holds for two clouds of one computer, and for a VM that comes after another was deleted."""
    (tmp_path / "other").mkdir()
    with served_vms(tmp_path) as made, served_vms(tmp_path / "other") as other:
        vms = [cloud.boot("true", f"vm-{number}") for cloud in (made, other) for number in range(5)]
        assert len({vm.network_ip for vm in vms}) == len(vms)
        assert all(vm.network_ip.startswith("127.") for vm in vms)
        made.world.delete(PROJECT, "vm-0")
        made.world.advance(MINUTE * 10)
        made.wait_until_gone(vms[0])
        made.boot("true", "next")
        assert made.world.instance(PROJECT, "next").network_ip not in {vm.network_ip for vm in vms}


def test_vms_without_processes_keep_an_address_of_google(tmp_path: Path) -> None:
    """10.128.0.0/9 is the range of networks in auto mode (cloud.google.com/vpc/docs/subnets)."""
    with served_vms(tmp_path) as made:
        made.world.insert(PROJECT, ZONE, body(**SPOT))
        assert made.world.instance(PROJECT, "vm").network_ip.startswith("10.128.")
