"""Reads from a run's output why it ended, or that it only looks dead. Pure.

The first error names the end, not the last: what follows is processes that go down with it. An error after which the
training made steps was survived. What a log does not prove stays unknown, silence above all: 704 ranks were once
silent in a barrier for 4 h 56 min and went on (github.com/marin-community/marin/issues/8508).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from costguard.ends.gpu_memory import fills_the_gpu
from costguard.ends.program_rules import (
    ENTERS_A_WAIT,
    FINISHED,
    HANDLES_ANOTHER,
    NOISE,
    PREPARES_DATA,
    RECOVERED,
    TABLE,
)
from costguard.ends.rule import Rule
from costguard.ends.rules import GRADIENT_IS_NAN, GRADIENT_IS_NUMBER, LOSS_IS_NUMBER, NAN
from costguard.ends.values import UNKNOWN_CAUSE, EndClass, EndReading, LogState, Proof, Rank
from costguard.model.attempt import Retry
from costguard_vm.progress.log_line import TRAIN
from costguard_vm.progress.log_reader import LINE_END, OutputReader

MOST_READ = 4 << 20  # characters from the end of the output: an end stands there
_SURVIVED = 3  # steps after an error show that the training went on without it
_LONGEST_LINE = 4_000
_STYLING = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_IS_CODE = re.compile(r"^\W*(?:\[?rank ?\d+\]?:?)?\s*File \"")
_IS_EXCEPTION = re.compile(r"(?:\[?rank ?\d+\]?:? ?)?(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception): ")
# Every line that a rule fits has one of these; the lines of a training that goes well mostly have none.
MAY_MATTER = re.compile(
    r"err|fail|exce|\bxid|ecc|nvlink|\bbus\b|lost|memory|oom|kill|signal|\bsig[a-z]{3,4}\b|exit|nan\b|\binf\b|"
    r"finite|scal|time(?:d|s)?[ -]?out|before tim|barrier|watchdog|clos|reset|refused|route|reso|connect|pipe|"
    r"\bdis[kc]\b|space|quota|read-only|assert|abort|fault|terminat|hang|hung|stuck|dead|froz|freez|block|stall|"
    r"cancel|errno|unavailable|exhaust|status|swap|invalid|not found|require|match|shape|size|no such|denied|"
    r"in use|what\(\)|fatal|panic|waiting|no (?:further|more|new)|not making|peer|network|lockup|link|never|"
    r"interrupt|expect|ready|undefined|driver|kernel|total-vm|mem-info|process|bad_alloc|alloc|stop|illegal|"
    r"misaligned|double free|corrupt|smash|inplace|graph|grad|bounds|range|implement|broadcast|output \d|"
    r"duplicate|usage|argument|glibc|cuda_home|too many|due to|hardware|machine check|edac|severity|"
    r"handle for gpu|busy|gsp|thermal|shm|torch_|stream|stale|writ|timed|socket|resources|joined|handling|unpickl|"
    r"compiler|unreach|no cuda|gateway",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Sign:
    rule: Rule
    line: str
    place: int
    rank: Rank

    @property
    def end_class(self) -> EndClass:
        return self.rule.class_of(self.line) if self.rule.class_of else self.rule.end_class


@dataclass(slots=True)
class _Log:
    """The parts of a log that the reader keeps, as numbers of lines."""

    signs: list[_Sign] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # where the training moved on with a loss that is a number
    loss_at: int | None = None  # the last loss that is a number
    gradient_at: int | None = None  # the last norm of the gradients that is a number
    prepares_at: int | None = None  # last
    recovered_at: int | None = None  # last
    finished_at: int | None = None  # first
    last_line: str = ""


def read_end(text: str) -> EndReading:
    """Reads the end of this output."""
    log = _read(LINE_END.split(_STYLING.sub("", text[-MOST_READ:])))
    lasting = [sign for sign in log.signs if not _is_survived(sign, log)]
    sign = _chosen(lasting)
    if sign is not None:
        cause = _cause(sign, log)
        return EndReading(sign.end_class, _state(sign, lasting, log), cause, _retry(sign, cause), sign.line)
    survived = _chosen(log.signs)
    if survived is not None:
        stalled = survived.end_class if survived.rank is Rank.STALL else EndClass.UNKNOWN
        return EndReading(stalled, LogState.ALIVE, UNKNOWN_CAUSE, Retry.SAME, survived.line)
    if ENTERS_A_WAIT.search(log.last_line):
        return EndReading(EndClass.HANG, LogState.HUNG, UNKNOWN_CAUSE, Retry.SAME, log.last_line)
    return EndReading(EndClass.UNKNOWN, LogState.UNKNOWN, UNKNOWN_CAUSE, Retry.SAME)


def _read(lines: Iterable[str]) -> _Log:
    log, output, last_mark = _Log(), OutputReader(), None
    is_code = False  # the line after a place in a traceback
    for place, whole in enumerate(lines):
        line = whole[:_LONGEST_LINE].strip()
        if not line:
            continue
        log.last_line = line
        may_be_nan = "nan" in line.lower()
        reading = output.read(line) if log.signs or may_be_nan else None  # steps count from the first sign on
        is_nan = reading is not None and reading.loss is not None and not math.isfinite(reading.loss)
        if reading is not None and reading.phase == TRAIN and not is_nan:
            mark = (reading.step, reading.epoch, reading.batch)
            if any(mark) and mark != last_mark:
                last_mark = mark
                log.steps.append(place)
        if not is_code or _IS_EXCEPTION.match(line):  # where the source is not at hand, no code stands there
            rule = NAN[0] if is_nan else _rule_of(line)
            if rule is not None:
                log.signs.append(_Sign(rule, line, place, rule.rank))
            elif GRADIENT_IS_NAN.search(line):
                log.signs.append(_Sign(NAN[0], line, place, Rank.LIKELY))
        _note(log, line, place)
        is_code = bool(_IS_CODE.match(line))
    return log


def _note(log: _Log, line: str, place: int) -> None:
    if log.finished_at is None and FINISHED.search(line):
        log.finished_at = place
    if not log.signs:
        return
    if PREPARES_DATA.search(line):
        log.prepares_at = place
    if LOSS_IS_NUMBER.search(line):
        log.loss_at = place
    if GRADIENT_IS_NUMBER.search(line):
        log.gradient_at = place
    if RECOVERED.search(line):
        log.recovered_at = place
    if HANDLES_ANOTHER.search(line) and log.signs[-1].end_class is EndClass.PROGRAM:
        log.signs[-1].rank = min(log.signs[-1].rank, Rank.LIKELY)


def _rule_of(line: str) -> Rule | None:
    if not MAY_MATTER.search(line) or NOISE.search(line):
        return None
    return next((rule for rule in TABLE if rule.pattern.search(line)), None)


def _chosen(signs: Iterable[_Sign]) -> _Sign | None:
    """The first of the highest rank. Who gave up waiting came after what went before, and before what followed."""
    chosen: _Sign | None = None
    for sign in signs:
        if chosen is None:
            chosen = sign
        elif chosen.rank is Rank.WAIT:
            continue
        elif sign.rank is Rank.WAIT:
            chosen = sign if chosen.rank <= Rank.ECHO else chosen
        elif sign.rank > chosen.rank:
            chosen = sign
    return chosen


def _is_survived(sign: _Sign, log: _Log) -> bool:
    """Says whether the run survived a sign.

    After a lost GPU, and after a rank gave up waiting, other ranks may print steps for a while.
    """
    if sign.end_class is EndClass.HARDWARE or sign.rank is Rank.WAIT:
        return False
    if sign.end_class is EndClass.NAN:
        number_at = log.gradient_at if sign.rank is Rank.LIKELY else log.loss_at
        return number_at is not None and number_at > sign.place
    later = len(log.steps) - bisect_right(log.steps, sign.place)
    return later >= _SURVIVED or (sign.rank is Rank.STALL and (later > 0 or _recovered(sign, log)))


def _recovered(sign: _Sign, log: _Log) -> bool:
    return log.recovered_at is not None and log.recovered_at > sign.place


def _state(sign: _Sign, signs: Iterable[_Sign], log: _Log) -> LogState:
    later = [one for one in signs if one.place >= sign.place]
    if any(one.rule.proof is Proof.ENDED for one in later):
        return LogState.DEAD
    if sign.end_class is EndClass.NAN and any(_IS_EXCEPTION.match(one.line) for one in later):
        return LogState.DEAD  # many trainers raise at a loss of NaN; others print it and go on
    if sign.end_class is EndClass.NAN or _recovered(sign, log):
        return LogState.ALIVE
    return LogState.HUNG if any(one.rule.proof is Proof.WAITS for one in later) else LogState.UNKNOWN


def _cause(sign: _Sign, log: _Log) -> str:
    if sign.rank is Rank.WAIT:
        if log.finished_at is not None and log.finished_at <= sign.place:
            return _FINISHED
        if log.prepares_at is not None and log.prepares_at >= sign.place:
            return "a rank was still preparing the data when the others gave up waiting for it"
    cause = sign.rule.cause(sign.line) if sign.rule.cause is not None else None
    return cause or UNKNOWN_CAUSE


def _retry(sign: _Sign, cause: str) -> Retry:
    if sign.rule.retry is not None:
        return sign.rule.retry
    match sign.end_class:
        case EndClass.HARDWARE:
            return Retry.OTHER_VM
        case EndClass.PROGRAM | EndClass.NAN | EndClass.DISK:
            return Retry.NO
        case EndClass.GPU_MEMORY if fills_the_gpu(cause):
            return Retry.NO
    return Retry.NO if cause == _FINISHED else Retry.SAME


_FINISHED = "the training had finished, and at its end not all ranks joined what all must do together"
