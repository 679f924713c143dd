"""As much of PyTorch as attaching touches, and quick to import."""

import os
import types

__version__ = "9.1.0+fake"
if os.environ.get("FAKE_TORCH_VERSION"):
    __version__ = os.environ["FAKE_TORCH_VERSION"]
if os.environ.get("FAKE_TORCH_FAILS"):
    raise ImportError("this torch is broken")


class Tensor:
    __cuda_array_interface__ = property(lambda self: {})

    def tolist(self):
        return []

    def numpy(self, *, force=False):
        return None

    def is_pinned(self):
        return False

    def untyped_storage(self):
        return None


class OutOfMemoryError(RuntimeError):
    pass


class UntypedStorage:
    def is_shared(self):
        return False

    def __getitem__(self, index):
        return 0


class Generator:
    def set_state(self, state):
        pass

    def __setstate__(self, state):
        pass


class _Writer:
    def write_record(self, name, data, size):
        pass


class _Library:
    def _register(self, *args):
        pass

    impl = impl_with_aoti_compile = fallback = reset = _register


class _Overload:
    redispatch = _Library._register


_C = types.SimpleNamespace(
    _parse_dispatch_key=str, _ForceDispatchKeyGuard=_Library,
    DispatchKey=types.SimpleNamespace(CPU=0, CUDA=1, QuantizedCPU=2, QuantizedCUDA=3, AutogradCPU=4,
                                      AutogradCUDA=5, CompositeImplicitAutograd=6,
                                      AutogradOther=7),
    _DispatchModule=_Library, _dispatch_library=_Library,
    _SafeKernelFunction=type("_SafeKernelFunction", (), {"call_boxed": _Library._register}),
    PyTorchFileWriter=_Writer, _has_storage=lambda tensor: False,
    _storage_address=lambda tensor: 0, DisableTorchFunction=None,
    _len_torch_function_stack=lambda: 0,
    _profiler=types.SimpleNamespace(_enable_execution_trace_observer=lambda: None,
                                    _disable_execution_trace_observer=lambda: None))
_ops = types.SimpleNamespace(OpOverload=_Overload, resolve_key=max)
ops = types.SimpleNamespace(load_library=lambda path: None)
library = types.SimpleNamespace(fallthrough_kernel=None)
profiler = types.SimpleNamespace(profiler=types.SimpleNamespace())
version = types.SimpleNamespace(cuda=None)
distributed = types.SimpleNamespace(is_available=lambda: False)
nn = types.SimpleNamespace(Parameter=Tensor)


def is_grad_enabled():
    return True


overrides = types.SimpleNamespace(has_torch_function_unary=lambda tensor: False)
utils = types.SimpleNamespace(dlpack=types.SimpleNamespace(),
                              _pytree=types.SimpleNamespace(tree_leaves=list))
backends = types.SimpleNamespace(PropModule=_Writer)
compiler = types.SimpleNamespace(is_compiling=lambda: False)
if os.environ.get("FAKE_TORCH_AUTOLOADS"):  # as an installed package's entry point would
    import importlib

    importlib.import_module("tidepool._autoload").autoload()
