// NCCL: its functions, over communicators.h.
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tests/support/fake_cuda/core/export.h"
#include "tests/support/fake_cuda/nccl/communicators.h"

namespace tidepool::fake_cuda::nccl {
namespace {

using UniqueId = std::array<char, 128>;  // ncclUniqueId, which is passed by value

std::mutex g_mutex;
std::map<UniqueId, std::weak_ptr<Clique>> g_cliques;

int join(Communicator** communicator, int ranks, const UniqueId& id, int rank) {
  if (rank < 0 || rank >= ranks) return kInvalidArgument;
  const std::lock_guard<std::mutex> guard(g_mutex);
  std::shared_ptr<Clique> clique = g_cliques[id].lock();
  if (clique == nullptr) g_cliques[id] = clique = std::make_shared<Clique>(Clique{ranks});
  *communicator = new Communicator{.clique = std::move(clique), .rank = rank};
  return kSuccess;
}

int leave(Communicator* communicator) {
  delete communicator;
  return kSuccess;
}

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
  static std::atomic<uint64_t> g_last{0};
  const uint64_t number = ++g_last;
  id->fill(0);
  std::memcpy(id->data(), &number, sizeof(number));
  return kSuccess;
}

FAKE_CUDA_API int ncclCommInitRank(Communicator** communicator, int ranks, UniqueId id, int rank) {
  return join(communicator, ranks, id, rank);
}

FAKE_CUDA_API int ncclCommInitRankConfig(Communicator** communicator, int ranks, UniqueId id,
                                         int rank, void*) {
  return join(communicator, ranks, id, rank);
}

FAKE_CUDA_API int ncclCommInitAll(Communicator** communicators, int count, const int*) {
  const auto clique = std::make_shared<Clique>(Clique{count});
  for (int rank = 0; rank < count; ++rank) {
    communicators[rank] = new Communicator{.clique = clique, .rank = rank};
  }
  return kSuccess;
}

FAKE_CUDA_API int ncclCommFinalize(Communicator*) { return kSuccess; }
FAKE_CUDA_API int ncclCommDestroy(Communicator* communicator) { return leave(communicator); }
FAKE_CUDA_API int ncclCommAbort(Communicator* communicator) { return leave(communicator); }

FAKE_CUDA_API int ncclCommGetAsyncError(Communicator*, int* error) {
  *error = kSuccess;
  return kSuccess;
}

FAKE_CUDA_API int ncclCommCount(const Communicator* communicator, int* count) {
  *count = communicator->clique->ranks;
  return kSuccess;
}

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
