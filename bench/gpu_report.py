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


def markdown(title: str, content: dict) -> str:
    """Return a stage's results as a document."""
    device = ", ".join(content["gpu"].values()) or "unknown GPU"
    lines = [f"# {title[0].upper()}{title[1:]}", "",
             f"{device}; commit {content['commit']}, {content['date']}."]
    for name, part in content["parts"].items():
        lines += part_lines(name, part)
    return "\n".join(lines) + "\n"
