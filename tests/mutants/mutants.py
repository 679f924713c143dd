"""The mutants: deliberate bugs that show that tests find them, as replacements of exact texts.

Each breaks, in one idea, a rule of docs/architecture.md, "What keeps the bits the same". A place
names a text of a source file, which must stand there exactly once; mutant_sources.py builds the
bugs into a copy of the sources.
"""

from dataclasses import dataclass
from enum import Enum


class Form(Enum):
    """How a place's bug replaces its text, and so what both must be."""

    INSTEAD = "instead"  # two expressions
    BEFORE = "before"  # statements, which the bug puts before the text
    AFTER = "after"  # statements, which the bug puts after the text


@dataclass(frozen=True)
class Place:
    """A bug in one place of the sources."""

    file: str
    form: Form
    text: str  # as it stands, exactly once
    bug: str


@dataclass(frozen=True)
class Mutant:
    """A bug in one or more places, built in together."""

    name: str  # the number of the rule, a dot, a word
    wrong: str  # one clause
    places: tuple[Place, ...]


def instead(file: str, text: str, bug: str) -> Place:
    """Return a place where one expression stands for another."""
    return Place(file, Form.INSTEAD, text, bug)


def before(file: str, text: str, bug: str) -> Place:
    """Return a place with statements more before a text."""
    return Place(file, Form.BEFORE, text, bug)


def after(file: str, text: str, bug: str) -> Place:
    """Return a place with statements more after a text."""
    return Place(file, Form.AFTER, text, bug)


NOTHING = "void()"
CUDA_ALLOCATOR = "bindings/torch_cuda/cuda_allocator.cpp"
TORCH = "bindings/torch"
ARGUMENT_TRACKING = f"{TORCH}/intercept/operands/argument_tracking.cpp"
CALL_ARGUMENTS = f"{TORCH}/intercept/operands/call_arguments.cpp"
INTERCEPTED_CALL = f"{TORCH}/intercept/intercepted_call.cpp"
BOXED_CALL = f"{TORCH}/intercept/boxed_call.cpp"
CALL_BODY = f"{TORCH}/calls/call_body.cpp"
OPERATOR_INFO = f"{TORCH}/calls/operator_info.cpp"
VARYING_OPERATORS = f"{TORCH}/calls/varying_operators.cpp"
ENGINE = f"{TORCH}/engine/engine.cpp"
PENDING_COLLECTIVES = f"{TORCH}/engine/pending_collectives.cpp"
TORCH_BACKEND = f"{TORCH}/engine/torch_backend.cpp"
REPLAYING = f"{TORCH}/base/replaying.cpp"
NUMERIC_STATE = f"{TORCH}/state/numeric_state.cpp"
RANDOM_STATE = f"{TORCH}/state/random_state.cpp"
STORAGE_ACCESS = f"{TORCH}/storage/storage_access.cpp"
TRIPWIRE = f"{TORCH}/storage/tripwire.cpp"
OPERATOR_CALL = "remat/operator_call.cpp"
RUNTIME = "remat/runtime.cpp"
VERSIONS = "remat/versions.cpp"
DEPENDENT_CUT = "remat/residency/dependent_cut.cpp"
RESIDENCY = "remat/residency/residency.h"
LEAVING = "remat/residency/residency.cpp"
REPLAY_ORDER = "remat/residency/replay_stream_order.h"
RESTORER = "remat/restore/restorer.cpp"
HOST_TIER = "remat/tier/host_tier.cpp"
LIST_PARTS = f"{TORCH}/intercept/operands/list_parts.cpp"

JOB_GENERATOR = "at::globalContext().defaultGenerator(device)"
ACCESS_READ = "  if (!written) return remat::Access::kRead;\n"
IS_ROOT = "storage != nullptr && storage->current->producer == nullptr"
STARTS_INSIDE = "seen.storage != nullptr && seen.tensor->storage_offset() > 0"
# Further guards that would keep the bugs of some mutants from showing, and are off in these: the
# hook for raw pointers, the lists of what is known of operators, and the restoration of all that is
# evicted before a switch of the whole process changes.
UNSEEN = after(TRIPWIRE, "void on_raw_access(c10::StorageImpl* storage) {\n", "return;")
ALL_TRUSTED = instead(
    OPERATOR_INFO,
    "evidence == Evidence::kTrusted || evidence == Evidence::kVaries || is_surgery", "true")
