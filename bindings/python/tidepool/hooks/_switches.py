"""PyTorch's switches that hold for the whole process and decide what operators compute.

A replay would need the switches as they were, and other threads would see that. So a change is an
event: before it every evicted tensor is restored, and what was computed so far is never recomputed.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from ._callers import call_as_caller, hide_from_compiler

# How the setters of `torch._C` in these tables tell whether a call changes anything.
GETTER = "getter"  # what `_get_…` returns is what the setter was given
FLAGS = "flags"  # a value and a keyword, each with a getter
PATH = "path"  # the getter takes all arguments but the last one, which is the value
LAST = "last"  # its getter warns or fails: the last call of any of these was the same call
NOTHING = "nothing"  # it has no getter: every call is a change

# What only operators on CUDA devices look at. Where the CPU's tensors are managed, a change of
# these is none: transformers turns cuDNN off around the CTC loss, whatever the device.
CUDA_ONLY = {
    "_set_blas_preferred_backend": GETTER, "_set_linalg_preferred_backend": GETTER,
    "_set_cublas_allow_bf16_reduced_precision_reduction": GETTER,
    "_set_cublas_allow_fp16_reduced_precision_reduction": GETTER,
    "_set_cublas_allow_fp16_accumulation": GETTER, "_set_cublaslt_prefer_grouped_gemm": GETTER,
    "_set_cudnn_benchmark": GETTER, "_set_cudnn_depthwise_kernel": GETTER,
    "_cuda_set_cudnn_benchmark_limit": GETTER,
    "_set_cudnn_deterministic": GETTER, "_set_cudnn_enabled": GETTER,
    "_set_cudnn_allow_tf32": LAST,
    "_set_miopen_immediate": GETTER, "_set_sm_carveout_experimental": GETTER,
    # Which of cuBLASLt's algorithms runs, from PyTorch 2.12 on.
    "_cuda_tunableop_enable": NOTHING, "_cuda_tunableop_tuning_enable": NOTHING,
    "_cuda_tunableop_wildcard_fallback_enable": NOTHING, "_cuda_tunableop_read_file": NOTHING,
    "_cuda_tunableop_clear_all": NOTHING, "_cuda_tunableop_push_dynamic_dims_mask": NOTHING,
    "_cuda_tunableop_pop_dynamic_dims_mask": NOTHING,
    "_cuda_tunableop_set_cublaslt_requested_algo_count": NOTHING,
    "_cuda_tunableop_set_numerical_check_tolerances": NOTHING,
    "_cuda_setCublasWorkspaceSize": NOTHING, "_cuda_resetCublasWorkspaceSize": NOTHING,
    "_cuda_setCublasLtWorkspaceSize": NOTHING, "_cuda_resetCublasLtWorkspaceSize": NOTHING,
}
NUMERIC = CUDA_ONLY | {
    "_set_cpu_allow_fp16_reduced_precision_reduction": GETTER,
    "_set_default_dtype": GETTER, "_set_default_tensor_type": NOTHING,
    "_set_deterministic_algorithms": FLAGS,
    "_set_deterministic_fill_uninitialized_memory": GETTER,
    "_set_fp32_precision_setter": PATH, "_set_float32_matmul_precision": LAST,
    "_set_cublas_allow_tf32": LAST, "_set_onednn_allow_tf32": LAST,
    "_set_mkldnn_deterministic": GETTER, "_set_mkldnn_enabled": GETTER,
    "_set_native_aot_enabled": GETTER, "_set_native_aot_unconditional_masked": GETTER,
    "_set_nnpack_enabled": GETTER, "_set_qengine": GETTER,
}
_GETTERS = {"_set_default_dtype": "get_default_dtype"}  # those with a name of another kind

# A thread's own. The plugin records what matters of them with each operator; the number of threads
# holds for the process, and as each operator's own it is recorded as well.
PER_THREAD = {
    "_set_autograd_fallback_mode", "_set_dispatch_mode", "_set_fwd_grad_enabled",
    "_set_grad_enabled", "_set_grad_layout_enforcement_enabled",
    "_set_meta_in_tls_dispatch_include", "_set_multithreading_enabled",
    "_set_only_lift_cpu_tensors", "_set_skip_next_torch_function", "_set_torch_function_state",
    "_set_tracing_state", "_set_value_trace", "_set_view_replay_enabled", "set_anomaly_enabled",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
    "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    "set_autocast_ipu_dtype", "set_autocast_ipu_enabled", "set_autocast_xla_dtype",
    "set_autocast_xla_enabled", "set_flush_denormal", "set_num_threads",
}
# Which attention kernel runs: no operator that is recorded depends on it, as the choice is made
# before, and each kernel is an operator of its own.
ATTENTION = {
    "_set_math_sdp_allow_fp16_bf16_reduction", "_set_rocm_fa_preferred_backend",
    "_set_sdp_priority_order", "_set_sdp_use_cudnn", "_set_sdp_use_fa3", "_set_sdp_use_fa4",
    "_set_sdp_use_flash", "_set_sdp_use_math", "_set_sdp_use_mem_efficient",
    "_set_sdp_use_overrideable",
}
# They decide no bit of an operator's result: warnings, checks, compilers, one tensor's metadata.
NOT_NUMERIC = {
    "_set_backcompat_broadcast_warn", "_set_backcompat_keepdim_warn",
    "_set_cached_tensors_enabled", "_set_check_sparse_tensor_invariants", "_set_conj",
    "_set_default_mobile_cpu_allocator", "_set_dtensor_allow_implicit_replication",
    "_set_fake_constant", "_set_generator_metaclass", "_set_graph_exec_group",
    "_set_graph_executor_optimize", "_set_neg", "_set_override_stale_capture_stream",
    "_set_print_stack_traces_on_fatal_signal", "_set_should_use_format_with_string_table",
    "_set_storage_access_error_msg", "_set_storage_data_ptr_access_error_msg",
    "_set_tensor_metadata", "_set_thread_name", "_set_throw_on_mutable_data_ptr",
    "_set_warnAlways", "_set_warn_deprecated_on_mutable_data_ptr",
    "_set_warn_on_accumulate_grad_stream_mismatch", "_set_worker_pids",
    "_set_worker_signal_handlers", "set_num_interop_threads", "set_vital",
    # CUDA's: memory, streams, what trying algorithms out costs, and where its results are kept.
    "_cuda_clearCublasWorkspaces", "_cuda_cudaCachingAllocator_enable",
    "_cuda_record_untuned_enable", "_cuda_resetAccumulatedHostMemoryStats",
    "_cuda_resetAccumulatedMemoryStats", "_cuda_resetPeakHostMemoryStats",
    "_cuda_resetPeakMemoryStats", "_cuda_setCheckpointPoolState", "_cuda_setDevice",
    "_cuda_setMemoryFraction", "_cuda_setMemoryMetadata", "_cuda_setStream",
    "_cuda_set_sync_debug_mode", "_cuda_tunableop_set_filename",
    "_cuda_tunableop_set_max_tuning_duration", "_cuda_tunableop_set_max_tuning_iterations",
    "_cuda_tunableop_set_rotating_buffer_size", "_cudnn_clear_dropout_state",
    "_cudnn_set_conv_benchmark_empty_cache",
}


def follow_switches(plugin, torch, device: str) -> None:
    """Wrap the setters of all switches that decide bits on `device` and hold for the process."""
    compiled = torch._C
    last = _LastCall()
    wrappers = {}
    for name, kind in NUMERIC.items():
        setter = getattr(compiled, name, None)
        if setter is not None and (device == "cuda" or name not in CUDA_ONLY):
            is_change = _change_test(name, kind, compiled, last)
            wrappers[setter] = _settling_before(setter, plugin, is_change)
            hide_from_compiler(torch, wrappers[setter])
            setattr(compiled, name, wrappers[setter])
    for module in _modules_with_properties(torch):
        for switch in vars(type(module)).values():  # such as torch.backends.cudnn.enabled
            setter = getattr(switch, "setter", None)
            if setter in wrappers:
                switch.setter = wrappers[setter]


def _modules_with_properties(torch) -> list:
    kind = torch.backends.PropModule
    return [module for module in list(sys.modules.values()) if isinstance(module, kind)]


class _LastCall:
    """The last call that changed a switch of those without a quiet getter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._call: tuple | None = None

    def differs(self, call: tuple) -> bool:
        """Return whether this is another call, and remember it."""
        with self._lock:
            before, self._call = self._call, call
            return before != call

    def forget(self) -> None:
        with self._lock:
            self._call = None


