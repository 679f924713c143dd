"""The report of a real job, made and looked at in a browser: by ./dev test --full, as that takes
long, and only where Chromium is installed."""

import sys

import chromium
import harness
import pytest
import selection

pytestmark = [
    pytest.mark.skipif(not selection.FULL, reason="only ./dev test --full makes a report"),
    pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed"),
]
JOB = harness.HERE / "traces_and_plans/recorded_job.py"
TIDEPOOL = [sys.executable, "-m", "tidepool"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    trace, page = folder / "unet.jsonl.gz", folder / "unet.html"
    for command in ([*TIDEPOOL, "run", "--device", "cpu", "--trace", str(trace), "--",
                     sys.executable, str(JOB), "unet", "budget", "3"],
                    [*TIDEPOOL, "report", str(trace), "--budget", "70%", "-o", str(page)]):
        done = harness.run(command)
        assert done.returncode == 0, done.stderr
    return page


@pytest.fixture
def page(report):
    with chromium.page() as page:
        page.open(report)
        yield page
        assert page.problems == []


def text(page, selector: str) -> str:
    return page.evaluate(f"document.querySelector({selector!r}).innerText")


def rows(page, selector: str) -> int:
    return page.evaluate(f"document.querySelectorAll({selector!r}).length")


def test_it_opens_at_once_and_every_part_has_something(page):
    assert float(page.evaluate("document.documentElement.dataset.ready")) < 2000
    assert text(page, "#title") == "unet"
    assert rows(page, ".tile") == 5 and rows(page, "canvas") == 3
    assert all(rows(page, f"{part} tbody tr") > 2 for part in ("#holders", "#losses", "#budgets"))
    assert "UNet." in text(page, "#losses") and "networks" in text(page, "#losses")
    for name in ("parameters", "optimizer state"):
        assert name in text(page, "#pins")
    drawn = """[...document.querySelectorAll("canvas")].map((canvas) => new Set(new Uint32Array(
        canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size)
        """
    assert min(page.evaluate(drawn)) > 4  # colours
    assert "lost to holes" in text(page, "#fragmentation")
    assert "Half of the peak" in text(page, "#curve-sum")


def test_tables_and_both_charts_follow_a_range(page):
    whole = text(page, "#losses-sum"), text(page, "#holders-at")
    x, y = page.center("#memory .u-over")
    page.drag((x - 60, y), (x + 60, y))
    assert "whole recording, " in text(page, "#span")
    assert (text(page, "#losses-sum"), text(page, "#holders-at")) != whole
    scales = "[memoryChart, mapChart].map((chart) => [chart.scales.x.min, chart.scales.x.max])"
    first, second = page.evaluate(scales)
    assert first == pytest.approx(second)
    page.click("#reset")
    assert (text(page, "#losses-sum"), text(page, "#holders-at")) == whole
    page.click("#views button:nth-child(2)")
    assert text(page, "#span").startswith("step ")


def test_clicks_explain_and_zoom(page):
    page.click("#losses tbody tr:first-child td")
    assert "again" in text(page, "#losses tr.detail")
    page.click("#losses tbody tr:first-child td")
    assert rows(page, "#losses tr.detail") == 0
    page.click("#pins tbody tr:first-child td")
    assert "tensors" in text(page, "#pins tr.detail")
    boxes = rows(page, "#flame div")
    page.click("#flame div:nth-child(3)")
    assert rows(page, "#flame div") != boxes
    while not page.evaluate("document.querySelector('#flame-up').hidden"):
        page.click("#flame-up")
    assert rows(page, "#flame div") == boxes
    page.click("#flame-order button:nth-child(2)")
    assert "recorded_job.py" in text(page, "#flame")
    page.click("#flame-metric button:nth-child(3)")
    assert "MiB" in text(page, "#flame")


def test_dark_is_taken_from_the_system_and_by_a_click(report):
    with chromium.page() as page:
        page.open(report, dark=True)
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(ground)
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.click("#theme")
        assert page.evaluate(ground) != dark
        assert page.problems == []
