// Calls of LibTorch's functions that go past the dispatcher: those that read tensors by their
// addresses or give these to the program, those that change switches which decide bits, and the
// steps of its optimizers. This library's functions of the same names come before LibTorch's own,
// tell the registered observer, and forward. Part of the preload shim and of the library for C++
// programs; in a Python job nobody observes, because the package wraps what Python calls.
// Thread safe: the observer is published by release and acquire.
//
// All of these functions take and return integers and addresses only, which the System V ABI passes
// in the same registers whatever their types, so that one signature forwards them all.
#define _GNU_SOURCE
#include "bindings/preload/libtorch_calls.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bindings/preload/shim.h"

#define TEXT "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define CLOSURE "ESt8functionIFN2at6TensorEvEE"

typedef void* (*Function)(void*, void*, void*, void*, void*, void*);

enum { TIDEPOOL_UNOBSERVED = -1 };  // a kind: the observer's begin() and end() are not called

// X(identifier, symbol, kind): what is forwarded. A PyTorch that has none of that name never calls
// it.
#define CALLS(X)                                                                                  \
  X(step_adagrad, "_ZN5torch5optim7Adagrad4step" CLOSURE, TIDEPOOL_STEP)                          \
  X(step_adam, "_ZN5torch5optim4Adam4step" CLOSURE, TIDEPOOL_STEP)                                \
  X(step_adamw, "_ZN5torch5optim5AdamW4step" CLOSURE, TIDEPOOL_STEP)                              \
  X(step_lbfgs, "_ZN5torch5optim5LBFGS4step" CLOSURE, TIDEPOOL_STEP)                              \
  X(step_rmsprop, "_ZN5torch5optim7RMSprop4step" CLOSURE, TIDEPOOL_STEP)                          \
  X(step_sgd, "_ZN5torch5optim3SGD4step" CLOSURE, TIDEPOOL_STEP)                                  \
  X(save_file, "_ZN5torch9serialize13OutputArchive7save_toERK" TEXT, TIDEPOOL_READER)             \
  X(save_stream, "_ZN5torch9serialize13OutputArchive7save_toERSo", TIDEPOOL_READER)               \
  X(save_writer, "_ZN5torch9serialize13OutputArchive7save_toERKSt8functionIFmPKvmEE",             \
    TIDEPOOL_READER)                                                                              \
  X(pickle_save, "_ZN5torch11pickle_saveERKN3c106IValueE", TIDEPOOL_READER)                       \
  X(jit_pickle_save, "_ZN5torch3jit11pickle_saveERKN3c106IValueE", TIDEPOOL_READER)               \
  X(jit_save_file,                                                                                \
    "_ZNK5torch3jit6Module4saveERK" TEXT                                                          \
    "RKSt13unordered_mapIS7_S7_St4hashIS7_ESt8equal_toIS7_ESaISt4pairIS8_S7_EEE",                 \
    TIDEPOOL_READER)                                                                              \
  X(jit_save_stream,                                                                              \
    "_ZNK5torch3jit6Module4saveERSoRKSt13unordered_mapI" TEXT                                     \
    "S9_St4hashIS9_ESt8equal_toIS9_ESaISt4pairIKS9_S9_EEE",                                       \
    TIDEPOOL_READER)                                                                              \
  X(jit_save_mobile_file,                                                                         \
    "_ZNK5torch3jit6Module16_save_for_mobileERK" TEXT                                             \
    "RKSt13unordered_mapIS7_S7_St4hashIS7_ESt8equal_toIS7_ESaISt4pairIS8_S7_EEEbb",               \
    TIDEPOOL_READER)                                                                              \
  X(jit_save_mobile_stream,                                                                       \
    "_ZNK5torch3jit6Module16_save_for_mobileERSoRKSt13unordered_mapI" TEXT                        \
    "S9_St4hashIS9_ESt8equal_toIS9_ESaISt4pairIKS9_S9_EEEbb",                                     \
    TIDEPOOL_READER)                                                                              \
  X(jit_print_value, "_ZN3c10lsERSoRKNS_6IValueE", TIDEPOOL_PRINTER)                              \
  X(jit_deepcopy, "_ZNK5torch3jit6Module8deepcopyESt8optionalIN3c106DeviceEE", TIDEPOOL_READER)   \
  X(jit_dump, "_ZNK5torch3jit6Module4dumpEbbb", TIDEPOOL_READER)                                  \
  X(jit_dump_to_str, "_ZNK5torch3jit6Module11dump_to_strB5cxx11Ebbb", TIDEPOOL_READER)            \
  X(jit_freeze, "_ZN5torch3jit6freezeERKNS0_6ModuleERKSt8optionalISt6vectorI" TEXT "SaISB_EEEb",  \
    TIDEPOOL_READER)                                                                              \
  X(jit_optimize,                                                                                 \
    "_ZN5torch3jit22optimize_for_inferenceERNS0_6ModuleERKSt6vectorI" TEXT "SaIS9_EE",            \
    TIDEPOOL_READER)                                                                              \
  X(set_default_dtype, "_ZN3c1017set_default_dtypeEN6caffe28TypeMetaE", TIDEPOOL_SWITCH)          \
  X(set_qengine, "_ZN2at7Context10setQEngineEN3c107QEngineE", TIDEPOOL_SWITCH)                    \
  X(set_tf32_cudnn, "_ZN2at7Context17setAllowTF32CuDNNEb", TIDEPOOL_SWITCH)                       \
  X(set_tf32_cublas, "_ZN2at7Context18setAllowTF32CuBLASEb", TIDEPOOL_SWITCH)                     \
  X(set_tf32_onednn, "_ZN2at7Context18setAllowTF32OneDNNEb", TIDEPOOL_SWITCH)                     \
  X(set_benchmark, "_ZN2at7Context17setBenchmarkCuDNNEb", TIDEPOOL_SWITCH)                        \
  X(set_benchmark_limit, "_ZN2at7Context22setBenchmarkLimitCuDNNEi", TIDEPOOL_SWITCH)             \
  X(set_cudnn, "_ZN2at7Context19setUserEnabledCuDNNEb", TIDEPOOL_SWITCH)                          \
  X(set_mkldnn, "_ZN2at7Context20setUserEnabledMkldnnEb", TIDEPOOL_SWITCH)                        \
  X(set_nnpack, "_ZN2at7Context20setUserEnabledNNPACKEb", TIDEPOOL_SWITCH)                        \
  X(set_cudnn_depthwise, "_ZN2at7Context23setCuDNNDepthwiseKernelENS_20CuDNNDepthwiseKernelE",    \
    TIDEPOOL_SWITCH)                                                                              \
  X(set_deterministic_cudnn, "_ZN2at7Context21setDeterministicCuDNNEb", TIDEPOOL_SWITCH)          \
  X(set_deterministic_mkldnn, "_ZN2at7Context22setDeterministicMkldnnEb", TIDEPOOL_SWITCH)        \
  X(set_deterministic, "_ZN2at7Context26setDeterministicAlgorithmsEbb", TIDEPOOL_SWITCH)          \
  X(set_fill, "_ZN2at7Context39setDeterministicFillUninitializedMemoryEb", TIDEPOOL_SWITCH)       \
  X(set_blas, "_ZN2at7Context23setBlasPreferredBackendENS_11BlasBackendE", TIDEPOOL_SWITCH)       \
  X(set_linalg, "_ZN2at7Context25setLinalgPreferredBackendENS_13LinalgBackendE", TIDEPOOL_SWITCH) \
  X(set_precision, "_ZN2at7Context25setFloat32MatmulPrecisionERK" TEXT, TIDEPOOL_SWITCH)          \
  X(set_precisions,                                                                               \
    "_ZN2at7Context19setFloat32PrecisionENS_14Float32BackendENS_9Float32OpENS_"                   \
    "16Float32PrecisionE",                                                                        \
    TIDEPOOL_SWITCH)                                                                              \
  X(set_fp16_cpu, "_ZN2at7Context24setAllowFP16ReductionCPUEb", TIDEPOOL_SWITCH)                  \
  X(set_fp16_cublas, "_ZN2at7Context27setAllowFP16ReductionCuBLASEbb", TIDEPOOL_SWITCH)           \
  X(set_bf16_cublas, "_ZN2at7Context27setAllowBF16ReductionCuBLASEbb", TIDEPOOL_SWITCH)           \
  X(set_fp16_sums, "_ZN2at7Context30setAllowFP16AccumulationCuBLASEb", TIDEPOOL_SWITCH)           \
  X(set_grouped, "_ZN2at7Context28setPreferCublasltGroupedGemmEb", TIDEPOOL_SWITCH)               \
  X(set_native_aot, "_ZN2at7Context17setAllowNativeAotEb", TIDEPOOL_SWITCH)                       \
  X(set_native_aot_mask, "_ZN2at7Context29setMaskUnconditionalNativeAotEb", TIDEPOOL_SWITCH)

