"""The agent as the one file that travels to a VM: `python3 agent.pyz`."""

from __future__ import annotations

import ast
import io
import tokenize
import zipfile
from pathlib import Path

STAYS = {"bundle.py"}
# The server's own rules about checkpoints and progress travel too, under the names that they have here.
RULES = (
    "model/checkpoint.py",
    "model/code_archive.py",
    "model/log_pattern.py",
    "model/suspects.py",
    "model/tar_stream.py",
    "progress/alive.py",
    "progress/log_line.py",
    "progress/log_patterns.py",
    "progress/log_reader.py",
    "progress/step_file.py",
    "progress/track.py",
    "checkpoints/folder.py",
    "checkpoints/judge.py",
    "checkpoints/proposals.py",
    "checkpoints/uploads.py",
    "diagnosis/signals.py",
    "diagnosis/stacks.py",
)
LAYOUTS = "checkpoints/layouts"
PACKAGES = (
    "__init__.py",
    "model/__init__.py",
    "checkpoints/__init__.py",
    "progress/__init__.py",
    "diagnosis/__init__.py",
)  # empty: only the names are needed
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same sources make the same file
# Ends at once: Python aborts where a thread still prints something as it ends.
START = b"""import os, sys
if sys.argv[1:2] == ["run"]:
    from costguard_agent.runner import main
else:
    from costguard_agent.main import main
code = main()
sys.stdout.flush()
os._exit(code)
"""


def bundle() -> bytes:
    """A zip that Python runs as it is: this folder's sources, and the rules that travel with them.

    Without comments and docstrings, a fourth of it: a VM's metadata has little room. Lines keep their numbers.
    """
    files = {"__main__.py": START}
    house = Path(__file__).parent.parent
    rules = [*RULES, *(f"{LAYOUTS}/{source.name}" for source in sorted((house / LAYOUTS).glob("*.py")))]
    files.update({f"costguard/{name}": b"" for name in PACKAGES})
    files.update({f"costguard/{name}": without_words((house / name).read_text("utf-8")) for name in rules})
    for source in sorted(Path(__file__).parent.glob("*.py")):
        if source.name not in STAYS:
            files[f"costguard_agent/{source.name}"] = without_words(source.read_text("utf-8"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def without_words(source: str) -> bytes:
    """The same program, line by line: a docstring becomes an empty one, a comment nothing."""
    lines = source.split("\n")
    words = [
        (token.start, token.end, "")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            assert first.end_lineno is not None
            assert first.end_col_offset is not None
            words.append(((first.lineno, first.col_offset), (first.end_lineno, first.end_col_offset), '""'))
    for (begin, column), (end, end_column), instead in sorted(words, reverse=True):
        rest = lines[end - 1][end_column:] if end > begin else ""
        if end == begin:
            lines[begin - 1] = (lines[begin - 1][:column] + instead + lines[begin - 1][end_column:]).rstrip()
        else:
            lines[begin - 1] = lines[begin - 1][:column] + instead
            lines[begin:end] = [""] * (end - begin - 1) + [rest]
    return "\n".join(lines).encode()
