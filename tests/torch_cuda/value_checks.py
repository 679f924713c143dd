"""Looks at single operators with value kernels, on the stand-in CUDA device.

    python value_checks.py

Prints one line of JSON: what each check found, by its name.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import standin

import value_kernels  # isort: skip  before torch
import torch

device = standin.Device()
kernels = value_kernels.install()
CHECKS: dict[str, Callable[[], object]] = {}


def check(function: Callable[[], object]) -> Callable[[], object]:
    """Add a check under its name."""
    CHECKS[function.__name__] = function
    return function


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return 1, 2, 3, … on the CPU."""
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=dtype).reshape(shape)


def same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether dtypes, shapes and bits are equal."""
    return value_kernels.fingerprint([first]) == value_kernels.fingerprint([second])


def change(function: Callable[..., torch.Tensor], *one: object, **other: object) -> bool:
    """Return whether a function's result differs from that with other keyword arguments."""
    return not same(function(*one), function(*one, **other))


@check
def copies_are_true() -> dict[str, bool]:
    source = numbers(4, 6)
    there = source.cuda()
    apart = torch.empty(6, 4, device="cuda").t()
    apart.copy_(there)
    into = torch.zeros(4, 6, device="cuda")
    into[:, 2:4] = there[:, 2:4]
    expected = torch.zeros(4, 6)
    expected[:, 2:4] = source[:, 2:4]
    row = torch.empty(4, 6, device="cuda").copy_(there[0])
    foreach = [torch.empty(4, 6, device="cuda"), torch.empty(6, device="cuda")]
    torch._foreach_copy_(foreach, [there, there[1]])
    pinned = source.pin_memory().to("cuda", non_blocking=True)
    image = torch.arange(2 * 3 * 4 * 5.).reshape(2, 3, 4, 5)
    return {
        "there_and_back": same(there.cpu(), source), "clone": same(there.clone(), source),
        "transposed": same(there.t().contiguous(), source.t().contiguous()),
        "to_strided": same(apart, source), "into_a_view": same(into, expected),
        "broadcast": same(row, source[:1].expand(4, 6)), "pinned": same(pinned, source),
        "foreach": same(foreach[0], source) and same(foreach[1], source[1]),
        "channels_last": same(image.cuda().to(memory_format=torch.channels_last), image),
        "to_half": same(there.half(), source.half()), "to_int": same(there.int(), source.int()),
        "to_bfloat16": same(there.to(torch.bfloat16), source.to(torch.bfloat16)),
        "repeat": same(there.repeat(2, 1), source.repeat(2, 1)),
    }


@check
def fills_are_true() -> dict[str, bool]:
    x = numbers(3, 3).cuda()
    x[1].zero_()
    x[:, 2].fill_(2.5)
    expected = numbers(3, 3)
    expected[1].zero_()
    expected[:, 2].fill_(2.5)
    some = [numbers(3).cuda(), numbers(2).cuda()]
    torch._foreach_zero_(some)
    return {
        "views": same(x, expected), "full": same(torch.full((3,), 7, device="cuda"),
                                                 torch.full((3,), 7)),
        "ones": same(torch.ones(3, dtype=torch.bool, device="cuda"), torch.ones(3).bool()),
        "foreach": same(some[0], torch.zeros(3)) and same(some[1], torch.zeros(2)),
        "tensor": same(x[0].fill_(x[1, 0]), torch.zeros(3)),
        "item": numbers(3).cuda()[1].item() == 2.0,
        "equal": torch.equal(x, x.clone()) and not torch.equal(x, numbers(3, 3).cuda()),
        "nonzero": same(torch.tensor([[0, 3], [2, 0]]).cuda().nonzero(),
                        torch.tensor([[0, 1], [1, 0]])),
    }


@check
def only_the_elements_of_a_view_are_written() -> dict[str, bool]:
    x = numbers(4, 4).cuda()
    x[1:3, 1:3].mul_(2)
    outside = torch.ones(4, 4, dtype=torch.bool)
    outside[1:3, 1:3] = False
    y = numbers(8).cuda()
    torch.add(y[:4], 1, out=y[4:])
    return {"outside": same(x.cpu()[outside], numbers(4, 4)[outside]),
            "inside": not (x.cpu() == numbers(4, 4))[~outside].any().item(),
            "before_out": same(y[:4], numbers(4)),
            "out": same(y[4:], torch.add(numbers(4).cuda(), 1, out=torch.empty(4).cuda()))}


@check
def results_depend_on_all_that_is_read() -> dict[str, bool]:
    x, y = numbers(3, 4).cuda(), numbers(4, 3).cuda()
    twice = x.clone().mul_(2)
    return {
        "again": same(x @ y, x.clone() @ y), "layout": same(x @ y, x.t().contiguous().t() @ y),
        "input": not same(x @ y, (x.clone().fill_(1)) @ y),
        "operator": not same(x.sin(), x.cos()), "scalar": change(torch.add, x, x, alpha=2),
        "option": not same(x.sum(0, keepdim=True), x.sum(1, keepdim=True)[:1].expand(1, 4)),
        "shape": not same(x.sin().view(-1), x.view(-1).sin()),
        "old_contents": not same(twice, twice.clone().mul_(2)),
        "second_of_a_list": not same(torch.cat([x, x]), torch.cat([x, twice])),
        "foreach": same(torch._foreach_add([x, x], 1)[0], torch._foreach_add([x, twice], 1)[0]),
        "foreach_reads": not same(*torch._foreach_add([x, twice], 1)),
        "outputs_differ": not same(*torch.frexp(x.double())[:1], x.double()),
    }


