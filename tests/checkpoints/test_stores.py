"""Real stores of obstore against an object store on loopback: S3 and Google Cloud Storage alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import obstore
import pytest
from google.auth.exceptions import RefreshError, TransportError
from obstore.store import GCSStore
from tests.checkpoints import writers
from tests.checkpoints.store_stub import StubBucket, etag, store

from costguard.checkpoints.buckets import BucketFolder as StoredBucket
from costguard.checkpoints.buckets import StoreAccess, google_credentials, open_store
from costguard.checkpoints.client import StoredCheckpoints
from costguard.checkpoints.location import parse
from costguard.errors import (
    CheckpointLocationMissing,
    CheckpointLocationRefused,
    CheckpointLocationUnavailable,
    CheckpointLocationWrong,
)
from costguard_vm.checkpoints.judge import judge
from costguard_vm.model.checkpoint import CheckpointState, LookFor

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
QUICK = timedelta(milliseconds=1)


@pytest.fixture
def bucket() -> Iterator[StubBucket]:
    with store() as served:
        yield served


@pytest.fixture(params=["s3", "gs"])
def scheme(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def access(bucket: StubBucket) -> StoreAccess:
    return StoreAccess(bucket.url, "us-east-1", bucket.url, KEYS, QUICK)


def reach(bucket: StubBucket) -> StoredCheckpoints:
    return StoredCheckpoints(access(bucket))


def listed(bucket: StubBucket, location: str) -> list[str]:
    where = parse(location)
    return list(StoredBucket(where, open_store(where, access(bucket))).listing().files)


def test_the_newest_complete_one_in_a_bucket(bucket: StubBucket, scheme: str) -> None:
    """Found by the real client; torn ones are reported, others' folders next to it are not seen."""
    written = [*writers.hugging_face(100), *writers.hugging_face(200), *writers.hugging_face(300)[:-1]]
    bucket.objects = {f"team/run/{path}": body for path, body in written}
    bucket.objects |= {f"team/run2/{path}": body for path, body in writers.hugging_face(900)}
    look = reach(bucket).look(f"{scheme}://bkt/team/run", LookFor())
    assert look.resume is not None
    assert look.resume.resume_from == f"{scheme}://bkt/team/run/checkpoint-200"
    assert [one.state for one in look.checkpoints] == [
        CheckpointState.TORN,
        CheckpointState.COMPLETE,
        CheckpointState.UNREAD,
    ]
    assert look.resume.written_at == datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_two_listings_of_a_bucket(bucket: StubBucket, scheme: str) -> None:
    """An object that is overwritten between them has another tag, and what it belongs to does not count."""
    bucket.objects = dict(writers.lightning(7))
    first = reach(bucket).listing(f"{scheme}://bkt")
    same = reach(bucket).look(f"{scheme}://bkt", LookFor(), first)
    assert same.resume is not None
    bucket.objects |= {path: body[:-1] + b"\1" for path, body in writers.lightning(7)}
    again = reach(bucket).look(f"{scheme}://bkt", LookFor(), first)
    assert again.checkpoints[0].state is CheckpointState.CHANGING


def test_ten_thousand_names_come_in_pages(bucket: StubBucket, scheme: str) -> None:
    """All are seen, each once, in ten requests."""
    bucket.objects = {f"run/checkpoint-{number // 10}/part-{number % 10}": b"x" for number in range(10_000)}
    assert listed(bucket, f"{scheme}://bkt/run") == sorted(name.removeprefix("run/") for name in bucket.objects)
    assert len(bucket.requests) == 10


def test_odd_names(bucket: StubBucket, scheme: str) -> None:
    """Spaces, signs, other scripts and folders' marks are read as they are."""
    names = ["run/checkpoint-1/", "run/", "run/checkpoint-1/a b%2F+c?#é\u202e<&>", "run/checkpoint-1/'\"\\", "run/x"]
    bucket.objects = dict.fromkeys(names, b"12") | {"run/": b"", "run/checkpoint-1/": b""}
    paths = listed(bucket, f"{scheme}://bkt/run")
    assert sorted(paths) == sorted(["checkpoint-1/a b%2F+c?#é\u202e<&>", "checkpoint-1/'\"\\", "x"])
    where = parse(f"{scheme}://bkt/run")
    place = StoredBucket(where, open_store(where, access(bucket)))
    assert {place.read(file, 1, 1) for file in place.listing().files.values()} == {b"2"}


