"""The one file that travels."""

from __future__ import annotations

import ast
import io
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from costguard_vm.bundle import TYPES, bundle

ROOT = Path(__file__).parents[2]
METADATA_LIMIT = 256 << 10  # of one value: https://cloud.google.com/compute/docs/metadata/overview


def sources() -> dict[str, str]:
    """The modules in the file, and the two by which it begins."""
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        words = zlib.decompress(archive.read("modules")).decode("ascii").split("\0")
        begins = {name: archive.read(name).decode("ascii") for name in archive.namelist() if name.endswith(".py")}
    return {
        **begins,
        **{f"{name.replace('.', '/')}.py": text for name, text in zip(words[::2], words[1::2], strict=True)},
    }


def test_python_3_8_reads_it() -> None:
    """Older Deep Learning images bring no newer one. Nothing but ASCII, whatever the VM's locale is."""
    for name, text in sources().items():
        ast.parse(text, name, feature_version=(3, 8))


def test_python_3_8_has_all_that_it_uses(tmp_path: Path) -> None:
    """The bundle uses no module, function or argument that is newer than the language, by vermin's tables, written by
    others.
    """
    for name, text in sources().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    vermin = [
        str(Path(sys.executable).with_name("vermin")),
        "-t=3.8-",
        "--no-tips",
        "--no-parse-comments",
        "--violations",
    ]
    done = subprocess.run([*vermin, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_python_3_8_subscripts_what_is_subscripted() -> None:
    """`list[str]` and `Callable[...]` of collections.abc fail there, but in annotations, which nobody evaluates."""
    for name, text in sources().items():
        tree = ast.parse(text)
        late = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "collections.abc"
            for alias in node.names
        }
        late |= {"list", "dict", "tuple", "set", "frozenset", "type"}
        for node in ast.walk(tree):
            for field in ("annotation", "returns"):
                if hasattr(node, field):
                    setattr(node, field, None)
        subscripted = {
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in late
        }
        assert not subscripted, name


def test_it_needs_the_standard_library_alone() -> None:
    """The bundle's own modules all travel with it."""
    files = sources()
    for text in files.values():
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                path = name.replace(".", "/")
                assert name.split(".")[0] in sys.stdlib_module_names or files.keys() & {
                    f"{path}.py",
                    f"{path}/__init__.py",
                }, name


def test_it_runs_where_costguard_is_not_installed(tmp_path: Path) -> None:
    """Every module of the file is imported from it by a Python that finds nothing else."""
    (tmp_path / "agent.pyz").write_bytes(bundle())
    names = [name[:-3].replace("/", ".").removesuffix(".__init__") for name in sources() if name != "__main__.py"]
    script = f"import sys; sys.path.insert(0, 'agent.pyz')\nfor name in {names}: __import__(name)"
    subprocess.run([sys.executable, "-I", "-S", "-c", script], cwd=tmp_path, check=True)


def test_it_carries_the_guards_own_rules() -> None:
    """A checkpoint on a VM's disk is judged by the very sources that judge one in a bucket."""
    files = sources()
    layouts = sorted((ROOT / "service/costguard_vm/checkpoints/layouts").glob("*.py"))
    assert len(layouts) > 10
    for source in [*layouts, ROOT / "service/costguard_vm/checkpoints/judge.py"]:
        carried = ast.parse(files[str(source.relative_to(ROOT / "service"))])
        assert program(carried) == program(ast.parse(source.read_text()))


def program(tree: ast.Module) -> list[tuple[str, int]]:
    """Returns the program's statements, with the number of each one's line; without docstrings and types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in TYPES:
            node.names = []
        for field in ("annotation", "returns"):
            if hasattr(node, field):
                setattr(node, field, None)
    return [
        (ast.dump(node), node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.arg | ast.alias) and not isinstance(node, ast.Constant)
    ]


def test_the_same_sources_make_the_same_file() -> None:
    """The sum can be compared between guards, whatever order their sets have.

    In base64 the file fits into one value of a VM's metadata, with room.

    All values together may have 512 KiB (cloud.google.com/compute/docs/metadata/setting-custom-metadata, Limitations):
    a job's own settings have 200, so that 208 of this file leave 104 for the boot script, which has 4.
    """
    make = "import sys; from costguard_vm.bundle import bundle; sys.stdout.buffer.write(bundle())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "service"), "PYTHONHASHSEED": "77"}
    made = subprocess.run([sys.executable, "-c", make], capture_output=True, check=True, env=environment)
    assert made.stdout == bundle()
    assert len(bundle()) * 4 / 3 < METADATA_LIMIT * 13 / 16


def test_the_runner_loads_nothing_of_http(tmp_path: Path) -> None:
    """It lives next to every command: so it takes a third less of the VM's memory, and starts the command sooner."""
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(bundle())
    ask = "import sys; sys.path.insert(0, sys.argv[1]); import costguard_vm.agent.runner; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", ask, str(agent)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "costguard_vm.agent.runner" in loaded
    assert loaded & {"http.client", "ssl", "urllib.request"} == set()


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13", "3.14"])
def test_other_versions_of_python_read_its_stream(tmp_path: Path, version: str) -> None:
    """Every module is imported by each Python that is installed here, and a traceback names its file and line."""
    python = next((path for path in _pythons(version) if _is_version(path, version)), None)
    if python is None:
        pytest.skip(f"Python {version} is not installed here")
    (tmp_path / "agent.pyz").write_bytes(bundle())
    names = [name[:-3].replace("/", ".").removesuffix(".__init__") for name in sources() if name != "__main__.py"]
    script = f"""import sys; sys.path.insert(0, "agent.pyz")
for name in {names}: __import__(name)
sys.modules["costguard_vm.agent.settings"].read_settings("[]")"""
    done = subprocess.run([python, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = (ROOT / "service/costguard_vm/agent/settings.py").read_text("utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "is not a JSON object" in text)
    assert f'"agent.pyz/costguard_vm/agent/settings.py", line {line}' in done.stderr


def _pythons(version: str) -> list[str]:
    installed = sorted(str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    return [*installed, *([on_path] if on_path else [])]


def _is_version(path: str, version: str) -> bool:
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version
