"""The house rules of shardviz, each with a test that its check can fail."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "shardviz"
HEAVY = {"torch", "numpy", "matplotlib", "ipywidgets", "ipyparallel"}
SCREEN = {"torch", "matplotlib", "ipywidgets", "anywidget", "traitlets", "ipyparallel", "IPython"}
# What torch says of tensors, and where the recorder touches it: nothing else knows a private name of torch.
PRIVATE_TORCH = {"shardviz.tensors.reported", "shardviz.tensors.seams"}

# What stands higher uses what stands lower, never back. The map (`shardviz` itself) names everything, so only the
# parts that people meet first may use it.
FLOORS = {
    "core": 0,
    "tensors": 1,
    "picture": 1,
    "ranks": 2,
    "record": 2,
    "checks": 3,
    "bench": 4,
    "widgets": 4,
    "lessons": 4,
    "cli": 4,
    "__main__": 4,
    "": 4,
}


@dataclass(frozen=True)
class Module:
    """One source file, by its dotted name."""

    name: str
    tree: ast.Module
    is_package: bool

    @property
    def part(self) -> str:
        return [*self.name.split("."), ""][1]


def read(root: Path) -> list[Module]:
    """Every module under the folder of a package."""
    return [module_of(path.read_text(), path.relative_to(root.parent)) for path in sorted(root.rglob("*.py"))]


@cache
def ours() -> list[Module]:
    return read(PACKAGE)


def module_of(source: str, path: Path | str) -> Module:
    parts = Path(path).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Module(".".join(parts[:-1] if is_package else parts), ast.parse(source), is_package)


def imports(module: Module) -> Iterator[tuple[str, str]]:
    """Everything a module imports, inside functions too: `(module, name)`, the name empty where a module is imported whole."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.name.split(".")
                parents = parents[: len(parents) - node.level + module.is_package]
                base = ".".join([*parents, *filter(None, [node.module])])
            yield from ((base, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield from (
                (arg.value, "") for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            )


def upward(modules: list[Module]) -> list[str]:
    """Imports from a higher floor, and modules that stand on none."""
    names = {module.name for module in modules}
    wrong = []
    for module in modules:
        if module.part not in FLOORS:
            wrong.append(f"{module.name} stands on no floor: add {module.part!r} to FLOORS")
            continue
        if module.name == "shardviz":
            continue
        for base, name in imports(module):
            target = f"{base}.{name}" if f"{base}.{name}" in names or base == "shardviz" else base
            if target.split(".")[0] != "shardviz":
                continue
            part = [*target.split("."), ""][1]
            part = part if part in {m.part for m in modules} else ""  # a name of the map, not a module
            if FLOORS.get(part, 0) > FLOORS[module.part]:
                wrong.append(f"{module.name} imports {target}, from a higher floor")
    return wrong


def private_torch(modules: list[Module]) -> list[str]:
    """Private names of torch outside the two files that may touch them."""
    wrong = []
    for module in modules:
        if module.name in PRIVATE_TORCH:
            continue
        known = {}  # local name → the torch module it stands for
        found = set()
        for base, name in imports(module):
            if base.split(".")[0] == "torch":
                found.add(f"{base}.{name}".rstrip("."))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                base = getattr(node, "module", None)
                for alias in node.names:
                    full = f"{base}.{alias.name}" if base else alias.name
                    if full.split(".")[0] == "torch":
                        known[alias.asname or (alias.name if base else "torch")] = full if alias.asname or base else "torch"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute):
                first, *rest = ast.unparse(node).split(".")
                if first in known:
                    found.add(".".join([known[first], *rest]))
        for name in sorted(found):
            if any(part.startswith("_") and not part.startswith("__") for part in name.split(".")):
                wrong.append(f"{module.name} uses {name}")
    return wrong


def shadowed(modules: list[Module]) -> list[str]:
    """Names that a package offers and that a module beside it has too: after its first use, such a name is the module."""
    wrong = []
    for package in (module for module in modules if module.is_package):
        beside = {m.name.rpartition(".")[2] for m in modules if m.name.rpartition(".")[0] == package.name}
        offered = set()
        for node in package.tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    offered.add(name)
                case ast.ImportFrom(module=base):
                    whole = {f"{base}.{alias.name}": alias.asname or alias.name for alias in node.names}
                    offered |= {name for full, name in whole.items() if full not in {m.name for m in modules}}
                case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple() as value):
                    offered |= {item.value for item in value.elts if isinstance(item, ast.Constant)}
        wrong += [f"{package.name} offers {name!r} beside a module of that name" for name in sorted(offered & beside)]
    return wrong


