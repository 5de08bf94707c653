"""Rules of the house that no tool checks: the top folder, lengths, unique class names, tests that state their rule."""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests import docstrings, wording
from tests.sources import source_of

MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
TOP = {
    ".ci",
    ".git",
    ".github",
    ".gitignore",
    ".pre-commit-config.yaml",
    "LICENSE",
    "Makefile",
    "README.md",
    "alembic",
    "deploy",
    "pyproject.toml",
    "requirements-dev.txt",
    "requirements.txt",
    "service",
    "tests",
}
PACKAGES = ("costguard", "costguard_vm", "costguard_client")  # whose texts users read
MOST_MODULES = 30  # in one folder
MODULES_WITH_A_CONTRACT = 8  # in one folder: from here on a contract says which may import which
MOST_LINES_OF_ROOM = 6_000  # of the modules in one folder
MOST_PARAMETERS = 8  # of a function that is no command, route or tool; `self` and `cls` are none
MANY_PARAMETERS: dict[tuple[str, str], int] = {}  # those that may have more: rows may only go
# Folders of tests that concern several rooms.
ACROSS = {
    "audit",
    "benchmarks",
    "browser",
    "deploy",
    "first_hour",
    "gangs",
    "golden",
    "mutants",
    "pipeline",
    "scenario",
    "shards",
    "simulation",
    "trainers",
    "upgrades",
}
LOCKS = {"requirements.txt", "requirements-dev.txt"}
LISTS = {"0100_baseline.py", "example.toml"}  # read by their parts, not from end to end
DATA = {".json", ".csv", ".gz"}  # written and read by programs
GENERATED = (  # by `python -m tests.golden`
    Path("tests/golden/files"),
    Path("service/docs/reference"),
    Path("service/costguard_client/api"),
)


def broken_rules(root: Path) -> list[str]:
    """Lists a sentence for each rule broken, with the file that breaks it."""
    ignored = [line.strip("/") for line in (root / ".gitignore").read_text().splitlines() if line.strip()]
    return [
        *_top(root, ignored),
        *_lengths(root, ignored),
        *_long_functions(root),
        *_many_parameters(root),
        *_crowded_folders(root),
        *_folders_without_a_contract(root),
        *_long_rooms(root),
        *_misplaced_tests(root),
        *_shared_class_names(root),
        *_silent_tests(root),
        *wording.broken_rules(_files(root, ignored), root),
        *(text for name in PACKAGES for text in wording.class_names_in_texts(root / "service" / name)),
        *docstrings.broken_rules([file for file in _python(root) if not _is_generated(file.relative_to(root))], root),
    ]


def _top(root: Path, ignored: list[str]) -> Iterator[str]:
    for entry in sorted(root.iterdir()):
        if entry.name not in TOP and not _matches(entry, ignored):
            yield f"{entry.name}: nothing else stands at the top of the house; move it into service, tests or deploy"


def _lengths(root: Path, ignored: list[str]) -> Iterator[str]:
    for file in _files(root, ignored):
        if file.name in LOCKS | LISTS or file.suffix in DATA or _is_generated(file.relative_to(root)):
            continue
        try:
            lines = file.read_text("utf-8").count("\n")
        except UnicodeDecodeError:
            continue
        if lines > MOST_LINES:
            yield f"{file.relative_to(root)}: {lines} lines; past {MOST_LINES}, split it"


def _is_generated(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in GENERATED)


def _long_functions(root: Path) -> Iterator[str]:
    for file in _python(root):
        for one in source_of(file).functions:
            if one.lines > MOST_LINES_OF_A_FUNCTION:
                yield f"{file.relative_to(root)}:{one.line}: {one.name} has {one.lines} lines; split it"


def _many_parameters(root: Path) -> Iterator[str]:
    most: dict[tuple[str, str], int] = {}  # in each file, by the name of the function
    for file in sorted((root / "service").rglob("*.py")):
        if not _is_generated(file.relative_to(root)):
            source, path = source_of(file), str(file.relative_to(root))
            for one in source.functions:
                if not one.is_surface and one.name not in source.surfaces:
                    most[path, one.name] = max(one.parameters, most.get((path, one.name), 0))
    for (path, name), parameters in most.items():
        allowed = MANY_PARAMETERS.get((path, name), MOST_PARAMETERS)
        if parameters > allowed:
            yield f"{path}: {name} has {parameters} parameters, and {allowed} may be; give it a value that holds some"
    for (path, name), allowed in MANY_PARAMETERS.items():
        now = most.get((path, name), 0)
        if (root / path).exists() and now < allowed:
            yield f"{path}: {name} has {now} parameters and not {allowed}; correct MANY_PARAMETERS of tests/house.py"


