"""Check what can be checked of the project's style: layers, sizes, names, mirrored tests, paths.

Run it from anywhere: `python3 tests/tidy.py [ROOT]`. Prints one line per violation and exits with 1
if there is any.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILE_LINES = 500
MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70

# Sources that need no mirrored test of their own, each with the reason.
NO_MIRRORED_TEST: dict[str, str] = {}

# folder: (our folders it may include from, prefixes of outside headers that have a folder).
# The longest folder that fits a file counts; None allows everything outside.
BELOW = ("absl/", "fmt/", "nlohmann/", "sys/", "linux/", "asm/", "bits/")
TEST = (*BELOW, "catch2/", "benchmark/")
LAYERS: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]] = {
    "allocator": (("allocator",), ("absl/", "fmt/", "sys/", "linux/", "asm/", "bits/")),
    "remat": (("allocator", "remat"), BELOW),
    "cuda": (("allocator", "cuda"), (*BELOW, "cuda/", "cooperative_groups/", "cub/", "thrust/")),
    "remat/trace": (("allocator", "remat/lineage", "remat/trace"), BELOW),
    "bindings": (("allocator", "remat", "cuda", "bindings"), None),
    "bindings/torch": (("allocator", "remat", "bindings/torch"), None),
    "bindings/torch_cuda": (
        ("allocator", "remat", "cuda", "bindings/torch", "bindings/torch_cuda"), None),
    "bindings/preload": (("bindings/preload",), ("sys/", "linux/", "asm/", "bits/")),
    "tests": (("allocator", "remat", "cuda", "tests"), TEST),
    "tests/allocator": (("allocator", "tests/support", "tests/allocator"), TEST),
    "tests/remat": (("allocator", "remat", "tests/support", "tests/remat"), TEST),
    "tests/cuda": (("allocator", "cuda", "tests/support", "tests/cuda"), TEST),
    "tests/sim": (("allocator", "remat", "tests/support", "tests/sim"), TEST),
    "tests/support/fake_cuda": (("tests/support/fake_cuda",), TEST),
    "tests/support/fake_cuda/watch": (("tests/support/fake_cuda",), (*TEST, "ATen/", "c10/")),
    "tests/support/value_kernels": (("allocator", "tests/support/value_kernels"), None),
    "tests/standin": (("tests/support", "tests/standin"), TEST),
    "tests/bench": (("allocator", "remat", "bench", "tests/support", "tests/remat/trace",
                     "tests/bench"), TEST),
    "tests/bindings": (("allocator", "remat", "bindings", "tests/support"), TEST),
    "tests/fuzz": (("allocator", "remat", "bindings", "bench"), TEST),
    "tests/cases": (("tests/cases",), None),
    "tests/programs": (("tests/programs",), None),
    "tests/install": (("allocator", "remat"), None),
    "tests/limits": (("tests/limits",), None),
    "tests/mutants": (("tests/mutants",), None),
    "bench/torch": (("bench",), None),
    "bench": (("allocator", "remat", "cuda", "tests/support", "tests/sim", "bench"), TEST),
}
# The folders within a folder, the lowest first: each may include those before it. "." stands for
# the files that lie directly in the outer folder.
WITHIN: dict[str, tuple[str, ...]] = {
    "allocator": ("base", "locks", "space", "streams", "blocks", "heap", "arena", "search", "."),
    "remat": ("lineage", "tier", "steps", "policies", "residency", "restore", ".", "trace",
              "record", "simulate", "plan", "replay"),
    "remat/policies": (".", "baselines", "table"),
    "remat/trace": ("text", "."),
    "remat/simulate": ("memory", "job", "."),
    "remat/plan": ("chain", "search", "background", "follow", "."),
    "cuda": ("driver", "kernels", "streams", "space", "."),
    "bindings/torch": ("base", "state", "storage", "calls", "engine", "intercept", "plugin"),
    "bindings/torch/intercept": ("operands", "."),
    "bindings/torch_cuda": ("memory", "."),
}
for outer, inner in WITHIN.items():
    layer = max((f for f in LAYERS if f"{outer}/".startswith(f"{f}/")), key=len)
    ours, outside = LAYERS[layer]
    below = tuple(f for f in ours if f != outer)
    paths = tuple(f"{outer}/{each}" for each in inner)
    for k, path in enumerate(paths):
        if path.endswith("/.") or path not in LAYERS:
            LAYERS[path.removesuffix("/.")] = (below + paths[:k + 1], outside)
# The one namespace of each layer, in which its inner folders are, too; more may be nested in it.
# Neither `cuda` nor `torch`, which would hide the names of the frameworks' own.
NAMESPACES = {
    "allocator": "tidepool",
    "remat": "tidepool::remat",
    "cuda": "tidepool::device",
    "bindings/torch": "tidepool::torch_glue",
    "bindings/torch_cpu": "tidepool::torch_cpu",
    "bindings/torch_cuda": "tidepool::torch_cuda",
    "bindings/pluggable": "tidepool::pluggable",
    "bindings/cpp": "tidepool::cpp",
    "bindings/cpp/include": "tidepool",  # what users write
}
PACKAGE = "bindings/python/tidepool"
KNOW_FRAMEWORKS = {"cuda", "bindings", "bindings/torch_cuda", "bindings/torch_cuda/memory",
                   "tests/cuda", "tests/cases", "tests/limits",
                   "tests/programs", "tests/support/fake_cuda", "tests/support/value_kernels",
                   "bench/torch"}
FRAMEWORKS = ("cuda", "nvml", "cublas", "cudnn", "Python.h")  # in files without a folder

CPP = {".h", ".c", ".cpp", ".cu", ".cuh"}
SIZED = CPP | {".py"}
NARROW = SIZED | {".cmake", ".sh"}
NARROW_NAMES = {"CMakeLists.txt", "dev", "run"}
TEXT = NARROW | {".md", ".toml", ".json", ".txt", ".yml", ".yaml", ".cfg"}
NAMED_SOURCES = CPP | {".py", ".md", ".cmake"}  # suffixes by which a document names a file of ours
TOP_FOLDERS = {"allocator", "remat", "cuda", "bindings", "tests", "bench", "docs", "cmake", ".ci"}
USERS_FILES = {"train.py", "script.py"}  # what documents call a user's own file
SKIPPED_FOLDERS = {".git", "build", "dist", "__pycache__", ".cache", ".pytest_cache", "lib"}
FORBIDDEN = re.compile(r"(?<![\w.~$}-])/(?:" + "|".join(("work", "root")) + r")/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SNAKE_CASE = re.compile(r"_{0,2}[a-z0-9]+(_[a-z0-9]+)*_{0,2}(\.[a-z0-9]+)*")
CPP_NOISE = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
NOT_A_FUNCTION = re.compile(r"^(?:template\s*<.*>\s*)?(?:typedef\s+)?(?:inline\s+)?"
                            r"(?:namespace|class|struct|union|enum|extern)\b", re.DOTALL)

NAMESPACE = re.compile(r"^namespace (tidepool[\w:]*) \{(.*?)^\}", re.DOTALL | re.MULTILINE)

Violation = tuple[str, int, str]  # path, line (0: the whole file), what is wrong


def repository_files(root: Path) -> list[str]:
    """Return the relative paths of the files that are ours, sorted."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith(".venv")]
        found += [Path(folder, f).relative_to(root).as_posix() for f in files]
    return sorted(found)


