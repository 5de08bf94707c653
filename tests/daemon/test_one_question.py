"""A question that may hang: who waits for it, and for how long."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from costguard.daemon.health import OneQuestion, Unanswered

PATIENCE = 30.0
SOON = timedelta(milliseconds=50)


def test_answers_and_errors_come_through() -> None:
    """The caller gets what the question returns or raises, each time again."""
    question = OneQuestion[int](timedelta(seconds=PATIENCE))
    answers = iter([1, 2])
    assert [question.ask(lambda: next(answers)) for _ in range(2)] == [1, 2]

    def fail() -> int:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        question.ask(fail)
    assert question.ask(lambda: 3) == 3


def test_callers_share_one_question() -> None:
    """Twenty ask while one question is open: it is begun once, and all have its answer."""
    question = OneQuestion[int](timedelta(seconds=PATIENCE))
    begun, go_on, answers = threading.Semaphore(0), threading.Event(), []

    def answer() -> int:
        begun.release()
        assert go_on.wait(PATIENCE)
        return 7

    threads = [threading.Thread(target=lambda: answers.append(question.ask(answer))) for _ in range(20)]
    threads[0].start()
    assert begun.acquire(timeout=PATIENCE)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert answers == [7] * 20


def test_silence_is_told_in_time_and_ends_with_an_answer() -> None:
    """The caller that begun waits its time; later ones get the failure at once; an answer ends it for all."""
    now = 100.0
    question = OneQuestion[int](SOON, lambda: now)
    go_on = threading.Event()

    def hang() -> int:
        assert go_on.wait(PATIENCE)
        return 1

    with pytest.raises(Unanswered):
        question.ask(hang)
    now = 107.0
    with pytest.raises(Unanswered) as late:
        question.ask(hang)
    assert late.value.seconds == 7
    go_on.set()
    patient = OneQuestion[int](timedelta(seconds=PATIENCE))
    assert patient.ask(hang) == 1


def test_only_one_caller_waits_for_each_try_while_nothing_answers() -> None:
    """The next question is begun by one caller after a failure; callers meanwhile have the last failure at once."""
    question = OneQuestion[int](timedelta(seconds=PATIENCE))
    begun, go_on = threading.Semaphore(0), threading.Event()

    def fail() -> int:
        raise KeyError("first")

    def hang() -> int:
        begun.release()
        assert go_on.wait(PATIENCE)
        return 1

    with pytest.raises(KeyError):
        question.ask(fail)
    waiting = threading.Thread(target=lambda: question.ask(hang))
    waiting.start()
    assert begun.acquire(timeout=PATIENCE)
    with pytest.raises(KeyError, match="first"):
        question.ask(hang)
    go_on.set()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
