"""What generated code of torch.compile does: read from its text, before it first runs.

A graph's code is a straight line of calls: kernels in C++ (CPU) or in Triton's language (CUDA),
whose text says which of their arguments they write; operators of PyTorch's; and what makes memory
and views of it. Code with anything else in it is not understood, and `read` says what that was.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterator
from typing import Any, NamedTuple


class Unknown(Exception):
    """The code has something in it of which it is not known what it does."""


class Kind(enum.Enum):
    """Where something that a graph returns comes from."""

    INPUT = "input"  # it is an input
    INPUT_VIEW = "view of an input"
    FRESH = "fresh"  # it is, or shows, memory that the graph has made
    FRESH_VIEW = "view of fresh"  # it shows memory that an earlier result shows
    SAME = "same"  # it is the same object as an earlier result
    OTHER = "other"  # it is no tensor


class Result(NamedTuple):
    """One of the values that a graph returns."""

    kind: Kind
    place: int = 0  # of the input; or among the FRESH results; of SAME: among all results


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
    seeds: tuple[Seeds, ...]  # in the order of the draws; none if others draw, too
    operators: tuple[str, ...]  # aten::mm.out
    drawing: tuple[str, ...]  # of these, those that draw from the default generator
    varies: bool  # its results may have other bits the next time


# Operators by the names that generated code has for them.
_EXTERNAL = {"mm": "aten::mm.out", "addmm": "aten::addmm.out", "bmm": "aten::bmm.out",
             "baddbmm": "aten::baddbmm.out", "convolution": "aten::convolution"}
_DRAW = "aten.randint.low_out"
_CHECKS = ("assert_size_stride", "assert_size_stride_grouped", "assert_tensor_metadata",
           "assert_alignment")
_ALLOCATE = "empty_strided_"  # and the device
_REINTERPRET = "reinterpret_tensor"
_ALIGN = "copy_if_misaligned"  # mostly hands its argument on
# Around a graph's code for CUDA, and in it: they say where it runs.
_GUARD = "torch.cuda._DeviceGuard"
_WHERE = ("torch.cuda.set_device", "get_raw_stream")
_SHAPES = ("size", "stride", "storage_offset")
# Additions by several threads to one number, in the order in which they come.
_UNORDERED = "atomic_add"
# Of Triton's language, by what launches them. Not among them are those of the job's own, those
# whose programs wait for each other, and templates, which pass pointers on.
_LAUNCHERS = ("pointwise", "reduction", "persistent_reduction", "foreach")
# With it a convolution adds in any order on CUDA; with another one than zero attention draws.
_SWITCH, _PROBABILITY = "transposed", "dropout_p"
# Of Triton's language: their order shows in what comes out, or in what other programs wait for.
_UNORDERED_CALLS = ("atomic", "grid_barrier", "lookback")
_NUMBERS = re.compile(r"constexpr|[iu]\d+|fp\d+")  # parameters that are no pointers
# What was loaded or computed, and is no place in a loop. A store there may meet another one.
_VALUE = re.compile(r"\btmp\w*")
_STORE = re.compile(r"out_ptr\w*\s*\[([^;=]*)\]\s*=[^=]|store\(\s*\w*out_ptr\w*\s*\+([^;]*)")
# Names that stand for no tensor, beside those of sizes, which the code gives itself.
_GLOBALS = ("torch", "inf", "nan", "math", "device", "aten", "extern_kernels")


def read(source: str, torch, device: str = "cpu") -> GraphCode:
    """Return what generated code does.

    Args:
        device: what it runs on, "cpu" or "cuda".

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
    return _Reader(_kernels(module, device), torch, device).read(functions[0])


class _Kernel(NamedTuple):
    writes: tuple[bool, ...]  # by argument
    varies: bool
    least: int = 0  # arguments that a call has; 0: all


def _kernels(module: ast.Module, device: str) -> dict[str, _Kernel]:
    """Return the kernels by the names by which they are called."""
    if device == "cpu":
        return {name: _cpp_kernel(types, text)
                for name, types, text in _made_by("cpp_pybinding", module)}
    found = {f"{name}.run": _triton_kernel(text) for name, _, text in _made_by("triton", module)}
    return {name: kernel for name, kernel in found.items() if kernel is not None}


