"""PyTorch's module database as cases: two steps of training or evaluation, and what they leave."""

import copy
from collections.abc import Callable, Iterator

import torch
import torch.utils._pytree as pytree
from comparison import Case, evictable, gradients


def groups(full: bool, dtypes: list[str] | None,
           device: str = "cpu") -> Iterator[tuple[str, Callable]]:
    """Yield (name, function that yields its cases) for each module and type."""
    from torch.testing._internal.common_modules import module_db

    types = dtypes or (("float32", "bfloat16", "float64") if full else ("float32",))
    for module in module_db:
        for name in types:
            dtype = getattr(torch, name)
            # The database lists float32 and float64 for most; bfloat16 is tried everywhere.
            if dtype in module.supported_dtypes(device) or name == "bfloat16":
                yield (f"{module.name} {name}",
                       lambda module=module, dtype=dtype: cases(module, dtype, full, device))


def cases(module, dtype: torch.dtype, full: bool, device: str) -> Iterator[Case]:
    """Yield the cases of one module and type."""
    for training in (True, False):
        torch.manual_seed(1)
        inputs = module.module_inputs_func(module, device=device, dtype=dtype,
                                           requires_grad=True, training=training)
        for number, one in enumerate(inputs):
            if one.forward_input is None or not full and number >= 2:
                continue
            orders = (False, True) if full and module.supports_gradgrad else (False,)
            for twice in orders:
                name = f"input {number} {'training' if training else 'evaluation'}"
                yield Case(f"{name} twice" if twice else name,
                           lambda one=one, training=training, twice=twice: two_steps(
                               module, dtype, one, training, twice, device))


def copied(tree: object) -> object:
    """Return a tree with leaves of their own in place of its tensors; modules are copied, too."""
    def copy_of(x):
        if torch.is_tensor(x):
            return x.detach().clone().requires_grad_(x.requires_grad)
        return copy.deepcopy(x) if isinstance(x, torch.nn.Module) else x

    return pytree.tree_map(copy_of, tree)


def two_steps(module, dtype: torch.dtype, one, training: bool, twice: bool,
              device: str) -> object:
    """Make a module, update its parameters once, and run it again."""
    given = copied((one.constructor_input.args, one.constructor_input.kwargs))
    network = module.module_cls(*given[0], **given[1]).to(device, dtype).train(training)
    kept = []
    for _ in range(2):
        args, kwargs = copied((one.forward_input.args, one.forward_input.kwargs))
        tensors = pytree.tree_leaves((args, kwargs))
        wanted = [x for x in tensors if torch.is_tensor(x) and x.requires_grad]
        result = network(*pytree.tree_map(evictable, args), **pytree.tree_map(evictable, kwargs))
        parameters = [p for p in network.parameters() if p.requires_grad]
        found = gradients(result, wanted + parameters, twice)
        kept.append((result, found))
        first = found[0] if found and isinstance(found[0], tuple) else found
        for parameter, gradient in zip(parameters, (first or ())[len(wanted):], strict=False):
            if gradient is not None:
                with torch.no_grad():
                    parameter.sub_(gradient.to_dense() if gradient.is_sparse else gradient,
                                   alpha=0.1)
    return kept, dict(network.named_parameters()), dict(network.named_buffers())
