"""The job's code on a VM: fetched once, checked, unpacked safely; and the setup that prepares the VM."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.agent.docker_stub import IMAGE, PINNED, calls, put_docker
from tests.agent.fake_guard import FakeGuard
from tests.agent.scripts import WAIT
from tests.agent.vm import ATTEMPT, Vm
from tests.jobs.archives import packed

from costguard.cli.job.code import write_archive
from costguard.cli.job.work_directory import work_files
from costguard_vm.agent.transfers.code import check, unpack
from costguard_vm.model.code_archive import IN_IMAGE, WrongArchive

TRAIN = "import os, pathlib; print(os.getcwd()); print(pathlib.Path('conf/a.yaml').read_text())"
SECRET = "s3cret-value-of-the-index"


def serve(guard: FakeGuard, files: dict[str, str] | None = None) -> dict[str, str]:
    """The setting `code` of an archive that the guard has."""
    content, sha256 = packed(files or {"train.py": TRAIN, "conf/a.yaml": "lr: 1", "src/run.py": "print('step 3')"})
    guard.files["code"] = content
    return {"sha256": sha256}


def code_folder(vm: Vm) -> Path:
    return vm.home / "attempts" / ATTEMPT / "code"


def order(vm: Vm, *command: str, **more: Any) -> None:
    vm.order(*command, **{"workdir": "", **more})


def test_command_runs_in_its_code(vm: Vm, guard: FakeGuard) -> None:
    """The command has the same files as on the laptop, and paths relative to them."""
    order(vm, sys.executable, "train.py", code=serve(guard))
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["code"], end["output"]) == (0, [str(code_folder(vm)), "lr: 1"])
    assert guard.fetched == ["code"]
    assert sorted(path.name for path in code_folder(vm).parent.iterdir() if "code" in path.name) == ["code"]


def test_command_runs_in_a_folder_below_its_code(vm: Vm, guard: FakeGuard) -> None:
    """A whole path is the VM's; one that is not in the code is an error on every VM."""
    order(vm, sys.executable, "run.py", code=serve(guard), workdir="src")
    vm.boot()
    assert guard.wait_for("exit")["output"] == ["step 3"]


def test_missing_folder_below_the_code_is_certain_to_repeat(vm: Vm, guard: FakeGuard) -> None:
    """It is not made, as the work folder of a command without code is."""
    order(vm, "true", code=serve(guard), workdir="lib")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "no folder lib in the code" in end["error"]


def test_later_run_on_the_vm_keeps_the_code_as_it_was_left(vm: Vm, guard: FakeGuard) -> None:
    """It is unpacked once: what the command wrote there stays."""
    go = vm.folder / "go"
    script = (
        f"{WAIT}\nimport os\nprint(os.path.exists('made'), flush=True)\nopen('made', 'w').close()\nwait({str(go)!r})"
    )
    order(vm, sys.executable, "-u", "-c", script, code=serve(guard), resume=True)
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["False"])
    vm.reboot()
    go.touch()
    vm.boot()
    assert guard.wait_for("exit", count=1)["output"] == ["True"]
    assert guard.fetched == ["code"]


def test_code_that_is_not_the_named_one_is_fetched_again_and_then_refused(vm: Vm, guard: FakeGuard) -> None:
    """The guard's file is believed by its hash alone."""
    code = serve(guard)
    guard.files["code"] = packed({"train.py": "print('another')"})[0]
    order(vm, "true", code=code)
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "its SHA-256 is" in end["error"]
    assert guard.fetched == ["code", "code"]
    assert not code_folder(vm).exists()


def test_code_that_the_guard_does_not_have_is_certain_to_repeat(vm: Vm, guard: FakeGuard) -> None:
    """Another VM would ask in vain too."""
    order(vm, "true", code={"sha256": "0" * 64})
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["repeats"]) == ("not_started", True)
    assert "the guard has no code for this job" in end["error"]


def test_agent_that_is_killed_while_it_unpacks_begins_again(vm: Vm, guard: FakeGuard) -> None:
    """Half of the code is never taken for all of it."""
    left = code_folder(vm).with_name("code.new")
    left.mkdir(parents=True)
    (left / "train.py").write_text("half")
    order(vm, sys.executable, "train.py", code=serve(guard))
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert not left.exists()


