"""Make this source tree importable in the running interpreter's environment, with its entry points.

What `pip install --editable` would do, without a build and without a network: a .pth file that
names this folder, the package's metadata, and its console scripts. Does nothing while the package
has no entry points to load, and is safe to repeat.
"""

import runpy
import sys
import sysconfig
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = """\
#!{python}
import sys

from {module} import {function}

sys.exit({function}())
"""


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    """Write a file, only if its text changes, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    path.chmod(mode)
    return path


def entry_points(project: dict) -> str:
    """Return the text of entry_points.txt for a pyproject [project] table."""
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
    return "\n".join(lines)


def main() -> None:
    """Install the package of this folder in development mode."""
    if not (HERE / "tidepool" / "_autoload.py").exists():
        return  # PyTorch would fail to import with an entry point that leads nowhere
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    name = project["name"]
    version = runpy.run_path(str(HERE / "tidepool" / "_version.py"))["__version__"]
    site = Path(sysconfig.get_path("purelib"))
    scripts = Path(sysconfig.get_path("scripts"))
    info = site / f"{name}-{version}.dist-info"

    files = [write(site / f"{name}.pth", f"{HERE}\n")]
    for script, target in project["scripts"].items():
        module, function = target.split(":")
        text = SCRIPT.format(python=sys.executable, module=module, function=function)
        files.append(write(scripts / script, text, 0o755))
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files.append(write(info / "METADATA", metadata))
    files.append(write(info / "INSTALLER", "tidepool-develop\n"))
    files.append(write(info / "entry_points.txt", entry_points(project)))
    record = info / "RECORD"  # so that pip can uninstall or replace it
    names = [str(f.relative_to(site, walk_up=True)) if sys.version_info >= (3, 12) else str(f)
             for f in [*files, record]]
    write(record, "".join(f"{n},,\n" for n in names))


if __name__ == "__main__":
    main()