def starts_within(path: str, folder: str) -> bool:
    """Return whether a path lies in a folder, or directly in one whose name ends with "/."."""
    if folder.endswith("/."):
        return path.rpartition("/")[0] == folder[:-2]
    return path.startswith(folder + "/")


def line_of(text: str, offset: int) -> int:
    """Return the 1-based line of an offset."""
    return text.count("\n", 0, offset) + 1


def check_layers(root: Path, path: str, text: str) -> Iterator[Violation]:
    """Includes go down the layers and start at the root; PyTorch and CUDA stay where allowed."""
    layer = max((f for f in LAYERS if starts_within(path, f)), key=len, default=None)
    if layer is None:
        return
    ours, outside = LAYERS[layer]
    for match in INCLUDE.finditer(text):
        quote, header = match.groups()
        line = line_of(text, match.start(2))
        top = header.split("/")[0]
        if quote == '"' and outside is None and not (root / header).exists():
            continue  # generated
        if top in TOP_FOLDERS and (quote == '"' or (root / header).exists()):
            if not any(starts_within(header, f) for f in ours):
                yield path, line, f'{layer} must not include "{header}"'
            elif not (root / header).exists():
                yield path, line, f'"{header}" does not exist'
        elif quote == '"' and not header.startswith(outside or TEST):
            yield path, line, f'include "{header}" by its path from the repository\'s root'
        elif outside is not None and "/" in header and not header.startswith(outside):
            yield path, line, f"{layer} must not include <{header}>"
        elif layer not in KNOW_FRAMEWORKS and header.startswith(FRAMEWORKS):
            yield path, line, f"{layer} must not include <{header}>"


