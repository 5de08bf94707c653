"""The one file that travels."""

from __future__ import annotations

import ast
import io
import sys
import zipfile

from costguard.agent.bundle import bundle


def sources() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        return {name: archive.read(name).decode("ascii") for name in archive.namelist()}


def test_python_3_8_reads_it() -> None:
    """Older Deep Learning images bring no newer one. Nothing but ASCII, whatever the VM's locale is."""
    for name, text in sources().items():
        ast.parse(text, name, feature_version=(3, 8))


def test_it_needs_the_standard_library_alone() -> None:
    """And its own modules, by relative imports."""
    for text in sources().values():
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names | {"costguard_agent"}, name


def test_the_same_sources_make_the_same_file() -> None:
    """So its sum can be compared between guards."""
    assert bundle() == bundle()
    assert len(bundle()) < 48 << 10
