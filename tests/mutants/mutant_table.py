"""Which job notices which mutant of mutants.py, in which operator it shows first."""

from dataclasses import dataclass, field
from pathlib import Path

from mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
WRONG = {mutant.name: mutant.wrong for mutant in MUTANTS}


@dataclass(frozen=True)
class Killer:
    """A model of killer_models.py under which a mutant is noticed."""

    model: str
    shows: str  # the operator whose result comes back wrong
    settings: dict[str, str] = field(default_factory=lambda: {"chaos": "op"})
    step: int = 1  # in which it is noticed

    @property
    def job(self) -> tuple:
        """What is run, whichever mutant it is for."""
        return self.model, *sorted(self.settings.items())


ALLOCATIONS = {"chaos": "alloc"}
CALM = {"chaos": "none"}  # the model evicts

KILLERS = {
    "1.view_offset": Killer("views", "aten::sin"),
    "1.view_strides": Killer("views", "aten::addmm"),
    "1.view_lock": Killer("locked_view", "aten::unique_consecutive", ALLOCATIONS),
    "2.in_place": Killer("in_place", "aten::mul_.Tensor"),
    "2.partial_overwrite": Killer("in_place", "aten::fill_.Scalar"),
    "2.update_as_overwrite": Killer("in_place", "aten::mul_.Tensor"),
    "2.root_as_blank": Killer("buffers", "aten::add_.Tensor"),
    "2.root_write": Killer("buffers", "aten::mul.Tensor"),
    "3.hidden_write": Killer("batch_norm", "aten::native_batch_norm"),
    "3.writes_original": Killer("old_contents", "aten::mul_.Tensor"),
    "4.state": Killer("dropout", "aten::uniform_"),
    "4.private_generator": Killer("dropout", "aten::randn.generator"),
    "4.normal_cache": Killer("spare_normal", "aten::randn"),
    "5.foreign": Killer("foreign", "aten::mul.Tensor"),
    "5.unstable_input": Killer("escaped", "aten::mul.Tensor"),
    "5.collective": Killer("collective", "c10d::allreduce_", CALM),
    "5.collective_ends": Killer("late_collective", "aten::sin", CALM),
    "5.compiled": Killer("compiled", "aten::mul.Tensor"),
    "5.python_operator": Killer("python_operator", "tidepool_killers::counted"),
    "5.unknown_effect": Killer("lying_operator", "aten::mul.Tensor"),
    "5.aliasing_output": Killer("aliasing_output", "aten::unsafe_split.Tensor"),
    "5.list_write": Killer("list_write", "aten::sin"),
    "5.sparse": Killer("sparse", "aten::_sparse_addmm"),
    "5.nested": Killer("nested", "aten::to_padded_tensor"),
    "5.mkldnn": Killer("mkldnn", "aten::_to_dense"),
    "6.escaped_evicted": Killer("escaped_overwritten", "aten::copy_"),
    "6.escape_not_cut": Killer("escaped", "aten::mul.Tensor"),
    "6.looked_at": Killer("raw_pointer", "aten::mul.Tensor"),
    "6.tripwire": Killer("unseen_writer", "aten::neg_", CALM),
    "8.operand": Killer("long_operator", "aten::mm", CALM),
    "8.replay_input": Killer("chain", "aten::addmm", ALLOCATIONS),
    "8.threads": Killer("thread_count", "aten::sum"),
    "8.denormals": Killer("denormals", "aten::mul.Tensor"),
    "8.default_dtype": Killer("default_dtype", "aten::div.Tensor"),
    "8.autocast": Killer("autocast", "aten::_trilinear"),
    "9.view": Killer("metadata", "aten::t"),
    "9.empty": Killer("metadata", "aten::empty_like"),
}

# Mutants of what only CUDA has, by the case of tests/torch_cuda/remat_jobs.py that notices.
ON_CUDA = {"7.captured_operand": "captured", "7.restored_in_capture": "captured",
           "7.captured_generator": "captured_draws",
           "8.swallowed": "replay_refused",
           "10.table": "varying"}

# Mutants of copies to a tier, by how a GPT on CUDA is made to offload: by chaos, or by a budget of
# as many bytes as live all the time.
CHAOS, TIGHT = "chaos", "tight"
OFFLOADED = {"11.copied_early": CHAOS, "11.departure": TIGHT, "11.fetched_early": TIGHT,
             "11.arrival": CHAOS, "11.stale_copy": CHAOS, "11.list_part": TIGHT}

# Mutants that C++ tests notice, by the program and the file of these. Of copies: in the job above
# other copies, which it waits for, come between.
IN_CPP = {"2.write_not_cut": ("sim", "exhaustive_test"),
          "2.death_not_cut": ("sim", "exhaustive_test"),
          "11.written_early": ("remat", "write_behind_test"),
          "11.sent_back_early": ("remat", "host_tier_test"),
          "11.taken_early": ("remat", "host_tier_test")}
# Those that end in an error rather than in other bits, by the jobs that end.
ENDING = {
    "2.write_not_cut": Killer("buffers", "aten::mul.Tensor"),
    "2.death_not_cut": Killer("dead_root", "aten::mul.Tensor"),
}

COUNTED_RULES = ("9",)  # noticed by the count of replays, not by bits