def folders_of(root: Path) -> dict[Path, int]:
    """Counts the modules of each folder of the product, without the package's own file."""
    folders = sorted({file.parent for file in (root / "service").rglob("*.py")})
    return {one: sum(file.name != "__init__.py" for file in one.glob("*.py")) for one in folders}


def _crowded_folders(root: Path) -> Iterator[str]:
    for folder, modules in folders_of(root).items():
        name = str(folder.relative_to(root))
        if modules > MOST_MODULES:
            most = f"and {MOST_MODULES} may be; divide it by what they are about"
            yield f"{name}: {modules} modules in one folder, {most}"


def _folders_without_a_contract(root: Path) -> Iterator[str]:
    contracts = [
        contract
        for file in sorted((root / "tests").glob("imports*.toml"))
        for contract in tomllib.loads(file.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    ]
    kept = {container for contract in contracts for container in contract.get("containers", ())}
    for folder, modules in folders_of(root).items():
        name = ".".join(folder.relative_to(root / "service").parts)
        if modules >= MODULES_WITH_A_CONTRACT and name not in kept:
            yield f"{name}: {modules} modules and no contract of their imports; add one to tests/imports_of_rooms.toml"


def _long_rooms(root: Path) -> Iterator[str]:
    lines: Counter[str] = Counter()
    for file in (root / "service").rglob("*.py"):
        if not _is_generated(file.relative_to(root)):
            lines[str(file.parent.relative_to(root))] += len(file.read_text("utf-8").splitlines())
    for name, count in sorted(lines.items()):
        if count > MOST_LINES_OF_ROOM:
            most = f"{MOST_LINES_OF_ROOM:,}"
            yield f"{name}: {count:,} lines in one folder, and {most} may be; divide it by what they are about"


def _misplaced_tests(root: Path) -> Iterator[str]:
    """Tests of a room's files are in the folder of tests with the room's name."""
    packages = [path for path in (root / "service").glob("costguard*") if path.is_dir()]
    rooms = {path.name for package in packages for path in package.iterdir() if path.is_dir()}
    rooms |= {package.name.removeprefix("costguard_") for package in packages}
    for folder in sorted({file.relative_to(root / "tests").parts[0] for file in (root / "tests").rglob("*/test_*.py")}):
        if folder not in rooms | ACROSS:
            yield f"tests/{folder}: there is no room of this name; a room's tests are in the folder with its name"


def _shared_class_names(root: Path) -> Iterator[str]:
    """Finds class names used twice in a package; private ones belong to their file, generated ones to the API."""
    for package in sorted(path for path in (root / "service").iterdir() if path.is_dir()):
        places: dict[str, list[str]] = {}
        for file in sorted(package.rglob("*.py")):
            if _is_generated(file.relative_to(root)):
                continue
            for name in source_of(file).classes:
                if not name.startswith("_"):
                    places.setdefault(name, []).append(str(file.relative_to(root)))
        for name, files in sorted(places.items()):
            if len(files) > 1:
                yield f"{files[-1]}: the class name {name} is taken by {files[0]}; say what this one is"


def _silent_tests(root: Path) -> Iterator[str]:
    for file in sorted((root / "tests").rglob("test_*.py")):
        for one in source_of(file).functions:
            if one.name.startswith("test_") and not one.has_words:
                yield f"{file.relative_to(root)}:{one.line}: {one.name} has no docstring that states its rule"


def _python(root: Path) -> list[Path]:
    return sorted([*(root / "service").rglob("*.py"), *(root / "tests").rglob("*.py")])


def _files(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name == ".git" or entry.is_symlink() or _matches(entry, ignored):
            continue
        if entry.is_dir():
            yield from _files(entry, ignored)
        else:
            yield entry


def _matches(entry: Path, ignored: list[str]) -> bool:
    return any(fnmatch(entry.name, pattern) for pattern in ignored)


if __name__ == "__main__":
    broken = broken_rules(Path(__file__).resolve().parent.parent)
    print(*broken, sep="\n", end="\n" if broken else "")
    sys.exit(bool(broken))