def in_fresh_interpreter(program: str, path: Path = PACKAGE.parent) -> str:
    """What a program prints in an interpreter of its own."""
    run = subprocess.run([sys.executable, "-c", program], cwd=path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def imported_by(names: list[str], path: Path = PACKAGE.parent) -> set[str]:
    """The top-level packages that are loaded after these modules were imported, in a fresh interpreter."""
    program = (
        f"import sys, json, importlib\nfor name in {names!r}: importlib.import_module(name)\nprint(json.dumps([*sys.modules]))"
    )
    return {name.split(".")[0] for name in json.loads(in_fresh_interpreter(program, path))}


RESOLVE = """
import importlib, json, types
package = importlib.import_module({name!r})
first = {{name: getattr(package, name) for name in package.__all__}}
second = {{name: getattr(package, name) for name in package.__all__}}
print(json.dumps([
    name for name in package.__all__ if first[name] is not second[name] or isinstance(second[name], types.ModuleType)
]))
"""


def changing_names(name: str, path: Path = PACKAGE.parent) -> list[str]:
    """Public names of a package that are something else, or a module, when they are looked up a second time."""
    return json.loads(in_fresh_interpreter(RESOLVE.format(name=name), path))


def package(root: Path, files: dict[str, str]) -> Path:
    """A small package on disk, for the tests of the checks."""
    for name, source in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return root


# The rules.


def test_importing_shardviz_is_light():
    assert not imported_by(["shardviz"]) & HEAVY


def test_the_core_runs_where_torch_and_screens_do_not_exist():
    core = [module.name for module in ours() if module.part == "core"]
    assert "shardviz.core.layout" in core
    assert not imported_by(core) & (SCREEN | HEAVY)


def test_imports_flow_one_way():
    assert upward(ours()) == []


def test_private_names_of_torch_stay_in_two_files():
    assert private_torch(ours()) == []


def test_no_public_name_hides_a_module():
    assert shadowed(ours()) == []


def test_drawing_takes_facts_and_never_tensors():
    users = {m.name for m in ours() if m.part == "picture" for base, _ in imports(m) if base.split(".")[0] == "torch"}
    assert users == set()


def test_figures_never_touch_pyplot():
    users = {m.name for m in ours() for base, name in imports(m) if "pyplot" in (*base.split("."), name)}
    assert users == set()


def test_every_public_name_stays_what_it_is():
    assert changing_names("shardviz") == []


def test_public_names_are_offered_for_completion():
    assert (
        json.loads(in_fresh_interpreter("import shardviz, json; print(json.dumps([*{*shardviz.__all__} - {*dir(shardviz)}]))"))
        == []
    )


# The checks can fail.


def test_heavy_imports_would_be_seen(tmp_path):
    package(tmp_path, {"light.py": "import json", "heavy.py": "import light, numpy"})
    assert not imported_by(["light"], tmp_path) & HEAVY
    assert imported_by(["heavy"], tmp_path) & HEAVY == {"numpy"}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shardviz/core/bad.py", "import shardviz.picture.scene"),
        ("shardviz/core/bad.py", "from shardviz.picture.scene import Scene"),
        ("shardviz/core/bad.py", "from shardviz.picture import scene"),
        ("shardviz/core/bad.py", "from shardviz import picture"),
        ("shardviz/core/bad.py", "import shardviz as sv"),
        ("shardviz/core/bad.py", "from shardviz import layout"),
        ("shardviz/core/bad.py", "from ..picture import scene"),
        ("shardviz/core/bad.py", "def f():\n    from shardviz.picture.scene import Scene"),
        ("shardviz/core/bad.py", "import importlib\nimportlib.import_module('shardviz.picture.scene')"),
        ("shardviz/core/__init__.py", "from ..picture import scene"),
        ("shardviz/picture/bad.py", "from shardviz.ranks.cluster import Ranks"),
        ("shardviz/ranks/bad.py", "import shardviz.widgets.explorer"),
        ("shardviz/attic/bad.py", "import json"),
    ],
)
def test_an_import_from_a_higher_floor_would_be_seen(path, source):
    house = [
        module_of("", f"shardviz/{name}.py") for name in ("picture/scene", "ranks/cluster", "widgets/explorer", "__init__")
    ]
    assert upward(house) == []
    assert len(upward([*house, module_of(source, path)])) == 1


