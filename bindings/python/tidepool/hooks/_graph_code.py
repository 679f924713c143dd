"""What generated code of torch.compile does: read from its text, before it first runs.

A graph's code for the CPU is a straight line of calls: kernels in C++, whose text says which of
their arguments they write; operators of PyTorch's; and what makes memory and views of it. Code with
anything else in it is not understood, and `read` says what that was.
"""

from __future__ import annotations

import ast
import enum
from typing import NamedTuple


class Unknown(Exception):
    """The code has something in it of which it is not known what it does."""


class Kind(enum.Enum):
    """Where something that a graph returns comes from."""

    INPUT = "input"  # it is an input
    INPUT_VIEW = "view of an input"
    FRESH = "fresh"  # it is, or shows, memory that the graph has made
    FRESH_VIEW = "view of fresh"  # it shows memory that an earlier result shows
    OTHER = "other"  # it is no tensor


class Result(NamedTuple):
    """One of the values that a graph returns."""

    kind: Kind
    place: int = 0  # of the input; or among the FRESH results


class Seeds(NamedTuple):
    """One draw of seeds from the default generator."""

    low: int
    high: int
    size: tuple[int, ...]


class GraphCode(NamedTuple):
    """What a graph does to its inputs, draws and returns."""

    inputs: int
    written: tuple[int, ...]  # places of inputs
    results: tuple[Result, ...]
    seeds: tuple[Seeds, ...]  # in the order of the draws
    operators: tuple[str, ...]  # aten::mm.out
    varies: bool  # its results may have other bits the next time


# Operators by the names that generated code has for them.
_EXTERNAL = {"mm": "aten::mm.out", "addmm": "aten::addmm.out", "bmm": "aten::bmm.out",
             "baddbmm": "aten::baddbmm.out", "convolution": "aten::convolution"}
_DRAW = "aten.randint.low_out"
_CHECKS = ("assert_size_stride", "assert_size_stride_grouped", "assert_tensor_metadata",
           "assert_alignment")
_ALLOCATE = "empty_strided_cpu"
_REINTERPRET = "reinterpret_tensor"
_SHAPES = ("size", "stride", "storage_offset")
# Additions by several threads to one number, in the order in which they come.
_UNORDERED = "atomic_add"


