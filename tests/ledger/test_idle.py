"""A VM is idle only when all of the window is known, and none of it was work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import A100, KEY, PROJECT, at

from costguard.ledger.idle.evidence import GAP, LAG, NETWORK_BELOW, Before, MeasuredRun, evidence
from costguard.model.instance import Shape
from costguard.model.utilisation import Evidence, IdleRule, IdleState, Metric, Sample, Series, Usage

NOW = at("12:00")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RULE = IdleRule(gpu_below=500, cpu_below=500, window=HOUR)
RUN = MeasuredRun(KEY.gce_id, A100, at("06:00"))
FOUR = MeasuredRun(KEY.gce_id, Shape("a2-highgpu-4g", 48, 348160, "nvidia-tesla-a100", 4), at("06:00"))
TPUS = MeasuredRun(KEY.gce_id, Shape("ct6e-standard-4t", 180, 737280, "v6e", 4), at("06:00"))
NO_GPU = MeasuredRun(KEY.gce_id, Shape("n2-standard-4", 4, 16384), at("06:00"))
NO_AGENT = "no GPU figures: the Ops Agent is not installed"


def line(value: int, begun: datetime = at("09:00"), ended: datetime = at("11:56"), every: int = 1) -> Series:
    """Makes a series, one value after another, as measured: the newest is four minutes old."""
    count = (ended - begun) // (every * MINUTE)
    return tuple(Sample(ended - number * every * MINUTE, value) for number in reversed(range(count)))


def outside(cpu: int = 100, network: int = 200) -> dict[tuple[str, Metric], tuple[Series, ...]]:
    """Returns the measurements without an agent."""
    values = {Metric.CPU: cpu, Metric.RECEIVED: network, Metric.SENT: network}
    return {(KEY.gce_id, metric): (line(value, every=5),) for metric, value in values.items()}


def with_sm(measured: Usage, *gpus: Series) -> Usage:
    return Usage(PROJECT, {**measured.series, (KEY.gce_id, Metric.SM): gpus})


def usage(*gpus: Series, **others: int) -> Usage:
    return Usage(PROJECT, {(KEY.gce_id, Metric.GPU): gpus, **outside(**others)} if gpus else outside(**others))


def judged(measured: Usage, run: MeasuredRun = RUN, before: Before | None = None) -> Evidence:
    return evidence(run, RULE, measured, NOW, before)


def test_an_idle_gpu() -> None:
    """A GPU under the threshold for the whole window is idle since the first value that is known, with the highest
    shown.
    """
    idle = judged(usage(line(300)))
    assert (idle.state, idle.is_weak) == (IdleState.IDLE, False)
    assert idle.since == at("09:01")
    assert idle.sentence == "GPU under 5 % for 2 h 55 min (max 3 %)"
    assert (idle.gpu_mean, idle.gpu_max) == (300, 300)


def with_tpu(*chips: Series, cpu: int = 0) -> Usage:
    return Usage(PROJECT, {**outside(cpu=cpu, network=0), **({(KEY.gce_id, Metric.TPU): chips} if chips else {})})


def test_a_vm_with_tpus_is_idle_by_their_duty_cycle() -> None:
    """All four chips under the threshold for the window, whatever the CPU did."""
    idle = judged(with_tpu(*[line(120)] * 4, cpu=9000), TPUS)
    assert (idle.state, idle.is_weak, idle.since) == (IdleState.IDLE, False, at("09:01"))
    assert idle.sentence == "TPU under 5 % for 2 h 55 min (max 1 %)"


def test_one_chip_at_work_is_work() -> None:
    """A training keeps its VM, however idle the CPU is meanwhile."""
    busy = judged(with_tpu(line(9000), *[line(0)] * 3), TPUS)
    assert (busy.state, busy.sentence) == (IdleState.BUSY, "TPU up to 90 % in the last 1 h (22 % on average)")


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (with_tpu(), "TPU use is not known: Cloud Monitoring has no duty cycle of its chips"),
        (with_tpu(line(0)), "TPU use is not known whole: only 1 of 4 TPU chips are measured"),
        (with_tpu(line(0, ended=at("10:30"))), "TPU use is not known: Cloud Monitoring has stopped telling it"),
        (Usage(PROJECT, outside(0, 0), {Metric.TPU: "Google said no."}), "TPU use is not known: Google said no."),
    ],
)
def test_a_quiet_cpu_makes_no_tpu_idle(measured: Usage, said: str) -> None:
    """A TPU VM is unknown without the duty cycle of each chip, never idle, though CPU and network do nothing."""
    unknown = judged(measured, TPUS)
    assert (unknown.state, unknown.sentence) == (IdleState.UNKNOWN, said)


def test_a_busy_gpu() -> None:
    """A single value at the threshold is work, however long ago in the window; the mean says how much."""
    quiet = line(0)
    busy = judged(usage(tuple(Sample(one.at, 500) if one.at == at("11:01") else one for one in quiet)))
    assert (busy.state, busy.since) == (IdleState.BUSY, at("11:01"))
    assert busy.sentence == (
        "GPU up to 5 % in the last 1 h (0.1 % on average), by utilisation alone, which one busy SM fills"
    )
    assert busy.is_weak


@pytest.mark.parametrize(
    ("power", "said"),
    [
        (1778, "but most of the time it does not compute: power over idle is 18% of the best run's"),
        (9100, "at 91% of the most power over idle seen"),
    ],
)
def test_power_says_whether_a_busy_gpu_is_useful(power: int, said: str) -> None:
    """A GPU at 85 % use is never idle, and its use alone makes it not healthy."""
    measured = usage(line(8500))
    measured = Usage(PROJECT, {**measured.series, (KEY.gce_id, Metric.POWER): (line(power),)})
    busy = judged(measured)
    assert busy.state is IdleState.BUSY
    assert busy.sentence == f"GPU up to 85 % in the last 1 h (85 % on average), {said}"


def test_a_spinning_kernel_is_idle() -> None:
    """A single multiprocessor of 132 at work reads as 100 % utilisation; the other 131 say that the GPU is idle."""
    idle = judged(with_sm(usage(line(10_000)), line(76)))
    assert (idle.state, idle.is_weak, idle.since) == (IdleState.IDLE, False, at("09:01"))
    assert (idle.sm_mean, idle.sm_max, idle.gpu_max) == (76, 76, 10_000)
    assert idle.sentence == (
        "under 5 % of the GPU's SMs busy for 2 h 55 min (max 0.7 %), though its utilisation reads 100 %"
    )


def test_held_memory_is_idle() -> None:
    """A process that only holds memory uses neither, and nothing is said of utilisation."""
    idle = judged(with_sm(usage(line(0)), line(0)))
    assert idle.sentence == "under 5 % of the GPU's SMs busy for 2 h 55 min (max 0 %)"


def test_busy_multiprocessors_are_firm_evidence_of_work() -> None:
    """A single value at the threshold is work, whether or not utilisation could be read."""
    quiet = line(0)
    peak = tuple(Sample(one.at, 500) if one.at == at("11:01") else one for one in quiet)
    busy = judged(with_sm(Usage(PROJECT, outside(), {Metric.GPU: "Google said no."}), peak))
    assert (busy.state, busy.is_weak, busy.since) == (IdleState.BUSY, False, at("11:01"))
    assert busy.sentence == "up to 5 % of the GPU's SMs busy in the last 1 h (0.1 % on average)"


def test_each_threshold_is_its_own() -> None:
    """A rule that asks for less of the multiprocessors than of utilisation holds for the multiprocessors alone."""
    rule = IdleRule(gpu_below=500, cpu_below=500, window=HOUR, sm_below=100)
    assert evidence(RUN, rule, with_sm(usage(line(300)), line(200)), NOW).state is IdleState.BUSY
    assert evidence(RUN, rule, usage(line(300)), NOW).state is IdleState.IDLE


@pytest.mark.parametrize("measured", [(), (line(0, ended=at("11:30")),), (line(0, begun=at("11:20")),)])
def test_unknown_sm_activity_calls_nothing_idle(measured: tuple[Series, ...]) -> None:
    """Never measured, fallen silent or measured for a part of the window: utilisation decides, as weak evidence."""
    unknown = judged(with_sm(usage(line(10_000)), *measured))
    assert (unknown.state, unknown.is_weak) == (IdleState.BUSY, True)


def test_all_gpus_multiprocessors_must_be_measured() -> None:
    """Three spinning GPUs of four: the fourth may be at work."""
    four = usage(*[line(10_000)] * 4)
    assert judged(with_sm(four, *[line(76)] * 3), FOUR).state is IdleState.BUSY
    assert judged(with_sm(four, *[line(76)] * 4), FOUR).state is IdleState.IDLE


def test_dcgm_that_fell_silent_makes_no_vm_busy_again() -> None:
    """A VM idle by its multiprocessors is unknown when only utilisation is left, and stays so."""
    had = judged(with_sm(usage(line(10_000)), line(76)))
    silent = judged(usage(line(10_000)), before=Before(had, at("11:50")))
    assert (silent.state, silent.sm_max) == (IdleState.UNKNOWN, 76)
    assert silent.sentence.endswith("but SM activity is not measured any more")
    assert judged(usage(line(10_000)), before=Before(silent, at("11:55"))).state is IdleState.UNKNOWN
    assert judged(usage(line(100)), before=Before(silent, at("11:55"))).state is IdleState.IDLE


def test_work_before_the_window_is_over() -> None:
    """Idle begins after the last value that was work."""
    idle = judged(usage(line(9_000, ended=at("10:30")) + line(0, begun=at("10:30"))))
    assert (idle.state, idle.since) == (IdleState.IDLE, at("10:31"))
    assert idle.gpu_max == 0


def test_all_gpus_must_be_idle_and_measured() -> None:
    """A busy GPU of four is work; three idle ones and one that nobody measures are unknown."""
    assert judged(usage(*[line(0)] * 3, line(9_000)), FOUR).state is IdleState.BUSY
    unknown = judged(usage(*[line(0)] * 3), FOUR)
    assert unknown.state is IdleState.UNKNOWN
    assert "only 3 of 4 GPUs are measured" in unknown.sentence
    assert judged(usage(*[line(0)] * 4), FOUR).state is IdleState.IDLE


def test_without_an_agent_cpu_and_network_are_weak_evidence() -> None:
    """A GPU VM without GPU figures is idle only weakly, and the sentence says what is missing."""
    idle = judged(usage())
    assert (idle.state, idle.is_weak) == (IdleState.IDLE, True)
    assert idle.sentence == f"CPU under 5 % for 2 h 50 min (max 1 %), and next to no network; {NO_AGENT}"
    busy = judged(usage(cpu=4_000))
    assert (busy.state, busy.sentence) == (IdleState.BUSY, f"CPU up to 40 % in the last 1 h; {NO_AGENT}")
    assert busy.is_weak
    assert judged(usage(network=NETWORK_BELOW)).state is IdleState.BUSY


def test_a_vm_without_gpus_is_judged_by_cpu_and_network() -> None:
    """The evidence is not weak for it, and no GPU is spoken of."""
    idle = judged(usage(), NO_GPU)
    assert (idle.state, idle.is_weak) == (IdleState.IDLE, False)
    assert "GPU" not in idle.sentence


def test_gpu_figures_decide_against_cpu() -> None:
    """Loading data is no reason to call idle GPUs busy."""
    assert judged(usage(line(0), cpu=9_000)).state is IdleState.IDLE


@pytest.mark.parametrize("metric", [Metric.GPU, Metric.CPU, Metric.RECEIVED, Metric.SENT])
def test_what_could_not_be_read_is_unknown(metric: Metric) -> None:
    """The reason is given; where GPUs are measured, CPU and network need not be."""
    broken = Usage(PROJECT, {}, {metric: "Google said no."})
    unknown = judged(broken)
    assert unknown.state is IdleState.UNKNOWN
    assert "Google said no." in unknown.sentence
    with_gpus = Usage(PROJECT, usage(line(0)).series, {metric: "Google said no."})
    assert judged(with_gpus).state is (IdleState.UNKNOWN if metric is Metric.GPU else IdleState.IDLE)


def test_a_young_vm_is_unknown_until_the_window_has_passed() -> None:
    """Measurements before this run are not of this run."""
    young = MeasuredRun(KEY.gce_id, A100, at("11:20"))
    unknown = judged(usage(line(0)), young)
    assert unknown.state is IdleState.UNKNOWN
    assert "it runs for 40 min, and 1 h are asked about" in unknown.sentence
    assert judged(usage(line(9_000, ended=at("11:10")) + line(0, begun=at("11:20"))), young).state is IdleState.UNKNOWN


def test_an_agent_that_fell_silent_is_not_an_absent_one() -> None:
    """GPU figures that stopped are unknown: CPU and network do not take their place."""
    assert judged(usage(line(0, ended=at("10:00")))).state is IdleState.UNKNOWN
    had = Evidence(IdleState.IDLE, at("10:00"), "", gpu_max=0)
    silent = judged(usage(), before=Before(had, at("11:50")))
    assert silent.state is IdleState.UNKNOWN
    assert judged(usage(), before=Before(silent, at("11:55"))).state is IdleState.UNKNOWN


def test_idleness_goes_on_from_one_measurement_to_the_next() -> None:
    """Since when is kept while nothing unmeasured lies in between, and so is the highest value."""
    had = Evidence(IdleState.IDLE, at("07:00"), "", gpu_max=400)
    idle = judged(usage(line(100)), before=Before(had, at("11:50")))
    assert (idle.since, idle.gpu_max) == (at("07:00"), 400)
    assert idle.sentence == "GPU under 5 % for 4 h 56 min (max 4 %)"
    long_ago = judged(usage(line(100)), before=Before(had, at("09:05")))
    assert long_ago.since == at("09:01")
    was_weak = Evidence(IdleState.IDLE, at("07:00"), "", is_weak=True, cpu_max=100)
    assert judged(usage(line(100)), before=Before(was_weak, at("11:50"))).since == at("09:01")


@given(st.integers(0, 499), st.integers(0, 64), st.timedeltas(GAP + MINUTE, HOUR))
def test_missing_data_never_gives_idle(value: int, begins: int, length: timedelta) -> None:
    """The answer is not idle whatever stretch of the window has no value, longer than a gap may be."""
    hole = NOW - HOUR - GAP + begins * MINUTE
    missing = _without(hole, hole + length + 2 * MINUTE)
    is_in_window = hole + length > NOW - HOUR + GAP and hole < NOW - LAG
    for measured in (Usage(PROJECT, missing(usage(line(value)))), Usage(PROJECT, missing(usage(cpu=value)))):
        run = RUN if (KEY.gce_id, Metric.GPU) in measured.series else NO_GPU
        state = judged(measured, run).state
        assert state is not IdleState.BUSY
        if is_in_window:
            assert state is IdleState.UNKNOWN


def _without(begun: datetime, ended: datetime) -> Callable[[Usage], dict[tuple[str, Metric], tuple[Series, ...]]]:
    def cut(measured: Usage) -> dict[tuple[str, Metric], tuple[Series, ...]]:
        return {
            key: tuple(tuple(one for one in series if not begun <= one.at <= ended) for series in several)
            for key, several in measured.series.items()
        }

    return cut


@given(st.integers(0, 10_000), st.integers(0, 499), st.integers(0, 64), st.timedeltas(GAP + MINUTE, HOUR))
def test_a_gap_in_sm_activity_never_gives_idle(utilised: int, sm: int, begins: int, length: timedelta) -> None:
    """A GPU with high utilisation is not idle whatever stretch of the window lacks it, and one with low may be."""
    hole = NOW - HOUR - GAP + begins * MINUTE
    cut = _without(hole, hole + length + 2 * MINUTE)(with_sm(Usage(PROJECT), line(sm)))
    measured = Usage(PROJECT, {**usage(line(utilised)).series, **cut})
    if hole + length > NOW - HOUR + GAP and hole < NOW - LAG:
        assert judged(measured).state is (IdleState.BUSY if utilised >= RULE.gpu_below else IdleState.IDLE)


@given(
    st.lists(st.integers(0, 499), min_size=176, max_size=176),
    st.integers(0, 3),
    st.integers(4, 59),
    st.integers(500, 10_000),
    st.booleans(),
)
def test_a_busy_sample_in_the_window_never_gives_idle(
    quiet: Sequence[int], gpu: int, minutes_ago: int, busy: int, was_idle: bool
) -> None:
    """The result holds whichever GPU, whenever in the window, whatever the others did and whatever was thought
    before.
    """
    times = [one.at for one in line(0)]
    several = [[Sample(moment, value) for moment, value in zip(times, quiet, strict=False)] for _ in range(4)]
    moment = NOW - minutes_ago * MINUTE
    several[gpu] = [Sample(one.at, busy) if one.at == moment else one for one in several[gpu]]
    had = Before(Evidence(IdleState.IDLE, at("07:00"), "", gpu_max=0), at("11:55")) if was_idle else None
    assert judged(usage(*map(tuple, several)), FOUR, had).state is IdleState.BUSY
