"""The C++ plugin: which library fits this PyTorch, and its functions through ctypes.

The functions release Python's lock while they run. Their contracts: bindings/torch/plugin/api.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import re
import threading
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

LIBRARY_FOLDER = Path(__file__).resolve().parents[1] / "lib"
_PREFIXES = {"cpu": "libtidepool_torch_", "cuda": "libtidepool_torch_cuda_"}  # by device
_MESSAGE_BYTES = 64 * 1024  # an out-of-memory report lists the largest pinned storages
_Message = ctypes.c_char * _MESSAGE_BYTES  # create_string_buffer would be traced by torch.compile

EVICTED = 3  # tidepool_state; 1 and 2 are resident
TRACKED_STATES = (1, 2, EVICTED)

# What is drawn by PyTorch's operators waits meanwhile.
TWICE_DRAWN = ("while a compiled graph drew from the default CUDA generator, something else set a "
               "later state of it, or drew from it in a way that Tidepool does not see, as replays "
               "of CUDA graphs do: if it drew, both have drawn the same random numbers")


class AttachError(RuntimeError):
    """Tidepool cannot attach to this process."""


_ADDRESS, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_JUDGE = ctypes.CFUNCTYPE(ctypes.c_bool, _TEXT, _TEXT, ctypes.c_bool)
_ONE_STORAGE = (ctypes.c_int, [_ADDRESS, _TEXT, _SIZE])
_BEGUN = ctypes.POINTER(_ADDRESS)
PLACE_SOURCE = ctypes.CFUNCTYPE(_ADDRESS)
_SIGNATURES: dict[str, tuple[object, list]] = {
    "tidepool_built_for": (ctypes.c_uint32, []),
    "tidepool_attach": (ctypes.c_int, [_TEXT, _TEXT, _SIZE]),
    "tidepool_attached": (ctypes.c_int, []),
    "tidepool_statistics": (_SIZE, [_TEXT, _SIZE]),
    "tidepool_thread": (ctypes.c_int, [ctypes.c_int]),
    "tidepool_thread_is_on": (ctypes.c_int, []),
    "tidepool_make_resident": _ONE_STORAGE,
    "tidepool_hold": (ctypes.c_int, [_ADDRESS, _BEGUN, _TEXT, _SIZE]),
    "tidepool_hold_to_write": (ctypes.c_int, [_ADDRESS, _BEGUN, _TEXT, _SIZE]),
    "tidepool_let_go": (None, [_ADDRESS, _ADDRESS]),
    "tidepool_escape": _ONE_STORAGE,
    "tidepool_written": _ONE_STORAGE,
    "tidepool_gives_up": (None, [_ADDRESS]),
    "tidepool_data_ptr_method": (_ADDRESS, [_ADDRESS]),
    "tidepool_method_for": (_ADDRESS, [_ADDRESS, _ADDRESS]),
    "tidepool_address_place": (None, [_ADDRESS, ctypes.c_int, ctypes.c_int]),
    "tidepool_state": (ctypes.c_int, [_ADDRESS]),
    "tidepool_evict": (ctypes.c_int, [_ADDRESS]),
    "tidepool_evict_all": (_SIZE, []),
    "tidepool_optimizer_scope": (None, [ctypes.c_int]),
    "tidepool_finish": (None, []),
    "tidepool_rescan_operators": (None, []),
    "tidepool_set_place_source": (None, [PLACE_SOURCE]),
    "tidepool_recording": (None, [ctypes.c_int]),
    "tidepool_begin_settling": (ctypes.c_int, [_BEGUN, _TEXT, _SIZE]),
    "tidepool_end_settling": (None, [_ADDRESS]),
    "tidepool_begin_keeping": (ctypes.c_int, [_BEGUN, _TEXT, _SIZE]),
    "tidepool_end_keeping": (None, [_ADDRESS]),
    "tidepool_set_limit": (ctypes.c_int, [ctypes.c_uint64, _TEXT, _SIZE]),
    "tidepool_distrust": (None, [_TEXT]),
    "tidepool_begin_routing": (None, [_TEXT, ctypes.c_int]),
    "tidepool_end_routing": (None, [_TEXT]),
    "tidepool_judge_operators": (None, [_JUDGE]),
    "tidepool_kernel_library": (_SIZE, [_TEXT, _TEXT, _SIZE]),
    "tidepool_note_router": (None, []),
    "tidepool_note_own_kernel": (None, [ctypes.c_int]),
    "tidepool_begin_own_kernel": (None, [_BEGUN]),
    "tidepool_end_own_kernel": (None, [_ADDRESS]),
    "tidepool_wrap_own_kernels": (None, []),
    "tidepool_note_libraries": (None, []),
    "tidepool_begin_region": (None, [_BEGUN]),
    "tidepool_end_region": (None, [_ADDRESS]),
    "tidepool_undisturbed": (None, [ctypes.c_int]),
    "tidepool_defer_signal": (ctypes.c_int, [ctypes.c_int]),
    "tidepool_known_operator": (_ADDRESS, [_TEXT, ctypes.c_int]),
    "tidepool_are_as_known": (ctypes.c_int, [ctypes.POINTER(_ADDRESS), _SIZE]),
    "tidepool_hold_all": (ctypes.c_int, [ctypes.POINTER(_ADDRESS), _SIZE, _BEGUN, _TEXT, _SIZE]),
    "tidepool_let_all_go": (None, [_ADDRESS]),
    "tidepool_begin_draws": (_ADDRESS, [ctypes.c_int, *[ctypes.POINTER(ctypes.c_int64)] * 2]),
    "tidepool_end_draws": (ctypes.c_int, [_ADDRESS, ctypes.c_int64]),
    "tidepool_draw_from": (None, [ctypes.c_int, ctypes.c_int64, ctypes.c_int64]),
    "tidepool_drawn": (ctypes.c_int64, []),
    "tidepool_made_by_graph": (None, [ctypes.POINTER(_ADDRESS), _SIZE]),
}


@dataclasses.dataclass
class Draws:
    """What compiled code draws from the default generator of a CUDA device."""

    device: int
    seed: int  # as a signed number of 64 bits, like the others
    offset: int  # before the first draw
    until: int | None = None  # the offset after the last draw

    @property
    def state(self) -> list[int]:
        """Return what a replay has to be given to draw the same."""
        return [self.seed, self.offset]


class Plugin:
    """The plugin for the CPU: allocator, interception, rematerialization.

    A storage is the address of its `c10::StorageImpl`.
    """

    signatures: Mapping[str, tuple] = _SIGNATURES

    def __init__(self, library) -> None:
        self.library = library
        for name, (result, arguments) in self.signatures.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self._local = threading.local()
        self._judge: object = None
        self.state = library.tidepool_state
        self.gives_up = library.tidepool_gives_up
        self.thread = library.tidepool_thread
        self.thread_is_on = library.tidepool_thread_is_on
        self.optimizer_scope = library.tidepool_optimizer_scope
        self.rescan_operators = library.tidepool_rescan_operators
        self.finish = library.tidepool_finish
        self.evict = library.tidepool_evict
        self.evict_all = library.tidepool_evict_all
        self.recording = library.tidepool_recording
        self.defer_signal = library.tidepool_defer_signal
        self.note_own_kernel = library.tidepool_note_own_kernel
        self.note_router = library.tidepool_note_router
        self.wrap_own_kernels = library.tidepool_wrap_own_kernels
        self.note_libraries = library.tidepool_note_libraries

    def attach(self, settings: dict) -> None:
        """Attach with the settings of `Settings.for_plugin`; raise AttachError if refused."""
        message = _Message()
        text = json.dumps(settings).encode()
        if self.library.tidepool_attach(text, message, len(message)):
            raise AttachError(message.value.decode(errors="replace"))

    def judge_operators(self, judge: Callable[[str, str, bool], bool]) -> None:
        """Have a function say which of the job's own operators may be replayed.

        To be called before `attach`. The function gets the operator, the path of the library of its
        kernel or "", and whether its schema allows it; it is called once or a few times for each.
        """
        def asked(operator: bytes, library: bytes, tells_all: bool) -> bool:
            return judge(operator.decode(), os.fsdecode(library), tells_all)

        self._judge = _JUDGE(asked)  # C++ keeps a pointer to it
        self.library.tidepool_judge_operators(self._judge)

    def kernel_library(self, operator: str) -> str:
        """Return the path of the library that has an operator's kernel, or ""."""
        capacity = 4096  # no path is longer
        out = (ctypes.c_char * capacity)()
        needed = self.library.tidepool_kernel_library(operator.encode(), out, capacity)
        return os.fsdecode(out.value) if needed <= capacity else ""

    def attached(self) -> bool:
        return bool(self.library.tidepool_attached())

    def statistics(self) -> dict:
        """Return statistics by device."""
        capacity = 16 * 1024
        for _ in range(8):  # they may grow between two calls
            out = (ctypes.c_char * capacity)()
            needed = self.library.tidepool_statistics(out, capacity)
            if needed <= capacity:
                return json.loads(out.value)
            capacity = 2 * needed
        raise RuntimeError("the statistics kept growing while they were read")

    def make_resident(self, storage: int) -> None:
        self._run(self.library.tidepool_make_resident, storage)

    @contextlib.contextmanager
    def holding(self, storages: Iterable[int], written: int = 0) -> Iterator[None]:
        """Restore storages, which stay where they are until the block ends; 0 is none.

        The block may write the bytes of `written`, and keeps no address.
        """
        library, held = self.library, []
        try:
            for storage, take in ((written, library.tidepool_hold_to_write),
                                  *((each, library.tidepool_hold) for each in storages)):
                if storage:
                    hold = _ADDRESS()
                    held.append((storage, hold))
                    self._run(take, storage, ctypes.byref(hold))
            yield
        finally:
            for storage, hold in held:
                if hold.value:
                    self.library.tidepool_let_go(storage, hold.value)

    @contextlib.contextmanager
    def _between(self, begin: Callable, end: Callable) -> Iterator[None]:
        """Call a function that says what has begun, and, with that, one that ends it.

        The handler of a signal that comes during a call may raise as the call returns: what has
        begun is known nevertheless.
        """
        begun = _ADDRESS()
        try:
            begin(ctypes.byref(begun))
            yield
        finally:
            end(begun)

    def region(self) -> contextlib.AbstractContextManager[None]:
        """Keep, until the block ends, what the thread's operators read and make where it is."""
        return self._between(self.library.tidepool_begin_region, self.library.tidepool_end_region)

    @contextlib.contextmanager
    def beside(self, storages: Sequence[int]) -> Iterator[None]:
        """Restore storages, and hold them while the thread works unseen until the block ends."""
        held, before = _ADDRESS(), self.thread_is_on()
        with self.undisturbed():
            try:
                self._run(self.library.tidepool_hold_all, (_ADDRESS * len(storages))(*storages),
                          len(storages), ctypes.byref(held))
                self.thread(0)
                yield
            finally:
                self.thread(before)
                self.library.tidepool_let_all_go(held)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Keep the job's other code out, until the block ends, which is not seen in there."""
        enter = self.library.tidepool_undisturbed
        enter(1)
        try:
            yield
        finally:
            enter(0)

    def become_forked_child(self) -> None:
        """Forget the blocks that other threads were in."""
        self.library.tidepool_undisturbed(2)

    def made_by_graph(self, storages: Sequence[int]) -> None:
        """Say that a compiled graph has made what is in storages, and will not run again."""
        self.library.tidepool_made_by_graph((_ADDRESS * len(storages))(*storages), len(storages))

    @contextlib.contextmanager
    def draws(self, device: int) -> Iterator[Draws | None]:
        """Have compiled code draw from a CUDA device's default generator until the block ends.

        None: that cannot be repeated, because a CUDA graph is being captured, or this thread is in
        such a block already. Meanwhile PyTorch's draws in other threads wait.
        """
        seed, offset = ctypes.c_int64(), ctypes.c_int64()
        begun = self.library.tidepool_begin_draws(device, ctypes.byref(seed), ctypes.byref(offset))
        if begun is None:
            yield None
            return
        draws = Draws(device, seed.value, offset.value)
        try:
            yield draws
        finally:
            until = draws.offset if draws.until is None else draws.until
            if self.library.tidepool_end_draws(begun, until):
                warnings.warn(TWICE_DRAWN, RuntimeWarning, stacklevel=2)

    @contextlib.contextmanager
    def drawing(self, draws: Draws) -> Iterator[None]:
        """Have this thread's kernels draw what `draws` says until the block ends."""
        self.library.tidepool_draw_from(draws.device, draws.seed, draws.offset)
        try:
            yield
        finally:
            draws.until = self.library.tidepool_drawn()

    def known_operators(self, names: Iterable[str],
                        drawing: Container[str] = ()) -> Callable[[], bool] | None:
        """Return what says whether PyTorch's operators still are what is known of them.

        None: of one of them it is not known that it does only what its schema says, draws nothing,
        or only if it is one of `drawing`, and gives the same bits each time.
        """
        handles = [self.library.tidepool_known_operator(name.encode(), name in drawing)
                   for name in names]
        if not all(handles):
            return None
        array, check = (_ADDRESS * len(handles))(*handles), self.library.tidepool_are_as_known
        return lambda: bool(check(array, len(handles)))

    def written(self, storage: int) -> None:
        self._run(self.library.tidepool_written, storage)

    def escape(self, storage: int) -> None:
        self._run(self.library.tidepool_escape, storage)

    def settling(self) -> contextlib.AbstractContextManager[None]:
        """Restore what can only be computed again, and evict nothing until the block ends.

        What has been recorded until then will not be replayed any more. What a tier has copies of
        may stay away: for what reads contents, see `keeping`.
        """
        return self._between(functools.partial(self._run, self.library.tidepool_begin_settling),
                             self.library.tidepool_end_settling)

    def keeping(self) -> contextlib.AbstractContextManager[None]:
        """Restore every evicted storage, and evict none until the block ends."""
        return self._between(functools.partial(self._run, self.library.tidepool_begin_keeping),
                             self.library.tidepool_end_keeping)

    def set_limit(self, size: int) -> None:
        """Hold at most so many bytes of each device, or the budget if that is less."""
        self._run(self.library.tidepool_set_limit, size)

    def distrust(self, operator: str) -> None:
        """Keep what an operator, aten::add or aten::add.Tensor, makes from now on; _ is all."""
        self.library.tidepool_distrust(operator.encode())

    @contextlib.contextmanager
    def routing(self, operator: str, anew: bool) -> Iterator[None]:
        """Stand around the registration of a router: it calls the kernel that was there before.

        It has to say when it runs, by `note_router`, and all else that it calls by `own_kernel`.

        Args:
            anew: whether there was one already when the plugin was attached.
        """
        self.library.tidepool_begin_routing(operator.encode(), anew)
        yield
        self.library.tidepool_end_routing(operator.encode())

    def own_kernel(self) -> contextlib.AbstractContextManager[None]:
        """Stand around a kernel that runs in the place of one of PyTorch's."""
        return self._between(self.library.tidepool_begin_own_kernel,
                             self.library.tidepool_end_own_kernel)

    def _run(self, function, *arguments) -> None:
        message = getattr(self._local, "message", None)
        if message is None:
            message = self._local.message = _Message()
        if function(*arguments, message, _MESSAGE_BYTES):
            raise _error(message.value.decode(errors="replace"))