def test_imports_downwards_and_on_the_same_floor_are_allowed():
    scene = module_of("from shardviz.core.layout import layout\nfrom . import theme", "shardviz/picture/scene.py")
    house = [scene, module_of("", "shardviz/core/layout.py"), module_of("", "shardviz/picture/theme.py")]
    assert upward(house) == []
    assert upward([*house, module_of("from shardviz import __version__", "shardviz/cli.py")]) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch.distributed.tensor._utils",
        "from torch.distributed.tensor._utils import compute_local_shape_and_global_offset",
        "from torch.distributed.tensor import _utils",
        "from torch.distributed.tensor.placement_types import _StridedShard",
        "from torch.testing._internal.common_utils import TestCase",
        "def f():\n    from torch.distributed import _functional_collectives as funcol",
        "import torch\nx = torch._C",
        "import torch.distributed as dist\ndist._broadcast_coalesced()",
        "from torch import distributed\ndistributed.tensor._api.f()",
        "import importlib\nimportlib.import_module('torch.distributed.tensor._utils')",
    ],
)
def test_a_private_name_of_torch_would_be_seen(source):
    assert len(private_torch([module_of(source, "shardviz/tensors/other.py")])) >= 1
    assert private_torch([module_of(source, "shardviz/tensors/reported.py")]) == []


def test_public_and_special_names_of_torch_are_allowed():
    source = "import torch\nfrom torch.distributed.tensor import DTensor\ntorch.__version__\nx = object()\nx._private\n"
    assert private_torch([module_of(source, "shardviz/ranks/good.py")]) == []


@pytest.mark.parametrize(
    "source", ["def layout(): ...", "from shardviz.core.layout import layout", "__all__ = ['layout']", "class layout: ..."]
)
def test_a_name_that_hides_a_module_would_be_seen(source):
    beside = module_of("", "shardviz/core/layout.py")
    assert shadowed([module_of(source, "shardviz/core/__init__.py"), beside]) == [
        "shardviz.core offers 'layout' beside a module of that name"
    ]
    assert shadowed([module_of(source, "shardviz/__init__.py"), beside]) == []
    assert shadowed([module_of("from shardviz.core import layout", "shardviz/core/__init__.py"), beside]) == []


def test_a_name_that_changes_would_be_seen(tmp_path):
    lazy = "def __getattr__(name):\n    from house.layout import layout\n    return layout\n__all__ = ['layout']\n"
    package(tmp_path, {"house/__init__.py": lazy, "house/layout.py": "def layout(): ..."})
    assert changing_names("house", tmp_path) == ["layout"]


def test_a_name_that_is_nowhere_would_be_seen(tmp_path):
    package(tmp_path, {"house/__init__.py": "__all__ = ['layout']"})
    with pytest.raises(AssertionError, match="has no attribute 'layout'"):
        changing_names("house", tmp_path)
