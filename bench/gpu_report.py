"""What bench/gpu_check.py makes of its parts' lines, and the document that it writes."""

from __future__ import annotations

import json
from dataclasses import asdict

import measure


def read_lines(output: str) -> dict:
    """Return what a part printed: results, facts, tables and plots."""
    found = {"results": [], "facts": {}, "tables": [], "plots": {}}
    for line in output.splitlines():
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut off in the middle
        if "fact" in said:
            found["facts"][said["fact"]] = said["value"]
        elif "table" in said:
            found["tables"].append(said)
        elif "plot" in said:
            found["plots"][said["plot"]] = said["svg"]
        elif "result" in said:
            found["results"].append(said["result"])
        else:
            found["results"].append(asdict(measure.summarize(said["name"], said["unit"],
                                                             said["samples"])))
    return found


def row(cells) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def grid(columns: list, rows: list) -> list[str]:
    """Return a table's lines, the first column to the left and the others to the right."""
    return [row(columns), row(["---"] + ["---:"] * (len(columns) - 1)), *map(row, rows)]


def results_grid(results: list[dict]) -> list[str]:
    rows = []
    for r in results:
        figures = [f"{figure:.2f}" for figure in (r["minimum"], r["median"], *r["spread"])]
        rows.append([r["name"], *figures, r["unit"], r["runs"]])
    return grid(["", "minimum", "median", "10 %", "90 %", "unit", "runs"], rows)


def fact(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def part_lines(name: str, part: dict) -> list[str]:
    lines = ["", f"## {name}", ""]
    lines += results_grid(part["results"]) if part["results"] else []
    lines += [f"- {name}: {fact(value)}" for name, value in part["facts"].items()]
    for table in part["tables"]:
        lines += ["", f"**{table['table']}**", "", *grid(table["columns"], table["rows"])]
    lines += [f"![{plot}]({path})" for plot, path in part["plots"].items()]
    lines += ["- not finished yet"] if part["unfinished"] else []
    return lines + ([f"- ended: {part['error']}"] if part["error"] else [])


def moved_page_us(part: dict, state: str) -> float | None:
    """Return what it takes the host to move a page of 2 MiB, as a part's results say."""
    medians = {each["name"]: each["median"] for each in part["results"]}
    names = [f"{call} of 2.00 MiB, {state}" for call in ("cuMemUnmap", "cuMemMap",
                                                         "cuMemSetAccess")]
    return sum(medians[name] for name in names) if set(names) <= set(medians) else None


def prices_verdict(found: dict[str, dict]) -> str:
    idle = moved_page_us(found["prices"], "idle")
    busy = moved_page_us(found["prices"], "with work in flight")
    if idle is None or busy is None:
        return f"verdict on prices: none, {found['prices']['error'] or 'no page was moved'}"
    return (f"verdict on prices: moving a page of 2 MiB takes {idle:.0f} us, {busy:.0f} us with "
            "work in flight")


def bits_of(part: dict) -> str:
    """Return in words whether a network has the same bits, in every mode that it ran in."""
    facts = part["facts"]
    modes = [name.rpartition(": ")[0] for name in facts if name.endswith(": the budget was kept")]
    if not modes:
        return "failed"
    if not all(facts[f"{mode}: the budget was kept"] for mode in modes):
        return "PASSED ITS BUDGET"
    unequal = [mode for mode in modes if not facts[f"{mode}: the same bits under the budget"]]
    if any(facts[f"{mode}: the plain job equals itself"] for mode in unequal):
        return "DIFFERS"
    return "varies by itself" if unequal else "the same"


def bits_verdict(found: dict[str, dict]) -> str:
    return "verdict on bits: " + ", ".join(
        f"{network} {bits_of(part)}" for network, part in found.items())


def verdict(letter: str, found: dict[str, dict]) -> str:
    """Return one line on what was found so far of a stage; "" for stages that have none."""
    if letter == "b" and "prices" in found:
        return prices_verdict(found)
    return bits_verdict(found) if letter == "a" and found else ""


def markdown(title: str, content: dict) -> str:
    """Return a stage's results as a document."""
    device = ", ".join(content["gpu"].values()) or "unknown GPU"
    lines = [f"# {title[0].upper()}{title[1:]}", "",
             f"{device}; commit {content['commit']}, {content['date']}."]
    for name, part in content["parts"].items():
        lines += part_lines(name, part)
    return "\n".join(lines) + "\n"
