"""`tidepool doctor`: what there is, which settings hold, what is in the way, and a self-test.

The self-test trains a small network without Tidepool and with it, everything evicted at every
allocation, in processes of their own, and compares the bits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .._version import __version__
from ..job import _plugin
from ..settings import _catalog, _conf, _offload, _origins, _settings, _sizes
from . import _machine, _table, _transfers

HEALTHY, UNHEALTHY = 0, 1
SHIM = _plugin.LIBRARY_FOLDER / "libtidepool_preload.so"
_SECONDS_PER_PROCESS = 120  # most of which a busy machine needs to import PyTorch
_LEAST_SHARED = 1 << 30  # containers often have 64 MiB of /dev/shm, which loaders' workers fill
_ADDRESSES_PER_BUDGET = 8  # range_bytes of allocator/arena/allocator_config.h
_PYTHONS = ((3, 11), (3, 13))  # docs/supported.md


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be; an error keeps Tidepool from working."""

    severity: str  # error or warning
    what: str
    advice: str


def examine(environ: Mapping[str, str]) -> dict:
    """Return everything that the report has, `findings` among it."""
    settings = _origins.origins(environ)
    clean = dict(environ)
    _conf.take_from_conf(clean)
    facts: dict = {
        "version": __version__,
        "machine": _machine.facts(environ),
        "shim": str(SHIM) if SHIM.is_file() else None,
        "plugins": {device: [f"{major}.{minor}" for major, minor in
                             _plugin.supported_versions(device=device)]
                    for device in _catalog.DEVICES},
        "settings": [asdict(origin) for origin in settings],
        "in_force": _in_force(clean),
        "folder": _folder_facts(clean),
        "devices": {},
    }
    plain = {name: value for name, value in clean.items()
             if not name.startswith(_catalog.PREFIX)}
    for device in ("cpu", "cuda") if _settings.gpu_is_visible() else ("cpu",):
        facts["devices"][device] = _device_facts(device, plain)
    facts["findings"] = [asdict(finding) for finding in findings(facts, environ)]
    facts["healthy"] = not any(each["severity"] == "error" for each in facts["findings"])
    return facts


def _in_force(environ: Mapping[str, str]) -> dict:
    """Return what the environment's settings come to: whether any, their phrase, what is wrong."""
    if not _settings.asked_for(environ):
        return {"asked": False, "text": "no setting asks for Tidepool", "error": None}
    try:
        settings = _settings.resolve({}, environ)
    except _settings.SettingsError as error:
        return {"asked": True, "text": None, "error": str(error)}
    return {"asked": True, "text": settings.describe(), "error": None,
            "budget_bytes": settings.budget_bytes, "device": settings.device,
            "auto": settings.budget_auto}


def _folder_facts(environ: Mapping[str, str]) -> dict | None:
    """Return what is known of the folder that contents are to go to, if there is one."""
    try:
        tier = _settings.resolve({}, environ).offload if _settings.asked_for(environ) else None
    except _settings.SettingsError:
        return None  # said elsewhere
    tier = tier.file if isinstance(tier, _offload.ChainedTier) else tier
    if not isinstance(tier, _offload.FileTier):
        return None
    facts = {"folder": tier.folder, "capacity_bytes": tier.capacity_bytes}
    try:
        speed = _transfers.file_speed(tier.folder)
        return {**facts, "free_bytes": shutil.disk_usage(tier.folder).free,
                "write_bytes_per_s": speed.out, "read_bytes_per_s": speed.back}
    except _transfers.CannotMeasure as problem:
        return {**facts, "failed": str(problem)}


# -- processes with PyTorch ------------------------------------------------------------------------


def _device_facts(device: str, plain: Mapping[str, str]) -> dict:
    """Run both parts of the self-test beside each other; return what they print, or `failed`."""
    attached = {**plain, "TIDEPOOL_BUDGET": "256MiB", "TIDEPOOL_CHAOS": "alloc",
                "TIDEPOOL_DEVICE": device, "TIDEPOOL_QUIET": "1", _catalog.REQUIRED: "1",
                "LD_PRELOAD": " ".join([str(SHIM), *plain.get("LD_PRELOAD", "").split()])}
    started = {"inspect": _start("inspect", device, plain)}
    if SHIM.is_file():
        started["attached"] = _start("attached", device, attached)
    return {part: _result(process) for part, process in started.items()}


