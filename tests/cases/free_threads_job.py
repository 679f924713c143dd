"""Four threads that draw, seed, change switches, replace kernels and train at once, as they like.

    python free_threads_job.py OUT.json SEED --steps N | --seconds N

No result is known beforehand. But at each step each thread checks that the switches, the seed and
the state of the default generator are what a thread may have set (a value is noted before it is
set), that its own switches are its own, that a tensor reads as when it was made, that no number of
a shared generator is drawn twice or lost, and that its network trains to the one right result.
OUT gets what was found wrong, and counts.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import random
import threading
import time
import traceback
import warnings
from collections import Counter

import torch
import torch.nn.functional as F
from case_job import fingerprint
from thread_actions import OWN_NAMES

THREADS, KEPT, DRAWN = 4, 16, 7


class Watched:
    """Something that belongs to the process: the values that it may have at a moment."""

    def __init__(self, name, read, write, values):
        self.name, self.read, self.write, self.values = name, read, write, values
        self.log, self.oldest = [read()], 0  # of the values set so far, the oldest still possible
        self.lock = threading.Lock()

    def set(self, value) -> None:
        with self.lock:
            self.log.append(value)
            self.write(value)
            self.oldest = len(self.log) - 1

    def look(self) -> str:
        """Return what is wrong with what is read now."""
        oldest = self.oldest
        value = self.read()
        possible = self.log[oldest:]
        return "" if value in possible else f"{self.name} is {value}, none of {possible}"


def switches() -> list[Watched]:
    on_or_off = (False, True)
    compiled, filling = torch._C, torch.utils.deterministic
    return [
        Watched("default dtype", lambda: torch.zeros(2).dtype, torch.set_default_dtype,
                (torch.float32, torch.float64)),
        Watched("deterministic", torch.are_deterministic_algorithms_enabled,
                torch.use_deterministic_algorithms, on_or_off),
        Watched("filling", lambda: filling.fill_uninitialized_memory,
                lambda on: setattr(filling, "fill_uninitialized_memory", on), on_or_off),
        Watched("mkldnn", compiled._get_mkldnn_enabled, compiled._set_mkldnn_enabled, on_or_off),
        Watched("precision", torch.get_float32_matmul_precision,
                torch.set_float32_matmul_precision, ("highest", "high", "medium")),
        Watched("nnpack", compiled._get_nnpack_enabled, compiled._set_nnpack_enabled, on_or_off),
        Watched("flash attention", torch.backends.cuda.flash_sdp_enabled,
                torch.backends.cuda.enable_flash_sdp, on_or_off)]


DRAWS = (lambda generator: torch.rand(DRAWN, generator=generator, dtype=torch.float32),
         lambda generator: torch.randn(20, generator=generator, dtype=torch.float32),
         lambda generator: torch.ones(30, dtype=torch.float32).bernoulli_(0.4, generator=generator),
         lambda generator: torch.randperm(9, generator=generator))


def digest_of(state: torch.Tensor) -> str:
    return hashlib.sha1(bytes(state.tolist())).hexdigest()


class Stream:
    """The default generator: one thread at a time seeds it and draws from it, all look at it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.log, self.oldest = [{self.look_now()}], 0  # seeds and states of each session

    @staticmethod
    def look_now(generator=torch.default_generator) -> tuple:
        return generator.initial_seed(), digest_of(generator.get_state())

    def look(self) -> str:
        oldest = self.oldest
        now = digest_of(torch.get_rng_state())
        states = {state for session in self.log[oldest:] for _, state in session}
        return "" if now in states else "the default generator has a state that nobody made"

    def session(self, choose: random.Random) -> tuple[str, list[torch.Tensor]]:
        """Seed and draw; return what is wrong, and what was drawn."""
        seeds, kinds = [choose.randrange(10**6) for _ in range(2)], choose.choices(DRAWS, k=4)
        with self.lock:
            generator, states, expected = torch.Generator(), set(), []
            for seed in seeds:
                generator.manual_seed(seed)
                states.add(self.look_now(generator))
                for kind in kinds:
                    expected.append(kind(generator).tolist())
                    states.add(self.look_now(generator))
            self.log.append(states)
            found, drawn = set(), []
            for seed in seeds:
                torch.manual_seed(seed)
                found.add(self.look_now())
                for kind in kinds:
                    drawn.append(kind(None))
                    found.add(self.look_now())
            self.oldest = len(self.log) - 1
        wrong = found != states or [each.tolist() for each in drawn] != expected
        return "a session of draws differs" if wrong else "", drawn


