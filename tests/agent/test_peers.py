"""The check that the VMs of a gang reach each other, over real sockets of the loopback."""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.agent.gang import SECRET, Gang, addresses, gang_of, is_standing_by, of_round, word
from tests.agent.loaded_agents import LoadedAgents

from costguard_vm.agent.gang import peers
from costguard_vm.agent.gang.firewall import VmNetwork, rule_command, unreached_text
from costguard_vm.agent.gang.interfaces import interface_of
from costguard_vm.agent.gang.peers import HIGH_PORT, REFUSED, SILENT, STRANGER, PeerCheck, Unreached
from costguard_vm.agent.settings import Unwanted

PORTS = (29400, HIGH_PORT)
PATIENCE_S = 60.0


def _check(node: int, where: list[str], secret: str = SECRET, number: int = 1) -> PeerCheck:
    return PeerCheck(number, node, where, secret, PORTS)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def _together(checks: list[PeerCheck], limit_s: float = PATIENCE_S) -> list[list[Unreached]]:
    with ThreadPoolExecutor(len(checks)) as pool:
        seen = list(pool.map(lambda check: check.run(_wait, limit_s), checks))
    for check in checks:
        check.close(HIGH_PORT)
    return seen


@pytest.mark.parametrize("count", [2, 4, 8])
def test_all_reach_each_other(count: int) -> None:
    """The rendezvous port is free for the launcher at once."""
    where = addresses(count)
    assert _together([_check(node, where) for node in range(count)]) == [[]] * count
    with socket.socket() as launcher:
        launcher.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        launcher.bind((where[0], 29400))


def test_a_vm_that_is_not_there_is_named() -> None:
    """It is named at both ports, and a VM that is there is not."""
    where = addresses(3)
    seen = _together([_check(node, where) for node in (0, 2)], 4.0)
    for unreached in seen:
        assert unreached == [Unreached(1, where[1], port, REFUSED) for port in PORTS]


def test_a_stranger_is_told_from_a_member() -> None:
    """Strangers are a member of another round, one with another secret, and a server of something else."""
    for other in ("round", "secret", "server"):
        where = addresses(2)
        if other == "server":
            with socket.create_server((where[1], 29400)) as web, socket.create_server((where[1], HIGH_PORT)) as more:
                for server in (web, more):
                    threading.Thread(target=_answer_as_web, args=(server,), daemon=True).start()
                (seen,) = _together([_check(0, where)], 4.0)
        else:
            number, secret = (2, SECRET) if other == "round" else (1, "another")
            seen, _ = _together([_check(0, where), _check(1, where, secret, number)], 4.0)
        assert [(one.port, one.why) for one in seen] == [(port, STRANGER) for port in PORTS], other


def _answer_as_web(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()


def test_silence_is_a_firewalls() -> None:
    """A listener whose queue is full answers no more: Linux drops what comes, as a firewall does (man 2 listen)."""
    where = addresses(2)
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind((where[1], HIGH_PORT))
        full.listen(0)
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex((where[1], HIGH_PORT))
        (seen,) = _together([_check(0, where)], 6.0)
    assert [(one.port, one.why) for one in seen] == [(29400, REFUSED), (HIGH_PORT, SILENT)]


def test_one_port_is_not_enough() -> None:
    """A rule may let the rendezvous through alone."""
    where = addresses(2)
    other = PeerCheck(1, 1, where, SECRET, (29400, HIGH_PORT + 1))
    seen, _ = _together([_check(0, where), other], 4.0)
    other.close(HIGH_PORT + 1)
    assert seen == [Unreached(1, where[1], HIGH_PORT, REFUSED)]


def test_an_agent_that_asks_again_is_answered() -> None:
    """The others have passed, and their commands hold the rendezvous port."""
    where = addresses(3)
    checks = [_check(node, where) for node in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda check: check.run(_wait, PATIENCE_S), checks)) == [[]] * 3
    checks[1].close(HIGH_PORT)
    with socket.create_server((where[0], 29400)):
        again = _check(1, where)
        assert again.run(_wait, PATIENCE_S) == []
    for check in (checks[0], checks[2], again):
        check.close(HIGH_PORT)


def test_an_answer_that_is_lost_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other VM hears at the high port that this one has passed: its command may be at the rendezvous port."""
    where, lost = addresses(2), threading.Lock()
    asks_again, has_passed = _check(0, where), _check(1, where)
    over, write, ready = threading.Event(), peers._write, has_passed.run

    def write_or_lose(connection: socket.socket, document: dict[str, object]) -> None:
        if "ok" in document and connection.getsockname() == (where[1], PORTS[0]) and lost.acquire(blocking=False):
            raise ConnectionResetError("the answer is lost")
        write(connection, document)

    def wait(seconds: float) -> None:
        """Waits for the end of the other one's check where only the lost answer is missing."""
        is_missing = lost.locked() and (1, HIGH_PORT) in asks_again._reached
        over.wait(PATIENCE_S if is_missing else seconds)

    def run_to_the_end(wait: Callable[[float], object], limit_s: float) -> list[Unreached]:
        try:
            return ready(wait, limit_s)
        finally:
            over.set()

    monkeypatch.setattr(peers, "_write", write_or_lose)
    monkeypatch.setattr(has_passed, "run", run_to_the_end)
    monkeypatch.setattr(asks_again._over, "wait", wait)
    assert _together([asks_again, has_passed]) == [[], []]
    assert lost.locked()


def test_what_is_not_wanted_any_more_ends_it() -> None:
    """The ports are free again."""
    where = addresses(2)

    def wait(_: float) -> None:
        raise Unwanted("cancelled")

    with pytest.raises(Unwanted):
        _check(0, where).run(wait, PATIENCE_S)
    for port in PORTS:
        socket.create_server((where[0], port)).close()


