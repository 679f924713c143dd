"""Operators and jobs that do more than a schema says, or that see what replays do beside them."""

import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import torch


def evictable(*shape):
    """Return a tensor that an operator made."""
    return torch.randn(*shape) * 2


def case_statistics_written_unseen():
    x = evictable(8, 4, 5)
    mean, variance = torch.zeros(4), torch.ones(4)
    seen = torch.batch_norm_update_stats(x, mean, variance, 0.1)
    again = mean * 2
    outputs = torch.empty(8, 4, 5), torch.empty(4), torch.empty(4)
    means, variances = torch.zeros(4), torch.ones(4)
    torch.native_batch_norm(x, torch.ones(4), torch.zeros(4), means, variances, True, 0.1, 1e-5,
                            out=outputs)
    return mean, variance, list(seen), again, list(outputs), means, variances


@torch.jit.script
def roll_and_change(x: torch.Tensor, shifts: list[int]) -> torch.Tensor:
    y = torch.roll(x, shifts, [0])
    shifts[0] = 0
    return y


def case_lists_that_change_after_the_call():
    results = []
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with mode():
            x = evictable(6, 4)
            y = roll_and_change(x, [1])
            results += [y, y + 1]
    return results


def case_warnings_are_said_once():
    x = evictable(3, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        deviation = x.std(dim=1)  # of one number
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return (deviation + 1).isnan()


def case_generator_states_that_operators_made():
    state = torch.get_rng_state() * 1
    generator = torch.Generator()
    generator.set_state(torch.stack([state, state])[0].clone())
    drawn = torch.rand(3)
    torch.set_rng_state(state)
    return drawn, torch.rand(3), torch.rand(3, generator=generator)


def case_lists_of_lists():
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        gathered, scattered, reduced = [torch.zeros(4)], torch.zeros(4), torch.zeros(4)
        dist.all_gather(gathered, evictable(4))
        dist.scatter(scattered, [evictable(4)])
        dist.reduce_scatter(reduced, [evictable(4)])
        operators = torch.ops._c10d_functional  # what they return is filled later
        late = operators.all_reduce(evictable(4), "sum", dist.group.WORLD.group_name)
        return gathered[0] * 1, scattered * 1, reduced * 1, operators.wait_tensor(late) * 1
    finally:
        dist.destroy_process_group()


def case_tables_of_nested_tensors():
    parts = [evictable(3 + k, 4, 2) for k in range(3)]
    nested = torch.nested.as_nested_tensor(parts)
    turned = nested.transpose(1, 2).contiguous()
    jagged = torch.nested.nested_tensor([evictable(5 + k, 8) for k in range(2)],
                                        layout=torch.jagged)
    heads = (jagged * 2).unflatten(-1, [2, 4]).transpose(1, 2)
    attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return list(turned.unbind()), attended.transpose(1, 2).flatten(-2).values()


def case_draws_of_a_custom_operator_on_other_threads():
    @torch.library.custom_op("tidepool_cases::noisy", mutates_args=(),
                             tags=(torch.Tag.nondeterministic_seeded,))
    def noisy(x: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda seed: torch.rand(
                2, generator=torch.Generator().manual_seed(seed)), range(2)))
        return x + torch.cat(parts)

    y = noisy(evictable(4))
    return y, y * 2


def case_one_tensor_reads_the_same_each_time():
    torch.set_num_threads(2)
    try:
        weight = torch.randn(50, 64).requires_grad_()
        index, factor = torch.randint(0, 50, (4000,)), torch.randn(4000, 64)
        gradient, = torch.autograd.grad((weight[index] * factor).sum(), weight)
        copies = [gradient * 1 for _ in range(4)]  # added up by two threads, in any order
        return [torch.equal(copies[0], copy) for copy in copies]
    finally:
        torch.set_num_threads(1)


def case_draws_below_an_operator():
    """Operators that draw by others, which take a generator."""
    x = evictable(700)
    drawn = [torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 9), torch.randperm(700),
             torch.native_dropout(x, 0.5, True)[0], torch.rand(5), torch.randn(5, 2),
             torch.randint(0, 5, (700,)), x.bernoulli(0.5), torch.normal(0.0, x.abs())]
    state = torch.get_rng_state()
    return drawn, [each * 1 for each in drawn], state, torch.get_rng_state()


