"""The agent as the one file that travels to a VM: `python3 agent.pyz`."""

from __future__ import annotations

import ast
import io
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

Place = tuple[int, int]  # a line from 1, and a column from 0
PACKAGE = Path(__file__).parent
BEGINS = ("agent/main.py", "agent/runner.py")  # what `START` imports
TYPES = ("typing", "collections.abc")  # modules of names that are in annotations, mostly
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources make the same file
# Ends at once: Python aborts where a thread still prints something as it ends.
START = b"""import os, sys
if sys.argv[1:2] == ["run"]:
    from costguard_vm.agent.runner import main
else:
    from costguard_vm.agent.main import main
code = main()
sys.stdout.flush()
os._exit(code)
"""


# The package in the file: all its modules in one stream, which packs a quarter better than a stream for each.
PACKAGE_START = b"""import importlib.abc, importlib.util, os, sys, zlib
class Packed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def __init__(self, folder, texts):
        self.folder, self.texts = folder, texts
    def find_spec(self, fullname, path=None, target=None):
        is_here = fullname in self.texts or self.is_package(fullname)
        return importlib.util.spec_from_loader(fullname, self) if is_here else None
    def is_package(self, fullname):
        return fullname + ".__init__" in self.texts
    def get_source(self, fullname):
        return self.texts[fullname + ".__init__" if self.is_package(fullname) else fullname]
    def get_code(self, fullname):
        name = os.path.join(self.folder, *fullname.split("."))
        name += os.sep + "__init__.py" if self.is_package(fullname) else ".py"
        return compile(self.get_source(fullname), name, "exec", dont_inherit=True)
def pieces():
    folder = os.path.dirname(os.path.dirname(__file__))
    words = zlib.decompress(__loader__.get_data(os.path.join(folder, "modules"))).decode().split("\\0")
    sys.meta_path.insert(0, Packed(folder, dict(zip(words[::2], words[1::2]))))
pieces()
"""


@cache  # it takes more than half a second, and a process's sources stay as they are
def bundle() -> bytes:
    """Returns a zip that Python runs as it is: the agent's sources, and those of this package that they import."""
    modules = {
        name: text for name, text in texts().items() if name not in ("__main__.py", f"{PACKAGE.name}/__init__.py")
    }
    words = [word for name, text in modules.items() for word in (name[: -len(".py")].replace("/", "."), text.decode())]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", EPOCH), START, zipfile.ZIP_DEFLATED)
        name = f"{PACKAGE.name}/__init__.py"
        archive.writestr(zipfile.ZipInfo(name, EPOCH), PACKAGE_START, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("modules", EPOCH), zlib.compress("\0".join(words).encode(), 9))
    return packed.getvalue()


@cache
def texts() -> dict[str, bytes]:
    """The files that travel, by their names in an archive that Python runs.

    Without comments, docstrings and the types of arguments, a third of it: a VM's metadata has little room. Lines keep
    their numbers.
    """
    named = {f"{PACKAGE.name}/{source.relative_to(PACKAGE).as_posix()}": one for source, one in sources().items()}
    return {"__main__.py": START, **{name: without_words(*one) for name, one in sorted(named.items())}}


def sources() -> dict[Path, tuple[str, list[ast.AST]]]:
    """The text of each file of this package that travels, with all nodes of its tree: found by following imports.

    The nodes are listed once, for that takes longer than all that is read in them.
    """
    travelling: dict[Path, tuple[str, list[ast.AST]]] = {}
    waiting = [PACKAGE / name for name in BEGINS]
    while waiting:
        source = waiting.pop()
        if source not in travelling:
            text = source.read_text("utf-8")
            nodes = list(ast.walk(ast.parse(text)))
            travelling[source] = text, nodes
            waiting.extend(_imported_by(source, nodes))
    return travelling