@check
def values_are_in_range() -> dict[str, bool]:
    x = numbers(4096).cuda()
    found = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        y = x.to(dtype).sin().cpu().double()
        found[str(dtype)] = bool((y.abs() <= 1).all()) and y.unique().numel() > 200
    places = x.argsort().cpu()
    found["integers"] = 0 <= int(places.min()) < 8 and 120 <= int(places.max()) < 128
    found["booleans"] = 0.4 < (x > 3).cpu().float().mean().item() < 0.6
    return found


@check
def random_numbers_follow_from_the_state() -> dict[str, bool]:
    def draw(generator: torch.Generator | None = None) -> torch.Tensor:
        return torch.empty(64, device="cuda").normal_(generator=generator)

    own = torch.Generator("cuda")
    torch.cuda.manual_seed(3)
    default = torch.cuda.default_generators[0]
    first, second = draw(), draw()
    moved = default.get_offset()
    own.manual_seed(3)
    default.manual_seed(4)
    other = draw()
    x = torch.ones(64, device="cuda")
    idle = [torch.native_dropout(x, 0.5, False)[0] for _ in range(2)]
    return {"moves": moved > 0, "offset": not same(first, second), "seed": not same(first, other),
            "own": same(draw(own), first), "own_moves": same(draw(own), second),
            "garbage": same(torch.full_like(x, 9).uniform_(generator=own.manual_seed(1)),
                            x.clone().uniform_(generator=own.manual_seed(1))),
            "nothing_drawn": same(*idle)}


@check
def batch_norm_writes_what_its_schema_hides() -> dict[str, dict[str, bool]]:
    def norm(mean: float, training: bool) -> tuple[torch.Tensor, torch.Tensor]:
        running = torch.full((3,), mean, device="cuda")
        y = torch.batch_norm(x, None, None, running, torch.ones(3, device="cuda"), training, 0.1,
                             1e-5, torch.backends.cudnn.enabled)
        return y, running

    def norm_without() -> torch.Tensor:
        return torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5,
                                torch.backends.cudnn.enabled)

    x = numbers(2, 3, 4).cuda()
    found = {}
    for cudnn in (True, False):
        torch.backends.cudnn.enabled = cudnn
        (y, mean), (other_y, other_mean) = norm(0.0, True), norm(1.0, True)
        (eval_y, kept), (other_eval_y, _) = norm(0.0, False), norm(1.0, False)
        found[f"cudnn_{cudnn}"] = {
            "written": not same(mean, torch.zeros(3)), "from_the_old": not same(mean, other_mean),
            "result_does_not_read_it": same(y, other_y), "absent": same(y, norm_without()),
            "kept": same(kept, torch.zeros(3)),
            "result_reads_it": not same(eval_y, other_eval_y)}
    torch.backends.cudnn.enabled = True
    return found


@check
def threads_have_values_too() -> dict[str, bool]:
    x = numbers(8).cuda()
    found: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: found.append(x.sin()))
    thread.start()
    thread.join()
    leaf = x.clone().requires_grad_()
    leaf.sin().sum().backward()  # on a thread of autograd's
    return {"thread": same(found[0], x.sin()),
            "backward": same(leaf.grad, torch.ones_like(x) * x.cos())}


@check
def planted_faults_happen_once() -> dict[str, bool]:
    def twice_written() -> torch.Tensor:
        x = numbers(4).cuda()
        x.mul_(2)
        x.mul_(3)
        return x.sin()

    def planted(plant: Callable[[int], None], n: int) -> torch.Tensor:
        plant(n)
        return twice_written()

    right, before = twice_written(), kernels.planted_happened()
    stale = planted(kernels.plant_stale_read, 1)
    lost = planted(kernels.plant_lost_write, 2)
    return {"stale": not same(stale, right), "lost": not same(lost, right),
            "different": not same(stale, lost), "right_again": same(twice_written(), right),
            "happened": kernels.planted_happened() - before == 2}


@check
def operands_are_declared_to_the_race_checker() -> dict[str, bool]:
    def races_of(records: bool) -> int:
        before, x = len(device.races()), numbers(1024).cuda()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = torch.cat([x, x])
        if records:
            x.record_stream(side)
        del x
        torch.ones(1024, device="cuda").add_(1)  # where x was, unless it is still in use
        torch.cuda.synchronize()
        del y
        return len(device.races()) - before

    side = torch.cuda.Stream()
    kernels.watch()
    found = {"seen": races_of(False) > 0, "record_stream": races_of(True) == 0}
    kernels.watch(False)
    return {**found, "switched_off": races_of(False) == 0}


def main() -> None:
    torch.zeros(1, device="cuda")
    device.watch_allocator()
    said = {name: function() for name, function in CHECKS.items()}
    print(json.dumps({**said, "untreated": kernels.untreated(), "replaced": kernels.replaced}),
          flush=True)
    os._exit(0)  # see training_jobs.py


if __name__ == "__main__":
    main()
