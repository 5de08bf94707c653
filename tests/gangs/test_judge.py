"""Judges of gangs find what they are for, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.gangs import cut, judge, train_plain
from tests.gangs.judge import Process
from tests.waiting import until

_CONNECTS = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))).recv(1)"


def _lived(number: int, node: int, began: float, ended: float, pid: int = 1) -> Process:
    return Process(number, node, pid, began, ended)


def test_rounds_that_live_at_once_are_found() -> None:
    """A single process that ends too late is enough; processes of one round may overlap."""
    first = [_lived(1, 0, 1.0, 5.0), _lived(1, 1, 1.5, 4.0)]
    second = [_lived(2, 0, 5.5, 9.0), _lived(2, 1, 5.1, 9.0)]
    assert list(judge.at_once([*first, *second])) == []
    late = _lived(1, 2, 1.0, 5.2)
    assert list(judge.at_once([*first, late, *second])) == ["rounds 1 and 2 lived at once for 0.10 s"]


def test_nodes_have_one_process_each() -> None:
    """Two processes of a node in one round are two trainings that write into one place."""
    assert list(judge.one_process_each([_lived(1, 0, 1, 2), _lived(1, 1, 1, 2), _lived(2, 0, 3, 4)], 2)) == []
    twice = [_lived(1, 0, 1, 2, 7), _lived(1, 0, 1, 2, 8), _lived(1, 2, 1, 2)]
    assert list(judge.one_process_each(twice, 2)) == ["round 1 had 2 processes of node 0", "round 1 had a node 2"]


def test_weights_are_those_of_an_undisturbed_run() -> None:
    """Every node has written them, and no digit differs."""
    right = train_plain.undisturbed(2, 10)
    assert list(judge.wrong_weights([right, right], 2, right)) == []
    assert list(judge.wrong_weights([right], 2, right)) == ["1 of 2 nodes wrote their weights"]
    other = train_plain.undisturbed(2, 11)
    assert list(judge.wrong_weights([right, other], 2, right)) == [
        f"the weights {sorted((right, other))} differ from {right}"
    ]


def test_survivors_that_were_made_again_are_found() -> None:
    """A node has a VM more for each that it lost, and for each that moved with the gang."""
    assert list(judge.vms_too_many([0, 1, 2, 1], 3, [1], [])) == []
    assert list(judge.vms_too_many([0, 1, 2, 0, 1, 2], 3, [1], [0, 2])) == []
    assert list(judge.vms_too_many([0, 1, 2, 1, 2], 3, [1], [])) == ["node 2 had 2 VMs, and 1 are accounted for"]


def test_what_a_process_wrote_is_read(tmp_path: Path) -> None:
    """A last line may be half written, and an empty file is of a process that has hardly begun."""
    (tmp_path / "round-2-node-1-77.txt").write_text("10.0000\n10.0200\n10.0")
    (tmp_path / "round-2-node-0-78.txt").write_text("")
    assert judge.processes(tmp_path) == [Process(2, 1, 77, 10.0, 10.02)]


def test_a_saved_part_brings_the_same_weights(tmp_path: Path) -> None:
    """A training that resumes from its parts ends as one that was not disturbed."""
    state = train_plain.beginning(3)
    for step in range(1, 8):
        if step == 5:
            for rank in range(3):
                train_plain.save_part(state, tmp_path, rank)
            state = train_plain.load(tmp_path, 3)
        gradients = [train_plain.gradient(state["weights"], step, rank) for rank in range(3)]
        state = train_plain.moved(state, train_plain.added(gradients))
    assert train_plain.digest(state) == train_plain.undisturbed(3, 7)


def test_connections_between_processes_are_found() -> None:
    """The first port is that of the first process; connections of others are left out."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", _CONNECTS, str(port)]) as process:
            connection, (_, there) = listener.accept()
            with connection:
                until(lambda: list(cut.connections([os.getpid()], [process.pid])) == [(port, there)])
                assert list(cut.connections([process.pid], [os.getpid()])) == [(there, port)]
                assert list(cut.connections([process.pid], [process.pid])) == []
                connection.sendall(b"x")