static _Atomic(const TidepoolCallObserver*) observer;

typedef struct {
  const TidepoolCallObserver* observer;
  int kind;
  int returned;
} Call;

// LibTorch's own function. Python loads LibTorch for itself alone, where RTLD_NEXT does not look.
static void* find_original(const char* name) {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void* symbol = library ? dlsym(library, name) : NULL;
  if (library) dlclose(library);
  return symbol ? symbol : dlsym(RTLD_NEXT, name);
}

// Runs when a call ends, by an exception as well.
static void end_call(Call* call) {
  if (call->observer) call->observer->end(call->kind, call->returned);
}

// Whether the std::function<at::Tensor()> that an optimizer gets is empty: the third word of
// libstdc++'s is the address of what manages its contents.
static int has_closure(void* const* closure) { return closure[2] != NULL; }

static void* forward(const char* name, _Atomic(Function)* known, int kind, void* const* a) {
  Function real = atomic_load_explicit(known, memory_order_relaxed);
  if (!real) {
    void* symbol = find_original(name);
    memcpy(&real, &symbol, sizeof symbol);
    atomic_store_explicit(known, real, memory_order_relaxed);
  }
  __attribute__((cleanup(end_call))) Call call = {NULL, kind, 0};
  const TidepoolCallObserver* now = atomic_load_explicit(&observer, memory_order_acquire);
  if (now && kind != TIDEPOOL_UNOBSERVED) {
    // A step returns a tensor through its first argument; its third one is the closure.
    if (kind == TIDEPOOL_STEP && has_closure(a[2])) call.kind = TIDEPOOL_STEP_WITH_CLOSURE;
    now->begin(call.kind);
    call.observer = now;
  }
  void* result = real(a[0], a[1], a[2], a[3], a[4], a[5]);
  call.returned = 1;
  return result;
}

