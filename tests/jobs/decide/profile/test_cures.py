"""Cures: each slow training that was recorded gets its own, and no sound one gets any."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.profile.recordings import names, profile_of

from costguard.jobs.decide.profile.cures import Cure, cures_of, data_share, times_read
from costguard.jobs.decide.profile.job_profile import JobProfile
from costguard.jobs.decide.profile.patterns import Pattern
from costguard_vm.diagnosis import kinds
from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackGroup, StackProfile

_HOT = {
    "once_decode": "DecodedImages.__getitem__",
    "once_parse": "ParsedLines.parse",
    "once_tokenize": "TokenisedTexts.tokenize",
    "reads_npy": "SampleArrays.__getitem__",
    "reads_open": "SampleFiles.read_sample",
    "reads_pathlib": "Files.__getitem__",
    "rows_iloc": "IlocRows.__getitem__",
    "rows_iterrows": "rows_iterrows",
    "rows_loc": "LocCells.__getitem__",
    "rows_mask": "MaskedRows._row_of",
    "validation_csv": "evaluate_csv",
    "validation_genfromtxt": "load_text_table",
    "validation_set": "ValidationSet.__init__",
}

# Written after the rules. One reads in C, within the function that evaluates, and nothing shows it.
_SECOND = {
    "once_features": "Spectra.mel_spectrogram",
    "once_gzip": "Archive.__getitem__",
    "reads_saved_tensors": "Samples.__getitem__",
    "reads_waves": "Waves.__getitem__",
    "rows_of_batches": "frames_of_one_batch",
    "rows_of_names": "Tracks.label_of",
    "validation_pickle": None,
}


def test_each_pattern_was_recorded_in_three_variants_and_more_than_twenty_sound_trainings() -> None:
    """The tests below have nothing to judge otherwise."""
    kind = {name.partition("_")[0] for name in names("slow")}

    assert kind == {pattern.value for pattern in Pattern}
    assert all(sum(name.startswith(f"{one}_") for name in names("slow")) >= 3 for one in kind)
    assert len(names("sound")) > 20


@pytest.mark.parametrize("name", names("slow"))
def test_slow_training_gets_its_cure_with_the_function(name: str) -> None:
    """It gets that cure alone, with the function that its author would have to change."""
    cures = cures_of(profile_of(name))

    assert [cure.pattern.value for cure in cures] == [name.partition("_")[0]]
    assert cures[0].hot.function.endswith(_HOT[name])
    assert cures[0].hot.is_own
    assert cures[0].hot.text in cures[0].text


@pytest.mark.parametrize("name", names("sound"))
def test_sound_training_gets_no_cure(name: str) -> None:
    """Nothing waits for its workers, whatever they do."""
    assert cures_of(profile_of(name)) == []


@pytest.mark.parametrize("name", names("second"))
def test_training_that_was_written_after_the_rules_gets_its_cure_or_none(name: str) -> None:
    """No cure is a wrong one."""
    expected = None if name.startswith("fine_") else _SECOND[name]

    assert [(cure.pattern.value, cure.hot.function) for cure in cures_of(profile_of(name))] == (
        [] if expected is None else [(name.partition("_")[0], expected)]
    )


@pytest.mark.parametrize("name", names("slow"))
def test_cure_does_not_need_the_classes_of_functions(name: str) -> None:
    """Python before 3.11 has no qualified names for py-spy, and NumPy 1 and pandas 1 other files."""
    as_recorded = cures_of(profile_of(name))

    older = cures_of(_renamed(profile_of(name)))

    assert [cure.pattern for cure in older] == [cure.pattern for cure in as_recorded]


@pytest.mark.parametrize("name", names("slow"))
def test_nothing_is_said_where_something_else_bounds_the_run(name: str) -> None:
    """The verdict on the run comes from its GPU, too."""
    assert cures_of(profile_of(name), kinds.COMPUTE) == []
    assert cures_of(profile_of(name), kinds.INPUT) != []


@pytest.mark.parametrize("name", names("slow"))
def test_few_looks_say_nothing(name: str) -> None:
    """A few seconds may be any."""
    profile = profile_of(name)
    few = StackProfile(1.0, 0.1, _scaled(profile.stacks.main, 0.2), _scaled(profile.stacks.workers, 0.2))

    assert cures_of(replace(profile, stacks=few)) == []


@pytest.mark.parametrize("name", [name for name in names("slow") if not name.startswith("validation")])
def test_workers_that_keep_up_get_no_cure(name: str) -> None:
    """The same workers are no matter once the main thread computes for nine tenths of its time."""
    profile = profile_of(name)
    main = profile.stacks.main
    step: Stack = (Frame("main", "train.py", 1, is_own=True), Frame("train_step", "train.py", 9, is_own=True))
    computes = StackGroup(20 * main.looks, main.other, {**main.stacks, step: (19 * main.looks, 19 * main.looks)})

    busy = replace(profile, stacks=profile.stacks._replace(main=computes))

    assert data_share(busy.stacks.main) < 0.1
    assert cures_of(busy) == []


@pytest.mark.parametrize("name", [name for name in names("slow") if name.startswith("validation")])
def test_one_long_reading_of_validation_data_is_not_again_and_again(name: str) -> None:
    """A file that takes minutes is read in several windows, once."""
    profile = profile_of(name)

    assert cures_of(replace(profile, rereads=(0.0, 0.3, 1.0, 1.0, 1.0, 0.4, 0.0))) == []
    assert cures_of(replace(profile, rereads=(0.0, 0.3, 0.0, 0.0, 0.2, 0.0, 0.3))) != []


def test_readings_are_counted_by_the_windows_in_which_they_begin_or_have_a_part() -> None:
    """Windows are apart: what is seen in each of them came more than once."""
    assert times_read([]) == 0
    assert times_read([1.0, 1.0, 1.0]) == 1
    assert times_read([0.0, 1.0, 0.0, 1.0, 0.0, 1.0]) == 3
    assert times_read([0.3, 0.3, 0.3, 0.3]) == 4


def test_random_augmentation_is_not_done_once() -> None:
    """A training that waits for its augmentation is slow, but its cure is another."""
    item = (
        Frame("fetch", "torch/utils/data/_utils/fetch.py", 20, is_own=False),
        Frame("__getitem__", "d.py", 3, is_own=True),
    )
    crops: Stack = (
        *item,
        Frame("random_crop", "d.py", 9, is_own=True),
        Frame("resize", "PIL/Image.py", 2, is_own=False),
    )
    decodes: Stack = (*item, Frame("decode", "d.py", 9, is_own=True), Frame("resize", "PIL/Image.py", 2, is_own=False))

    def cures(stack: Stack) -> list[Pattern]:
        profile = JobProfile(StackProfile(10, 0.1, StackGroup(200, 0, {stack: (200, 200)})), 1)
        return [cure.pattern for cure in cures_of(profile)]

    assert cures(crops) == []
    assert cures(decodes) == [Pattern.ONCE]


def test_words_name_the_function_the_share_and_the_cure() -> None:
    """The text begins with no name, as a sentence begins with a capital."""
    cure = Cure(Pattern.ROWS, 0.613, Frame("Rows.__getitem__", "data.py", 14, is_own=True), is_in_workers=False)

    assert cure.text == (
        "a data frame is indexed by rows in Rows.__getitem__ (data.py:14), which takes 61% of the time: turn its "
        "columns into arrays or tensors once, before the first step, and index those"
    )
    assert ", for which the training waits 61% of the time: " in replace(cure, is_in_workers=True).text


def _scaled(group: StackGroup, part: float) -> StackGroup:
    stacks = {
        stack: (max(1, int(part * count)), int(part * running)) for stack, (count, running) in group.stacks.items()
    }
    most = int(part * group.looks)
    kept: dict[Stack, tuple[int, int]] = {}
    for stack, seen in stacks.items():
        if sum(count for count, _ in kept.values()) + seen[0] <= most:
            kept[stack] = seen
    return StackGroup(most, most - sum(count for count, _ in kept.values()), kept)


def _renamed(profile: JobProfile) -> JobProfile:
    """Turns names into those of older versions: no classes; NumPy's npyio.py and format.py."""

    def older(frame: Frame) -> Frame:
        file = frame.file.replace("_npyio_impl.py", "npyio.py").replace("_format_impl.py", "format.py")
        name = re.sub(r"^.*\.(?=[^.]+$)", "", frame.function)
        return frame._replace(function=name, file=file)

    def group(one: StackGroup) -> StackGroup:
        stacks: dict[Stack, tuple[int, int]] = {}
        for stack, (count, running) in one.stacks.items():
            key = tuple(map(older, stack))
            before = stacks.get(key, (0, 0))
            stacks[key] = (before[0] + count, before[1] + running)
        return StackGroup(one.looks, one.other, stacks)

    stacks = profile.stacks._replace(main=group(profile.stacks.main), workers=group(profile.stacks.workers))
    return replace(profile, stacks=stacks)
