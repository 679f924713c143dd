"""Tables and plots of the training benchmark (bench/train_bench.py)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

import curves
import measure

MIB = 1 << 20
SLOWER = 1.4  # times plain's per item: what a larger batch may cost
COLUMNS = ("way", "budget, MiB", "reserved, MiB", "ms a step", "10 %", "90 %", "items/s",
           "time / plain", "memory / plain", "bits", "evictions", "plans", "runs")
LARGEST_COLUMNS = ("cap, MiB", "way", "largest batch", "ms an item", "/ plain",
                   f"batch at <= {SLOWER} x plain's time", "/ plain's largest", "note")


def figure(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


class Way:
    """All turns of one way."""

    def __init__(self, name: str, answers: list[dict]) -> None:
        self.name = name
        self.error = next((each["error"] for each in answers if "error" in each), "")
        self.runs = [each for each in answers if "error" not in each]

    @property
    def times(self) -> list[float]:
        return [ms for each in self.runs for ms in each["ms"]]

    @property
    def ms(self) -> float:
        return statistics.median(self.times)

    def reserved(self) -> int | None:
        """Return the most bytes that PyTorch's allocator held; None where nothing counts them."""
        found = [each.get("reserved_peak") or each["tidepool"].get("reserved_peak_bytes")
                 for each in self.runs]
        return max(found) if found and all(found) else None

    def contents(self) -> list[tuple[str, str]]:
        return [(each["losses"], each["parameters"]) for each in self.runs]


class Report:
    """What is known of one network."""

    def __init__(self, network: str, known: Mapping[tuple, dict]) -> None:
        self.network = network
        grouped: dict[str, list[dict]] = {}
        self.searches: dict[tuple[int, str], dict] = {}
        for (name, way, turn), answer in known.items():
            if name != network:
                continue
            if way.startswith("largest, "):
                self.searches[turn, way.removeprefix("largest, ")] = answer
            else:
                grouped.setdefault(way, []).append(answer)
        self.ways = {name: Way(name, answers) for name, answers in grouped.items()}
        plain = self.ways.get("plain")
        self.plain = plain if plain and plain.runs else None

    def whole(self) -> int | None:
        """Return the bytes of the plain run, or of the attached one where nothing counts them."""
        ways = [way for way in (self.plain, self.ways.get("ample")) if way]
        return next((found for way in ways if (found := way.reserved())), None)

    def bits(self, way: Way) -> str:
        """Return whether a way gave the plain run's bits."""
        if not self.plain:
            return "-"
        expected = self.plain.contents()
        if len(set(expected)) > 1:
            return "plain varies"
        return "equal" if set(way.contents()) == set(expected) else "differ"

    def row(self, way: Way) -> list[str]:
        """Return a way as a line of the table."""
        if not way.runs:
            return [way.name, *["-"] * (len(COLUMNS) - 2), way.error.replace("|", "/")]
        found = measure.summarize(way.name, "ms", way.times)
        reserved, whole, last = way.reserved(), self.whole(), way.runs[-1]
        budget = last.get("budget")
        return [way.name, figure(budget / MIB if budget else None),
                figure(reserved / MIB if reserved else None), figure(found.median, 1),
                *(figure(each, 1) for each in found.spread),
                figure(1e3 * last["items"] / found.median, 1),
                figure(found.median / self.plain.ms if self.plain else None, 3),
                figure(reserved / whole if reserved and whole else None, 3), self.bits(way),
                *(str(last["tidepool"].get(name, "-")) for name in ("evictions", "step_plans")),
                f"{len(way.runs)}{'; ' + way.error if way.error else ''}"]

    def rows(self) -> list[list[str]]:
        return [self.row(way) for way in self.ways.values()]

    def plot(self) -> str:
        """Return a picture of time over memory, both beside the plain run; "" if there is none."""
        whole = self.whole()
        if not self.plain or not whole:
            return ""
        found: dict[str, list[tuple[float, float]]] = {}
        for way in self.ways.values():
            if way.runs and way.reserved():
                name = "tidepool" if way.name.startswith(("r=", "ample")) else way.name
                found.setdefault(name, []).append((way.reserved() / whole,
                                                   way.ms / self.plain.ms))
        found = {name: sorted(points) for name, points in found.items()}
        if not found:
            return ""
        return curves.draw(found, f"{self.network}: time of a step / plain", min(
            1.0, *(y for points in found.values() for _, y in points), 1.0),
            "reserved memory / plain")

    def largest_rows(self) -> list[list[str]]:
        """Return the searches for the largest batches as lines of a table."""
        rows = []
        for (cap, way), answer in self.searches.items():
            if "error" in answer:
                rows.append([str(cap), way, *["-"] * (len(LARGEST_COLUMNS) - 3), answer["error"]])
                continue
            plain = self.searches.get((cap, "plain"), {})
            mine, theirs = per_item(answer), per_item(plain)
            batch, least = answer["largest"], theirs.get(plain.get("largest"))
            good = [size for size, ms in mine.items() if least and ms <= SLOWER * least]
            rows.append([str(cap), way, str(batch), figure(mine.get(batch), 3),
                         figure(mine[batch] / least if least and batch in mine else None, 3),
                         str(max(good, default="-")),
                         figure(max(good) / plain["largest"] if good else None, 2),
                         "" if answer["complete"] else "broken off: perhaps larger"])
        return rows

    def tables(self) -> Iterator[tuple[str, tuple[str, ...], list[list[str]]]]:
        """Yield title, columns and rows of each table."""
        if self.ways:
            yield f"{self.network}: ways to train", COLUMNS, self.rows()
        if self.searches:
            yield f"{self.network}: largest batches", LARGEST_COLUMNS, self.largest_rows()

    def markdown(self) -> Iterator[str]:
        for title, columns, rows in self.tables():
            yield f"**{title}**\n"
            yield "| " + " | ".join(columns) + " |"
            yield "| --- |" + " ---: |" * (len(columns) - 1)
            yield from ("| " + " | ".join(row) + " |" for row in rows)
            yield ""


def per_item(answer: dict) -> dict[int, float]:
    """Return the ms of each item by batch, for batches that ran."""
    return {size: ms / (size * answer["items"]) for size, ms in answer.get("tried", []) if ms}