def test_a_port_in_use_is_named() -> None:
    """The user's own command may hold it, or another's on the VM."""
    where = addresses(2)
    with socket.create_server((where[0], 29400)), pytest.raises(OSError, match="port 29400 of this VM cannot be used"):
        _check(0, where).run(_wait, 1.0)


ALL = "--direction=INGRESS --allow=tcp:0-65535,udp,icmp"
NETWORK = VmNetwork("projects/123/networks/training", "lab", "123", (), "255.255.240.0")


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (
            NETWORK,
            f"--network=training --project=lab {ALL} --source-ranges=10.0.0.0/20",
        ),
        (NETWORK._replace(tags=("gpu", "lab")), "--source-tags=gpu,lab --target-tags=gpu,lab"),
        (NETWORK._replace(network="projects/456/networks/shared"), "--network=shared --project=456 "),
        (
            VmNetwork(),
            f"--network=NETWORK {ALL} --source-ranges=10.0.0.5/32,10.0.1.7/32",
        ),
    ],
)
def test_the_rule_that_is_missing(network: VmNetwork, words: str) -> None:
    """It is for the VMs' tags, else their subnet, in the project whose network it is, a shared one's too."""
    command = rule_command(["10.0.0.5", "10.0.1.7"], network)
    assert command.startswith("gcloud compute firewall-rules create costguard-gang ")
    assert words in command


def test_who_cannot_reach_whom() -> None:
    """A refusal is no firewall's: the rule is named where there was no answer at all."""
    where = ["10.0.0.5", "10.0.0.6", "10.0.0.7"]
    silent = unreached_text(2, where, [Unreached(0, where[0], 29400, SILENT)], NETWORK, 120.0)
    assert "node 2 (10.0.0.7) cannot reach node 0 at 10.0.0.5, port 29400: no answer" in silent
    names = ["cg-j1-1", "cg-j1-5", "cg-j1-3"]
    named = unreached_text(2, where, [Unreached(1, where[1], 29400, SILENT)], NETWORK, 120.0, names)
    assert "cg-j1-3 (10.0.0.7) cannot reach cg-j1-5 at 10.0.0.6, port 29400: no answer" in named
    assert "gcloud compute firewall-rules create" in silent
    assert "gcloud" not in unreached_text(2, where, [Unreached(0, where[0], 29400, REFUSED)], NETWORK, 120.0)


def test_the_interface_of_an_address() -> None:
    """The kernel's own table of routes names it, too."""
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("127.7.7.7") == "lo"
    assert interface_of("203.0.113.9") == ""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        name, _, gateway, *_ = line.split()
        if gateway == "00000000":
            assert interface_of(_first_address(name)) == name


def _first_address(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()))[20:24])


@pytest.fixture
def pair(tmp_path: Path, agent_file: Path, loaded: LoadedAgents) -> Iterator[Gang]:
    with gang_of(2, tmp_path, agent_file, loaded) as gang:
        yield gang


def _boot_one(gang: Gang) -> None:
    gang.order([sys.executable, "-c", "print('ran')"], peers_s=1.0)
    metadata = gang.vms[0].metadata
    metadata.set("instance/network-interfaces/0/network", "projects/123/networks/training")
    metadata.set("project/numeric-project-id", "123")
    metadata.set("project/project-id", "lab")
    metadata.set("instance/tags", json.dumps(["gpu"]))
    gang.vms[0].boot()
    gang.guards[0].wait_for("heartbeat", is_standing_by(1))
    gang.guards[0].go = word(1, gang.addresses, vms=["cg-j1-1", "cg-j1-5"])


def test_a_member_that_reaches_nobody_says_so(pair: Gang) -> None:
    """Nothing was started, and the VM waits: the guard knows whether the other one lives. Then they begin together."""
    _boot_one(pair)
    ended = pair.guards[0].wait_for("round_ended")
    assert (ended["reason"], ended["repeats"], ended["round"]) == ("not_started", False, 1)
    assert [(one["node"], one["port"]) for one in ended["unreached"]] == [(1, port) for port in PORTS]
    assert f"cannot reach cg-j1-5 at {pair.addresses[1]}, port 29400" in ended["error"]
    pair.guards[0].wait_for("heartbeat", lambda one: one.get("phase") == "round_ended")  # noted on its disk by then
    pair.vms[0].crash()  # while it waits
    pair.vms[0].boot()
    boot = pair.guards[0].wait_for("boot", count=2)
    pair.guards[0].wait_for("heartbeat", lambda one: one["seq"] > boot["seq"] and one.get("phase") == "round_ended")
    assert "start" not in pair.guards[0].kinds()
    pair.regroup(2)
    pair.vms[1].boot()
    pair.guards[0].wait_for("heartbeat", is_standing_by(2))
    pair.guards[1].wait_for("heartbeat")
    for guard in pair.guards:
        guard.go = word(2, pair.addresses)
    assert [end["code"] for end in pair.all("exit", of_round(2))] == [0, 0]
    assert pair.guards[0].kinds().count("round_ended") == 1


def test_a_firewall_that_drops_is_named(pair: Gang) -> None:
    """The rule is named in the network and for the tags of the VM, and another VM would meet the same."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind((pair.addresses[1], HIGH_PORT))
        full.listen(0)
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex((pair.addresses[1], HIGH_PORT))
        _boot_one(pair)
        ended = pair.guards[0].wait_for("round_ended")
    assert ended["repeats"] is True
    assert "firewall-rules create costguard-gang --network=training --project=lab" in ended["error"]
    assert "--source-tags=gpu --target-tags=gpu" in ended["error"]