class CudaPlugin(Plugin):
    """The same for CUDA devices, with memory that can be shared between processes."""

    signatures: Mapping[str, tuple] = _SIGNATURES | {"tidepool_make_shareable": _ONE_STORAGE}

    def make_shareable(self, storage: int) -> None:
        """Move a storage into memory that other processes can map."""
        self._run(self.library.tidepool_make_shareable, storage)


def _error(message: str) -> Exception:
    import torch

    kind = torch.OutOfMemoryError if "out of memory" in message.lower() else RuntimeError
    return kind(message)


def supported_versions(folder: Path = LIBRARY_FOLDER,
                       device: str = "cpu") -> list[tuple[int, int]]:
    """Return the PyTorch versions that this installation has a plugin for, oldest first."""
    name = re.compile(re.escape(_PREFIXES[device]) + r"(\d+)_(\d+)\.so")
    found = (name.fullmatch(path.name) for path in folder.glob(f"{_PREFIXES[device]}*.so"))
    return sorted((int(match[1]), int(match[2])) for match in found if match)


def torch_version(torch) -> tuple[int, int]:
    """Return PyTorch's (major, minor), as its C++ library says if that can be asked."""
    major, minor = (int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    path = Path(torch.__file__).parents[1] / "lib" / "libtorch_cpu.so"
    try:
        function = ctypes.CDLL(str(path), os.RTLD_NOLOAD | os.RTLD_LAZY).aoti_torch_abi_version
    except (OSError, AttributeError):
        return major, minor
    function.restype = ctypes.c_uint64
    packed = function()
    return packed >> 56, packed >> 48 & 0xFF


def load(folder: Path = LIBRARY_FOLDER, device: str = "cpu") -> Plugin:
    """Load a device's plugin for the imported PyTorch.

    Raises:
        AttachError: there is none for this version, or it does not fit.
    """
    import torch

    version = torch_version(torch)
    if device == "cuda" and torch.version.cuda is None:
        raise AttachError(f"PyTorch {torch.__version__} was built without CUDA: "
                          "expected device cpu")
    available = supported_versions(folder, device)
    if version not in available:
        have = ", ".join(f"{major}.{minor}" for major, minor in available) or "none"
        raise AttachError(f"no plugin for PyTorch {torch.__version__} "
                          f"(this installation has plugins for: {have})")
    path = folder / f"{_PREFIXES[device]}{version[0]}_{version[1]}.so"
    kind = CudaPlugin if device == "cuda" else Plugin
    try:
        # Never unloaded: PyTorch keeps pointers into it until the process ends.
        plugin = kind(ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_NODELETE))
    except (OSError, AttributeError) as error:
        advice = ("" if "libcudart" not in str(error) else
                  f" (this PyTorch has CUDA {torch.version.cuda}: install Tidepool from sources)")
        raise AttachError(f"cannot load {path.name}: {error}{advice}") from error
    built_for = plugin.library.tidepool_built_for()
    if (built_for >> 8, built_for & 0xFF) != version:
        raise AttachError(f"{path.name} was built for PyTorch {built_for >> 8}.{built_for & 0xFF}")
    return plugin
