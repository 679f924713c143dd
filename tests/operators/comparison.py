"""Run one thing plainly, plainly again, and with everything evicted all the time; compare.

Used inside the database jobs, in a process that Tidepool is attached to.
"""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.utils._pytree as pytree

BUDGET = "8GiB"  # a cap on pages, which are taken only as needed: never reached here
MORE_RUNS = 6  # of a plain case whose results came out otherwise: does it vary by itself?


@dataclass
class Case:
    """What runs: a name, and a function that gives a tree of results, from a seed set before."""

    name: str
    run: Callable[[], object]


@dataclass
class Counts:
    """What came of a group of cases."""

    cases: int = 0  # compared, in all
    evicting: int = 0  # of these, with at least one eviction
    replaying: int = 0  # of these, with at least one replay, or copy that came back
    evictions: int = 0
    not_here: int = 0  # the plain run raises: not for this machine
    unequal_to_itself: int = 0  # two plain runs differ: nothing is promised
    wrong: list[str] = field(default_factory=list)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the logical elements of a tensor as bytes."""
    plain = tensor.detach().resolve_conj().resolve_neg().reshape(-1).clone()
    return plain.as_strided((plain.numel(),), (1,)).view(torch.uint8)


def same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors have equal types, shapes and elements, bit for bit."""
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    if one.is_quantized != other.is_quantized or one.device != other.device:
        return False
    if one.layout != torch.strided:
        one, other = one.to_dense(), other.to_dense()
    if one.is_quantized:
        one, other = one.int_repr(), other.int_repr()
    if one.device.type == "meta" or one.numel() == 0:
        return True
    return torch.equal(bits(one).cpu(), bits(other).cpu())


def same(left: object, right: object) -> bool:
    """Tell whether two trees of results are equal: tensors bit for bit, numbers as they print."""
    left, right = pytree.tree_leaves(left), pytree.tree_leaves(right)
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        if torch.is_tensor(one) != torch.is_tensor(other):
            return False
        if torch.is_tensor(one) and not same_tensor(one, other):
            return False
        if isinstance(one, (bool, int, float, complex)) and repr(one) != repr(other):
            return False
    return True


class Bench:
    """Attaches to this process, and runs cases.

    With the chaos `offload:SEED`, what is evicted leaves by a copy into a file in `folder`, or not,
    as chance has it.
    """

    def __init__(self, chaos: str, device: str, folder: Path) -> None:
        import tidepool

        warnings.filterwarnings("ignore")
        tier = {}
        if chaos.startswith("offload"):
            tier["offload"] = "host:1GiB" if device == "cuda" else f"file:{folder}:1GiB"
        tidepool.enable(budget=BUDGET, chaos=chaos, device=device, **tier)
        self.device = "cpu" if device == "cpu" else "cuda:0"
        from tidepool.job import _job

        self.plugin = _job.current().plugin
        # On a GPU a backward pass runs on threads of its own: all stay watched, with no lineage.
        self.switch = self.plugin.thread if device == "cpu" else self.plugin.recording
        self.switch(0)
        torch.set_num_threads(1)

    @contextlib.contextmanager
    def intercepted(self):
        """Let Tidepool evict what operators make from now on."""
        self.switch(1)
        try:
            yield
        finally:
            self.switch(0)

    def statistics(self) -> dict:
        """Return the numbers that cases are judged by; a device that is not used yet has none."""
        said = self.plugin.statistics().get(self.device, {})
        return {"evictions": said.get("evictions", 0),
                "restored": said.get("operators_replayed", 0) + said.get("fetches", 0)}

    def check(self, case: Case, counts: Counts) -> None:
        """Run a case three times, and count what came out."""
        try:
            reference, again = seeded(case), seeded(case)
        except Exception:
            counts.not_here += 1
            return
        if not same(reference, again):
            counts.unequal_to_itself += 1
            return
        before = self.statistics()
        try:
            with self.intercepted():
                wrong = "" if same(reference, seeded(case)) else "bits differ"
        except Exception as error:
            wrong = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        if wrong == "bits differ" and not all(same(reference, seeded(case))
                                              for _ in range(MORE_RUNS)):
            counts.unequal_to_itself += 1
            return
        after = self.statistics()
        evictions = after["evictions"] - before["evictions"]
        counts.cases += 1
        counts.evictions += evictions
        counts.evicting += evictions > 0
        counts.replaying += after["restored"] > before["restored"]
        if wrong:
            counts.wrong.append(f"{case.name}: {wrong}")

    def found(self) -> dict:
        """Return what a group's line has besides counts."""
        return {}


def seeded(case: Case) -> object:
    """Run a case from a fixed seed, of all devices."""
    torch.manual_seed(7)
    return case.run()


def is_plain(x: object) -> bool:
    """Tell whether x is an ordinary dense tensor."""
    return (torch.is_tensor(x) and x.layout == torch.strided and not x.is_quantized
            and x.device.type in ("cpu", "cuda") and not x.is_nested)


def evictable(x: object) -> object:
    """Return a tensor's copy that an operator made; anything else as it is."""
    if not is_plain(x):
        return x
    return x * 1 if x.is_floating_point() else x.clone()


def gapped(x: object) -> object:
    """Return a copy whose elements are not next to each other, in evictable storage."""
    return torch.stack([evictable(x)] * 2, -1)[..., 0] if is_plain(x) and x.dim() else evictable(x)


def weighted_sums(results: object) -> list[torch.Tensor]:
    """Return numbers that depend differently on each element of the differentiable results."""
    sums = []
    for x in pytree.tree_leaves(results):
        if is_plain(x) and x.requires_grad and x.numel():
            dtype = x.real.dtype if x.is_complex() else x.dtype
            product = x * torch.rand(x.shape, dtype=dtype, device=x.device)
            sums.append(product.abs().sum() if x.is_complex() else product.sum())
    return sums


def gradients(results: object, wanted: list[torch.Tensor], twice: bool = False) -> object:
    """Return first gradients by leaves, and where asked, second ones; None where there are none."""
    sums = weighted_sums(results)
    if not sums or not wanted:
        return None
    first = torch.autograd.grad(sums, wanted, allow_unused=True, create_graph=twice)
    again = weighted_sums(first) if twice else []
    if not again:
        return first
    return first, torch.autograd.grad(again, wanted, allow_unused=True)
