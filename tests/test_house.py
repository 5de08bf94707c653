"""The rules of the house catch what they are for."""

from __future__ import annotations

from pathlib import Path

from tests.house import broken_rules


def test_broken_rules_are_named(tmp_path: Path) -> None:
    """A stray file at the top, a file too long and a test that does not say its rule are each told with their place."""
    (tmp_path / ".gitignore").write_text("/build/\n__pycache__/\n")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "long.py").write_text("\n" * 500)
    (tmp_path / "requirements.txt").write_text("\n" * 500)
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "long.py").write_text("\n" * 401)
    (tmp_path / "service" / "full.py").write_text("\n" * 400)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_mute.py").write_text('def test_a():\n    "says"\n\ndef test_b():\n    pass\n')
    assert broken_rules(tmp_path) == [
        "notes.txt: nothing else stands at the top of the house; move it into service, tests or deploy",
        "service/long.py: 401 lines; past 400, split it",
        "tests/test_mute.py:4: test_b has no docstring that states its rule",
    ]