@pytest.mark.parametrize("odd", ["run/checkpoint-9//x", "run/checkpoint-9/../x", "run/checkpoint-9/a\tb"])
def test_names_that_obstore_refuses_cost_their_folder_alone(bucket: StubBucket, scheme: str, odd: str) -> None:
    """The folder is reported as not known; what is next to it is judged as always."""
    bucket.objects = {f"run/{path}": body for path, body in writers.hugging_face(100)} | {odd: b"x"}
    look = reach(bucket).look(f"{scheme}://bkt/run", LookFor())
    assert look.resume is not None
    assert look.resume.step == 100
    assert look.notes == ("checkpoint-9 could not be listed, so its content is not known.",)


@pytest.mark.parametrize("odd", ["run//x", "run/../x", "run/a\nb"])
def test_a_location_that_cannot_be_listed_is_not_empty(bucket: StubBucket, scheme: str, odd: str) -> None:
    """Where the odd name lies directly in it, nothing is known, and that is an error with what to do."""
    bucket.objects = {f"run/{path}": body for path, body in writers.hugging_face(100)} | {odd: b"x"}
    with pytest.raises(CheckpointLocationWrong, match="a name directly in it cannot be read") as refused:
        reach(bucket).look(f"{scheme}://bkt/run", LookFor())
    assert "Debug source" not in refused.value.message
    assert refused.value.what_next


@pytest.mark.parametrize("odd", [{}, {"run/odd//x": b"x"}])
def test_more_than_a_run_can_have(bucket: StubBucket, scheme: str, odd: dict[str, bytes]) -> None:
    """A location above all data is refused before everything is listed, also when folders are listed alone."""
    bucket.objects = {f"run/a/{number}": b"x" for number in range(2500)} | odd
    where = parse(f"{scheme}://bkt/run")
    with pytest.raises(CheckpointLocationWrong, match="holds more than 500 files"):
        StoredBucket(where, open_store(where, access(bucket)), most=500).listing()
    assert len(bucket.requests) <= 6


def test_what_vanished_after_the_listing(bucket: StubBucket, scheme: str) -> None:
    """Gone or shortened while it is read: it may be being rewritten, and does not count."""
    bucket.objects = dict(writers.lightning(7))
    (path,) = bucket.objects
    for later in ({}, {path: b""}, {path: b"PK"}):
        bucket.objects = dict(writers.lightning(7))
        where = parse(f"{scheme}://bkt")
        place = StoredBucket(where, open_store(where, access(bucket)))
        listing = place.listing()
        bucket.objects = later
        look = judge(listing, LookFor(), place)
        assert look.checkpoints[0].state is CheckpointState.CHANGING, later


@pytest.mark.parametrize(
    ("status", "body", "kind", "sentence", "tries"),
    [
        (401, "", CheckpointLocationRefused, "no credentials", 1),
        (
            403,
            "<Error><Code>AccessDenied</Code><Message>Not you.</Message></Error>",
            CheckpointLocationRefused,
            "AccessDenied: Not you.",
            1,
        ),
        (403, "<Error><Code>InvalidAccessKeyId</Code></Error>", CheckpointLocationRefused, "no credentials", 1),
        (301, "", CheckpointLocationRefused, "another region", 1),
        (
            400,
            "<Error><Code>AuthorizationHeaderMalformed</Code></Error>",
            CheckpointLocationRefused,
            "another region",
            1,
        ),
        (429, "", CheckpointLocationUnavailable, "too many requests", 4),
        (503, "<Error><Code>SlowDown</Code></Error>", CheckpointLocationUnavailable, "SlowDown", 4),
        (500, "", CheckpointLocationUnavailable, "answers with 500", 4),
    ],
)
def test_refusals_and_failures_in_words(
    bucket: StubBucket, scheme: str, status: int, body: str, kind: type[Exception], sentence: str, tries: int
) -> None:
    """Each says what happened, where, and what to do next; only what may pass is tried again, and seldom."""
    bucket.refuse = lambda method, key: (status, body)
    with pytest.raises(kind) as refused:
        reach(bucket).look(f"{scheme}://bkt/run", LookFor())
    message = str(getattr(refused.value, "message", ""))
    assert message.startswith(f"{scheme}://bkt/run")
    assert sentence in message
    assert "Debug source" not in message
    assert getattr(refused.value, "what_next", "")
    assert len(bucket.requests) == tries


def test_throttling_that_passes_is_not_noticed(bucket: StubBucket, scheme: str) -> None:
    """Two refusals, then an answer."""
    bucket.objects = dict(writers.lightning(7))
    refusals = [(503, "<Error><Code>SlowDown</Code></Error>")] * 2
    bucket.refuse = lambda method, key: refusals.pop() if refusals else None
    assert reach(bucket).look(f"{scheme}://bkt", LookFor()).resume is not None


def test_a_bucket_that_is_not_there(bucket: StubBucket, scheme: str) -> None:
    """It is reported as such, not as an empty one."""
    with pytest.raises(CheckpointLocationMissing, match="There is no bucket nobody"):
        reach(bucket).look(f"{scheme}://nobody/run", LookFor())