#define FORWARD(identifier, symbol, kind)                                                     \
  TIDEPOOL_EXPORT void* tidepool_forward_##identifier(void*, void*, void*, void*, void*,      \
                                                      void*) __asm__(symbol);                 \
  void* tidepool_forward_##identifier(void* a, void* b, void* c, void* d, void* e, void* f) { \
    static _Atomic(Function) known;                                                           \
    void* const arguments[] = {a, b, c, d, e, f};                                             \
    return forward(symbol, &known, kind, arguments);                                          \
  }
CALLS(FORWARD)

// ---- readers of one tensor ----------------------------------------------------------------------

// X(identifier, symbol, kind, which argument is the tensor, whether who gets the address may write)
#define TENSOR_READERS(X)                                                                        \
  X(print, "_ZN2at5printERSoRKNS_6TensorEl", TIDEPOOL_PRINTER, 1, 0)                             \
  X(print_columns, "_ZN2at5printERKNS_6TensorEl", TIDEPOOL_PRINTER, 0, 0)                        \
  X(dlpack, "_ZN2at8toDLPackERKNS_6TensorE", TIDEPOOL_UNOBSERVED, 0, 1)                          \
  X(dlpack_versioned, "_ZN2at17toDLPackVersionedERKNS_6TensorE", TIDEPOOL_UNOBSERVED, 0, 1)      \
  X(dlpack_read_only, "_ZN2at25toDLPackVersionedReadOnlyERKNS_6TensorE", TIDEPOOL_UNOBSERVED, 0, \
    1)                                                                                           \
  X(dlpack_view, "_ZN2at17toDLPackNonOwningERKNS_6TensorEP8DLTensorb", TIDEPOOL_UNOBSERVED, 0, 1)

#define FORWARD_READER(identifier, symbol, kind, which, may_write)                           \
  TIDEPOOL_EXPORT void* tidepool_forward_##identifier(void*, void*, void*) __asm__(symbol);  \
  void* tidepool_forward_##identifier(void* a, void* b, void* c) {                           \
    static _Atomic(Function) known;                                                          \
    void* const arguments[] = {a, b, c, NULL, NULL, NULL};                                   \
    const TidepoolCallObserver* now = atomic_load_explicit(&observer, memory_order_acquire); \
    if (now) now->address(arguments[which], may_write);                                      \
    return forward(symbol, &known, kind, arguments);                                         \
  }
TENSOR_READERS(FORWARD_READER)

// ---- addresses ----------------------------------------------------------------------------------

// at::TensorBase::data_ptr<T>() and its kin, for each type of elements that a program would read.
// PyTorch's kernels call them as well, and are not asked about.
// clang-format off: it never ends on this
#define TYPES(X)                                                                    \
  X(int8, "a") X(boolean, "b") X(float64, "d") X(float32, "f") X(uint8, "h")        \
  X(int32, "i") X(uint32, "j") X(int64, "l") X(uint64, "m") X(int16, "s")           \
  X(uint16, "t") X(half, "N3c104HalfE") X(bfloat16, "N3c108BFloat16E")              \
  X(complex64, "N3c107complexIfEE") X(complex128, "N3c107complexIdEE")              \
  X(complex32, "N3c107complexINS2_4HalfEEE") X(qint8, "N3c105qint8E")                 \
  X(quint8, "N3c106quint8E") X(qint32, "N3c106qint32E")                               \
  X(float8_e5m2, "N3c1011Float8_e5m2E") X(float8_e4m3fn, "N3c1013Float8_e4m3fnE")     \
  X(float8_e5m2fnuz, "N3c1015Float8_e5m2fnuzE")                                       \
  X(float8_e4m3fnuz, "N3c1015Float8_e4m3fnuzE")                                       \
  X(float8_e8m0fnu, "N3c1014Float8_e8m0fnuE")
