"""The signals of a minute and their JSON form."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from costguard_vm.diagnosis.signals import (
    MOST_GPUS,
    MOST_KINDS,
    CommandSignals,
    GpuSignals,
    HostSignals,
    Minute,
    StackSignals,
    as_json,
    read_minute,
)

MINUTE = Minute(
    seconds=60.0,
    looks=60.0,
    gpus=(GpuSignals(number=0.0, uuid="GPU-1", kernel_active=0.25, clock_reasons={"idle": 0.5}, power_w=0.0),),
    command=CommandSignals(processes=3.0, main_cpu=0.125, workers=2.0),
    host=HostSignals(cpus=12.0, io_full=0.0),
    stacks=StackSignals(looks=10.0, places={"loader": 0.75}, frames={"_next_data (torch)": 0.75}),
)

NUMBERS = st.one_of(st.none(), st.floats(0, 1e12), st.integers(0, 10**6).map(float))
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["gpus", "command", "host", "stacks", "kernel_active", "uuid", "places", "main_cpu", "cpus", "looks"]
            ),
            parts,
            max_size=6,
        )
    ),
    max_leaves=20,
)


def test_a_minute_is_read_as_it_was_sent() -> None:
    """The guard knows what the agent measured: what could not be read stays None, a measured 0 stays 0."""
    received = read_minute(json.loads(json.dumps(as_json(MINUTE))))

    assert received == MINUTE


def test_absent_values_are_not_sent() -> None:
    """A heartbeat's room is small: None takes none of it."""
    assert as_json(Minute(seconds=60.0, gpus=())) == {"seconds": 60.0, "gpus": []}


def test_unreadable_gpus_are_told_from_none() -> None:
    """A VM whose driver does not answer may have GPUs."""
    assert read_minute({"seconds": 60}) == Minute(seconds=60.0)
    assert read_minute({"seconds": 60, "gpus": []}) == Minute(seconds=60.0, gpus=())


def test_values_of_a_wrong_kind_are_unread() -> None:
    """The owner of a VM has the attempt's token: nothing it sends may pass for a measurement."""
    wrong = {
        "seconds": "60",
        "looks": True,
        "agent_cpu": -1 - 10**400,
        "agent_memory_bytes": math.inf,
        "gpus": [
            {
                "uuid": 5,
                "kernel_active": math.nan,
                "power_w": 10**400,
                "clock_reasons": {"idle": "x", "sw_power_cap": 1},
            },
            7,
        ],
        "host": [1],
    }

    minute = read_minute(wrong)

    assert minute == Minute(gpus=(GpuSignals(clock_reasons={"sw_power_cap": 1.0}),))


def test_what_is_kept_of_a_minute_is_bounded() -> None:
    """A thousand GPUs, reasons or a long text do not reach the database."""
    document = {
        "gpus": [{"uuid": "u" * 5000, "clock_reasons": {str(n): 1 for n in range(1000)}}] * 1000,
        "stacks": {"error": "e" * 5000},
    }

    minute = read_minute(document)

    assert minute is not None
    assert minute.gpus is not None
    assert len(minute.gpus) == MOST_GPUS
    assert len(minute.gpus[0].clock_reasons or {}) == MOST_KINDS
    assert len(json.dumps(as_json(minute))) < 20_000


@given(JSON)
def test_any_json_is_read_without_an_error(document: object) -> None:
    """An agent's event is untrusted: reading it never fails, and what is kept can be sent again."""
    minute = read_minute(document)

    assert minute is None or read_minute(as_json(minute)) is not None


@given(NUMBERS, NUMBERS)
def test_numbers_keep_four_digits(one: float | None, other: float | None) -> None:
    """Rounding for the wire changes a value by at most five parts in ten thousand."""
    sent = Minute(seconds=one, command=CommandSignals(cpu=other))

    received = read_minute(as_json(sent))

    assert received is not None
    assert received.command is not None
    for before, after in ((one, received.seconds), (other, received.command.cpu)):
        assert (before is None) == (after is None)
        assert before is None or (after is not None and math.isclose(before, after, rel_tol=6e-4))
