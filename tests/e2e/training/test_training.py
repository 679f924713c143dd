"""Whole networks train to the same bits with everything evicted all the time, and within budgets.

The normal run takes chaos and each budget for every network, in two modes of it, which are others
for the next network, and chaos with a tier for one; TIDEPOOL_FULL=1 takes all modes for all.
"""

import harness
import lab as labs
import pytest
from lab import Case
from selection import FULL

NETWORKS = ("mlp", "resnet18", "gpt", "bilstm", "treelstm", "vae", "resnet50", "densenet",
            "mobilenet", "unet", "detector", "vit", "windows", "translation", "experts",
            "statespace", "graph", "maml", "gan", "diffusion")
MODES = ("sgd", "adam_loop", "adam_foreach", "adamw_fused", "autocast")
BUDGETS = ("0.8", "0.6", "0.5", "0.4")
# Those that the usual run takes to the oldest supported PyTorch, too.
FLOOR_NETWORKS = ("resnet18", "gpt", "bilstm", "treelstm", "vae", "unet", "detector", "translation",
                  "maml", "gan")
HEADING = ("network", "mode", "pressure", "budget MiB", "steps", "time ratio", "evictions",
           "replayed")


def chaos_cases() -> list[Case]:
    """Return all, or for each network its two modes."""
    return [Case(network, mode, "chaos") for row, network in enumerate(NETWORKS)
            for mode in (MODES if FULL else [usual_mode(row, column) for column in (0, 1)])]


def tier_cases() -> list[Case]:
    """Return cases of chaos in which what is evicted leaves by a copy or not, as chance has it."""
    if not FULL:
        return [Case("gpt", "adam_foreach", "offload:1")]
    return [Case(network, mode, f"offload:{seed}")
            for network in NETWORKS for mode in MODES for seed in (1, 2)]


def usual_mode(row: int, column: int) -> str:
    """Return one of a network's two modes, which are others for the next network."""
    return MODES[(row + column % 2) % len(MODES)]


def budget_cases() -> list[Case]:
    """Return all, or for each network and budget one mode."""
    return [Case(network, mode, budget)
            for row, network in enumerate(NETWORKS) for column, budget in enumerate(BUDGETS)
            for mode in (MODES if FULL else [usual_mode(row, column)])]


def threaded_cases() -> list[Case]:
    """Return cases whose kernels use two threads, which changes the bits of some of them."""
    return [Case("resnet18", "adam_foreach", "0.6", threads=2), Case("gpt", "sgd", "chaos", 2)]


def floor_case(row: int) -> Case:
    """Return a network's case on the oldest supported PyTorch: chaos, or a budget."""
    column = row // 2 % len(BUDGETS)
    return Case(NETWORKS[row], usual_mode(row, column), BUDGETS[column] if row % 2 else "chaos")


def room_cases() -> list[Case]:
    """Return cases with fewer ways to make room than there are."""
    ways = ("windows", "windows+moves", "remap") if FULL else ("windows+moves",)
    networks = NETWORKS if FULL else ("resnet18", "gpt", "bilstm", "unet")
    return [Case(network, "adam_foreach", "0.6", room=room) for network in networks
            for room in ways]


FLOOR = {str(floor_case(NETWORKS.index(network))) for network in FLOOR_NETWORKS}
CASES = [*chaos_cases(), *tier_cases(), *budget_cases(), *threaded_cases(), *room_cases()]


@pytest.fixture(scope="module")
def outcomes(lab, request, summary):
    """Starts all selected cases, and adds a line to the table for each that was asked for."""
    selected = [item.callspec.params["case"] for item in request.session.items
                if item.module is request.module and hasattr(item, "callspec")
                and "case" in item.callspec.params]
    lab.schedule(selected)
    done = {}

    def outcome(case: Case) -> labs.Outcome:
        done[case] = lab.outcome(case)
        return done[case]

    yield outcome
    rows = [HEADING, *(done[case].row() for case in selected if case in done)]
    ran = sum(not outcome.result["error"] for outcome in done.values())
    title = f"training under pressure: {ran} of {len(done)} cases were feasible"
    summary(title, *harness.table(rows))


def marked(case: Case):
    return pytest.param(case, id=str(case),
                        marks=[pytest.mark.torch_floor] if str(case) in FLOOR else [])


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_training_gives_the_same_bits(case, lab, outcomes):
    outcome = outcomes(case)
    result = outcome.result
    problem = lab.compare(case, result)
    assert not problem, problem
    if result["error"]:
        assert not case.is_chaos, result["error"]
        if case.room:  # with less ways to make room than the report reckons with
            return
        check_shortage(outcome)
        return
    assert outcome.evictions > 0
    if case in tier_cases():
        assert outcome.stats["offloads"] > 0
        assert outcome.stats["fetches"] > 0
        assert outcome.stats["contents_different"] == {}
    if outcome.budget:
        stats = outcome.stats
        assert stats["budget_bytes"] == outcome.budget
        assert stats["reserved_peak_bytes"] <= outcome.budget
        assert stats["requested_peak_bytes"] <= stats["allocated_peak_bytes"]


def check_shortage(outcome: labs.Outcome) -> None:
    """A budget may be too small: by what the report says of this CPU's operators, which differ.

    How much memory a kernel takes for itself depends on the instructions that the CPU has, so no
    share of the activations suffices on all of them. What may not be is that a request fails while
    most of what it asks for could be made free.
    """
    message = outcome.result["error"]
    assert harness.lower_bound(message) > outcome.budget
    pinned = harness.bytes_in(message, "Cannot be evicted now:")
    requested = harness.bytes_in(message, "out of memory:")
    assert outcome.budget - pinned <= 2 * requested, (
        f"out of memory, though there was enough to evict:\n{message}")


@pytest.mark.every_shard
def test_most_budgets_are_feasible(outcomes, request):
    cases = [item.callspec.params["case"] for item in request.session.items
             if item.module is request.module and hasattr(item, "callspec")
             and "case" in item.callspec.params]
    budgets = [case for case in cases if not case.is_chaos and not case.room]
    if not budgets:
        pytest.skip("no budgets among the selected cases")
    feasible = [case for case in budgets if not outcomes(case).result["error"]]
    share = len(feasible) / len(budgets)
    assert share >= 0.8, f"only {len(feasible)} of {len(budgets)} cases ran: {share:.0%}"


@pytest.mark.every_shard
def test_contents_are_moved_where_pages_are_not(outcomes):
    moves = [outcomes(case).stats["moves"] for case in room_cases() if "moves" in case.room]
    assert sum(moves) > 0, moves


@pytest.mark.parametrize("network", NETWORKS)
def test_activations_outweigh_every_operator(lab, network):
    """What r is about must be activations: four times any operator's operands and results."""
    case = Case(network, usual_mode(NETWORKS.index(network), 0), "0.5")
    largest, activations = lab.largest_operator(case), lab.activation_bytes(case)
    assert activations >= 4 * largest["working_set_bytes"], (activations, largest)