def test_objects_that_may_not_be_read(bucket: StubBucket, scheme: str) -> None:
    """A permission to list alone is no reason to call a checkpoint torn."""
    bucket.objects = dict(writers.lightning(7))
    bucket.refuse = lambda method, key: (403, "<Error><Code>AccessDenied</Code></Error>") if key else None
    with pytest.raises(CheckpointLocationRefused, match="may not be read"):
        reach(bucket).look(f"{scheme}://bkt", LookFor())


def test_nobody_answers(scheme: str) -> None:
    """Told as no answer, in little time."""
    nobody = StoreAccess("http://127.0.0.1:9", "us-east-1", "http://127.0.0.1:9", KEYS, QUICK)
    with pytest.raises(CheckpointLocationUnavailable, match="does not answer"):
        StoredCheckpoints(nobody).look(f"{scheme}://bkt/run", LookFor())


def test_the_environments_endpoint_does_for_s3(bucket: StubBucket) -> None:
    """Other tools read it so too; without keys a store elsewhere is asked unsigned."""
    bucket.objects = dict(writers.lightning(7))
    reached = StoredCheckpoints(StoreAccess(environ={"AWS_ENDPOINT_URL_S3": bucket.url}, first_wait=QUICK))
    assert reached.look("s3://bkt", LookFor()).resume is not None
    assert "authorization" not in bucket.headers[-1]
    assert reach(bucket).look("s3://bkt", LookFor()).resume is not None
    assert "key/" in bucket.headers[-1]["authorization"]


class Credentials:
    """Credentials as google-auth has them: the expiry is naive."""

    token, expiry = "t0ken", datetime(2126, 11, 20, 12)  # noqa: DTZ001

    def __init__(self, wrong: Exception | None = None) -> None:
        self.wrong = wrong

    def refresh(self, request: object) -> None:
        if self.wrong is not None:
            raise self.wrong


def listed_with(bucket: StubBucket, credentials: Credentials) -> list[str]:
    key = {
        "gcs_base_url": bucket.url,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    made = GCSStore(
        "bkt",
        config={"service_account_key": json.dumps(key)},
        client_options={"allow_http": True},
        credential_provider=google_credentials(credentials),
    )
    return list(StoredBucket(parse("gs://bkt"), made).listing().files)


def test_googles_credentials_are_sent(bucket: StubBucket) -> None:
    """The token of google-auth's credentials, with its end, so that it is fetched again in time."""
    bucket.objects = dict(writers.lightning(7))
    assert len(listed_with(bucket, Credentials())) == 1
    assert bucket.headers[-1]["authorization"] == "Bearer t0ken"


def test_google_gives_no_token(bucket: StubBucket) -> None:
    """Revoked credentials are distinguished from a network that does not reach Google."""
    with pytest.raises(CheckpointLocationRefused, match=r"accepts \(RefreshError: invalid_grant: revoked\)\."):
        listed_with(bucket, Credentials(RefreshError("invalid_grant: revoked")))  # type: ignore[no-untyped-call]
    with pytest.raises(CheckpointLocationUnavailable, match="tokens cannot be fetched"):
        listed_with(bucket, Credentials(TransportError("no route to host")))  # type: ignore[no-untyped-call]


def test_the_stub_stores(bucket: StubBucket, scheme: str) -> None:
    """Put, look, read a part, and delete, by the real client."""
    where = parse(f"{scheme}://bkt")
    opened = open_store(where, access(bucket))
    assert obstore.put(opened, "run/x", b"0123456789")["e_tag"] == etag(b"0123456789")
    assert obstore.head(opened, "run/x")["size"] == 10
    assert bytes(obstore.get(opened, "run/x").bytes()) == b"0123456789"
    assert bytes(obstore.get_range(opened, "run/x", start=2, end=5)) == b"234"
    assert obstore.list_with_delimiter(opened)["common_prefixes"] == ["run"]


def test_a_bucket_in_a_perimeter_is_not_called_a_missing_role(bucket: StubBucket) -> None:
    """No role on the bucket lets a request through a perimeter, or opens a billing account."""
    perimeter = "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: abcdefgh"
    closed = "The billing account for the owning project is disabled in state closed"
    for words, step in ((perimeter, "ingress or egress rule"), (closed, "gcloud billing projects link")):
        body = f"<Error><Code>AccessDenied</Code><Message>{words}</Message></Error>"
        bucket.refuse = lambda *_, body=body: (403, body)
        with pytest.raises(CheckpointLocationRefused) as refused:
            reach(bucket).look("gs://bkt/run", LookFor())
        assert step in refused.value.what_next
        assert "storage.objectViewer" not in refused.value.what_next