def count_elsewhere(is_wrong, work):
    """Return how often another thread found something wrong while this one worked."""
    wrong, done = [0], threading.Event()

    def look():
        while not done.is_set():
            wrong[0] += bool(is_wrong())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()
    return wrong[0]


def case_switches_that_others_see():
    torch.set_default_dtype(torch.float64)
    made = [torch.rand(2000) for _ in range(4)]
    torch.set_default_dtype(torch.float32)

    def reads():
        for _ in range(50):
            for each in made:
                float(each[3])

    return count_elsewhere(lambda: torch.zeros(2).dtype != torch.float32, reads)


def case_seeds_that_others_set():
    torch.manual_seed(0)
    made = [torch.rand_like(torch.empty(700)), torch.native_dropout(torch.ones(700), 0.5, True)[0],
            torch.ones(700).bernoulli_(0.5)]
    expected = {}
    for seed in range(20):
        torch.manual_seed(seed)
        expected[seed] = torch.rand(3).tolist()
    seeds = iter(range(10**9))

    def is_wrong():
        seed = next(seeds) % 20
        torch.default_generator.manual_seed(seed)
        return torch.rand(3).tolist() != expected[seed]

    def reads():
        for _ in range(200):
            for each in made:
                each.sum()

    return count_elsewhere(is_wrong, reads)


def case_kernels_of_compositions():
    """A kernel of the job's for an operator that was a composition until now."""
    x = evictable(3, 4)
    before = torch.special.log_softmax(x, 1)
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("special_log_softmax", lambda x, dim, dtype=None: x * 0 + 7, "CPU")
        with torch.inference_mode():
            after = torch.special.log_softmax(evictable(3, 4), 1)
        return before, after * 1
    finally:
        library._destroy()


def case_fresh_memory_that_is_filled():
    """In this mode `empty` fills its memory, which `torch.tensor` then writes unseen."""
    torch.use_deterministic_algorithms(True)
    try:
        made = torch.tensor([float(k) for k in range(1000)])
        batch = torch.stack([torch.tensor(k) for k in range(4)])
        return made * 1, made, batch, torch.tril_indices(4, 4)
    finally:
        torch.use_deterministic_algorithms(False)


def case_tensors_that_a_kernel_in_python_has_kept():
    kept, state = evictable(4), torch.zeros(4)

    @torch.library.custom_op("tidepool_cases::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        state.add_(1)
        return x * kept

    y = scaled(evictable(4))
    before = state * 1
    return y, scaled(y * 1), before, state


def case_kernels_that_others_call_inside():
    calls = [0]

    def kernel(table, dim, index):
        calls[0] += 1
        return torch.full((index.numel(), table.shape[1]), float(calls[0]))

    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("index_select", kernel, "CPU", allow_override=True)
        found = torch.nn.functional.embedding(torch.tensor([1, 2]), evictable(5, 3))
        return found * 1, found * 2, calls[0]
    finally:
        library._destroy()


def case_numbers_that_a_mode_flushes():
    tiny = torch.full((1 << 16,), 1e-39)
    torch.set_flush_denormal(True)
    flushed = tiny * 0.5
    torch.set_flush_denormal(False)
    return flushed.count_nonzero(), (tiny * 0.5).count_nonzero()


def case_elements_that_are_assigned_from_tensors():
    """PyTorch compares the storages of both sides, which no operator shows."""
    x = evictable(3, 4)
    x[x > 1] = evictable(1)[0]
    x[torch.tensor(1) * 2] = evictable(1)[0]
    x[..., torch.tensor([0, 2]) * 1] = evictable(1)[0]
    rows = torch.vmap(lambda a, b: (a * 1).fill_(b.sum()))(evictable(3, 4), evictable(3, 4))
    return x, rows, torch._C._is_alias_of(evictable(2), x), torch._C._is_alias_of(x[0], x)


def case_states_of_generators_that_were_computed():
    generator = torch.Generator()
    states = [torch.get_rng_state() * 1, torch.Generator().manual_seed(3).get_state() * 1]
    drawn = torch.rand(3)
    torch.set_rng_state(states[0])
    generator.set_state(states[1])
    again = pickle.loads(pickle.dumps(generator))
    again.__setstate__(tuple(each * 1 if isinstance(each, torch.Tensor) else each
                             for each in generator.__reduce__()[2]))
    return (drawn, torch.rand(3), torch.rand(3, generator=generator),
            torch.rand(3, generator=again))


def case_compositions_that_read():
    rows = evictable(2, 3, 8)
    with torch.inference_mode():
        inferred = torch.max_pool1d(evictable(2, 3, 8), 2)
    weight = evictable(2, 8, 3).requires_grad_()
    torch.max_pool1d(weight.transpose(1, 2), 2).sum().backward()
    return (torch.max_pool1d(rows, 3), torch.max_pool1d(rows.transpose(1, 2), 2), inferred * 1,
            torch.max_pool1d(rows[0], 2, 1), weight.grad, weight.grad.stride())


@torch.jit.script
def described(x: torch.Tensor):
    y = x * 2
    return str(y), "{} of {}".format(y, x), y


@torch.jit.script
def written_out(x: torch.Tensor):
    y = x * 2
    torch.save(y, "/dev/null")
    return described(y), f"{y}", "%s" % y, y


@torch.jit.script
def written_out_elsewhere(x: torch.Tensor):
    return torch.jit.wait(torch.jit.fork(written_out, x + 1))


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor):
        self.count += x
        return str(self.count)


