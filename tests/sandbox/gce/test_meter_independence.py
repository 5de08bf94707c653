"""The meter stands alone: what it, and the simulated catalogue, have in common with the guard, found by program.

Ledger and meter once agreed to the cent because both were wrong in the same way. So both trees are searched for what
they share: code, tables, figures. What is found has to stand in a list here, with the source of each side. What both
take for granted where no outside source decides is in `tests/scenario/test_shared_assumptions.py`.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from costguard_sandbox.gce.catalogue.prices import BASE, Source

SERVICE = Path(__file__).parents[3] / "service"
GUARD, CLOUD = SERVICE / "costguard", SERVICE / "costguard_sandbox"
# Written where a figure or a name is: that Google, or a record of what Google said, is where it comes from.
NAMES_A_SOURCE = ("Google", "Cloud Billing", "Catalog", "catalogue", "recorded", "machineTypes", "discovery")
SMALLEST_TABLE = 4


@dataclass(frozen=True)
class Shared:
    """A literal table that both trees hold, by its constants; `why` is what makes it a fact of the outside world."""

    constants: frozenset[str]
    why: str


SHARED_TABLES = (
    Shared(
        frozenset("a2 a3 a4 c2 c2d c3 c3d c4 c4d g2 g4 h3 h4d n2 n2d".split()),  # noqa: SIM905 - a list of words
        "the machine series of Google's page 'Placement policies overview', which take a compact placement",
    ),
    Shared(
        frozenset({"micro", "small", "medium", "1", "2", "4"}),
        "E2 shared-core types bill 0.25, 0.5 and 1 vCPU: Google's price page says so, recorded rows show the last",
    ),
    Shared(
        frozenset({"a3-megagpu-", "a3plus", "a3-ultragpu-", "a3ultra"}),
        "the Cloud Billing Catalog's own words for the hosts of A3 Mega and A3 Ultra",
    ),
    Shared(
        frozenset({"g4-standard-6", "g4-standard-12", "g4-standard-24", "1", "2", "4"}),
        "an eighth, a quarter and half of a GPU, as machineTypes.list has the small G4 types, each sold by eighths",
    ),
    Shared(
        frozenset({"n1", "n2", "n2d", "13", "2", "8"}),
        "Google's price page: custom memory above 6.5 GiB a vCPU of N1, 8 of N2 and N2D, is extended",
    ),
    Shared(
        frozenset({"1", "2", "3", "st", "nd", "rd"}),
        "how English writes 1st, 2nd and 3rd; no money hangs on it",
    ),
    Shared(
        frozenset({"s", "m", "h", "d", "w", "1", "60", "3600", "86400", "604800"}),
        "how people write durations in settings and scenarios; no money hangs on it",
    ),
)

# Every figure in the meter, and what it is. Units and days are definitions; the rest is Google's.
FIGURES: Mapping[int, str] = {
    0: "nothing",
    1: "one",
    2: "half a core, two eighths, and the 2 of 2**30",
    4: "a quarter of a core, four eighths",
    8: "GiB a vCPU of N2 and N2D at the ordinary price of custom memory: Google's price page",
    9: "nano-dollars are scaled by nine digits",
    12: "months of a year",
    13: "halves of a GiB a vCPU of N1 at that price: the same page says 6.5",
    30: "2**30 bytes are a GiB: Google's price page",
    60: "digits that are kept while a row is cut",
    256: "months that are remembered",
    1024: "MiB of a GiB",
    3600: "seconds of an hour",
}
# Hours, seconds and days of an average month: what Google's calculators show, and its bills never use.
NEVER_IN_THE_METER = {730, 720, 744, 730 * 3600, 30 * 24 * 3600, 30.4375, 365, 365.25}


def sources(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(root.rglob("*.py")):
        yield file, ast.parse(file.read_text("utf-8"))


def constants(node: ast.AST) -> list[str]:
    return [
        str(one.value)
        for one in ast.walk(node)
        if isinstance(one, ast.Constant)
        and isinstance(one.value, str | int | float)
        and not isinstance(one.value, bool)
    ]


@dataclass(frozen=True)
class Tree:
    """A tree's parts to compare; `tables` by their constants in order, `imports` with the file of each."""

    tables: Mapping[tuple[str, ...], list[tuple[Path, int]]]
    imports: list[tuple[Path, str]]


@cache
def searched(root: Path) -> Tree:
    """Every literal dictionary, set, tuple and list with a few constants in it, no ASGI messages; and every import."""
    literals: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    imports: list[tuple[Path, str]] = []
    for file, tree in sources(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict | ast.Set | ast.Tuple | ast.List):
                held = constants(node)
                if len(held) >= SMALLEST_TABLE and not any(text.startswith("http.response.") for text in held):
                    literals[tuple(sorted(held))].append((file, node.lineno))
            imports += [(file, module) for module in modules_of(node)]
    return Tree(literals, imports)


