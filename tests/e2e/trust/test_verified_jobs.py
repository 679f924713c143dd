"""`tidepool verify` on real jobs: each verdict, and what the report names."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import harness
import pytest
from selection import FULL

NETWORKS = ("mlp:sgd", "treelstm:autocast")
if FULL:
    NETWORKS += ("gpt:adamw_fused", "resnet18:adam_foreach", "bilstm:adam_loop", "vae:sgd")
WHOLE_MODELS = ("resnet50:adam_foreach", "unet:adam_loop", "gpt:adamw_fused", "bilstm:adam_loop",
                "treelstm:autocast", "vae:sgd", "gan:sgd")
PLANTED = str(harness.HERE / "trust/planted_job.py")

NEUTRAL = """\
import tidepool
tidepool.enable(budget="64MiB", device="cpu")
import torch
from tidepool.verify import _fingerprint; from tidepool.job import _job
plugin = _job.current().plugin
storage = lambda tensor: tensor.untyped_storage()._cdata
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(64, 64))
hidden = torch.tanh(weight @ weight)
(hidden * 2).sum().backward()
tensors = {"weight": weight, "hidden": hidden, "gradient": weight.grad}
states = lambda: {name: plugin.state(storage(tensor)) for name, tensor in tensors.items()}
before, random = states(), torch.get_rng_state()
assert set(before.values()) == {2}, before
fingerprints = _fingerprint.Fingerprints(torch)
expected = {name: fingerprints.of(tensor) for name, tensor in tensors.items()}
assert states() == before
for name, tensor in tensors.items():
    assert plugin.evict(storage(tensor)) == 1, name
    assert fingerprints.of(tensor) == expected[name], name
    assert plugin.evict(storage(tensor)) == 1, f"{name} stays"
assert torch.equal(torch.get_rng_state(), random)
assert tidepool.stats()["devices"]["cpu"]["escapes"] == 0
print(expected)
"""


SMALL = str(harness.HERE / "small_job.py")
TRAIN = [str(harness.TRAIN_JOB), "--out", "/dev/null", "--steps", "2"]
LARGE = """\
import torch
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.ones(64))
optimizer = torch.optim.SGD([weight], 0.1)
weight.repeat(1 << 14).sum().backward()
optimizer.step()
"""


@dataclass(frozen=True)
class Verdict:
    """A job as `verify` gets it, and what is expected of status, report and standard error."""

    arguments: list[str]
    job: list[str]
    status: int
    report: list[str]
    unsaid: str = "an error in verify itself"
    printed: str = ""


VERDICTS = {
    "same": Verdict(["--budget", harness.AMPLE, "--chaos"], [*TRAIN, *NETWORKS], 0,
                    [f"same: {2 * len(NETWORKS)} steps", "operators replayed\n"]),
    "replay": Verdict(["--budget", "1GiB"], [PLANTED, "replay"], 1, [
        "first difference: step 2 of 3: gradient head.weight (4x16 float32)",
        "operator: aten::tanh (call 3 of step 2): what it made was kept or restored with other "
        "contents, first read by aten::mm (call"]),
    "itself": Verdict(["--budget", "1GiB"], [PLANTED, "random"], 2, [
        "differs from itself", "first difference: step 2 of 3: parameter head.bias (4 float32)"]),
    "no step": Verdict(["--budget", "1GiB"], [PLANTED, "never"], 3,
                       ["never called an optimizer's step"], printed="step 3\n"),
    "no room": Verdict(["--budget", "4MiB", "--steps", "1"], [SMALL], 3,
                       ["could not run: out of memory", "No budget below"]),
    "no room before backward": Verdict(
        ["--budget", "1MiB", "--steps", "1"], ["-c", LARGE], 3,
        ["could not run: out of memory: under the budget of 1MiB the job exits with status 1"]),
    # Stopped within the second step.
    "stopped": Verdict(["--budget", "14MiB", "--steps", "2"], [SMALL, "--workers", "2"], 0,
                       ["same: 2 steps"], printed="step 0:", unsaid="step 1:"),
}
if FULL:
    VERDICTS |= {f"same {network}": Verdict(["--budget", harness.AMPLE, "--chaos"],
                                            [*TRAIN, network], 0, ["same: "])
                 for network in WHOLE_MODELS}


def verify(verdict: Verdict) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidepool", "verify", "--device", "cpu", *verdict.arguments]
    return harness.run([*command, "--", sys.executable, *verdict.job])


@pytest.fixture(scope="module")
def verified(request):
    """Starts the selected jobs, as many at a time as there are cores; returns a finished one."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        names = [item.callspec.params["name"] for item in request.session.items
                 if item.module is request.module and hasattr(item, "callspec")]
        done = {name: pool.submit(verify, VERDICTS[name]) for name in names}
        yield lambda name: done[name].result()


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(verified, name):
    done, expected = verified(name), VERDICTS[name]
    assert done.returncode == expected.status, done.stdout + done.stderr
    for words in expected.report:
        assert words in done.stdout
    assert done.stderr.count(expected.printed) == 1 or not expected.printed
    assert expected.unsaid not in done.stderr


@pytest.mark.torch_floor
def test_fingerprints_restore_and_leave_no_trace(tmp_path):
    script = Path(tmp_path, "script.py")
    script.write_text(NEUTRAL)
    done = harness.run([sys.executable, str(script)])
    assert done.returncode == 0, done.stderr
