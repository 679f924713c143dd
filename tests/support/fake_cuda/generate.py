"""Generate the sources of the stand-in device that depend on other files.

    generate.py table OUTPUT        driver functions by name, from the sources beside this script
    generate.py stubs TORCH FOLDER  what the PyTorch at TORCH (…/site-packages/torch) needs of CUDA
                                    and the sources do not have: driver_stubs.cpp,
                                    runtime_stubs.cpp, math_stubs.cpp and nccl_stubs.cpp

What PyTorch needs is read from its libraries (`nm -D`) and, for the driver functions that it looks
up by name, from its header. A function that only takes arguments and computes becomes an operation
on a stream; one with out-parameters aborts by its name when it is called.
"""

import argparse
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFINED = re.compile(r"^FAKE_CUDA_API [\w ]+[ *]+(\w+)\(", re.MULTILINE)

# Families of functions by the stub library that has them. What matches none (CUPTI, cuFile, NVRTC,
# nvshmem) stays with NVIDIA's own libraries, which fail by themselves without a device.
DRIVER = re.compile(r"cu[A-Z](?!File|pti)\w+$")
RUNTIME = re.compile(r"(__)?cuda[A-Z]\w+$")
MATH = re.compile(r"(cublas|cudnn|cufft|curand|cusolver|cusparse)\w+$")
NCCL = re.compile(r"nccl[A-Z]\w+$")
NOT_DRIVER = re.compile(r"cuFile|cupti")

# How a function of MATH without code of its own behaves; the first pattern that fits counts. All
# take a handle first, which has a stream, or make or drop a descriptor that nobody reads.
BLAS_SHAPES = ("asum|axpy|copy|gemm|gemv|ger|hemm|hemv|her|rot|scal|swap|symm|symv|syr|trmm|trmv"
               "|trsm|trsv|dot|getrfBatched|Gemm|Dot|getrf")
KINDS = (
    (re.compile(r"cublas\w*(geqrf|gels|getrs|nrm2|asum|rotg|rotmg|amax|amin)"), "abort"),
    (re.compile(rf"cublas(?!Lt)[SDCZ]?\w*({BLAS_SHAPES})"), "launch"),
    (re.compile(r"cudnnCreate\w+Descriptor$"), "make"),
    (re.compile(r"cudnnDestroy\w+Descriptor$"), "drop"),
    (re.compile(r"cudnnSet\w+Descriptor(Ex|_v\d+)?$|cudnnSetConvolution\w+$"), "accept"),
    (re.compile(r"cudnnConvolution(Forward|BackwardData|BackwardFilter|BiasActivationForward)$"
                r"|cudnnBatchNormalization\w+$|cudnnPoolingForward$|cudnnSpatialTf\w+$"), "launch"),
)
BODIES = {
    "launch": "(void* handle) {{ return math::launch(handle, \"{name}\"); }}",
    "make": "(void** descriptor) {{\n  *descriptor = new char;\n  return 0;\n}}",
    "drop": "(void* descriptor) {{\n  delete static_cast<char*>(descriptor);\n  return 0;\n}}",
    "accept": "() {{ return 0; }}",
    "abort": "() {{ unfaked(\"{name}\"); }}",
}

# The version of CUDA that brought each function of the driver as the stand-in has it, in CUDA's
# numbers; those that are not here are of 2000. The toolkit's header of typedefs says so too.
SINCE = {version: names.split() for version, names in {
    2010: "cuModuleLoadDataEx",
    2020: "cuDriverGetVersion cuFuncGetAttribute cuMemHostAlloc",
    3000: "cuFuncSetCacheConfig",
    3020: "cuDeviceTotalMem_v2 cuMemAllocHost_v2 cuMemAlloc_v2 cuMemFree_v2 "
          "cuMemGetAddressRange_v2 cuMemGetInfo_v2 cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2 "
          "cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 "
          "cuMemsetD16Async cuMemsetD32Async cuMemsetD32_v2 cuMemsetD8Async cuMemsetD8_v2 "
          "cuStreamWaitEvent",
    4000: "cuCtxGetCurrent cuCtxPopCurrent_v2 cuCtxPushCurrent_v2 cuCtxSetCurrent "
          "cuDeviceCanAccessPeer cuEventDestroy_v2 cuLaunchKernel cuMemHostUnregister cuMemcpy "
          "cuMemcpyAsync cuMemcpyPeerAsync cuPointerGetAttribute cuStreamDestroy_v2",
    4010: "cuDeviceGetPCIBusId",
    5050: "cuStreamCreateWithPriority cuStreamGetFlags cuStreamGetPriority",
    6000: "cuGetErrorName cuGetErrorString",
    6050: "cuMemHostRegister_v2 cuOccupancyMaxActiveBlocksPerMultiprocessor",
    7000: "cuDevicePrimaryCtxGetState cuDevicePrimaryCtxRetain",
    9000: "cuFuncSetAttribute cuLaunchCooperativeKernel",
    10000: "cuGraphDestroy cuGraphExecDestroy cuGraphLaunch cuLaunchHostFunc cuStreamEndCapture "
           "cuStreamIsCapturing",
    10010: "cuStreamBeginCapture_v2 cuThreadExchangeStreamCaptureMode",
    10020: "cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemExportToShareableHandle "
           "cuMemGetAccess cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle "
           "cuMemImportFromShareableHandle cuMemMap cuMemRelease cuMemSetAccess cuMemUnmap",
    11000: "cuDevicePrimaryCtxRelease_v2 cuMemRetainAllocationHandle",
    11010: "cuEventRecordWithFlags",
    11040: "cuGraphInstantiateWithFlags",
    11070: "cuStreamWriteValue32_v2",
    12000: "cuGetProcAddress_v2 cuStreamGetId cuTensorMapEncodeTiled",
    12080: "cuEventElapsedTime_v2",
    12090: "cuLogsRegisterCallback cuLogsUnregisterCallback",
}.items()}
# From these versions on the same name means a function with other arguments.
UNTIL = {"cuCtxGetDevice": 13000, "cuCtxSynchronize": 13000}