def modules_of(node: ast.AST) -> list[str]:
    """Returns its imports, be it by a call."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        return constants(node)
    return []


@cache
def shared_tables() -> dict[frozenset[str], list[tuple[Path, int]]]:
    guards, clouds = searched(GUARD).tables, searched(CLOUD).tables
    return {frozenset(held): guards[held] + clouds[held] for held in guards.keys() & clouds.keys()}


def names_a_source(file: Path) -> bool:
    """Says whether a comment or docstring of the file says where its facts come from."""
    text = file.read_text("utf-8")
    said = [line for line in text.splitlines() if "#" in line or line.strip().startswith(('"""', '"'))]
    said += [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
    ]
    return any(word in line for line in said for word in NAMES_A_SOURCE)


def test_neither_tree_imports_the_other() -> None:
    """No import is hidden inside a function or by name."""
    for root, other in ((GUARD, "costguard_sandbox"), (CLOUD, "costguard")):
        imports = searched(root).imports
        assert len(imports) > 100
        assert [(file, module) for file, module in imports if module.partition(".")[0] == other] == []


def test_shared_tables_are_those_listed() -> None:
    """A table that appears in both trees has been copied, or is a fact that belongs on the list."""
    in_both = set(shared_tables())
    listed = {shared.constants for shared in SHARED_TABLES}
    assert in_both - listed == set()
    assert listed - in_both == set(), "no longer shared: take it off the list"


def test_each_side_of_a_shared_fact_names_its_own_source() -> None:
    """Except durations and ordinal numbers, which are no facts of the outside world: the file of each side says where it has it from."""
    of_words = {shared.constants for shared in SHARED_TABLES[-2:]}
    places = [place for held, locations in shared_tables().items() if held not in of_words for place in locations]
    assert [f"{file.name}:{line}" for file, line in places if not names_a_source(file)] == []
    assert len(places) >= 2 * (len(SHARED_TABLES) - 2)


def test_every_figure_of_the_meter_is_declared() -> None:
    """Definitions and Google's figures, each said here; a new one has to be said, too."""
    figures = {
        node.value
        for _, tree in sources(CLOUD / "gce" / "meter")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    }
    assert figures - FIGURES.keys() == set()
    assert FIGURES.keys() - figures == set(), "no longer in the meter"


def test_meter_knows_no_average_month() -> None:
    """730 hours, or 30 days, in whatever product they are written."""
    for file, tree in sources(CLOUD / "gce" / "meter"):
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp) and not any(isinstance(one, ast.Name) for one in ast.walk(node)):
                value = eval(compile(ast.Expression(node), str(file), "eval"), {"__builtins__": {}})
                assert value not in NEVER_IN_THE_METER, (file, node.lineno)
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
                assert node.value not in NEVER_IN_THE_METER, (file, node.lineno)


@pytest.mark.parametrize("file", sorted((CLOUD / "gce" / "meter").glob("*.py")), ids=lambda file: str(file.name))
def test_every_module_of_the_meter_names_its_source(file: Path) -> None:
    """A rule of Google's says where Google says so, or which recorded row shows it."""
    assert names_a_source(file)


def test_meter_reads_nothing_of_the_cloud_but_prices_time_and_vms() -> None:
    """The meter knows what each VM was and when, and the price list: nothing from the API's answers."""
    allowed = {
        "costguard_sandbox.gce.catalogue.prices",
        "costguard_sandbox.clock",
        "costguard_sandbox.gce.vm",
        "costguard_sandbox.gce.tpus",
        "costguard_sandbox.gce.vertex.resources",
        "costguard_sandbox.gce.catalogue.machine_types",
        "costguard_sandbox.gce.catalogue.vertex_prices",
    }
    for file, tree in sources(CLOUD / "gce" / "meter"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("costguard"):
                assert node.module in allowed or str(node.module).startswith("costguard_sandbox.gce.meter"), file


def test_prices_that_both_have_come_with_sources_of_their_own() -> None:
    """The shipped snapshot and the simulated list name a source for each figure, in words of their own."""
    snapshot = tomllib.loads((GUARD / "gce" / "price_snapshot.toml").read_text("utf-8"))
    assert snapshot["sources"]
    assert all(isinstance(price.source, Source) for price in BASE.values())
    guards, clouds = {str(text) for text in snapshot["sources"].values()}, {source.value for source in Source}
    assert guards & clouds == set()
