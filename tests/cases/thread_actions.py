"""What the threads of `thread_job.py` do: draw, seed, change switches, replace kernels, train.

An action is a method of `Actor` whose name starts with `do_`; what it returns must depend on the
order of the actions alone. Within some of them the other threads act (`pass_on`).
"""

import contextlib
import random
import warnings

import torch
import torch.nn.functional as F
from case_job import fingerprint
from torch import nn

DTYPES = (torch.float32, torch.float64)
OWN_NAMES = ("special_erfcx", "special_i0e", "special_i1e", "special_bessel_j0")
SHARED_NAME = "special_ndtri"  # any thread may replace it
KEPT = 12  # results that are read again later, on any thread


class World:
    """What all threads share."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)
        self.kept = [torch.randn(64)]
        self.states = [torch.get_rng_state()]
        # While a kernel of the job's waits, nothing that others compute is recorded: no budget
        # below the peak would do.
        self.kernels_pass_on = seed % 2 == 1

    def keep(self, *made: torch.Tensor) -> tuple:
        self.kept.extend(made)
        del self.kept[:-KEPT]
        return made


class Network(nn.Module):
    """A small network with a mask that is drawn from the default generator."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.last = nn.Linear(24, width), nn.Linear(width, 4)
        self.norm, self.convolution = nn.BatchNorm1d(width), nn.Conv1d(1, 2, 5, padding=2)

    def forward(self, x):
        hidden = F.dropout(torch.tanh(self.norm(self.first(x))), 0.2)
        for _ in range(16):  # activations that outweigh every operator
            hidden = torch.tanh(hidden * 1.5)
        return self.last(hidden), self.convolution(hidden[:8, None])


