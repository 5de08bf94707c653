"""No moment of an upload, a deletion or a clean-up shows a torn checkpoint as complete, whatever its layout."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.agent.torn import KINDS, SAME_NAME, Agent, Bucket, Kind, Moment, look_at, newest_version, torn, without_notes

from costguard_vm.agent.failures import TransferFailed

SEEDS = range(2)  # orders in which rclone, which moves several files at the same time, may have done it


def _check(moments: Iterable[Moment], kind: Kind) -> None:
    """Checks by the server; and where the layout has a file that tells, as tools that do not know our notes."""
    for moment in moments:
        assert not list(torn(moment, kind))
        if not kind.is_mute:
            assert not list(torn(without_notes(moment), kind, kind.scheme)), "to others"


def _newest(moment: Moment, kind: Kind) -> int | None:
    best = look_at(moment, kind.look_for).resume
    return best.step if best is not None else None


@pytest.mark.parametrize("name", KINDS)
def test_an_upload_counts_only_when_its_last_file_is_there(name: str) -> None:
    """The upload goes to an empty location, and then next to an older one, which counts until the newer one does."""
    kind = KINDS[name]
    for seed in SEEDS:
        bucket = Bucket(seed)
        agent = Agent(kind, bucket)
        agent.save(100)
        assert [_newest(moment, kind) for moment in bucket.moments[:-1]] == [None] * (len(bucket.moments) - 1)
        assert _newest(bucket.files, kind) == 100
        begun = len(bucket.moments)
        agent.save(200)
        assert {_newest(moment, kind) for moment in bucket.moments[begun:-1]} <= {100}
        assert _newest(bucket.files, kind) == 200
        _check(bucket.moments, kind)


@pytest.mark.parametrize("name", KINDS)
def test_an_older_one_uploaded_later_takes_nothing_from_the_newer(name: str) -> None:
    """The newest goes first after the command's end: a framework's own note of its newest must not go back."""
    kind = KINDS[name]
    bucket = Bucket(0)
    agent = Agent(kind, bucket)
    agent.save(200)
    begun = len(bucket.moments) - 1
    agent.save(100)
    assert {_newest(moment, kind) for moment in bucket.moments[begun:]} == {200}
    assert all(one.is_complete for one in look_at(bucket.files, kind.look_for).checkpoints)
    _check(bucket.moments, kind)


@pytest.mark.parametrize("name", KINDS)
def test_a_deletion_takes_the_whole_before_the_parts(name: str) -> None:
    """The newest of three is kept; those that go do not count from the first file on that is lost."""
    kind = KINDS[name]
    for seed in SEEDS:
        bucket = Bucket(seed)
        Agent(kind, bucket).save(100)
        Agent(kind, bucket).save(200)
        Agent(kind, bucket, keep=1).save(300)
        assert [one.step for one in look_at(bucket.files, kind.look_for).checkpoints] == [300]
        assert _newest(bucket.files, kind) == 300
        _check(bucket.moments, kind)
        left = {path for path in without_notes(bucket.files) if "100" in path or "200" in path}
        assert not left


@pytest.mark.parametrize("name", SAME_NAME)
def test_one_written_over_is_never_a_mixture(name: str) -> None:
    """Old and new files do not count together, and there is always one to resume from."""
    kind = SAME_NAME[name]
    for seed in SEEDS:
        bucket = Bucket(seed)
        agent = Agent(kind, bucket, keep=2)
        agent.save(100, version=1)
        begun = len(bucket.moments) - 1
        for version in (2, 3, 4):
            agent.save(100 + version, version)
        Agent(kind, bucket, keep=2).save(105, version=5)
        _check(bucket.moments, kind)
        assert all(look_at(moment, kind.look_for).resume is not None for moment in bucket.moments[begun:])
        assert newest_version(bucket.files, kind) == 5
        whole = [one for one in look_at(bucket.files, kind.look_for).checkpoints if one.is_complete]
        assert len(whole) == (1 if len(kind.write(100)) == 1 else 2)  # one object is replaced as a whole


@pytest.mark.parametrize("name", KINDS)
def test_what_a_lost_vm_left_is_cleaned_and_takes_nothing_along(name: str) -> None:
    """Lost at any moment: the next attempt's clean-up leaves the older one complete, and uploads the newer again."""
    kind = KINDS[name]
    bucket = Bucket(1)
    first = Agent(kind, bucket)
    first.save(100)
    begun = len(bucket.moments)
    first.save(200)
    for moment in bucket.moments[begun:]:
        after = Bucket(2, moment)
        again = Agent(kind, after)
        assert _newest(after.files, kind) in (100, 200)
        again.save(200, version=201)
        assert _newest(after.files, kind) == 200
        _check(after.moments, kind)
        assert {_newest(one, kind) for one in after.moments} <= {100, 200}
        assert not [path for path in after.files if path.startswith(".costguard/uploading/")]


@pytest.mark.parametrize("name", ["hugging-face", "torch-dcp", "deepspeed", "the location itself"])
def test_one_that_changed_while_it_was_uploaded_leaves_nothing_behind(name: str) -> None:
    """It does not count, and what of it the next upload of that name does not have is deleted."""
    kind = SAME_NAME[name]
    for checks in ([False], [True, False]):
        bucket = Bucket(0)
        agent = Agent(kind, bucket)
        folder = kind.write(100)[0][0].rpartition("/")[0]
        extra = f"{folder}/gone" if folder else "gone"
        with pytest.raises(TransferFailed, match="changed while it was uploaded"):
            agent.save(100, 1, [(extra, b"gone")], iter(checks).__next__)
        assert extra in bucket.files
        assert look_at(bucket.files, kind.look_for).resume is None
        agent.save(100, version=2)
        assert extra not in bucket.files
        assert newest_version(bucket.files, kind) == 2
        _check(bucket.moments, kind)