def test_unpacked_folder_is_the_packed_one(tmp_path: Path) -> None:
    """Names, modes, contents and links, by the command line's own packing."""
    folder = tmp_path / "project"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/é.py").write_text("x")
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("a/b")
    with (tmp_path / "code.tar.gz").open("wb") as file:
        sha256 = write_archive(file, folder, work_files(folder))
    check(str(tmp_path / "code.tar.gz"), sha256)
    unpack(str(tmp_path / "code.tar.gz"), str(tmp_path / "out"))
    assert work_files(tmp_path / "out") == work_files(folder)
    assert (tmp_path / "out/a/b/é.py").read_text() == "x"
    unpack(str(tmp_path / "code.tar.gz"), str(tmp_path / "for-all"), for_all=True)
    assert (tmp_path / "for-all/a").stat().st_mode & 0o777 == 0o777
    assert (tmp_path / "for-all/run.sh").stat().st_mode & 0o777 == 0o777


def members(*items: tuple[str, bytes, str]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(mode="w", fileobj=plain) as archive:
        for name, kind, target in items:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, 0
            archive.addfile(member)
    return gzip.compress(plain.getvalue())


@pytest.mark.parametrize(
    "items",
    [
        [("../up", tarfile.REGTYPE, "")],
        [("/etc/cron.d/x", tarfile.REGTYPE, "")],
        [("link", tarfile.SYMTYPE, "../up")],
        [("link", tarfile.SYMTYPE, "/etc")],
        [("hard", tarfile.LNKTYPE, "../up")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [("folder", tarfile.SYMTYPE, "."), ("folder/x", tarfile.REGTYPE, "")],
        [("folder/x", tarfile.REGTYPE, ""), ("folder", tarfile.SYMTYPE, ".")],
        [("same", tarfile.REGTYPE, ""), ("same", tarfile.REGTYPE, "")],
    ],
)
def test_nothing_is_written_outside_of_the_folder(tmp_path: Path, items: list[tuple[str, bytes, str]]) -> None:
    """A wrong member ends it, whatever the archive holds, and nothing is written through a link."""
    (tmp_path / "code.tar.gz").write_bytes(members(*items))
    top = tmp_path / "in/side"
    top.mkdir(parents=True)
    with pytest.raises((WrongArchive, OSError)):
        unpack(str(tmp_path / "code.tar.gz"), str(top / "code"))
    assert sorted(os.listdir(tmp_path)) == ["code.tar.gz", "in"]
    assert os.listdir(top) == ["code"]


def test_links_are_made_after_all_files(tmp_path: Path) -> None:
    """No file can be written through a link, whatever follows it in the archive."""
    (tmp_path / "code.tar.gz").write_bytes(members(("link", tarfile.SYMTYPE, "a"), ("../up", tarfile.REGTYPE, "")))
    with pytest.raises(WrongArchive):
        unpack(str(tmp_path / "code.tar.gz"), str(tmp_path / "code"))
    assert os.listdir(tmp_path / "code") == []


def test_cut_and_endless_archives_are_wrong(tmp_path: Path) -> None:
    """Found before anything is unpacked."""
    content, sha256 = packed({"a": "x" * 5000})
    path = tmp_path / "code.tar.gz"
    for broken in (content[:-9], b"", content[:40] + b"?" * 40 + content[80:], gzip.compress(b"x")):
        path.write_bytes(broken)
        with pytest.raises(WrongArchive):
            check(str(path), sha256)
    path.write_bytes(gzip.compress(b"x"))
    check(str(path), hashlib.sha256(b"x").hexdigest())


def test_setup_runs_once_before_the_command(vm: Vm, guard: FakeGuard) -> None:
    """The setup has the code's folder, with the command's variables and secrets; on a restarted VM it does not run
    again.
    """
    vm.metadata.secrets["projects/ml/secrets/index/versions/latest"] = SECRET
    go = vm.folder / "go"
    script = f"{WAIT}\nprint(open('made').read(), flush=True)\nwait({str(go)!r})"
    order(
        vm,
        sys.executable,
        "-u",
        "-c",
        script,
        code=serve(guard),
        setup="pwd; echo $MODEL $INDEX; echo x >> made",
        environment={"MODEL": "bert"},
        secrets={"INDEX": "projects/ml/secrets/index"},
        resume=True,
    )
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"][:1] == ["x"])
    start = guard.wait_for("start")
    assert start["setup_s"] >= 0
    assert (vm.logs / f"{ATTEMPT}.1.setup.log").read_text().splitlines() == [str(code_folder(vm)), "bert ***"]
    vm.reboot()
    go.touch()
    vm.boot()
    assert guard.wait_for("exit")["code"] == 0
    assert "setup_s" not in guard.wait_for("start", lambda event: event["run"] == 2)
    assert (code_folder(vm) / "made").read_text() == "x\n"


def test_output_of_a_setup_is_live_and_no_progress_of_the_command(vm: Vm, guard: FakeGuard) -> None:
    """Heartbeats say that it is the setup; a step that it prints counts for nothing."""
    go = vm.folder / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    order(vm, "true", code=serve(guard), setup=f"echo step 7 of the build; {wait}")
    vm.boot()
    event = guard.wait_for("heartbeat", lambda event: event["output"] == ["step 7 of the build"])
    assert (event["is_running"], event["phase"], event["step"]) == (False, "setup", None)
    go.touch()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["step"]) == ("exited", 0, None)


def test_failed_setup_is_told_apart_from_the_command(vm: Vm, guard: FakeGuard) -> None:
    """The command never starts, and what the setup printed comes with the exit."""
    order(vm, "true", code=serve(guard), setup="echo no matching distribution; exit 3")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"], end["output"]) == ("setup_failed", 3, ["no matching distribution"])
    assert "start" not in guard.kinds()


def test_failed_setup_runs_again_on_a_restarted_vm(vm: Vm, guard: FakeGuard) -> None:
    """A setup is done only if it ended well."""
    order(vm, "true", code=serve(guard), setup="echo x >> tried; [ $(wc -l < tried) -gt 1 ]", resume=True)
    vm.boot()
    assert guard.wait_for("exit")["reason"] == "setup_failed"
    vm.finished()
    vm.restart()
    assert guard.wait_for("exit", count=2)["reason"] == "exited"


def test_notice_reaches_a_setup(vm: Vm, guard: FakeGuard) -> None:
    """It is ended as the command would be, and the exit says why."""
    order(vm, "true", code=serve(guard), setup="echo ready; sleep 600")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["ready"])
    vm.metadata.set("instance/preempted", "TRUE")
    end = guard.wait_for("exit")
    assert (end["reason"], end["asked"], end["was_killed"]) == ("setup_failed", "preemption", False)