def check_namespaces(path: str, text: str) -> Iterator[Violation]:
    """What a layer defines is in the layer's namespace; what it only declares may be another's."""
    layer = max((f for f in NAMESPACES if starts_within(path, f)), key=len, default=None)
    if layer is None:
        return
    expected = NAMESPACES[layer]
    others = {each for each in NAMESPACES.values() if not expected.startswith(each)}
    for match in NAMESPACE.finditer(without_noise(text)):
        name, body = match.groups()
        nested = name.startswith(expected + "::") and not any(map(name.startswith, others))
        declares = re.fullmatch(r"\s*((class|struct|enum class) [\w: ]+;\s*)+", body)
        if name != expected and not nested and not declares:
            yield path, line_of(text, match.start()), f"namespace {name}; {layer} has {expected}"


def without_noise(text: str) -> str:
    """Blank out comments, literals and preprocessor lines of C++, keeping the lines."""
    return CPP_NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def cpp_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (name, first line, last line) of each function.

    A heuristic: an outermost braced body after a parameter list, found by counting braces and
    looking at the words before an opening one.
    """
    clean = without_noise(text)
    start = 0  # of the statement under way
    stack: list[tuple[str, int] | None] = []  # per open brace: the function it opens, if it does
    inside = False
    for match in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", clean):
        token = match.group()
        if token == "{":
            header = clean[start:match.start()].strip()
            opens = not inside and "(" in header and not NOT_A_FUNCTION.match(header)
            if opens:
                name = re.search(r"([\w~:]+)\s*\(", header)
                first = match.start() - len(clean[start:match.start()].lstrip())
                stack.append((name.group(1) if name else "lambda", line_of(clean, first)))
                inside = True
            else:
                stack.append(None)
        elif token == "}" and stack:
            opened = stack.pop()
            if opened:
                yield *opened, line_of(clean, match.start())
                inside = False
        start = match.end()


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (name, first line, last line) of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def check_sizes(path: str, text: str) -> Iterator[Violation]:
    """Files, lines and functions are short."""
    suffix = Path(path).suffix
    lines = text.splitlines()
    if suffix in SIZED and len(lines) > MAX_FILE_LINES:
        yield path, 0, f"{len(lines)} lines; at most {MAX_FILE_LINES}"
    if suffix in NARROW or Path(path).name in NARROW_NAMES:
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS and "http" not in line:
                yield path, number, f"{len(line)} columns; at most {MAX_COLUMNS}"
    functions: Iterator[tuple[str, int, int]] = iter(())
    if suffix in CPP:
        functions = cpp_functions(text)
    elif suffix == ".py":
        try:
            functions = iter(list(python_functions(text)))
        except SyntaxError as error:
            yield path, error.lineno or 0, f"not Python: {error.msg}"
    for name, first, last in functions:
        if last - first + 1 > MAX_FUNCTION_LINES:
            count = last - first + 1
            yield path, first, f"{name} has {count} lines; at most {MAX_FUNCTION_LINES}"


def imported_modules(path: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield (path without its suffix, line) of each module that relative imports may name."""
    folder = Path(path).parent
    try:
        tree = ast.parse(text)
    except SyntaxError:  # which check_sizes() reports
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folder.joinpath(*[".."] * (node.level - 1), *(node.module or "").split("."))
            for found in (base, *(base / alias.name for alias in node.names)):
                yield os.path.normpath(found), node.lineno