class Actor:
    """One thread's part: its choices, its generator, its network, and what it has switched on."""

    def __init__(self, world: World, number: int, seed: int, pass_on):
        self.world, self.number, self.pass_on = world, number, pass_on
        self.choose = random.Random(f"{seed} {number}")
        self.generator = torch.Generator().manual_seed(seed + number)
        self.inside = contextlib.ExitStack()
        self.libraries: list[torch.library.Library] = []
        self.network = Network().float()
        kind = (torch.optim.SGD, torch.optim.Adam)[number % 2]
        self.optimizer = kind(self.network.parameters(), lr=0.01)
        self.actions = [getattr(self, name) for name in dir(self) if name.startswith("do_")]
        self.usual = [each for each in self.actions if each != self.do_replace_a_kernel]

    def act(self, replaces_kernels: bool) -> str:
        """Do one thing; return its name and what came of it.

        `replaces_kernels`: it may be to replace a kernel; from the first time on no draw is
        recorded.
        """
        action = self.choose.choice(self.actions if replaces_kernels else self.usual)
        try:
            text = fingerprint(action())
        except (RuntimeError, ValueError, NotImplementedError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            text = f"raised {str(error).splitlines()[0]}"
        return f"{self.number} {action.__name__} {text}"

    def leave(self) -> None:
        """Undo what holds for this thread, and take its kernels away."""
        self.inside.close()
        for library in self.libraries:
            library._destroy()
        torch.set_flush_denormal(False)

    # Drawing.

    def do_draw(self):
        masked = F.dropout(torch.ones(300), 0.4)
        more = [torch.rand(7), torch.randn(17), torch.randint(0, 9, (40,)), torch.randperm(20),
                torch.multinomial(torch.ones(12), 5), torch.empty(30).exponential_(),
                torch.bernoulli(torch.full((33,), 0.3)), torch.normal(0.0, torch.ones(5))]
        return self.world.keep(masked, self.choose.choice(more)), more

    def do_draw_from_own(self):
        drawn = torch.randn(50, generator=self.generator)
        twice = torch.rand(9, generator=self.world.generator)
        return self.world.keep(drawn, twice * 2)

    def do_draw_again(self):
        state = torch.get_rng_state()
        first = torch.rand(20) * 2
        torch.set_rng_state(state)
        return first, torch.rand(20) * 2

    def do_seed(self):
        number = self.choose.randrange(1000)
        self.choose.choice([torch.manual_seed, torch.default_generator.manual_seed,
                            self.generator.manual_seed, self.world.generator.manual_seed])(number)
        return torch.initial_seed(), self.generator.initial_seed(), torch.rand(3)

    def do_remember_a_state(self):
        self.world.states[:] = [self.choose.choice([torch.get_rng_state, self.generator.get_state,
                                                    self.world.generator.get_state])()]

    def do_return_to_a_state(self):
        self.choose.choice([torch.set_rng_state, self.generator.set_state,
                            self.world.generator.set_state])(self.world.states[0])
        return torch.randn(3), torch.randn(3, generator=self.generator)

    def do_fork_the_stream(self):
        before = torch.rand(2)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.choose.randrange(100))
            inside = torch.rand(40) * 2
            self.pass_on()
            more = torch.rand(4)
        return before, inside, more, torch.rand(2)

    # Switches of the whole process.

    def do_default_dtype(self):
        made = torch.arange(50) / 3
        torch.set_default_dtype(self.choose.choice(DTYPES))
        return self.world.keep(made, torch.arange(50) / 7)

    def do_deterministic(self):
        torch.use_deterministic_algorithms(self.choose.random() < 0.5,
                                           warn_only=self.choose.random() < 0.5)
        torch.utils.deterministic.fill_uninitialized_memory = self.choose.random() < 0.5
        index = torch.arange(40) % 7
        return self.world.keep(torch.zeros(7).index_add_(0, index, torch.ones(40) / 3))

    def do_libraries(self):
        on = self.choose.random() < 0.5
        self.choose.choice([
            lambda: torch._C._set_mkldnn_enabled(on), lambda: torch._C._set_nnpack_enabled(on),
            lambda: setattr(torch.backends.mkldnn, "deterministic", on),
            lambda: torch.backends.cuda.enable_flash_sdp(on),
            lambda: torch.backends.cuda.enable_math_sdp(on)])()
        x, weight = torch.ones(2, 3, 12, 12) / 3, torch.ones(4, 3, 3, 3) / 7
        heads = torch.ones(1, 2, 9, 8).cumsum(2) / 9
        return self.world.keep(F.conv2d(x, weight),
                               F.scaled_dot_product_attention(heads, heads, heads))

    def do_precision(self):
        if self.choose.random() < 0.7:
            torch.set_float32_matmul_precision(self.choose.choice(["highest", "high", "medium"]))
        else:
            torch.backends.mkldnn.matmul.fp32_precision = self.choose.choice(["ieee", "bf16"])
        matrix = torch.arange(64 * 64).reshape(64, 64).float() / 999
        return self.world.keep(matrix @ matrix)

    # Switches of this thread.

    def do_flush_denormal(self):
        made = [torch.full((64,), 1e-38) * 1e-3]
        torch.set_flush_denormal(True)  # for this action only, as nothing is evicted meanwhile
        try:
            made.append(torch.full((64,), 1e-38) * 1e-3)
            self.pass_on()
            made.append(torch.full((64,), 1e-38) * 1e-3)
        finally:
            torch.set_flush_denormal(False)
        return [each.view(torch.uint8) for each in self.world.keep(*made)]

    def do_number_of_threads(self):
        wide = torch.full((34_000,), 1 / 3, dtype=torch.float32)
        before = wide.sum()
        torch.set_num_threads(self.choose.choice([1, 2]))
        return self.world.keep(before, wide.sum()), torch.get_num_threads()

    def do_enter(self):
        self.inside.enter_context(self.choose.choice([
            torch.no_grad, torch.enable_grad, torch.inference_mode,
            lambda: torch.inference_mode(False),
            lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            lambda: torch.autocast("cpu", dtype=torch.float16, cache_enabled=False),
            lambda: torch.autocast("cpu", enabled=False)])())

    def do_leave(self):
        self.inside.close()

    # Computing, and kernels.

    def do_compute(self):
        x = torch.linspace(0, 1, 900, dtype=torch.float32).reshape(30, 30)
        chain = torch.tanh(x @ x.t())
        return self.world.keep(chain, F.layer_norm(chain.float(), (30,)).sum(0))

    def do_read(self):
        with torch.no_grad():
            return [each.detach().clone() for each in self.world.kept]

    def do_write(self):
        with torch.no_grad():
            self.world.kept[self.choose.randrange(len(self.world.kept))].mul_(0.5)

    def do_replace_a_kernel(self):
        name = self.choose.choice([OWN_NAMES[self.number % 4], SHARED_NAME, "exponential_"])
        factor, calls = self.choose.randrange(5), [0]
        before = torch.special.erfcx(torch.ones(5)), torch.special.ndtri(torch.ones(5) / 3)

        def kernel(x, *arguments, generator=None, **others):
            calls[0] += 1
            if self.world.kernels_pass_on:
                self.pass_on()
            return x.copy_(torch.rand(x.shape)) if name == "exponential_" else x * factor + calls[0]

        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of another kernel of the job's
            library.impl(name, kernel, "CPU", allow_override=True)
        self.libraries.append(library)
        return self.world.keep(*before), calls

    def do_call_what_is_replaced(self):
        x = torch.linspace(0.1, 0.9, 20, dtype=torch.float32)
        made = [getattr(torch.ops.aten, name)(x) for name in (*OWN_NAMES, SHARED_NAME)]
        return self.world.keep(made[self.number], made[4]), made, torch.multinomial(x, 3)

    def do_take_a_kernel_away(self):
        if self.libraries:
            self.libraries.pop()._destroy()
        return torch.special.ndtri(torch.ones(5) / 3)

    # Training.

    def loss(self, batch: int):
        x = torch.randn(batch, 24, generator=self.generator, dtype=torch.float32)
        return sum(part.square().mean() for part in self.network(x))

    def do_train(self):
        with torch.inference_mode(False), torch.enable_grad():
            loss = self.loss(512)  # where most of the memory goes
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss, list(self.network.parameters())

    def do_train_beside_others(self):
        """Other threads act between forward and backward, and within backward."""
        with torch.inference_mode(False), torch.enable_grad():
            loss = self.loss(16)
            self.pass_on()
            weight = self.network.last.weight * 1
            weight.register_hook(lambda gradient: self.pass_on())
            self.optimizer.zero_grad()
            (loss + weight.square().sum()).backward()
            self.optimizer.step()
        return loss, list(self.network.parameters())
