"""The files of a work directory travel, or are refused, and the archive is the same for the same folder."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from costguard.cli.job import work_directory
from costguard.cli.job.code import packed, secrets_in, write_archive
from costguard.cli.job.repository import in_repository, repository_files, state_of
from costguard.cli.job.work_directory import Ignores, work_files
from costguard.errors import Invalid
from costguard.jobs.submit.code import check_archive

TOKEN = "hf_" + "a1B2" * 9
CLEAN = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@example.com",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@example.com",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, env={**os.environ, **CLEAN}, check=True
    )
    return done.stdout.strip()


def write(folder: Path, **files: str) -> None:
    """Keyword names have `__` for a slash and `_` before the ending for a dot."""
    for name, content in files.items():
        put(folder, name.replace("__", "/").replace("_", "."), content)


def put(folder: Path, name: str, content: str = "") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def names(folder: Path) -> list[str]:
    return [file.name for file in work_files(folder)]


def archive(folder: Path) -> tuple[bytes, str]:
    file = io.BytesIO()
    sha256 = write_archive(file, folder, work_files(folder))
    return file.getvalue(), sha256


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    write(made, train_py="print('step 1')", conf__small_yaml="lr: 0.1", conf__big_yaml="lr: 0.2")
    return made


@pytest.fixture
def repository(folder: Path) -> Path:
    git(folder, "init", "--quiet", "--initial-branch", "tuning")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def test_ignored_files_of_a_repository_stay_at_home(repository: Path) -> None:
    """git decides: tracked and new files travel, ignored and deleted ones do not, and its own folder never does."""
    put(repository, ".gitignore", "*.pt\n/data/\n")
    put(repository, "weights.pt")
    put(repository, "data/train.bin")
    put(repository, "new.py")
    (repository / "conf/big.yaml").unlink()
    assert names(repository) == [".gitignore", "conf/small.yaml", "new.py", "train.py"]


def test_folder_inside_a_repository_is_packed_alone(repository: Path) -> None:
    """The names are relative to it, under the rules of the whole repository."""
    put(repository, ".gitignore", "*.log\n")
    put(repository, "conf/run.log")
    assert names(repository / "conf") == ["big.yaml", "small.yaml"]


def test_submodule_travels_with_its_files(repository: Path, tmp_path: Path) -> None:
    """git lists it as one entry: its own files are what a VM needs."""
    library = tmp_path / "library"
    library.mkdir()
    put(library, "layers.py", "x = 1")
    git(library, "init", "--quiet")
    git(library, "add", ".")
    git(library, "commit", "--quiet", "--message", "Begin")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(library), "lib")
    assert "lib/layers.py" in names(repository)


def test_own_ignore_file_leaves_out_more(repository: Path) -> None:
    """A .costguardignore leaves out tracked files too, also in a folder below, and can take back its own patterns."""
    put(repository, ".costguardignore", "*.yaml\n!small.yaml\n")
    put(repository, "notes/.costguardignore", "draft*\n")
    put(repository, "notes/draft-1.md")
    put(repository, "notes/kept.md")
    kept = [name for name in names(repository) if not name.endswith("ignore")]
    assert kept == ["conf/small.yaml", "notes/kept.md", "train.py"]


def test_ignore_files_count_without_a_repository(folder: Path) -> None:
    """Nothing below an ignored folder is looked at; compiled files never travel."""
    put(folder, ".gitignore", "data/\n*.pt\n!best.pt\n")
    put(folder, "data/train.bin")
    put(folder, "best.pt")
    put(folder, "last.pt")
    put(folder, "__pycache__/train.cpython-311.pyc")
    assert not in_repository(folder)
    assert names(folder) == [".gitignore", "best.pt", "conf/big.yaml", "conf/small.yaml", "train.py"]


PATTERN = st.from_regex(r"!?/?(?:\*\*/)?[ab*?\[\]]{1,3}(?:/[ab*]{1,2})?/?", fullmatch=True)
NAME = st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=3).map("/".join)


@given(st.lists(PATTERN, min_size=1, max_size=4), st.sets(NAME, min_size=1, max_size=6))
@example(["[[]", "b*"], {"ab", "b"})
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_patterns_mean_what_they_mean_to_git(
    tmp_path_factory: pytest.TempPathFactory, patterns: list[str], wanted: set[str]
) -> None:
    """A folder outside of a repository packs what git itself would take, whatever stands in its .gitignore."""
    folder = tmp_path_factory.mktemp("ignored")
    for name in sorted(wanted):
        if not any(other.startswith(f"{name}/") for other in wanted):
            put(folder, name)
    put(folder, ".gitignore", "\n".join(patterns) + "\n")
    try:
        ours = names(folder)
    except Invalid:  # nothing is left
        ours = []
    git(folder, "init", "--quiet")
    assert ours == sorted(name.decode() for name in repository_files(folder))


def test_same_folder_makes_the_same_archive(folder: Path, tmp_path: Path) -> None:
    """Times and the order of writing do not count; contents, names and modes do."""
    copy = tmp_path / "copy"
    copy.mkdir()
    write(copy, conf__big_yaml="lr: 0.2", train_py="print('step 1')", conf__small_yaml="lr: 0.1")
    os.utime(copy / "train.py", (1, 1))
    content, sha256 = archive(folder)
    assert archive(copy) == (content, sha256)
    assert hashlib.sha256(gzip.decompress(content)).hexdigest() == sha256
    (copy / "train.py").chmod(0o755)
    assert archive(copy)[1] != sha256


def test_archive_keeps_modes_and_links_and_nobodys_name(folder: Path) -> None:
    """The archive is as tar itself reads it."""
    put(folder, "run.sh").chmod(0o750)
    (folder / "latest").symlink_to("conf/big.yaml")
    with tarfile.open(fileobj=io.BytesIO(archive(folder)[0])) as tar:
        members = {member.name: member for member in tar}
    assert members["run.sh"].mode == 0o750
    assert members["latest"].linkname == "conf/big.yaml"
    assert {(member.uid, member.uname, member.mtime) for member in members.values()} == {(0, "", 0)}


def test_what_was_packed_is_accepted_by_the_server(folder: Path) -> None:
    """The server checks every member and the hash again."""
    (folder / "latest").symlink_to("conf")
    put(folder, "a" * 120 + "/" + "é" * 80 + ".py", "long names, and others than ASCII")
    content, sha256 = archive(folder)
    check_archive(io.BytesIO(content), sha256)


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("out", "../elsewhere", "out is a link that leads out of the archive, to '../elsewhere'"),
        ("absolute", "/etc/passwd", "absolute is a link that leads out of the archive, to '/etc/passwd'"),
        ("conf/up", "../../x", "conf/up is a link that leads out of the archive"),
        ("one", "one", "one is a link that leads to itself"),
        ("conf/round", "../conf", "conf/round is a link to a folder that it lies in"),
    ],
)
def test_links_that_cannot_travel_are_named(folder: Path, name: str, target: str, words: str) -> None:
    """Cyclic and escaping links are refused before anything is sent."""
    (folder / name).symlink_to(target)
    with pytest.raises(Invalid) as refused:
        work_files(folder)
    assert words in refused.value.message
    assert ".costguardignore" in refused.value.what_next


def test_link_through_another_link_cannot_leave_the_folder(folder: Path, tmp_path: Path) -> None:
    """Each looks harmless by its text; together they lead out."""
    (folder / "deep/er").mkdir(parents=True)
    put(folder, "deep/er/file")
    (folder / "top").symlink_to("deep/er/../..")
    put(tmp_path, "outside.txt", "not ours")
    (folder / "conf/way").symlink_to("../top/../outside.txt")
    with pytest.raises(Invalid) as refused:
        work_files(folder)
    assert "conf/way is a link that leads out of the folder" in refused.value.message


def test_sockets_pipes_and_unreadable_files_are_named(folder: Path) -> None:
    """All at once; root reads everything, so the unreadable file is tried by others alone."""
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        if os.geteuid():
            put(folder, "closed").chmod(0)
        with pytest.raises(Invalid) as refused:
            work_files(folder)
    assert "pipe is neither a file nor a link" in refused.value.message
    assert "socket is neither a file nor a link" in refused.value.message
    assert not os.geteuid() or "closed cannot be read: Permission denied" in refused.value.message


def test_folder_that_is_too_large_names_its_largest_files(folder: Path) -> None:
    """The limit counts what is packed; an ignored file counts for nothing."""
    with put(folder, "data/train.bin").open("r+b") as sparse:
        sparse.truncate(300 << 20)
    put(folder, "data/small.bin", "x" * 3000)
    with pytest.raises(Invalid) as refused:
        work_files(folder)
    assert "300.0 MiB" in refused.value.message
    assert "The largest: data/train.bin (300.0 MiB), data/small.bin (3 KiB)" in refused.value.message
    assert "--input" in refused.value.what_next
    put(folder, ".costguardignore", "*.bin\n")
    assert "train.py" in names(folder)


def test_too_many_files_are_refused(folder: Path) -> None:
    """A folder of samples is data, not code."""
    files = [work_directory.WorkFile(f"f{number}", 0o644, 1) for number in range(20_001)]
    with pytest.raises(Invalid, match="20,001 files"):
        work_directory._check_size(folder, files)


def test_empty_and_missing_folders_are_refused(tmp_path: Path) -> None:
    """Both with what to do."""
    with pytest.raises(Invalid, match="nothing to pack"):
        work_files(tmp_path)
    with pytest.raises(Invalid, match="There is no folder"):
        work_files(tmp_path / "none")


def test_name_that_is_not_utf8_is_refused(folder: Path) -> None:
    """The bytes of the name are shown."""
    with open(os.fsencode(folder) + b"/caf\xe9.py", "wb"):
        pass
    with pytest.raises(Invalid, match=r"b'caf\\xe9.py' is no name in UTF-8"):
        work_files(folder)


def test_commit_branch_and_changes_are_recorded(repository: Path) -> None:
    """The changes have new files named, and are without credentials."""
    put(repository, "train.py", f"print('step 2')\ntoken = '{TOKEN}'\n")
    put(repository, "new.py")
    state = state_of(repository)
    assert state.commit == git(repository, "rev-parse", "HEAD")
    assert state.branch == "tuning"
    assert state.diff.startswith("Not tracked: new.py\n")
    assert "+print('step 2')" in state.diff
    assert "+[hidden: a Hugging Face token]" in state.diff
    assert TOKEN not in state.diff


def test_clean_detached_and_new_repositories_have_a_state(repository: Path, tmp_path: Path) -> None:
    """No change is an empty diff; a detached HEAD has no branch; before the first commit there is none."""
    assert state_of(repository).diff == ""
    git(repository, "checkout", "--quiet", "--detach")
    assert state_of(repository).branch == ""
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "--quiet", "--initial-branch", "main")
    put(new, "train.py", "x")
    assert (state_of(new).commit, state_of(new).branch) == ("", "main")
    assert state_of(new).diff == "Not tracked: train.py\n"


def test_long_changes_are_cut_at_a_line(repository: Path) -> None:
    """The cut says how many lines are missing."""
    put(repository, "train.py", "".join(f"line {number}\n" for number in range(5000)))
    diff = state_of(repository).diff
    assert len(diff) < 16_100
    last = diff.splitlines()[-1]
    assert last.startswith("... ")
    assert last.endswith(" more lines")


def test_files_with_credentials_are_warned_of(folder: Path) -> None:
    """The warning is by name and kind, never with the credential; data and links are not looked into."""
    put(folder, ".env", f"HF_TOKEN={TOKEN}\n")
    put(folder, "data.bin", f"\0{TOKEN}")
    (warning,) = secrets_in(folder, work_files(folder))
    assert warning.startswith(".env holds what looks like a Hugging Face token")
    assert TOKEN not in warning


def test_file_that_grows_while_it_is_packed_is_refused(folder: Path) -> None:
    """The archive's description of it would be wrong."""
    files = work_files(folder)
    put(folder, "train.py", "print('much longer than before')")
    with pytest.raises(Invalid, match=r"train\.py grew while it was packed"):
        write_archive(io.BytesIO(), folder, files)
    put(folder, "train.py", "")
    with pytest.raises(Invalid, match=r"train\.py could not be packed"):
        write_archive(io.BytesIO(), folder, files)


def test_packed_code_names_itself_for_the_request(repository: Path) -> None:
    """The body's `code`, with the size of what is uploaded."""
    with packed(repository, lambda _: None) as code:
        body = code.body
        content = code.file.read()
    assert body["size"] == len(content)
    assert body["files"] == 3
    check_archive(io.BytesIO(content), body["sha256"])


def test_unreadable_ignore_pattern_is_refused(folder: Path) -> None:
    """The refusal names the file that it stands in."""
    put(folder, ".gitignore", "!\n")
    with pytest.raises(Invalid, match="gitignore holds a pattern"):
        Ignores(folder, ".gitignore").ignored("train.py")