NEVER_SETTLES = (after(ENGINE, "void Engine::begin_settling() {\n", "return;"),
                 after(ENGINE, "void Engine::end_settling() {\n", "return;"))


def constant(name: str, wrong: str, layout: str) -> Mutant:
    """Return a mutant that takes tensors of a layout that records cannot hold for constants.

    Args:
        name: its name
        wrong: what is wrong
        layout: what to ask a pointer to a tensor that tells such a layout
    """
    skip = f"if (seen.tensor != nullptr && seen.tensor->{layout}) {{ continue; }}"
    # A copy for good: records die under the lock.
    keep = (f"if (!absent && value.unsafeToTensorImpl()->{layout})"
            " { body.set_argument(k, value); new c10::IValue(value); }")
    return Mutant(name, wrong, (
        instead(INTERCEPTED_CALL, "seen_[k].tensor == nullptr",
                f"seen_[k].tensor == nullptr || seen_[k].tensor->{layout}"),
        after(INTERCEPTED_CALL, "    seen.home = Home::kAbsent;\n", skip),
        after(BOXED_CALL, "if (absent) body.set_argument(k, value);\n", keep),
        ALL_TRUSTED))


def raw_pointer(name: str, wrong: str) -> Mutant:
    """Return a mutant in which a pointer that leaves makes no new version."""
    return Mutant(name, wrong, (
        instead(STORAGE_ACCESS, "runtime.cut(storage, remat::RootReason::kRawWrite, lock)",
                NOTHING),
        instead(STORAGE_ACCESS, "storage->fixed = true", "storage->fixed |= false")))


