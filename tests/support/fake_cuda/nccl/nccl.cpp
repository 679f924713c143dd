// NCCL: its functions, over communicators.h.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <random>
#include <string>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/nccl/communicators.h"

namespace tidepool::fake_cuda::nccl {
namespace {

using UniqueId = std::array<char, 128>;  // ncclUniqueId, which is passed by value

std::string name_of(const UniqueId& id) { return id.data(); }

std::atomic<size_t> g_registered_bytes{0};

}  // namespace

// How much memory communicators have registered so far.
FAKE_CUDA_API size_t fake_nccl_registered_bytes() { return g_registered_bytes; }

FAKE_CUDA_API int ncclGetVersion(int* version) {
  *version = 22900;
  return kSuccess;
}

FAKE_CUDA_API const char* ncclGetErrorString(int) { return "error of the stand-in for NCCL"; }
FAKE_CUDA_API const char* ncclGetLastError(Communicator*) { return ""; }

FAKE_CUDA_API int ncclGetUniqueId(UniqueId* id) {
  std::random_device random;
  id->fill(0);
  const std::string name =
      fmt::format("fake_nccl-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  name.copy(id->data(), id->size() - 1);
  return kSuccess;
}

FAKE_CUDA_API int ncclCommInitRank(Communicator** communicator, int ranks, UniqueId id, int rank) {
  return join(communicator, name_of(id), ranks, rank);
}

FAKE_CUDA_API int ncclCommInitRankConfig(Communicator** communicator, int ranks, UniqueId id,
                                         int rank, void*) {
  return join(communicator, name_of(id), ranks, rank);
}

FAKE_CUDA_API int ncclCommInitAll(Communicator** communicators, int count, const int*) {
  join_all(communicators, count);
  return kSuccess;
}

FAKE_CUDA_API int ncclCommSplit(Communicator* whole, int color, int key, Communicator** part,
                                void*) {
  return split(*whole, color, key, part);
}

FAKE_CUDA_API int ncclCommFinalize(Communicator*) { return kSuccess; }

FAKE_CUDA_API int ncclCommDestroy(Communicator* communicator) {
  delete communicator;
  return kSuccess;
}

FAKE_CUDA_API int ncclCommAbort(Communicator* communicator) {
  if (communicator->remote) communicator->remote->abort();
  delete communicator;
  return kSuccess;
}

FAKE_CUDA_API int ncclCommGetAsyncError(Communicator* communicator, int* error) {
  *error = communicator->remote ? communicator->remote->error() : kSuccess;
  return kSuccess;
}

FAKE_CUDA_API int ncclCommCount(const Communicator* communicator, int* count) {
  *count = communicator->ranks;
  return kSuccess;
}

// An operation that sums what ranks have multiplied by a number, which lies where any other does.
FAKE_CUDA_API int ncclRedOpCreatePreMulSum(int* operation, const void* factor, int type, int,
                                           Communicator* communicator) {
  const auto made = number_at(factor, type);
  if (!made) return kInvalidArgument;
  communicator->factors.push_back(*made);
  *operation = kFirstMadeOperation + static_cast<int>(communicator->factors.size()) - 1;
  return kSuccess;
}

FAKE_CUDA_API int ncclRedOpDestroy(int, Communicator*) { return kSuccess; }

// Memory that is registered is read as all other.
FAKE_CUDA_API int ncclCommRegister(const Communicator*, void* memory, size_t bytes, void** handle) {
  g_registered_bytes += bytes;
  *handle = memory;
  return kSuccess;
}

FAKE_CUDA_API int ncclCommDeregister(const Communicator*, void*) { return kSuccess; }

FAKE_CUDA_API int ncclCommUserRank(const Communicator* communicator, int* rank) {
  *rank = communicator->rank;
  return kSuccess;
}

FAKE_CUDA_API int ncclGroupStart() {
  begin_group();
  return kSuccess;
}

FAKE_CUDA_API int ncclGroupEnd() { return end_group(); }

FAKE_CUDA_API int ncclAllReduce(const void* sent, void* received, size_t count, int type,
                                int operation, Communicator* communicator, void* stream) {
  return request({__func__, Kind::kAllReduce, sent, received, count, type, operation, 0,
                  communicator, stream});
}

FAKE_CUDA_API int ncclReduce(const void* sent, void* received, size_t count, int type,
                             int operation, int root, Communicator* communicator, void* stream) {
  return request({__func__, Kind::kReduce, sent, received, count, type, operation, root,
                  communicator, stream});
}

FAKE_CUDA_API int ncclBroadcast(const void* sent, void* received, size_t count, int type, int root,
                                Communicator* communicator, void* stream) {
  return request(
      {__func__, Kind::kBroadcast, sent, received, count, type, 0, root, communicator, stream});
}

FAKE_CUDA_API int ncclBcast(void* buffer, size_t count, int type, int root,
                            Communicator* communicator, void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

FAKE_CUDA_API int ncclAllGather(const void* sent, void* received, size_t count, int type,
                                Communicator* communicator, void* stream) {
  return request(
      {__func__, Kind::kAllGather, sent, received, count, type, 0, 0, communicator, stream});
}

FAKE_CUDA_API int ncclGather(const void* sent, void* received, size_t count, int type, int root,
                             Communicator* communicator, void* stream) {
  return request(
      {__func__, Kind::kGather, sent, received, count, type, 0, root, communicator, stream});
}

FAKE_CUDA_API int ncclReduceScatter(const void* sent, void* received, size_t count, int type,
                                    int operation, Communicator* communicator, void* stream) {
  return request({__func__, Kind::kReduceScatter, sent, received, count, type, operation, 0,
                  communicator, stream});
}

FAKE_CUDA_API int ncclAlltoAll(const void* sent, void* received, size_t count, int type,
                               Communicator* communicator, void* stream) {
  return request(
      {__func__, Kind::kAllToAll, sent, received, count, type, 0, 0, communicator, stream});
}

FAKE_CUDA_API int ncclSend(const void* sent, size_t count, int type, int peer,
                           Communicator* communicator, void* stream) {
  return request(
      {__func__, Kind::kSend, sent, nullptr, count, type, 0, peer, communicator, stream});
}

FAKE_CUDA_API int ncclRecv(void* received, size_t count, int type, int peer,
                           Communicator* communicator, void* stream) {
  return request(
      {__func__, Kind::kReceive, nullptr, received, count, type, 0, peer, communicator, stream});
}

}  // namespace tidepool::fake_cuda::nccl