def trained(seed: int) -> str:
    """Train a network whose operators mind no switch, and return what becomes of it."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(40, generator=generator, dtype=torch.float32).requires_grad_()
               for _ in range(3)]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        for _ in range(3):
            hidden = torch.randn(20, 40, generator=generator, dtype=torch.float32)
            for weight in weights:
                hidden = torch.tanh(hidden * weight)
            optimizer.zero_grad()
            hidden.square().sum().backward()
            optimizer.step()
    return fingerprint(weights)


class Job:
    """What the threads share, and what each of them does at a step."""

    def __init__(self, seed: int):
        self.seed, self.switches, self.stream = seed, switches(), Stream()
        self.shared = torch.Generator().manual_seed(seed)
        self.drawn: list[tuple] = []  # from `shared`, by all
        self.kept: list[tuple[torch.Tensor, str]] = []
        self.wrong: Counter[str] = Counter()
        self.steps = [0] * THREADS
        self.expected = [trained(k) for k in range(THREADS)]
        self.x = torch.linspace(0.1, 0.9, 20, dtype=torch.float32)
        self.stock = {name: fingerprint(self.call(name)) for name in OWN_NAMES}

    def call(self, name: str) -> torch.Tensor:
        return getattr(torch.ops.aten, name)(self.x)

    def check(self, is_wrong, what: str = "") -> None:
        if is_wrong:
            self.wrong[what or is_wrong] += 1

    def keep(self, made: list[torch.Tensor]) -> None:
        self.kept.extend((each, fingerprint(each)) for each in made)
        del self.kept[:-KEPT]

    def work(self, number: int, may_go_on) -> None:
        choose = random.Random(f"{self.seed} {number}")
        library = None
        torch.get_num_threads()  # else the number that another thread has set comes over this one's
        try:
            while may_go_on(self.steps[number]):
                self.steps[number] += 1
                with self.own_switches(choose):
                    self.look(choose)
                    self.keep(self.make(choose))
                self.change(choose)
                if self.steps[number] % 8 == 0:
                    self.check(trained(number) != self.expected[number], "training differs")
                if self.steps[number] > 100 and choose.random() < 0.1:
                    library = self.replace(OWN_NAMES[number], library)
        except BaseException:
            self.wrong[traceback.format_exc()] += 1

    @contextlib.contextmanager
    def own_switches(self, choose: random.Random):
        """Switch what is this thread's own, and check that it stays so."""
        grad, cast, threads = [choose.random() < 0.5 for _ in range(2)] + [choose.choice([1, 2])]
        torch.set_num_threads(threads)
        with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16, enabled=cast):
            yield
            now = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"),
                   torch.is_inference_mode_enabled(), torch.get_num_threads())
            self.check(now != (grad, cast, False, threads), "a thread's own switch has changed")

    def look(self, choose: random.Random) -> None:
        for switch in self.switches:
            self.check(switch.look())
        self.check(self.stream.look())
        for tensor, digest in choose.sample(list(self.kept), min(3, len(self.kept))):
            self.check(fingerprint(tensor) != digest, "a tensor reads otherwise than at first")

    def make(self, choose: random.Random) -> list[torch.Tensor]:
        matrix = torch.linspace(0, 1, 400, dtype=torch.float32).reshape(20, 20)
        sums = torch.zeros(20, dtype=torch.float32)
        made = [torch.arange(30) / 7, matrix @ matrix, F.layer_norm(matrix, (20,)),
                sums.index_add_(0, torch.arange(20) % 7, matrix[0]),
                F.conv1d(matrix[None], matrix.reshape(5, 20, 4))]
        part = torch.rand(DRAWN, generator=self.shared, dtype=torch.float32)
        self.drawn.append(tuple(part.tolist()))
        wrong, drawn = self.stream.session(choose) if choose.random() < 0.2 else ("", [])
        self.check(wrong)
        return [choose.choice(made), part * 2, *drawn[:2]]

    def change(self, choose: random.Random) -> None:
        if choose.random() < 0.3:
            switch = choose.choice(self.switches)
            switch.set(choose.choice(switch.values))

    def replace(self, name: str, library):
        """Put in this thread's kernel, or take it away, and call it."""
        if library is not None:
            library._destroy()
            self.check(fingerprint(self.call(name)) != self.stock[name], "a kernel is still there")
            return None
        calls = itertools.count(1)
        library = torch.library.Library("aten", "IMPL")
        library.impl(name, lambda x: x * 0 + next(calls), "CPU", allow_override=True)
        made = [self.call(name) for _ in range(3)]
        read = [float(each.sum() / 20) for each in made for _ in range(2)]
        self.check([round(each) for each in read] != [1, 1, 2, 2, 3, 3], "a kernel ran again")
        return library

    def check_shared_draws(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        expected = [tuple(torch.rand(DRAWN, generator=generator, dtype=torch.float32).tolist())
                    for _ in self.drawn]
        self.check(Counter(expected) != Counter(self.drawn), "numbers drawn twice, or lost")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    end = time.monotonic() + options.seconds
    job = Job(options.seed)

    def may_go_on(steps: int) -> bool:
        return steps < options.steps and time.monotonic() < end and not job.wrong

    threads = [threading.Thread(target=job.work, args=(k, may_go_on)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    job.check_shared_draws()
    with open(options.out, "w", encoding="utf-8") as out:
        json.dump({"wrong": job.wrong, "steps": job.steps, "drawn": len(job.drawn),
                   "changes": [len(switch.log) for switch in job.switches],
                   "sessions": len(job.stream.log)}, out)


if __name__ == "__main__":
    main()