def case_scripts_that_write_tensors_out():
    x, counting = evictable(2), torch.jit.script(Counting())
    return (written_out(x), written_out_elsewhere(x), [counting(evictable(2)) for _ in range(3)])


def case_fused_groups_of_scripts():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3))
    torch.jit.enable_onednn_fusion(True)
    try:
        with torch.no_grad():
            images = evictable(2, 3, 8, 8)
            fused = torch.jit.freeze(torch.jit.trace(net.eval(), images))
            return [fused(images * k) * 1 for k in range(3)]
    finally:
        torch.jit.enable_onednn_fusion(False)


def case_static_modules():
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    static = torch._C._jit_to_static_module(torch.jit.script(net)._c)
    graph = torch._C._jit_to_static_module(described.graph)
    return [(static(evictable(3, 4)) * 1, graph(evictable(3))) for _ in range(3)]


@torch.jit.script
def repeated(x):
    for _ in range(3):
        x = x + x * 0.5
        x -= 0.25
    return x


@torch.jit.script
def forking(x):
    return torch.jit.wait(torch.jit.fork(repeated, x)) * 2


@torch.jit.script
def forked(x):
    return torch.jit.fork(repeated, x)


def case_static_modules_on_other_threads():
    plain = torch._C._jit_to_static_module(repeated.graph)
    results = [plain.runAsync((evictable(3, 4),), {}).value() for _ in range(2)]
    static = torch._C._jit_to_static_module(forking.graph)
    results += [static(evictable(3, 4)) for _ in range(2)]
    future = torch._C._jit_to_static_module(forked.graph)
    return results, [future(evictable(3, 4)).wait() for _ in range(2)]


def profiled(work, **options):
    """Return what some work gives under the profiler, and the shapes that it has noted."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, **options) as profiler:
        result = work()
    return result, sorted((event.name, str(event.input_shapes)) for event in profiler.events()
                          if event.name.startswith("aten::"))


def case_observers_that_look_at_operands():
    net, x = torch.nn.Linear(4, 4), evictable(3, 4)
    trace = torch.profiler.ExecutionTraceObserver().register_callback("/dev/null")
    shapes = {"record_shapes": True}
    results = [profiled(lambda: net(x).relu() + x, **options) for options in (
        shapes, {**shapes, "with_flops": True}, {**shapes, "profile_memory": True},
        {**shapes, "with_stack": True, "with_modules": True})]
    trace.start()
    results.append(net(x).sum() * 2)
    trace.stop()
    return results


def case_kernels_that_draw_inside_of_a_draw():
    """The kernel draws while the operator that calls it draws, and would hold the generator."""
    evictable(4) * 1  # at once, as nothing else of this case is replayed
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("exponential_", lambda x, rate=1.0, *, generator=None: x.copy_(
            torch.rand(x.shape)), "CPU", allow_override=True)
        drawn = torch.multinomial(torch.ones(12), 5)
        return drawn, evictable(3) * 2, torch.rand(2)
    finally:
        library._destroy()
