"""Archives of code: checked before they are stored, offered while fresh, deleted when no open job needs them."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.jobs import job_rows
from tests.jobs.archives import MemoryArchives, packed
from tests.jobs.job_service import JobSetup, asked, priced

from costguard.db.transaction import Database
from costguard.errors import Conflict, Invalid, Missing
from costguard.jobs.submit.code import CodeArchives, check_archive
from costguard.model.job import JobCode, JobState
from costguard_vm.model.checkpoint import StoredFile
from costguard_vm.model.code_archive import MOST_UNPACKED, WrongArchive

CONTENT, SHA256 = packed({"train.py": "print('step 1')", "conf/a.yaml": "lr: 1"}, {"latest": "conf/a.yaml"})
CODE = JobCode(SHA256, len(CONTENT), 3)
DAY = timedelta(days=1)
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture
def store() -> MemoryArchives:
    return MemoryArchives()


@pytest.fixture
def office(sqlite_database: Database, store: MemoryArchives) -> JobSetup:
    return JobSetup(priced(sqlite_database), archives=store)


def test_archive_is_stored_under_its_hash(office: JobSetup, store: MemoryArchives) -> None:
    """An archive is found from then on."""
    with pytest.raises(Missing, match=f"no archive {SHA256[:12]}"):
        office.code.find(SHA256)
    office.code.keep(SHA256, io.BytesIO(CONTENT))
    assert store.objects == {f"{SHA256}.tar.gz": (CONTENT, NOW)}
    assert office.code.find(SHA256).size == len(CONTENT)


def wrong_member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    plain = io.BytesIO()
    with tarfile.open(mode="w", fileobj=plain) as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    return plain.getvalue()


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (wrong_member("../up"), "no path inside"),
        (wrong_member("/etc/cron.d/x"), "no path inside"),
        (wrong_member("a/./b"), "no path inside"),
        (wrong_member("link", tarfile.SYMTYPE, "../../etc"), "leads out"),
        (wrong_member("link", tarfile.SYMTYPE, "/etc/passwd"), "leads out"),
        (wrong_member("hard", tarfile.LNKTYPE, "train.py"), "neither a file nor a link"),
        (wrong_member("device", tarfile.CHRTYPE), "neither a file nor a link"),
        (wrong_member("folder", tarfile.DIRTYPE), "neither a file nor a link"),
        (b"no tar at all" * 100, "no gzipped tar"),
    ],
)
def test_unsafe_archive_is_refused_before_it_is_stored(
    office: JobSetup, store: MemoryArchives, plain: bytes, words: str
) -> None:
    """An unsafe archive is refused whatever the client says it packed."""
    with pytest.raises(Invalid, match=words):
        office.code.keep(hashlib.sha256(plain).hexdigest(), io.BytesIO(gzip.compress(plain)))
    assert store.objects == {}


def test_archive_under_another_name_is_refused(office: JobSetup) -> None:
    """An archive that was cut off is refused as well, and a file that is no archive."""
    with pytest.raises(Invalid, match=f"its SHA-256 is {SHA256}"):
        office.code.keep("0" * 64, io.BytesIO(CONTENT))
    with pytest.raises(Invalid, match="no gzipped tar"):
        office.code.keep(SHA256, io.BytesIO(CONTENT[:-20]))
    with pytest.raises(Invalid, match="no gzipped tar"):
        office.code.keep(SHA256, io.BytesIO(b"#!/bin/sh"))


def test_archive_that_unpacks_without_end_is_refused() -> None:
    """A small upload must not fill a server's or a VM's disk."""

    class Zeros(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            return b"\0" * size

    plain = io.BytesIO()
    with gzip.GzipFile(fileobj=plain, mode="wb", compresslevel=1) as zipped:
        zipped.write(wrong_member("a"))
        for _ in range(MOST_UNPACKED // (1 << 22) + 1):
            zipped.write(bytes(1 << 22))
    plain.seek(0)
    with pytest.raises(WrongArchive, match="larger than"):
        check_archive(plain, SHA256)


def test_job_names_an_archive_that_is_there(office: JobSetup, store: MemoryArchives) -> None:
    """A job with a missing archive is refused before a VM is launched for it: not uploaded, about to be deleted, or
    unknown.
    """
    with pytest.raises(Invalid) as refused:
        office.it.submit(asked(code=CODE), None, "cli")
    assert refused.value.fields == (
        ("code", f"There is no archive {SHA256[:12]}. Upload it: PUT /api/v1/code/{SHA256}."),
    )
    office.code.keep(SHA256, io.BytesIO(CONTENT))
    assert office.it.submit(asked(code=CODE), None, "cli")[0].spec.code == CODE
    office.clock.moment = NOW + 29 * DAY
    with pytest.raises(Invalid, match="There is no archive"):
        office.it.submit(asked(code=CODE), None, "cli")
    store.is_away = True
    with pytest.raises(Invalid, match="the store does not answer"):
        office.it.submit(asked(code=CODE), None, "cli")


def test_server_without_a_place_for_code_says_which_setting(sqlite_database: Database) -> None:
    """The setting is named at the upload, and at the launch."""
    office = JobSetup(priced(sqlite_database))
    with pytest.raises(Conflict) as refused:
        office.code.keep(SHA256, io.BytesIO(CONTENT))
    assert "[jobs] code" in refused.value.what_next
    with pytest.raises(Invalid, match="no place for code"):
        office.it.submit(asked(code=CODE), None, "cli")
    assert office.code.tidy() == 0


def test_a_full_place_makes_room_by_what_no_open_job_needs(office: JobSetup, store: MemoryArchives) -> None:
    """The oldest goes first, and no more than it takes; what was just uploaded may be about to be launched."""
    archives = [packed({"train.py": f"print('version {number}')"}) for number in range(4)]
    most = sum(len(content) for content, _ in archives[:3])
    code = CodeArchives(store, office.database, office.clock, most)
    for hours, (content, sha256) in enumerate(archives[:3]):
        store.now = office.clock.moment = NOW + timedelta(hours=hours)
        code.keep(sha256, io.BytesIO(content))
    needed = JobCode(archives[0][1], len(archives[0][0]), 1)
    office.it.submit(asked(code=needed), None, "cli")
    store.now = office.clock.moment = NOW + timedelta(hours=2.5)
    code.keep(archives[2][1], io.BytesIO(archives[2][0]))  # a repeat needs no more room
    code.keep(archives[3][1], io.BytesIO(archives[3][0]))
    assert [name[:64] for name in store.objects] == [archives[number][1] for number in (0, 2, 3)]
    with pytest.raises(Conflict, match="at most 0 MiB of code, and open jobs need what is there") as refused:
        code.keep(archives[1][1], io.BytesIO(archives[1][0]))  # the two others are younger than an hour
    assert "[jobs] code" in refused.value.what_next
    assert len(store.objects) == 3


def test_changes_are_stored_without_credentials(office: JobSetup) -> None:
    """Credentials are removed also from a client that hides nothing."""
    office.code.keep(SHA256, io.BytesIO(CONTENT))
    diff = f"+lr = 1\n+token = '{TOKEN}'\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n+end"
    code = JobCode(SHA256, len(CONTENT), 3, "f" * 40, "main", diff)
    stored = office.it.submit(asked(code=code), None, "api")[0].spec.code
    assert stored is not None
    lines = stored.diff.splitlines()
    assert lines[:2] == ["+lr = 1", "+[hidden: a GitHub token]"]
    assert lines[2:] == ["-[hidden: a private key]", "[hidden: a private key]", "-[hidden: a private key]", "+end"]


@pytest.mark.parametrize(
    ("changed", "where", "words"),
    [
        ({"workdir": "src"}, "workdir", "no whole path"),
        ({"workdir": "../src", "code": CODE}, "workdir", "no path below the code"),
        ({"workdir": "/a\nb"}, "workdir", "no plain path"),
        ({"setup": "  "}, "setup", "It is blank"),
        ({"setup": "a\0b"}, "setup", "NUL"),
        ({"setup": f"git clone https://x:{TOKEN}@github.com/a/b"}, "setup", "looks like a GitHub token"),
        ({"code": JobCode(SHA256, 1, 1, "main")}, "code.commit", "no commit"),
        ({"code": JobCode(SHA256, 1, 1, diff="x" * 20_001)}, "code.diff", "20,000"),
        ({"code": CODE, "image": "a/b", "mounts": ("/x:/costguard/code",)}, "mounts", "would hide the code"),
        ({"code": CODE, "image": "a/b", "mounts": ("/x:/costguard/",)}, "mounts", "would hide the code"),
    ],
)
def test_code_and_setup_that_cannot_work_are_refused(
    office: JobSetup, changed: dict[str, Any], where: str, words: str
) -> None:
    """Code and setup are refused at the launch, each with the field."""
    office.code.keep(SHA256, io.BytesIO(CONTENT))
    with pytest.raises(Invalid) as refused:
        office.it.submit(asked(**changed), None, "api")
    (field,) = refused.value.fields
    assert field[0] == where
    assert words in field[1]


def test_folder_below_the_code_is_accepted(office: JobSetup) -> None:
    """It is relative, as it is on the laptop."""
    office.code.keep(SHA256, io.BytesIO(CONTENT))
    assert office.it.submit(asked(code=CODE, workdir="src/train"), None, "cli")[0].spec.workdir == "src/train"


def test_attempt_gets_the_archive_of_its_job_whatever_its_age(sqlite_database: Database, store: MemoryArchives) -> None:
    """A job may wait for a VM longer than archives are offered to others."""
    code = CodeArchives(store, sqlite_database, HandClock(NOW + 40 * DAY))
    with sqlite_database.write() as connection:
        job_rows.added(connection, code=CODE)
        job_rows.attempt(connection)
    with pytest.raises(Missing, match=r"is gone\."):
        code.of_attempt("cg-j7k2m9q4-1")
    store.objects[f"{SHA256}.tar.gz"] = (CONTENT, NOW)
    archive = code.of_attempt("cg-j7k2m9q4-1")
    assert (archive.sha256, archive.size) == (SHA256, len(CONTENT))
    assert b"".join(archive.content) == CONTENT
    with pytest.raises(Missing, match="has no code"):
        code.of_attempt("cg-jother22-1")


def test_old_archives_that_no_open_job_needs_are_deleted(sqlite_database: Database, store: MemoryArchives) -> None:
    """Archives are deleted after 30 days; files of others in the same place are left alone."""
    clock = HandClock(NOW)
    code = CodeArchives(store, sqlite_database, clock)
    ended = packed({"a.py": "1"})[1]
    for name in (f"{SHA256}.tar.gz", f"{ended}.tar.gz", "notes.txt"):
        store.objects[name] = (CONTENT, NOW)
    with sqlite_database.write() as connection:
        job_rows.added(connection, code=CODE)
        job_rows.added(connection, "jover222", state=JobState.FAILED, code=JobCode(ended, 1, 1))
    clock.moment = NOW + 30 * DAY - timedelta(seconds=1)
    assert code.tidy() == 0
    clock.moment = NOW + 30 * DAY
    assert code.tidy() == 1
    assert sorted(store.objects) == sorted([f"{SHA256}.tar.gz", "notes.txt"])
    store.is_away = True
    assert code.tidy() == 0


def test_archive_uploaded_again_is_not_deleted(sqlite_database: Database, store: MemoryArchives) -> None:
    """An archive survives an upload between the listing and the deletion."""

    class UploadedMeanwhile(MemoryArchives):
        def listing(self) -> Sequence[StoredFile]:
            listed = list(super().listing())
            self.objects[f"{SHA256}.tar.gz"] = (CONTENT, NOW + 31 * DAY)
            return listed

    meanwhile = UploadedMeanwhile()
    meanwhile.objects[f"{SHA256}.tar.gz"] = (CONTENT, NOW)
    assert CodeArchives(meanwhile, sqlite_database, HandClock(NOW + 31 * DAY)).tidy() == 0
    assert f"{SHA256}.tar.gz" in meanwhile.objects
