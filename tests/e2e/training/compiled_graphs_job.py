"""Prints into which graphs torch.compile cuts functions that call what Tidepool wraps.

Other graphs have other bits: within one, results of half precision are not rounded.
"""

import copy
import io
import pickle
import signal
import threading

import torch


class Sub(torch.Tensor):
    pass


# What the functions do with a tensor `y` that is computed from their argument `x`.
BODIES = {
    "tolist": "t = y.tolist()", "numpy": "y = torch.from_numpy(y.numpy() * 2)",
    "data_ptr": "y = y * (y.data_ptr() % 2 + 1)", "is_pinned": "y = y + y.is_pinned()",
    "is_shared": "y = y + y.is_shared()", "apply_": "y = y.detach().apply_(lambda v: v + 1)",
    "map_": "y = y.detach(); y.map_(y, lambda a, b: a + b)",
    "unbound tolist": "t = torch.Tensor.tolist(y)",
    "unbound numpy": "y = torch.from_numpy(torch.Tensor.numpy(y) * 2)",
    "unbound data_ptr": "t = torch.Tensor.data_ptr(y)",
    "mapped": "t = list(map(torch.Tensor.numpy, [y]))",
    "subclass tolist": "t = y.as_subclass(Sub).tolist()",
    "subclass numpy": "t = y.as_subclass(Sub).numpy()",
    "storage data_ptr": "t = y.untyped_storage().data_ptr()",
    "storage of an argument": "t = x.untyped_storage().data_ptr()",
    "storage is_shared": "t = y.untyped_storage().is_shared()",
    "storage fill_": "y.untyped_storage().fill_(0)",
    "storage copy_": "y.untyped_storage().copy_(x.untyped_storage())",
    "storage resize_": "y.untyped_storage().resize_(y.untyped_storage().nbytes())",
    "storage byteswap": "y.untyped_storage().byteswap(torch.float32)",
    "storage set": "y.untyped_storage()[0] = 1", "storage clone": "y.untyped_storage().clone()",
    "storage share": "y.untyped_storage().share_memory_()",
    "save": "torch.save(y, io.BytesIO())", "pickle": "t = pickle.dumps(y)",
    "deepcopy": "y = copy.deepcopy(y)", "dlpack": "y = torch.from_dlpack(y)",
    "get state": "t = GENERATOR.get_state()",
    "set state": "GENERATOR.set_state(GENERATOR.get_state())",
    "states": "t = torch.get_rng_state(); torch.set_rng_state(t)",
    "default type": "torch.set_default_dtype(torch.float32)",
    "precision": "torch.set_float32_matmul_precision('highest')",
    "oneDNN": "torch.backends.mkldnn.allow_tf32 = True",
    "signal": "t = signal.getsignal(signal.SIGINT)",
    "thread": "threading.Thread(target=print)",
    "scripted": "y = SCRIPTED(y)", "step": "OPTIMIZER.step()",
    "closure": "y = y + OPTIMIZER.step(lambda: x.sum())",
    "redispatch": "y = torch.ops.aten.sin.default.redispatch(CPU, y)",
}

parameter = torch.nn.Parameter(torch.ones(4, 4))
parameter.grad = torch.ones(4, 4)
KNOWN = {"torch": torch, "copy": copy, "io": io, "pickle": pickle, "signal": signal,
         "threading": threading, "Sub": Sub, "GENERATOR": torch.Generator().manual_seed(1),
         "SCRIPTED": torch.jit.script(torch.nn.Identity()),
         "OPTIMIZER": torch.optim.SGD([parameter], 0.1),
         "CPU": torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)}


def function_of(body: str):
    space = dict(KNOWN)
    exec(f"def function(x):\n    y = x.sin() + 1\n    {body}\n    return y.cos() * 2\n", space)
    return space["function"]


def graphs_of(function, whole: bool) -> list:
    """Compile and call a function; return its graphs' operations, and how a failure is called."""
    found: list = []

    def note(graph, inputs):
        found.append([str(getattr(node.target, "__name__", node.target))
                      for node in graph.graph.nodes if node.op.startswith("call")])
        return graph.forward

    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        torch.compile(function, backend=note, fullgraph=whole)(torch.ones(4, 4) * 1.5)
    except Exception as error:
        found.append(type(error).__name__)
    return found


for name, body in BODIES.items():
    for whole in (False, True):
        print(name, whole, graphs_of(function_of(body), whole), flush=True)