def _imported_by(source: Path, nodes: Iterable[ast.AST]) -> Iterator[Path]:
    """The files of this package that one file imports, and the packages that lead to them and to itself."""
    for folder in (source.parent, *source.parent.parents):
        if PACKAGE not in (folder, *folder.parents):
            break
        yield folder / "__init__.py"
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _file_of(alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                package = source.parents[node.level - 1].relative_to(PACKAGE.parent)
                module = ".".join([*package.parts, *([module] if module else [])])
            yield from _file_of(module)
            for alias in node.names:
                yield from _file_of(f"{module}.{alias.name}")


def _file_of(module: str) -> Iterator[Path]:
    """The file of a module of this package; nothing where it is another's, or a name inside a module."""
    if module.split(".")[0] == PACKAGE.name:
        path = PACKAGE.parent.joinpath(*module.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                yield file


def without_words(source: str, nodes: Sequence[ast.AST]) -> bytes:
    """The same program, line by line: without docstrings, comments and the types of arguments.

    `nodes` are all those of its tree.
    """
    lines = source.split("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    words = [(token.start, token.end, "") for token in tokens if token.type == tokenize.COMMENT]
    within = {
        number
        for token in tokens
        if token.type == tokenize.STRING
        for number in range(token.start[0] + 1, token.end[0] + 1)
    }
    types = list(_types(nodes, tokens))
    words += [(begin, end, "") for begin, end in types]
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            assert first.end_lineno is not None
            assert first.end_col_offset is not None
            instead = "" if len(node.body) > 1 else '""'
            words.append(((first.lineno, first.col_offset), (first.end_lineno, first.end_col_offset), instead))
    for (begin, column), (end, end_column), instead in sorted(words, reverse=True):
        rest = lines[end - 1][end_column:] if end > begin else ""
        if end == begin:
            lines[begin - 1] = (lines[begin - 1][:column] + instead + lines[begin - 1][end_column:]).rstrip()
        else:
            lines[begin - 1] = (lines[begin - 1][:column] + instead).rstrip()
            lines[begin:end] = [""] * (end - begin - 1) + [rest]
    names = _names(tokens, types)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in TYPES and node.col_offset == 0:
            _name_what_is_used(node, lines, names)
    return "\n".join(_narrow(lines, within)).encode()


def _types(nodes: Sequence[ast.AST], tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[Place, Place]]:
    """The places of annotations that no program reads: of arguments, of what is returned, and of variables outside
    classes, whose fields a NamedTuple is made of. What is spread over several lines stays.
    """
    arrows = [token.start for token in tokens if token.string == "->"]
    fields = {id(node) for one in nodes if isinstance(one, ast.ClassDef) for node in one.body}
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            place = (node.lineno, node.col_offset + len(node.arg)), _end(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            line, column = max(arrow for arrow in arrows if arrow < (node.returns.lineno, node.returns.col_offset))
            place = (line, column - 1), _end(node.returns)
        elif isinstance(node, ast.AnnAssign) and node.value is not None and id(node) not in fields:
            place = _end(node.target), _end(node.annotation)
        else:
            continue
        if place[0][0] == place[1][0]:
            yield place


def _names(tokens: list[tokenize.TokenInfo], types: list[tuple[Place, Place]]) -> Counter[str]:
    """Counts each name of the program outside these places of types."""
    of_line: dict[int, list[tuple[Place, Place]]] = {}
    for begin, end in types:
        of_line.setdefault(begin[0], []).append((begin, end))
    return Counter(
        token.string
        for token in tokens
        if token.type == tokenize.NAME
        and not any(begin <= token.start < end for begin, end in of_line.get(token.start[0], ()))
    )


def _name_what_is_used(node: ast.ImportFrom, lines: list[str], names: Counter[str]) -> None:
    """Changes the lines of an import of types, so that it has only those that something names still."""
    assert node.end_lineno is not None
    used = [alias.name for alias in node.names if names[alias.name] > 1]
    text = f"from {node.module} import {', '.join(used)}" if used else ""
    lines[node.lineno - 1 : node.end_lineno] = [text, *[""] * (node.end_lineno - node.lineno)]


def _end(node: ast.expr) -> Place:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _narrow(lines: list[str], within: Collection[int]) -> Iterator[str]:
    """Yields the lines, indented by one space for four: text that repeats less.

    `within` are the numbers of those that begin within a string, and stay as they are; the first line's is 1.
    """
    for number, line in enumerate(lines, 1):
        text = line.lstrip(" ")
        yield line if number in within else " " * ((len(line) - len(text)) // 4) + text