def _change_test(name: str, kind: str, compiled, last: _LastCall):
    """Return a function of a setter's arguments: whether they change anything."""
    getter: Any = getattr(compiled, _GETTERS.get(name, name.replace("_set_", "_get_")), None)
    if kind == FLAGS:
        other = compiled._get_deterministic_algorithms_warn_only

        def is_change(args, kwargs):
            wanted = {"warn_only": False, **kwargs}
            return args != (getter(),) or wanted != {"warn_only": other()}
    elif kind == PATH:
        getter = compiled._get_fp32_precision_getter

        def is_change(args, kwargs):
            changes = bool(kwargs) or getter(*args[:-1]) != args[-1]
            if changes:
                last.forget()
            return changes
    elif kind == LAST:
        def is_change(args, kwargs):
            return last.differs((name, args, *kwargs.items()))
    elif kind == NOTHING or getter is None:
        def is_change(args, kwargs):
            return True
    else:
        def is_change(args, kwargs):
            value = getter()
            return bool(kwargs) or args != (value if isinstance(value, tuple) else (value,))
    return is_change


def _settling_before(setter, plugin, is_change):
    @functools.wraps(setter)
    def set_switch(*args, **kwargs):
        try:
            changes = is_change(args, kwargs)
        except (TypeError, ValueError, RuntimeError):
            changes = True  # wrong arguments: the setter says what is wrong with them
        if not changes:
            return call_as_caller(setter, *args, **kwargs)
        with plugin.settling():
            return call_as_caller(setter, *args, **kwargs)

    return set_switch