def read(source: str, torch) -> GraphCode:
    """Return what generated code does.

    Raises:
        Unknown: it has something in it that is not known.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise Unknown("text that is not Python") from error
    functions = [node for node in ast.walk(module)
                 if isinstance(node, ast.FunctionDef) and node.name == "call"]
    if len(functions) != 1:
        raise Unknown(f"{len(functions)} functions that run it")
    return _Reader(_kernels(module), torch).read(functions[0])


class _Kernel(NamedTuple):
    writes: tuple[bool, ...]  # by argument
    varies: bool


def _kernels(module: ast.Module) -> dict[str, _Kernel]:
    """Return the kernels in C++ by name."""
    found = {}
    for node in module.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func) == "async_compile.cpp_pybinding"
                and isinstance(node.targets[0], ast.Name) and len(node.value.args) == 2):
            continue
        try:
            types, text = map(ast.literal_eval, node.value.args)
        except ValueError:
            continue  # a call of it is unknown then
        found[node.targets[0].id] = _Kernel(
            tuple("*" in kind and not kind.startswith("const ") for kind in types),
            _UNORDERED in text)
    return found


# What a name stands for: an input, or memory that the graph has made. Numbers have none.
_Origin = tuple[str, object]


class _Reader:
    """Goes through one function once."""

    def __init__(self, kernels: dict[str, _Kernel], torch) -> None:
        self._kernels = kernels
        self._torch = torch
        self._names: dict[str, _Origin | None] = {}
        self._inputs: set[str] = set()  # names that stand for inputs, not for views of them
        self._written: set[int] = set()
        self._seeds: list[Seeds] = []
        self._operators: set[str] = set()
        self._varies = False
        self._made = 0

    def read(self, function: ast.FunctionDef) -> GraphCode:
        arguments = function.args.args[-1].arg
        inputs = 0
        for statement in function.body[:-1]:
            if (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)
                    and statement.value.id == arguments):
                inputs = self._take_inputs(statement.targets[0])
            elif ast.unparse(statement) != f"{arguments}.clear()":
                self._statement(statement)
        last = function.body[-1]
        if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
            raise Unknown("an end that returns no tuple")
        results = self._results(last.value.elts)
        return GraphCode(inputs, tuple(sorted(self._written)), results, tuple(self._seeds),
                         tuple(sorted(self._operators)), self._varies)

    def _take_inputs(self, target: ast.expr) -> int:
        names = target.elts if isinstance(target, ast.Tuple) else []
        for place, name in enumerate(names):
            self._names[_name(name)] = ("input", place)
            self._inputs.add(_name(name))
        return len(names)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Delete):
            return
        if isinstance(statement, ast.Expr):
            self._value(statement.value)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            name = _name(statement.targets[0])
            self._names[name] = self._value(statement.value)
            self._inputs.discard(name)
        else:
            raise Unknown(_first_line(statement))

    def _value(self, node: ast.expr) -> _Origin | None:
        """Return what an expression stands for, and note what computing it does."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            origin = self._value(node.value)
            return origin and (origin[0], (origin[1], ast.unparse(node.slice)))
        if isinstance(node, ast.Attribute):  # torch.float32
            if self._value(node.value) is None:
                return None
            raise Unknown(_first_line(node))
        for child in ast.iter_child_nodes(node):  # a list, a tuple, or an expression of numbers
            if isinstance(child, ast.expr):
                self._value(child)
        return None

    def _call(self, node: ast.Call) -> _Origin | None:
        name = ast.unparse(node.func)
        if name in _CHECKS:
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES and not node.args:
            return None
        arguments = [self._value(each) for each in node.args]
        by_name = {str(each.arg): self._value(each.value) for each in node.keywords}
        if name == _REINTERPRET:
            return arguments[0]
        if name == _ALLOCATE:
            return self._fresh()
        if name == _DRAW:
            self._draw(node)
            return None
        if kernel := self._kernels.get(name):
            self._varies |= kernel.varies
            if len(arguments) != len(kernel.writes):
                raise Unknown(f"a call of {name}")
            for origin, writes in zip(arguments, kernel.writes, strict=True):
                if writes:
                    self._write(origin)
            return None
        return self._operator(name, arguments, by_name)

    def _operator(self, name: str, arguments: list[_Origin | None],
                  by_name: dict[str, _Origin | None]) -> _Origin:
        operator = self._named(name)
        self._operators.add(operator)
        schema = _schema(self._torch, operator)
        if schema is None or any(each.alias_info is not None and not each.alias_info.is_write
                                 for each in schema.returns):
            raise Unknown(name)
        for place, argument in enumerate(schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            origin = (arguments[place] if place < len(arguments)
                      else by_name.get(argument.name))
            self._write(origin)
            if any(each.alias_info is not None for each in schema.returns):
                return origin or self._fresh()
        return self._fresh()

    def _named(self, name: str) -> str:
        if name.startswith("extern_kernels."):
            if known := _EXTERNAL.get(name.removeprefix("extern_kernels.")):
                return known
            raise Unknown(name)
        parts = name.removeprefix("torch.ops.").split(".")
        if len(parts) != 3 or parts[0] != "aten":
            raise Unknown(name)
        return f"aten::{parts[1]}" + ("" if parts[2] == "default" else f".{parts[2]}")

    def _draw(self, node: ast.Call) -> None:
        try:
            low, high, size = map(ast.literal_eval, node.args)
        except ValueError as error:
            raise Unknown("seeds whose number varies") from error
        self._seeds.append(Seeds(low, high, tuple(size)))

    def _fresh(self) -> _Origin:
        self._made += 1
        return "fresh", self._made

    def _write(self, origin: _Origin | None) -> None:
        if origin is None:
            raise Unknown("a write to something that is no tensor")
        if origin[0] == "input":
            self._written.add(_place(origin))

    def _results(self, nodes: list[ast.expr]) -> tuple[Result, ...]:
        results: list[Result] = []
        fresh: dict[object, int] = {}
        for node in nodes:
            origin = self._value(node)
            if origin is None:
                results.append(Result(Kind.OTHER))
            elif origin[0] == "input":
                whole = isinstance(node, ast.Name) and node.id in self._inputs
                results.append(Result(Kind.INPUT if whole else Kind.INPUT_VIEW, _place(origin)))
            elif origin in fresh:
                results.append(Result(Kind.FRESH_VIEW, fresh[origin]))
            else:
                fresh[origin] = len(fresh)
                results.append(Result(Kind.FRESH, fresh[origin]))
        return tuple(results)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    raise Unknown(_first_line(node))


def _place(origin: _Origin) -> int:
    if isinstance(origin[1], int):
        return origin[1]
    raise Unknown("a part of an input")


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:80]


def _schema(torch, operator: str):
    name, _, overload = operator.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, overload or "default", None)
    return found._schema if found is not None else None
