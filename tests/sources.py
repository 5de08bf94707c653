"""Reads the parts of a Python file for the rules of the house, parsed and walked once for all of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Function:
    """`lines` is its length, `has_words` says that it has a docstring. `self` and `cls` are no `parameters`.

    `is_surface` says that it is a command, a route of the API or a tool for agents.
    """

    name: str
    line: int
    lines: int
    has_words: bool
    parameters: int
    is_surface: bool


SURFACES = {"command", "delete", "get", "patch", "post", "put"}  # methods that make decorators


@dataclass
class Source:
    """Nodes and texts of one file. `stored` are the names of variables and parameters, with their lines."""

    functions: list[Function] = field(default_factory=list)
    surfaces: set[str] = field(default_factory=set)  # functions handed to a decorator, as in `app.command("ps")(ps)`
    classes: list[str] = field(default_factory=list)
    stored: list[tuple[str, int]] = field(default_factory=list)
    fields: set[tuple[str, int]] = field(default_factory=set)  # of classes, declared by an annotation
    texts: list[tuple[int, str]] = field(default_factory=list)  # but docstrings and `__all__`
    docstrings: list[tuple[int, str]] = field(default_factory=list)


@cache
def source_of(file: Path) -> Source:
    """Raises SyntaxError."""
    source, for_programs = Source(), set[ast.AST]()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Constant(value=str(text)) if node not in for_programs:
                source.texts.append((node.lineno, text))
            case ast.Name(id=name, ctx=ast.Store()):
                source.stored.append((name, node.lineno))
            case ast.arg(arg=name):
                source.stored.append((name, node.lineno))
            case ast.Expr(value=value):
                for_programs.add(value)
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    source.docstrings.append((value.lineno, value.value))
            case ast.Assign(targets=[ast.Name(id="__all__"), *_], value=value):
                for_programs.update(ast.walk(value))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                source.functions.append(_function(node))
            case ast.Call(func=ast.Call() as made, args=[ast.Name(id=name)]) if _makes_a_surface(made):
                source.surfaces.add(name)
            case ast.ClassDef():
                source.classes.append(node.name)
                declared = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                source.fields.update((one.id, one.lineno) for one in declared if isinstance(one, ast.Name))
    return source


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    return Function(
        node.name,
        node.lineno,
        (node.end_lineno or node.lineno) - node.lineno + 1,
        bool(ast.get_docstring(node)),
        sum(one.arg not in ("self", "cls") for one in given),
        any(_makes_a_surface(decorator) for decorator in node.decorator_list) or _takes_the_question(given),
    )


def _takes_the_question(given: list[ast.arg]) -> bool:
    """Says whether this is a tool for agents: its first argument is the question that it answers."""
    return bool(given) and isinstance(given[0].annotation, ast.Name) and given[0].annotation.id == "Asked"


def _makes_a_surface(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in SURFACES
    )