def check_import_cycles(modules: dict[str, str]) -> Iterator[Violation]:
    """Modules of a Python package import each other in one direction, those in functions, too.

    Args:
        modules: their texts by path.
    """
    imports = {path: [(f"{module}.py", line) for module, line in imported_modules(path, text)
                      if f"{module}.py" in modules]
               for path, text in modules.items()}
    finished: set[str] = set()

    def visit(path: str, above: tuple[str, ...]) -> Iterator[Violation]:
        for module, line in imports[path]:
            if module in above:
                yield path, line, f"imports {module}, which imports it"
            elif module not in finished:
                yield from visit(module, (*above, module))
        finished.add(path)

    for path in sorted(modules):
        if path not in finished:
            yield from visit(path, (path,))


def check_name(path: str) -> Iterator[Violation]:
    """Sources and their folders have snake_case names."""
    if Path(path).suffix in NARROW:
        for part in Path(path).parts:
            if not part.startswith(".") and not SNAKE_CASE.fullmatch(part):
                yield path, 0, f"'{part}' is not snake_case"


def check_mirrored_tests(files: list[str]) -> Iterator[Violation]:
    """Every x.h with an x.cpp below bindings/ has its tests/…/x_test.cpp."""
    there = set(files)
    for path in files:
        stem, suffix = os.path.splitext(path)
        if not path.startswith(("allocator/", "remat/", "cuda/")) or suffix != ".h":
            continue
        test = f"tests/{stem}_test.cpp"
        needed = stem + ".cpp" in there and test not in there
        if needed and path not in NO_MIRRORED_TEST:
            yield path, 0, f"has no {test}"
        if not needed and path in NO_MIRRORED_TEST:
            yield path, 0, "is exempt from a mirrored test in tests/tidy.py, but need not be"


def named_path_exists(root: Path, files: list[str], name: str) -> bool:
    """Return whether what a document names is no path of ours, or exists."""
    name = name.split("#")[0].removeprefix("./")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", name) or name in USERS_FILES:
        return True
    if "/" in name:
        top = name.split("/")[0]
        built = starts_within(name, "bindings/python/tidepool/lib")
        return top not in TOP_FOLDERS or built or (root / name).exists()
    if Path(name).suffix not in NAMED_SOURCES or name.startswith("."):
        return True
    return any(path.rsplit("/", 1)[-1] == name for path in files)


def check_document(root: Path, files: list[str], path: str, text: str) -> Iterator[Violation]:
    """Paths of ours that a document names exist, fenced code aside."""
    text = re.sub(r"^```.*?^```", lambda m: "\n" * m.group().count("\n"), text,
                  flags=re.DOTALL | re.MULTILINE)
    for match in re.finditer(r"`([^`\n]+)`", text):
        if not named_path_exists(root, files, match.group(1)):
            yield path, line_of(text, match.start()), f"{match.group(1)} does not exist"
    for match in re.finditer(r"\]\(([^)\s]+)\)", text):
        target = match.group(1).split("#")[0]
        if target and ":" not in target and not (root / path).parent.joinpath(target).exists():
            yield path, line_of(text, match.start()), f"link to {target}, which does not exist"


def check_forbidden(path: str, text: str) -> Iterator[Violation]:
    """No file names a folder of the machine it was written on."""
    for match in FORBIDDEN.finditer(text):
        yield path, line_of(text, match.start()), f"names a machine's folder: {match.group()}"


def check(root: Path) -> list[Violation]:
    """Return all violations in a source tree."""
    files = repository_files(root)
    found = list(check_mirrored_tests(files))
    package = (path for path in files if starts_within(path, PACKAGE) and path.endswith(".py"))
    found += check_import_cycles({path: (root / path).read_text("utf-8") for path in package})
    for path in files:
        if Path(path).suffix not in TEXT and Path(path).name not in NARROW_NAMES:
            continue
        text = (root / path).read_text(encoding="utf-8")
        found += check_name(path)
        found += check_sizes(path, text)
        found += check_forbidden(path, text)
        if Path(path).suffix in CPP:
            found += check_layers(root, path, text)
            found += check_namespaces(path, text)
        if Path(path).suffix == ".md":
            found += check_document(root, files, path, text)
    return sorted(found)


def main() -> int:
    """Check the tree given, or this one, and print what is wrong with it."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root.parents[1] if root.is_file() else root
    violations = check(root)
    for path, line, message in violations:
        print(f"{path}:{line}: {message}" if line else f"{path}: {message}")
    print(f"tidy: {len(violations)} violations" if violations else "tidy: clean")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
