"""What interception adds to single operators on tiny tensors, in nanoseconds.

Rounds of four configurations, interleaved on one thread:
  stock     interception off on this thread, PyTorch's own allocator
  off       interception off on this thread, Tidepool's allocator
  seen      attached, recording off
  recorded  attached, recording on
Reported are the differences to `off` (what seeing and recording cost), and `recorded` to `stock`
(all that Tidepool costs). Then what a tensor's address costs in a loop of Python, of fresh results
and of tensors that were asked for it before, beside PyTorch's own method in the same job (which is
noticed at the first access): launchers of kernels ask for each argument's. Times are of the
thread, not of the clock on the wall.
"""

from __future__ import annotations

import ctypes
import itertools
import time

import measure
import torch

GOALS = {  # ns at most, minimum: (seen, recorded)
    "typed": (100.0, 350.0),
    "boxed": (350.0, 800.0),
    "view": (5.0, 5.0),
}
ADDRESS_GOAL = 300.0  # ns at most
VIEWS = ("t()",)
SCHEMAS = {"add": "add.Tensor", "add_": "add_.Tensor", "add_ (lineage)": "add_.Tensor",
           "y = y * x": "mul.Tensor"}


def load_loops() -> ctypes.CDLL:
    """Return the library with the loops, its operands made in tracked memory."""
    major, minor = torch.__version__.split(".")[:2]
    name = f"liboperator_overhead_torch_{major}_{minor}.so"
    loops = ctypes.CDLL(str(measure.built(name)))
    loops.operator_overhead_name.restype = ctypes.c_char_p
    loops.operator_overhead_run.restype = ctypes.c_double
    return loops


def kind_of(name: str) -> str:
    """Return how an operator is intercepted: typed, boxed or view."""
    if name in VIEWS:
        return "view"
    dump = torch._C._dispatch_dump(f"aten::{SCHEMAS.get(name, name)}")
    kernel = next((line for line in dump.splitlines() if line.startswith("CustomRNGKeyId")), "")
    return "typed" if "unboxed" in kernel else "boxed"


class Configurations:
    """Switches between the configurations: on CUDA all but `stock`, whose allocator stays."""

    def __init__(self, plugin, loops: ctypes.CDLL, device: str) -> None:
        self.plugin, self.loops, self.device = plugin, loops, device
        self.names = ("stock", "off", "seen", "recorded")[device == "cuda":]

    def select(self, name: str) -> None:
        if self.device == "cpu":
            self.loops.operator_overhead_stock_allocator(int(name == "stock"))
        self.plugin.thread(int(name in ("seen", "recorded")))
        self.plugin.recording(int(name != "seen"))


def run_rounds(configurations: Configurations, which: int, rounds: int,
               count: int) -> dict[str, list[float]]:
    """Return nanoseconds per call, by configuration and round."""
    names = configurations.names
    times: dict[str, list[float]] = {name: [] for name in names}
    for k in range(rounds):
        first = k % len(names)
        for name in names[first:] + names[:first]:
            configurations.select(name)
            times[name].append(configurations.loops.operator_overhead_run(which, count))
    configurations.select("recorded")
    return times


def ns_of_addresses(data_ptr, tensors: list[torch.Tensor]) -> float:
    """Return the ns that a method takes for the address of a tensor."""
    start = time.thread_time_ns()
    for tensor in tensors:
        data_ptr(tensor)
    return (time.thread_time_ns() - start) / len(tensors)


def address_results(device: str, rounds: int, count: int) -> list[measure.Result]:
    """Return what addresses cost."""
    methods = {"stock": torch._C.TensorBase.data_ptr, "all": torch.Tensor.data_ptr}
    base = torch.ones(16, device=device)
    parameters = [torch.nn.Parameter(torch.ones(16, device=device))] * count
    times: dict[tuple[str, str], list[float]] = {}
    for k in range(rounds):
        for name in ("stock", "all")[::1 if k % 2 else -1]:
            fresh = [base + 1 for _ in range(count)]
            cases = {"a result's address": fresh, "an address again": fresh,
                     "a parameter's address": parameters}
            for case, tensors in cases.items():
                times.setdefault((case, name), []).append(
                    ns_of_addresses(methods[name], tensors))
    found = []
    for case in dict.fromkeys(case for case, _ in times):
        found += [measure.summarize(f"{case}: PyTorch's method", "ns", times[case, "stock"]),
                  measure.summarize(f"{case}: Tidepool's", "ns", times[case, "all"],
                                    ADDRESS_GOAL)]
    return found


def results(device: str, rounds: int, count: int) -> list[measure.Result]:
    """Attach to this process, and return what operators cost, and what is added to them."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.init()
    plugin = measure.attach("256MiB", device)
    loops = load_loops()
    configurations = Configurations(plugin, loops, device)
    found = []
    for which in range(loops.operator_overhead_prepare(int(device == "cuda"))):
        name = loops.operator_overhead_name(which).decode()
        kind = kind_of(name)
        times = run_rounds(configurations, which, rounds, count)
        label, base = f"{name} [{kind}]", configurations.names[0]
        found.append(measure.summarize(f"{label} {base}", "ns", times[base]))
        for ours, goal in itertools.zip_longest(("seen", "recorded"), GOALS[kind]):
            found.append(measure.added(f"{label} + {ours}", "ns", times["off"], times[ours],
                                       goal if device == "cpu" else None))
        if base == "stock":
            found.append(measure.added(f"{label} + all", "ns", times["stock"],
                                       times["recorded"]))
    return found + address_results(device, rounds, count)


def main() -> None:
    parser = measure.options(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--count", type=int, default=2000, help="calls in a round")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parsed = parser.parse_args()
    rounds, count = (4, 100) if parsed.smoke else (parsed.rounds, parsed.count)
    measure.report(parsed, results(parsed.device, rounds, count))


if __name__ == "__main__":
    main()
