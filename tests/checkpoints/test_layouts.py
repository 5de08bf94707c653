"""A half-written checkpoint of any framework does not count, and the newest whole one does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.checkpoints.places import Memory, Written
from tests.checkpoints.writers import LAYOUTS, keras

from costguard_vm.model.checkpoint import CheckpointState, Framework, LookFor

OLD, NEW = 90, 100
frameworks = st.sampled_from([layout for layout in LAYOUTS if layout is not Framework.KERAS])


@pytest.mark.parametrize("framework", LAYOUTS)
def test_what_was_written_whole_is_complete(framework: Framework) -> None:
    """Told by its names or by what was asked for, it is found, complete, of its step, and without a remark."""
    layout = LAYOUTS[framework]
    look = Memory(layout.write(NEW)).look(layout.look_for)
    assert look.resume is not None, look
    assert (look.resume.framework, look.resume.step) == (framework, NEW)
    assert (look.resume.reasons, look.notes, len(look.checkpoints)) == ((), (), 1)


@pytest.mark.parametrize("framework", [layout for layout in LAYOUTS if layout is not Framework.KERAS])
def test_the_newest_whole_one_wins(framework: Framework) -> None:
    """The step decides; a copy that changed the times, and with them the order, changes nothing."""
    layout = LAYOUTS[framework]
    for order in ([OLD, NEW], [NEW, OLD]) if framework is not Framework.MEGATRON else ([OLD, NEW],):
        look = Memory([file for step in order for file in layout.write(step)]).look(layout.look_for)
        assert look.resume is not None
        assert look.resume.step == NEW
        assert [one.step for one in look.checkpoints] == [NEW, OLD]


@settings(max_examples=150, deadline=None)
@given(framework=frameworks, data=st.data())
def test_no_beginning_of_a_checkpoint_is_complete(framework: Framework, data: st.DataObject) -> None:
    """Cut off after any file, or within one, it does not count, and the older one is resumed from."""
    layout = LAYOUTS[framework]
    written = layout.write(NEW)
    needed = len(written) - layout.hints
    whole = data.draw(st.integers(0, needed - 1), "whole files")
    path, body = written[whole]
    # A tracker is written over: cut off, it is judged in a test of its own. A mark needs nothing in it.
    is_apart = path in dict(layout.write(OLD)) or path.endswith(layout.sizeless or "?")
    cut = data.draw(st.integers(0, 0 if is_apart else len(body) - 1), "bytes of the next one")
    begun = [*written[:whole], *([(path, body[:cut])] if cut else [])]

    after = Memory([*layout.write(OLD), *begun]).look(layout.look_for)
    assert after.resume is not None
    assert after.resume.step == OLD
    alone = Memory(begun).look(layout.look_for)
    assert alone.resume is None
    assert all(one.state is CheckpointState.TORN and one.reasons for one in alone.checkpoints)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_backup_that_keras_writes_over_never_counts_half_way(data: st.DataObject) -> None:
    """Keras, killed anywhere while it writes over the weights, goes back to the copy made before."""
    kept = [(f"{path}.bkp", body) for path, body in keras(OLD)]
    before: list[Written] = [*keras(OLD), *kept]
    written = keras(NEW)
    path, body = written[0]
    begun = [(path, body[: data.draw(st.integers(0, len(body) - 1))])]
    look = Memory([*before, *begun]).look()
    assert look.resume is not None
    assert look.resume.step == OLD
    assert look.resume.resume_from == "gs://runs/one"
    assert look.resume.name == "latest.weights.h5.bkp"


@settings(max_examples=100, deadline=None)
@given(framework=frameworks, data=st.data())
def test_no_file_that_counts_can_be_missing_or_short(framework: Framework, data: st.DataObject) -> None:
    """Lost or cut off later, in whatever place, what was whole is not any more."""
    layout = LAYOUTS[framework]
    written = layout.write(NEW)
    path, body = data.draw(st.sampled_from([file for file in written if not file[0].endswith(layout.optional or "?")]))
    cut = data.draw(st.integers(0, 0 if path.endswith(layout.sizeless or "?") else len(body) - 1))
    after = [(name, body[:cut] if name == path else held) for name, held in written if name != path or cut]
    assert Memory(after).look(layout.look_for).resume is None, path


@settings(max_examples=150, deadline=None)
@given(
    names=st.lists(st.text(max_size=30).map(lambda name: name.strip("/") or "x"), max_size=12),
    bodies=st.lists(st.binary(max_size=80), min_size=12, max_size=12),
    framework=st.sampled_from([None, *Framework]),
)
def test_nothing_that_lies_there_breaks_the_look(
    names: list[str], bodies: list[bytes], framework: Framework | None
) -> None:
    """An answer comes, whatever names and bytes there are."""
    paths = [path for layout in LAYOUTS.values() for path, _ in layout.write(NEW)]
    mixed = [*names, *paths[:: max(1, len(names))]]
    look_for = LookFor(framework, "ckpt_{step}*", "DONE") if framework else LookFor()
    look = Memory(list(zip(mixed, bodies * 9, strict=False))).look(look_for, examine=100)
    assert all(one.reasons or one.is_complete for one in look.checkpoints)