def _made_by(maker: str, module: ast.Module) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names of kernels that are made in one way, each with what its maker is given."""
    for node in module.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
                and ast.unparse(node.value.func) == f"async_compile.{maker}"
                and isinstance(node.targets[0], ast.Name) and len(node.value.args) == 2):
            continue
        try:
            first, second = map(ast.literal_eval, node.value.args)
        except ValueError:
            continue  # a call of it is unknown then
        yield node.targets[0].id, first, second


def _triton_kernel(text: str) -> _Kernel | None:
    """Return what a kernel in Triton's language does; None if that is not known.

    Its parameters that are pointers come first, and each call gives it all of these. One is read,
    and not written, if all that the kernel does with it is to load from it, and neither its name
    nor what the compiler notes of it says otherwise.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    launched = [(node, decorator) for node in module.body if isinstance(node, ast.FunctionDef)
                for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    if len(launched) != 1:
        return None
    function, decorator = launched[0]
    prefix, _, launcher = ast.unparse(decorator.func).rpartition(".")
    types = _noted(decorator, "triton_meta", "signature")
    mutated = _noted(decorator, "inductor_meta", "mutated_arg_names")
    if (prefix != "triton_heuristics" or launcher not in _LAUNCHERS
            or not isinstance(types, dict) or not isinstance(mutated, list)):
        return None
    names = [each.arg for each in function.args.args]
    pointers = [name for name in names if str(types.get(name, "")).startswith("*")]
    if pointers != names[:len(pointers)]:
        return None
    loads = _Loads(set(pointers))
    for statement in function.body:
        loads.visit(statement)
    writes = tuple(name in loads.others or name in mutated or not name.startswith("in_ptr")
                   for name in pointers)
    others = [str(kind) for name, kind in types.items() if name not in pointers]
    if not set(mutated) <= set(pointers) or not all(map(_NUMBERS.fullmatch, others)):
        return None  # descriptors of tensors
    code = "\n".join(ast.unparse(statement) for node in module.body
                     if isinstance(node, ast.FunctionDef) for statement in node.body)
    varies = loads.stores_anywhere or any(name in code for name in _UNORDERED_CALLS)
    return _Kernel(writes + (False,) * (len(names) - len(pointers)), varies, len(pointers))


def _noted(decorator: ast.Call, about: str, key: str) -> object:
    """Return one of the things that the compiler notes of a kernel; None without it."""
    for keyword in decorator.keywords:
        if keyword.arg != about or not isinstance(keyword.value, ast.Dict):
            continue
        for name, value in zip(keyword.value.keys, keyword.value.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                try:
                    return ast.literal_eval(value)
                except ValueError:
                    return None
    return None


class _Loads(ast.NodeVisitor):
    """Finds the names that stand elsewhere than in the address of a load."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self.others: set[str] = set()
        self.stores_anywhere = False  # at places that values say

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        rest: list[ast.AST] = [*node.args, *node.keywords]
        if called == "tl.load" and node.args:
            # A sum in which the name stands; what other calls in it are given is another matter.
            rest[:1] = [each for each in ast.walk(node.args[0]) if isinstance(each, ast.Call)]
        else:
            self.visit(node.func)
        if called == "tl.store" and node.args:
            self.stores_anywhere |= _VALUE.search(ast.unparse(node.args[0])) is not None
        for each in rest:
            self.visit(each)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._names:
            self.others.add(node.id)


def _cpp_kernel(types: list[str], text: str) -> _Kernel:
    """Return what a kernel in C++ does, by the types of its parameters and its text."""
    return _Kernel(tuple("*" in kind and not kind.startswith("const ") for kind in types),
                   _UNORDERED in text or _stores_anywhere(text))


def _stores_anywhere(text: str) -> bool:
    """Return whether a kernel in C++ stores at places that values say."""
    for found in _STORE.finditer(text):
        place = found.group(1) if found.group(1) is not None else _first_argument(found.group(2))
        if _VALUE.search(place):
            return True
    return False


def _first_argument(text: str) -> str:
    """Return what stands before the comma or the parenthesis that ends a call's first argument."""
    depth = 0
    for place, letter in enumerate(text):
        if letter in ",)" and depth == 0:
            return text[:place]
        depth += (letter in "([{<") - (letter in ")]}>")
    return text


# What a name stands for: an input, or memory that the graph has made. Numbers have none.
_Origin = tuple[str, object]


class _Reader:
    """Goes through one function once."""

    def __init__(self, kernels: dict[str, _Kernel], torch, device: str) -> None:
        self._kernels = kernels
        self._torch, self._device = torch, device
        self._names: dict[str, _Origin | None] = {}
        self._inputs: set[str] = set()  # names that stand for inputs, not for views of them
        self._written: set[int] = set()
        self._seeds: list[Seeds] = []
        self._operators: set[str] = set()
        self._drawing: set[str] = set()
        self._varies = False
        self._made = 0

    def read(self, function: ast.FunctionDef) -> GraphCode:
        arguments = function.args.args[-1].arg
        inputs = 0
        for statement in self._on_device(function.body[:-1]):
            if (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)
                    and statement.value.id == arguments):
                inputs = self._take_inputs(statement.targets[0])
            elif ast.unparse(statement) != f"{arguments}.clear()":
                self._statement(statement)
        last = function.body[-1]
        if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
            raise Unknown("an end that returns no tuple")
        results = self._results(last.value.elts)
        seeds = () if self._drawing else tuple(self._seeds)
        return GraphCode(inputs, tuple(sorted(self._written)), results, seeds,
                         tuple(sorted(self._operators)), tuple(sorted(self._drawing)),
                         self._varies)

    def _on_device(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements with those in their place that run on the one device of the graph."""
        guards = [each for each in body if isinstance(each, ast.With)]
        if self._device == "cpu":
            return body
        if len(guards) != 1 or len(guards[0].items) != 1:
            raise Unknown(f"{len(guards)} devices")
        guard = guards[0].items[0]
        if (not isinstance(guard.context_expr, ast.Call) or guard.optional_vars is not None
                or ast.unparse(guard.context_expr.func) != _GUARD):
            raise Unknown(_first_line(guards[0]))
        place = body.index(guards[0])
        return body[:place] + guards[0].body + body[place + 1:]

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
            is_input = _aligned_name(statement.value) in self._inputs
            self._names[name] = self._value(statement.value)
            (self._inputs.add if is_input else self._inputs.discard)(name)
        else:
            raise Unknown(_first_line(statement))

    def _value(self, node: ast.expr) -> _Origin | None:
        """Return what an expression stands for, and note what computing it does."""
        if isinstance(node, ast.Name):
            if node.id not in self._names and node.id not in _GLOBALS:
                raise Unknown("a constant")  # a tensor that the job may write, and no operand
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
        if name in _CHECKS or (self._device != "cpu" and name in _WHERE):
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES and not node.args:
            return None
        arguments = [self._value(each) for each in node.args]
        by_name = {str(each.arg): self._value(each.value) for each in node.keywords}
        if name in (_REINTERPRET, _ALIGN):
            return arguments[0]
        if name == _ALLOCATE + self._device:
            return self._fresh()
        if name == _DRAW:
            self._draw(node)
            return None
        if kernel := self._kernels.get(name):
            self._varies |= kernel.varies
            least = kernel.least or len(kernel.writes)
            if not least <= len(arguments) <= len(kernel.writes):
                raise Unknown(f"a call of {name}")
            for origin, writes in zip(arguments, kernel.writes, strict=False):
                if writes:
                    self._write(origin)
            return None
        return self._operator(node, name, arguments, by_name)

    def _operator(self, node: ast.Call, name: str, arguments: list[_Origin | None],
                  by_name: dict[str, _Origin | None]) -> _Origin:
        operator = self._named(name)
        self._operators.add(operator)
        schema = _schema(self._torch, operator)
        if schema is None or any(each.alias_info is not None and not each.alias_info.is_write
                                 for each in schema.returns):
            raise Unknown(name)
        if _number_given(node, schema, _PROBABILITY, 0) != 0:
            if self._device == "cpu":
                raise Unknown("an operator that draws")
            self._drawing.add(operator)
        self._varies |= (self._device != "cpu"
                         and _number_given(node, schema, _SWITCH, None) not in (None, 0))
        written = [arguments[place] if place < len(arguments) else by_name.get(argument.name)
                   for place, argument in enumerate(schema.arguments)
                   if argument.alias_info is not None and argument.alias_info.is_write]
        for origin in written:
            self._write(origin)
        returns_it = any(each.alias_info is not None for each in schema.returns)
        return written[0] if written and returns_it and written[0] else self._fresh()

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
        named: dict[str, int] = {}
        for node in nodes:
            origin = self._value(node)
            before = named.setdefault(node.id, len(results)) if isinstance(node, ast.Name) else None
            if origin is not None and before not in (None, len(results)):
                results.append(Result(Kind.SAME, before))
            elif origin is None:
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


def _aligned_name(node: ast.expr) -> str | None:
    """Return the name of what an expression only aligns."""
    if (isinstance(node, ast.Call) and ast.unparse(node.func) == _ALIGN
            and isinstance(node.args[0], ast.Name)):
        return node.args[0].id
    return None


def _number_given(node: ast.Call, schema, name: str, otherwise: object) -> object:
    """Return a number that a call gives an operator; "?" if the text does not say which.

    Returns `otherwise` where the operator has no argument of this name, or is not given it.
    """
    for place, argument in enumerate(schema.arguments):
        if argument.name != name:
            continue
        given = [*node.args[place:place + 1],
                 *(each.value for each in node.keywords if each.arg == name)]
        if given:
            return given[0].value if isinstance(given[0], ast.Constant) else "?"
    return otherwise


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
