"""What cannot be evicted, why, and what to do about it."""

from __future__ import annotations

from .trace_reader import ACTIVATIONS, GRADIENTS, INPUTS, OPTIMIZER, PARAMETERS, Trace

# By reason: what the reason is called, why that stays, and what to do about it.
REASONS: dict[str, tuple[str, str, str]] = {
    "parameters": (
        "parameters",
        "Their contents come from outside of the recorded operators, or from an optimizer that "
        "updates them in place: nothing can compute them again.",
        "A second tier can hold them between uses (--offload). Smaller types, frozen or shared "
        "weights and LoRA need less."),
    "optimizer state": (
        "optimizer state",
        "It sums up all steps so far, and is updated in place.",
        "It is used once a step, so a second tier holds it well (--offload). SGD has none, "
        "Adafactor and 8-bit optimizers have less."),
    "gradients": (
        "gradients",
        "They are made by an operator that cannot be replayed, or accumulate in memory that was "
        "there before.",
        "zero_grad(set_to_none=True), which is the default, frees them right after the step; an "
        "optimizer step in the backward pass frees each as soon as it is used."),
    "inputs": (
        "inputs and buffers",
        "They come from outside: a data loader, NumPy, a file.",
        "Hold one batch at a time; move a batch to its device, or to float, only when it is used, "
        "and delete what is not needed any more."),
    "unreplayable": (
        "results of operators that cannot be replayed",
        "Nothing is known of the operator, it writes several tensors at once, or it has read "
        "memory that may change unseen.",
        "Have operators of your own checked (tidepool verify --trust FILE, on the CPU), and read "
        "what comes from outside by a plain operator first. The manual's page on what is supported "
        "lists the others."),
    "operand": (
        "operands of operators of which nothing is known",
        "Such an operator may have kept their address, and may read or write them later.",
        "The manual's page on what is supported says of which operators that is so. A kernel that "
        "the job, or a library that it imports, has put in place of PyTorch's is one of them."),
    "address": (
        "tensors whose address was handed out",
        "numpy(), DLPack, share_memory_() or data_ptr() gave a pointer away: the contents may be "
        "written, or read, at any time.",
        "Hand out a small copy: x.detach().clone().numpy()."),
    "reads address": (
        "results computed from such tensors",
        "They cannot be computed again, because what they were computed from may have changed.",
        "Copy the tensor whose address is handed out first, and compute from the original."),
}
_OF_ROLE = {PARAMETERS: "parameters", OPTIMIZER: "optimizer state", GRADIENTS: "gradients",
            INPUTS: "inputs"}


def group_of(trace: Trace, number: int) -> tuple[int, str, int, str]:
    """Return role, operator, place and pin of a storage: the group that tables count it in.

    Operator and place are those that made it; of what comes from outside, the place that first
    used it.
    """
    storage = trace.storages[number]
    operators = trace.operators
    if storage.maker >= 0:
        maker = operators[storage.maker]
        return storage.role, maker.name, maker.place, reason_of(trace, number)
    place = operators[storage.first_use].place if storage.first_use >= 0 else -1
    return storage.role, "", place, reason_of(trace, number)


def reason_of(trace: Trace, number: int) -> str:
    """Return why a storage cannot be evicted: a key of REASONS, or "" if it can."""
    storage = trace.storages[number]
    if storage.maker < 0:
        return _OF_ROLE.get(storage.role, "inputs")
    if storage.cut:
        return storage.cut
    maker = trace.operators[storage.maker]
    if not maker.recordable:
        return _OF_ROLE.get(storage.role, "unreplayable")
    if any(trace.storages[read].cut for read in maker.reads):
        return "reads address"
    if storage.role in (PARAMETERS, OPTIMIZER):
        return _OF_ROLE[storage.role]
    assert storage.role in (ACTIVATIONS, GRADIENTS, INPUTS)
    return ""