// clang-format on
#define BASE "_ZNK2at10TensorBase"
#define GETTERS(X, type, code)                                        \
  X(data_##type, BASE "8data_ptrI" code "EEPT_v", 1)                  \
  X(mutable_data_##type, BASE "16mutable_data_ptrI" code "EEPT_v", 1) \
  X(const_data_##type, BASE "14const_data_ptrI" code "EEPKT_v", 0)    \
  X(const_data_const_##type, BASE "14const_data_ptrIK" code "EEPKT_v", 0)

typedef void* (*Getter)(void*);

enum { kMostLibraries = 32 };
typedef struct {
  uintptr_t begin, end;
} Range;
static Range pytorch[kMostLibraries];  // its libraries and ours; set before there is an observer
static size_t pytorch_count;

static int note_library(struct dl_phdr_info* library, size_t size, void* unused) {
  static const char* const kNames[] = {"libtorch", "libc10", "libtidepool"};
  (void)size;
  (void)unused;
  const char* slash = strrchr(library->dlpi_name, '/');
  const char* name = slash ? slash + 1 : library->dlpi_name;
  int counts = 0;
  for (size_t k = 0; k < sizeof kNames / sizeof kNames[0]; k++) {
    counts |= strncmp(name, kNames[k], strlen(kNames[k])) == 0;
  }
  for (size_t k = 0; counts && k < library->dlpi_phnum; k++) {
    const ElfW(Phdr)* part = &library->dlpi_phdr[k];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || pytorch_count == kMostLibraries) {
      continue;
    }
    const uintptr_t begin = library->dlpi_addr + part->p_vaddr;
    pytorch[pytorch_count++] = (Range){begin, begin + part->p_memsz};
  }
  return 0;
}

static int is_of_pytorch(const void* caller) {
  const uintptr_t at = (uintptr_t)caller;
  for (size_t k = 0; k < pytorch_count; k++) {
    if (at >= pytorch[k].begin && at < pytorch[k].end) return 1;
  }
  return 0;
}

static Getter find_getter(const char* name, _Atomic(Getter)* known) {
  Getter real;
  void* symbol = find_original(name);
  memcpy(&real, &symbol, sizeof symbol);
  atomic_store_explicit(known, real, memory_order_relaxed);
  return real;
}

#define FORWARD_GETTER(identifier, symbol, may_write)                                        \
  TIDEPOOL_EXPORT void* tidepool_forward_##identifier(void*) __asm__(symbol);                \
  void* tidepool_forward_##identifier(void* tensor) {                                        \
    static _Atomic(Getter) known;                                                            \
    const TidepoolCallObserver* now = atomic_load_explicit(&observer, memory_order_acquire); \
    if (now && !is_of_pytorch(__builtin_return_address(0))) now->address(tensor, may_write); \
    Getter real = atomic_load_explicit(&known, memory_order_relaxed);                        \
    return (real ? real : find_getter(symbol, &known))(tensor);                              \
  }
#define FORWARD_TYPE(type, code) GETTERS(FORWARD_GETTER, type, code)
TYPES(FORWARD_TYPE)

const char* tidepool_observe_libtorch_calls(const TidepoolCallObserver* given) {
#define ROW(identifier, symbol, kind) {symbol, (Function) & tidepool_forward_##identifier},
  static const struct {
    const char* name;
    Function here;
  } kCalls[] = {CALLS(ROW)};
#undef ROW
#define READER_ROW(identifier, symbol, kind, which, may_write) \
  symbol, (const void*)&tidepool_forward_##identifier,
#define ROW(identifier, symbol, may_write) symbol, (const void*)&tidepool_forward_##identifier,
#define ROWS(type, code) GETTERS(ROW, type, code)
  static const void* const kGetters[] = {TYPES(ROWS) TENSOR_READERS(READER_ROW)};
  for (size_t k = 0; k < sizeof kCalls / sizeof kCalls[0]; k++) {
    void* found = dlsym(RTLD_DEFAULT, kCalls[k].name);
    if (found != (void*)kCalls[k].here) return kCalls[k].name;
  }
  for (size_t k = 0; k < sizeof kGetters / sizeof kGetters[0]; k += 2) {
    if (dlsym(RTLD_DEFAULT, kGetters[k]) != kGetters[k + 1]) return kGetters[k];
  }
  if (pytorch_count == 0) dl_iterate_phdr(&note_library, NULL);
  atomic_store_explicit(&observer, given, memory_order_release);
  return NULL;
}