def test_command_after_a_setup_that_ignored_the_notice_is_notified_too(vm: Vm, guard: FakeGuard) -> None:
    """The setup ended well all the same, and the command began."""
    go = vm.folder / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntime.sleep(600)"
    order(vm, sys.executable, "-c", script, code=serve(guard), setup=f"trap '' TERM; echo ready; {wait}")
    vm.boot()
    guard.wait_for("heartbeat", lambda event: event["output"] == ["ready"])
    vm.metadata.set("instance/preempted", "TRUE")
    guard.wait_for("stopping")
    go.touch()
    end = guard.wait_for("exit")
    assert (end["reason"], end["asked"], end["was_killed"]) == ("exited", "preemption", False)
    assert guard.kinds().count("stopping") == 1


def test_code_and_setup_work_in_an_image(vm: Vm, guard: FakeGuard) -> None:
    """The code is mounted, the setup runs in a container that is committed, and the command in what that made."""
    config = {"Entrypoint": ["/entry.sh"], "Cmd": ["python", "serve.py"]}
    put_docker(vm, config=config)
    vm.metadata.secrets["projects/ml/secrets/index/versions/latest"] = SECRET
    secrets = {"API_KEY": "projects/ml/secrets/index"}
    order(vm, "true", code=serve(guard), image=IMAGE, setup="echo got $API_KEY", secrets=secrets, workdir="src")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"]) == ("exited", 0)
    assert (vm.logs / f"{ATTEMPT}.1.setup.log").read_text() == "got ***\n"
    prepared = f"costguard-setup:{ATTEMPT}"
    setup, command = calls(vm, "run")
    for call in (setup, command):
        words = " ".join(call["arguments"])
        assert f"--volume {code_folder(vm)}:{IN_IMAGE}" in words
        assert f"--workdir {IN_IMAGE}/src" in words
        assert SECRET not in words
    assert "--env" not in setup["arguments"], "docker commit would keep them in the image"
    assert setup["arguments"][setup["arguments"].index("--entrypoint") + 1 :][:3] == ["/bin/sh", PINNED, "-c"]
    assert command["arguments"][-2:] == [prepared, "true"]
    (commit,) = calls(vm, "commit")
    assert commit["arguments"] == [
        "commit",
        "--change",
        f"ENTRYPOINT {json.dumps(config['Entrypoint'])}",
        "--change",
        f"CMD {json.dumps(config['Cmd'])}",
        f"costguard-{ATTEMPT}-1",
        prepared,
    ]


def test_setup_that_cannot_be_committed_has_failed(vm: Vm, guard: FakeGuard) -> None:
    """The failure has Docker's words: the command would run without what it left."""
    put_docker(vm, commit=(1, "Error response from daemon: no space left on device"))
    order(vm, "true", code=serve(guard), image=IMAGE, setup="true")
    vm.boot()
    end = guard.wait_for("exit")
    assert (end["reason"], end["code"]) == ("setup_failed", None)
    assert "no space left on device" in end["error"]