def _start(part: str, device: str, environ: Mapping[str, str]) -> subprocess.Popen:
    package = str(Path(__file__).resolve().parents[2])
    code = (f"import sys; sys.path.append({package!r}); "
            f"from tidepool.doctor import _self_test; _self_test.main({part!r}, {device!r})")
    return subprocess.Popen([sys.executable, "-c", code], env={**environ, "PYTHONSAFEPATH": "1"},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace")


def _result(process: subprocess.Popen) -> dict:
    try:
        out, err = process.communicate(timeout=_SECONDS_PER_PROCESS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"failed": f"it did not end within {_SECONDS_PER_PROCESS} s"}
    if process.returncode == 0:
        return json.loads(out.splitlines()[-1])
    said = err.strip().splitlines() or [f"it ended with status {process.returncode}"]
    return {"failed": said[-1]}


# -- findings --------------------------------------------------------------------------------------


def findings(facts: dict, environ: Mapping[str, str]) -> list[Finding]:
    """Return what is wrong, errors first."""
    found = [*_of_installation(facts), *_of_settings(facts), *_of_machine(facts),
             *_of_folder(facts), *_of_environment(facts, environ), *_of_self_test(facts)]
    return sorted(found, key=lambda finding: finding.severity)


def _of_installation(facts: dict) -> Iterator[Finding]:
    version = tuple(map(int, facts["machine"]["python"].split(".")[:2]))
    if not _PYTHONS[0] <= version <= _PYTHONS[1]:
        yield Finding("warning", f"Python {facts['machine']['python']} is not among those tested",
                      "use Python 3.11, 3.12 or 3.13")
    if "x86_64" not in facts["machine"]["system"] or "Linux" not in facts["machine"]["system"]:
        yield Finding("error", f"{facts['machine']['system']} is not supported",
                      "run on Linux on an x86-64 processor")
    if facts["shim"] is None:
        yield Finding("error", f"the preload library is missing: {SHIM}", "install Tidepool again")
    elif any(c in facts["shim"] for c in " :\t\n"):
        yield Finding("error", f"LD_PRELOAD cannot hold a path with blanks or colons: {SHIM}",
                      "install the package in another folder")
    inspected = facts["devices"]["cpu"]["inspect"]
    if "failed" in inspected:
        advice = ("install PyTorch into this environment" if "No module named" in
                  inspected["failed"] else "run `python -c 'import torch'` and mend what it says")
        yield Finding("error", f"PyTorch cannot be used: {inspected['failed']}", advice)
        return
    for device, problem in inspected["plugins"].items():
        if problem and (device == "cpu" or "cuda" in facts["devices"]):
            yield Finding("error", problem, "install a PyTorch that there is a plugin for, or "
                          "Tidepool again; `tidepool run --if-possible` runs jobs without it")
    if not inspected["entry_point"]:
        yield Finding("warning", "the package is not installed beside PyTorch: TIDEPOOL_BUDGET "
                      "alone does nothing", "start jobs by `tidepool run`, or install it by pip")


def _of_settings(facts: dict) -> Iterator[Finding]:
    if facts["in_force"]["error"]:
        yield Finding("error", facts["in_force"]["error"],
                      "correct it, or unset it; jobs end, or run without Tidepool, as it stands")
    for setting in facts["settings"]:
        for source, value in setting["overridden"]:
            yield Finding("warning", f"{setting['key']}: {value!r} of {source} is not used, as "
                          f"{setting['source']} says {setting['value']!r}",
                          "leave one of them out")


def _of_machine(facts: dict) -> Iterator[Finding]:
    machine, force = facts["machine"], facts["in_force"]
    budget = force.get("budget_bytes") or 0
    available = min(machine["available_bytes"] or sys.maxsize,
                    machine["cgroup_bytes"] or sys.maxsize)
    if force.get("device") == "cpu" and not force["auto"] and budget > available:
        yield Finding("warning", f"the budget of {_size(budget)} is more than the "
                      f"{_size(available)} that this process can have: the system may kill a job "
                      "before it evicts", "take a smaller budget, or auto")
    if machine["address_bytes"] is not None:
        yield Finding("warning", "the addresses of a process are limited to "
                      f"{_size(machine['address_bytes'])}, and Tidepool reserves "
                      f"{_ADDRESSES_PER_BUDGET} times the budget of them", "ulimit -v unlimited")
    if machine["overcommit"] == 2:
        yield Finding("warning", "vm.overcommit_memory is 2: reserving addresses may be refused",
                      "sysctl vm.overcommit_memory=0")
    shared = machine["shared"]
    if shared is None or shared["total_bytes"] < _LEAST_SHARED:
        size = "none" if shared is None else _size(shared["total_bytes"])
        yield Finding("warning", f"/dev/shm has {size}: workers of a DataLoader may not find room",
                      "give the container more: docker run --shm-size=8g")


def _of_folder(facts: dict) -> Iterator[Finding]:
    folder = facts["folder"]
    if folder is None:
        return
    if "failed" in folder:
        yield Finding("error", f"offload: {folder['failed']}",
                      "name a folder on a local disk in offload")
    elif folder["free_bytes"] < folder["capacity_bytes"]:
        yield Finding("warning", f"offload may take {_size(folder['capacity_bytes'])} in "
                      f"{folder['folder']}, where {_size(folder['free_bytes'])} are free: what "
                      "does not fit stays in memory", "make room there, or name another folder")


def _of_environment(facts: dict, environ: Mapping[str, str]) -> Iterator[Finding]:
    for path in _machine.other_allocators(facts["machine"]["preloaded"]):
        yield Finding("warning", f"LD_PRELOAD has {path}: memory that it keeps for Python and "
                      "libraries is in no budget", "leave it out if the machine runs out of memory")
    if environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
        yield Finding("warning", "TORCH_DEVICE_BACKEND_AUTOLOAD=0: TIDEPOOL_BUDGET alone does "
                      "nothing", "start jobs by `tidepool run`")
    if "cuda" not in facts["devices"]:
        return
    if environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") is not None:
        yield Finding("error", "PYTORCH_NO_CUDA_MEMORY_CACHING asks PyTorch for no caching "
                      "allocator, so that Tidepool does not attach on cuda", "unset it")
    for variable in _conf.CONF_VARIABLES:
        for key, value, _ in _conf.items_of(environ.get(variable, "")):
            if key == "backend" and value not in ("native", "tidepool"):
                yield Finding("error", f"{variable} asks for the allocator {value}, so that "
                              "Tidepool does not attach on cuda", f"take backend:{value} out")


def _of_self_test(facts: dict) -> Iterator[Finding]:
    for device, parts in facts["devices"].items():
        plain, attached = parts["inspect"], parts.get("attached")
        if attached is None or ("failed" in plain and device == "cpu"):
            continue  # said above
        failed = plain.get("failed") or attached.get("failed")
        report = "report it with the output of `tidepool doctor --json`"
        if failed:
            yield Finding("error", f"the self-test on {device} failed: {failed}", report)
        elif not attached["attached"] or not attached["evictions"]:
            yield Finding("error", f"the self-test on {device} evicted nothing", report)
        elif plain["results"] != attached["results"] or attached["different"]:
            yield Finding("error", f"the self-test on {device} gave other bits", report)
        for gpu in plain.get("gpus", ()):
            if gpu["virtual_memory"] is False:
                yield Finding("error", f"{gpu['name']} has no virtual memory management, of which "
                              "budgets on cuda are made", "use a newer GPU or driver")


# -- the report ------------------------------------------------------------------------------------


def report(facts: dict) -> str:
    """Return the facts as text for a terminal."""
    machine = facts["machine"]
    rows = [("Tidepool", f"{facts['version']}, plugins for PyTorch "
             f"{', '.join(facts['plugins']['cpu']) or 'none'}"
             f" (cuda: {', '.join(facts['plugins']['cuda']) or 'none'})"),
            ("Python", f"{machine['python']}, {machine['executable']}"),
            ("System", machine["system"]),
            *_torch_rows(facts["devices"]),
            ("Preload", f"{facts['shim'] or 'missing'}"
             f"{', in LD_PRELOAD' if facts['shim'] in machine['preloaded'] else ''}"),
            ("Memory", f"{_size(machine['available_bytes'])} of {_size(machine['memory_bytes'])} "
             f"free; cgroup limit: {_size(machine['cgroup_bytes'])}"),
            ("/dev/shm", "none" if machine["shared"] is None else
             f"{_size(machine['shared']['free_bytes'])} of "
             f"{_size(machine['shared']['total_bytes'])} free"),
            ("In force", facts["in_force"]["text"] or facts["in_force"]["error"]),
            *_folder_rows(facts["folder"]),
            *_self_test_rows(facts["devices"])]
    settings = [(each["key"], each["value"], each["source"]) for each in facts["settings"]]
    parts = [_table.aligned(rows), "Settings", _table.aligned(settings, indent="  ")]
    if facts["findings"]:
        parts.append("Findings")
    for each in facts["findings"]:
        parts += [f"  {each['severity']}: {each['what']}", f"    what to do: {each['advice']}"]
    parts.append("healthy" if facts["healthy"] else "not healthy: see the errors above")
    return "\n".join(parts)


def _folder_rows(folder: dict | None) -> Iterator[tuple[str, str]]:
    if folder is None:
        return
    yield "Offload", folder.get("failed") or (
        f"{folder['folder']}: {_size(folder['free_bytes'])} free, writes "
        f"{folder['write_bytes_per_s'] / 1e9:.2f} GB/s, reads "
        f"{folder['read_bytes_per_s'] / 1e9:.2f} GB/s")


def _torch_rows(devices: dict) -> Iterator[tuple[str, str]]:
    inspected = devices["cpu"]["inspect"]
    if "failed" in inspected:
        yield "PyTorch", inspected["failed"]
        return
    yield "PyTorch", f"{inspected['version']}, {inspected['file']}"
    for device, problem in inspected["plugins"].items():
        yield f"Plugin for {device}", problem or "fits and loads"
    on_cuda = devices.get("cuda", {}).get("inspect", {})
    if not on_cuda:
        yield "GPU", "none visible"
    elif "failed" in on_cuda:
        yield "GPU", on_cuda["failed"]
    else:
        yield "Driver", f"for CUDA up to {on_cuda['driver'] or 'unknown'}"
    for gpu in on_cuda.get("gpus", ()):
        yield "GPU", (f"{gpu['name']}, {_size(gpu['free_bytes'])} of {_size(gpu['total_bytes'])} "
                      f"free, virtual memory: {'yes' if gpu['virtual_memory'] else 'no'}")


def _self_test_rows(devices: dict) -> Iterator[tuple[str, str]]:
    for device, parts in devices.items():
        plain, attached = parts["inspect"], parts.get("attached", {"failed": "no preload library"})
        failed = plain.get("failed") or attached.get("failed")
        if failed:
            yield "Self-test", f"{device}: failed: {failed}"
            continue
        same = "the same" if plain["results"] == attached["results"] else "OTHER"
        seconds = max(plain["seconds"], attached["seconds"])
        yield "Self-test", (f"{device}: {same} bits, {attached['evictions']} evictions, "
                            f"{attached['replays']} operators replayed, {seconds:.1f} s")


def _size(size: int | None) -> str:
    return "none" if size is None else _sizes.format_size(size, exact=False)


def main(as_json: bool) -> int:
    """Examine this installation and print the report; return the exit status."""
    facts = examine(os.environ)
    print(json.dumps(facts, indent=2) if as_json else report(facts), flush=True)
    return HEALTHY if facts["healthy"] else UNHEALTHY