MUTANTS = (
    Mutant("1.view_offset", "a replay reads a view from the start of its storage", (
        instead(CALL_BODY, "slot.offset = offset", "slot.offset = 0"),)),
    Mutant("1.view_strides", "a replay reads a view as if it were contiguous", (
        before(CALL_BODY, "  next_dimension_ += 2 * dimensions;\n",
               "for (size_t k = dimensions, stride = 1; k-- > 0; stride *= tensor->size(k))"
               " next_dimension_[dimensions + k] = static_cast<int64_t>(stride);"),)),
    Mutant("1.view_lock", "an operand that starts inside its storage is not locked", (
        before(INTERCEPTED_CALL, "  if (recordable) return begin_body();\n",
               "for (const Seen& seen : seen_)"
               f" {{ if ({STARTS_INSIDE}) --seen.storage->locks; }}"),
        before(INTERCEPTED_CALL, "  if (!trusted_ || inside_) [[unlikely]] {\n",
               "for (const Seen& seen : seen_)"
               f" {{ if ({STARTS_INSIDE}) ++seen.storage->locks; }}"))),
    Mutant("2.in_place", "an in-place write makes no new version", (
        instead(OPERATOR_CALL, "context_.versions.start_recorded_version(storage, *record_)",
                NOTHING),)),
    Mutant("2.partial_overwrite", "overwriting a part counts as overwriting all", (
        after(CALL_ARGUMENTS, "bool CallArguments::Argument::covers_storage() const {\n",
              "return true;"),)),
    Mutant("2.update_as_overwrite", "an update of all bytes counts as a write that reads none", (
        instead(CALL_ARGUMENTS, "info.overwrites && !shared", "!shared"),
        before(INTERCEPTED_CALL, "  if (info_.overwrites) seen_.find_shared();\n",
               "if (!info_.overwrites) { seen_.find_shared(); }"))),
    Mutant("2.root_as_blank", "a write into contents without lineage needs none of them", (
        after(CALL_ARGUMENTS, ACCESS_READ,
              f"if ({IS_ROOT}) {{ return remat::Access::kOverwrite; }}"),)),
    Mutant("2.root_write", "a write into contents without lineage is taken for a read", (
        after(CALL_ARGUMENTS, ACCESS_READ,
              f"if ({IS_ROOT}) {{ return remat::Access::kRead; }}"),)),
    Mutant("2.write_not_cut", "what depends on an overwritten root is not protected", (
        after(VERSIONS, "bool Versions::protect_dependents(Storage& storage, RootReason reason, "
                        "DeviceLock& lock) {\n",
              "return true;"),)),
    Mutant("2.death_not_cut", "what depends on a dead root is not protected", (
        after(DEPENDENT_CUT, "bool DependentCut::retain_or_cut(Value& value, void* address, "
                             "bool will_be_refilled) {\n",
              "return false;"),)),
    Mutant("3.hidden_write", "a replay updates running statistics again", (
        instead(OPERATOR_INFO, "schema.name() != hidden.name", "true"),)),
    Mutant("3.writes_original", "an in-place replay writes into contents that others read", (
        after(RESTORER, "  replay.target = step.target;\n",
              "if (step.written != nullptr && step.written->available())"
              " { replay.target = step.written->address(); }"),)),
    Mutant("4.state", "a replay draws from where the random generator stands", (
        instead(TORCH_BACKEND, "body.random != nullptr", "false"),)),
    Mutant("4.private_generator", "a replay draws from the generator that the job uses", (
        instead(TORCH_BACKEND, "*generator.unsafeGetGeneratorImpl()",
                f"*{JOB_GENERATOR}.unsafeGetGeneratorImpl()"),
        instead(TORCH_BACKEND, "c10::IValue(generator)", f"c10::IValue({JOB_GENERATOR})"))),
    Mutant("4.normal_cache", "the generator's spare normal sample is not recorded", (
        before(RANDOM_STATE,
               "  state.next_float_normal = own.next_float_normal_sample();\n", "return;"),)),
    Mutant("5.foreign", "foreign memory counts as stable", (
        before(CALL_BODY, "  slot.immediate = next_immediate_;\n",
               "if (!tensor->is_wrapped_number())"
               " { slot.immediate = storage->_mutable_data_ptr_no_checks().get(); return; }"),
        instead(INTERCEPTED_CALL, "scalar && seen.supported", "seen.supported"))),
    Mutant("5.unstable_input", "results that read escaped memory have lineage", (
        instead(OPERATOR_CALL, "storage.escaped", "false"),)),
    Mutant("5.collective", "a collective's operands keep their lineage", (
        before(INTERCEPTED_CALL, "    if (info_.returns_work && seen.supported) {\n",
               "if (info_.returns_work) { continue; }"),
        UNSEEN)),
    Mutant("5.collective_ends", "a collective's operands are let alone before it has ended", (
        instead(PENDING_COLLECTIVES, "!entry.has_ended()", "false"),
        UNSEEN)),
    raw_pointer("5.compiled", "inputs that compiled code may write keep their lineage"),
    Mutant("5.python_operator", "operators written in Python are replayed", (
        ALL_TRUSTED,)),
    Mutant("5.unknown_effect", "operands of unknown operators keep their lineage", (
        before(INTERCEPTED_CALL,
               "engine().runtime().cut(seen.storage, remat::RootReason::kUnsupported, lock);",
               "continue;"),
        UNSEEN)),
    Mutant("5.aliasing_output", "an output that aliases an operand counts as fresh", (
        instead(ARGUMENT_TRACKING, "tensor->unsafe_storage().use_count() != 1",
                "engine.allocator().set_owner(data.get(), nullptr), false"),
        before(TORCH_BACKEND,
               "  TORCH_CHECK(holds_block(data) && engine",
               "if (data.get_deleter() != &delete_block) {"
               " void* copy = engine.allocator().allocate(storage->nbytes());"
               " engine.backend().copy(copy, data.get(), storage->nbytes()); return copy; }"),
        # Two storages have one block then, of which the allocator knows nothing after the first.
        instead(REPLAY_ORDER, "allocator_.stream(address) != stream", "has_streams_"))),
    Mutant("5.list_write", "a write of several tensors is recorded as one of the last", (
        instead(OPERATOR_CALL, "make_roots(RootReason::kListWrite)", NOTHING),)),
    constant("5.sparse", "sparse operands are taken for constants",
             "layout() == c10::kSparse"),
    constant("5.nested", "nested operands are taken for constants",
             "key_set().has(c10::DispatchKey::NestedTensorCPU)"),
    constant("5.mkldnn", "mkldnn operands are taken for constants",
             "layout() == c10::kMkldnn"),
    Mutant("6.escaped_evicted", "escaped storages are evicted", (
        instead(RUNTIME, "storage.escaped = true", "storage.escaped = false"),)),
    Mutant("6.escape_not_cut", "what depends on an escaping storage is not protected", (
        instead(RUNTIME, "cut_unasked(storage, RootReason::kEscaped, lock)", NOTHING),)),
    raw_pointer("6.looked_at", "a pointer that was asked for makes no new version"),
    Mutant("6.tripwire", "raw writers that no dispatcher shows are not noticed", (
        UNSEEN,)),
    Mutant("7.captured_operand", "what a captured graph uses can be evicted", (
        after(INTERCEPTED_CALL, "kUnsupported);\n  call().prepare(lock);\n", "return;"),)),
    Mutant("7.captured_generator", "the seeds that a captured graph reads can be evicted", (
        before(INTERCEPTED_CALL, "  for (const c10::Storage& storage : engine().backend()"
               ".captured_state(generator)) {\n", "return;"),)),
    Mutant("7.restored_in_capture", "evicted tensors are not restored before a capture", (
        after(CUDA_ALLOCATOR,
              "void CudaAllocator::restore_before_capture(DeviceIndex device) {\n", "return;"),)),
    Mutant("8.operand", "operands are not locked while the kernel runs", (
        after(OPERATOR_CALL, "    context_.observation.listener()->begins();\n",
              "for (const Operand& operand : operands_) { contents_.unlock(*operand.storage); }"),
        instead(OPERATOR_CALL, "contents_.unlock(*operand.storage)",
                "prepared_ ? void() : contents_.unlock(*operand.storage)"))),
    Mutant("8.replay_input", "inputs of a replay are not locked", (
        instead(RESIDENCY, "value.locks == 0", "true"),)),
    Mutant("8.threads", "a replay runs with another number of threads", (
        instead(NUMERIC_STATE, "from.threads != to.threads", "false"),)),
    Mutant("8.denormals", "a replay runs with another treatment of denormals", (
        instead(NUMERIC_STATE, "from.floating_point != to.floating_point", "false"),)),
    Mutant("8.default_dtype", "a replay runs with another default dtype", (
        instead(NUMERIC_STATE, "from.default_dtype != to.default_dtype", "false"),
        *NEVER_SETTLES)),
    Mutant("8.autocast", "a replay runs without the autocast of its call", (
        instead(NUMERIC_STATE, "excluded & c10::autocast_dispatch_keyset.raw_repr()",
                "c10::autocast_dispatch_keyset.raw_repr()"),)),
    Mutant("8.swallowed", "a replay goes on with less memory than its operator had", (
        instead(TORCH_BACKEND, "!ran_out_of_memory_since(failures)", "true"),
        before(REPLAYING, "return t_replaying;", "return false;"))),
    Mutant("9.view", "views restore what they look at", (
        instead(OPERATOR_INFO, "is_metadata = views && !writes", "is_metadata = false"),)),
    Mutant("9.empty", "empty_like restores what it looks at", (
        before(OPERATOR_INFO, "    is_metadata |= is_empty && !writes;\n", "continue;"),)),
    Mutant("10.table", "results that vary from run to run are replayed", (
        instead(VARYING_OPERATORS, "!name.starts_with(kLibrary)", "true"),)),
    Mutant("11.copied_early", "a copy to the host does not wait for who makes the bytes", (
        instead(HOST_TIER, "engine_->order_after(kOut, user)", NOTHING),)),
    Mutant("11.departure", "a block is handed out again while its bytes are still copied", (
        instead(LEAVING, "allocator_.record_use_locked(address, use)", NOTHING),)),
    Mutant("11.written_early", "a write into a block does not wait for the copy of its bytes", (
        before(LEAVING, "  return made;\n", "value.hidden_use = {};"),)),
    Mutant("11.fetched_early", "a copy from the host does not wait for who still reads the block", (
        instead(HOST_TIER, "engine_->order_after(kIn, user)", NOTHING),)),
    Mutant("11.arrival", "what comes from the host is used before it has arrived", (
        instead(RESTORER, "streams != nullptr ? streams->in : stream", "stream"),)),
    Mutant("11.sent_back_early", "a copy from the host does not wait for the copy to it", (
        instead(HOST_TIER, "engine_->wait(kIn, *copy.stored)", NOTHING),)),
    Mutant("11.taken_early", "room on the host is taken while a copy still reads it", (
        instead(HOST_TIER, "copy->loaded != nullptr", "false"),)),
    Mutant("11.stale_copy", "a write into contents leaves their copy valid", (
        instead(VERSIONS, "contents_.residency.copies.drop(present)", NOTHING),)),
    Mutant("11.list_part", "the last part of a list is left out", (
        instead(LIST_PARTS, "run(&part)",
                "begin > 0 && end == ends.back() ? part.clear() : run(&part)"),)),
)