HEADER = """// Generated by tests/support/fake_cuda/generate.py.
#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/core/unfaked.h"
#include "tests/support/fake_cuda/math/handle.h"

namespace tidepool::fake_cuda {
"""


def defined(folder: str) -> set[str]:
    """Return the functions that the sources in a folder beside this script define."""
    names: set[str] = set()
    for source in sorted(HERE.joinpath(folder).glob("*.cpp")):
        names.update(DEFINED.findall(source.read_text()))
    return names


def since(name: str) -> int:
    """Return the version of CUDA that brought a function of the driver."""
    return next((version for version, names in SINCE.items() if name in names), 2000)


def check_versions(header: Path) -> None:
    """Stop where the toolkit's header of typedefs does not have a function in its version."""
    text = header.read_text()
    for name in sorted(defined("driver")):
        base = re.sub(r"_v\d+$", "", name)
        if not re.search(rf"\bPFN_{base}_v{since(name)}\b", text):
            raise SystemExit(f"{header} has no {base} of version {since(name)}")


def imports(torch: Path) -> set[str]:
    """Return the undefined symbols of PyTorch's libraries, without versions."""
    names: set[str] = set()
    for library in sorted(torch.joinpath("lib").glob("*.so")):
        listing = subprocess.run(["nm", "-D", "--undefined-only", str(library)],
                                 capture_output=True, text=True, check=True).stdout
        names.update(line.split()[-1].split("@")[0] for line in listing.splitlines())
    return names


def looked_up(torch: Path) -> set[str]:
    """Return the driver functions that PyTorch looks up by name."""
    header = torch / "include/c10/cuda/driver_api.h"
    return set(re.findall(r"_\((cu\w+), \d+\)", header.read_text()))


def stub(name: str) -> str:
    """Return the definition of a function that the sources do not have."""
    kind = next((kind for pattern, kind in KINDS if pattern.match(name)), "abort")
    return f"FAKE_CUDA_API int {name}" + BODIES[kind].format(name=name)


def source(names: Iterable[str]) -> str:
    """Return a file of stubs."""
    lines = [HEADER, *map(stub, sorted(names)), "", "}  // namespace tidepool::fake_cuda", ""]
    return "\n".join(lines)


def write_stubs(torch: Path, folder: Path) -> None:
    """Write the four files of stubs."""
    check_versions(torch.parent / "nvidia/cu13/include/cudaTypedefs.h")
    needed = imports(torch)
    driver = {name for name in needed | looked_up(torch)
              if DRIVER.match(name) and not NOT_DRIVER.match(name)}
    there = defined("driver")
    there |= {name.removesuffix("_v2") for name in there}
    files = {
        "driver_stubs.cpp": driver - there,
        "runtime_stubs.cpp": {n for n in needed if RUNTIME.match(n)} - defined("runtime"),
        "math_stubs.cpp": {n for n in needed if MATH.match(n)} - defined("math"),
        "nccl_stubs.cpp": {n for n in needed if NCCL.match(n)} - defined("nccl"),
    }
    for name, functions in files.items():
        folder.joinpath(name).write_text(source(functions))


def write_table(output: Path) -> None:
    """Write the table that driver_entry_point() searches, sorted by name."""
    names = sorted(defined("driver"))
    declarations = "\n".join(f'extern "C" int {name}();' for name in names)
    last = 2**31 - 1
    entries = "\n".join(
        f'    {{"{name}", &{name}, {since(name)}, {UNTIL.get(name, last)}}},' for name in names)
    output.write_text(f"""// Generated by tests/support/fake_cuda/generate.py.
#include "tests/support/fake_cuda/driver/entry_points.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

{declarations}

namespace tidepool::fake_cuda {{
namespace {{

struct Entry {{
  std::string_view name;
  int (*function)();
  int since;  // the version of CUDA that brought it
  int until;  // the one from which the name means another function
}};

const Entry kEntries[] = {{
{entries}
}};

const Entry* find(std::string_view name) {{
  const auto* const found = std::lower_bound(
      std::begin(kEntries), std::end(kEntries), name,
      [](const Entry& entry, std::string_view wanted) {{ return entry.name < wanted; }});
  return found == std::end(kEntries) || found->name != name ? nullptr : found;
}}

}}  // namespace

EntryPoint driver_entry_point(const char* name, int version) {{
  bool is_known = false;
  for (const char* const suffix : {{"_v2", ""}}) {{
    const Entry* const entry = find(std::string(name) + suffix);
    if (entry == nullptr) continue;
    is_known = true;
    if (version < entry->since || version >= entry->until) continue;
    return {{reinterpret_cast<void*>(entry->function), true}};
  }}
  return {{nullptr, is_known}};
}}

}}  // namespace tidepool::fake_cuda
""")


def main() -> None:
    """Generate what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("table")
    table.add_argument("output", type=Path)
    stubs = commands.add_parser("stubs")
    stubs.add_argument("torch", type=Path)
    stubs.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "table":
        write_table(arguments.output)
    else:
        write_stubs(arguments.torch, arguments.folder)


if __name__ == "__main__":
    main()
