#include "remat/tier/transfer_threads.h"

#include <cerrno>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/faulty_file.h"

namespace tidepool {
namespace {

using remat::Transfer;
using remat::TransferThreads;
using test::FaultyFile;

TEST_CASE("several transfers are under way at a time, each in pieces") {
  FaultyFile file({});
  TransferThreads threads(file, 3);
  constexpr size_t kBytes = 2 * TransferThreads::kChunkBytes + 12345;
  constexpr size_t kWhole = 2 * TransferThreads::kChunkBytes + 16384;
  std::vector<std::vector<char>> contents;
  std::vector<Transfer> writes(4);
  std::vector<Transfer> reads(4);
  for (size_t k = 0; k < writes.size(); ++k) {
    contents.emplace_back(kBytes, static_cast<char>('a' + k));
    writes[k].kind = Transfer::Kind::kWrite;
    writes[k].memory = contents[k].data();
    writes[k].bytes = kBytes;
    // The pieces end within chunks, and lie in another order than they are filled.
    const size_t first = 4096 * (5 + 100 * k);
    writes[k].pieces = {{(2 * k + 1) * kWhole, first}, {2 * k * kWhole, kWhole - first}};
    threads.begin(writes[k]);
  }
  for (size_t k = 0; k < writes.size(); ++k) threads.wait(writes[k]);
  std::vector<std::vector<char>> back(4, std::vector<char>(kBytes));
  for (size_t k = 0; k < reads.size(); ++k) {
    reads[k].kind = Transfer::Kind::kRead;
    reads[k].memory = back[k].data();
    reads[k].bytes = kBytes;
    reads[k].pieces = writes[k].pieces;
    threads.begin(reads[k]);
  }
  for (size_t k = 0; k < reads.size(); ++k) {
    threads.wait(reads[k]);
    CHECK(writes[k].error == 0);
    CHECK(reads[k].error == 0);
    CHECK(back[k] == contents[k]);
    CHECK(reads[k].checksum == writes[k].checksum);
  }
  CHECK(writes[0].checksum != writes[1].checksum);
}

TEST_CASE("a transfer that fails says why") {
  FaultyFile file({FaultyFile::Kind::kWriteError, 2});
  TransferThreads threads(file, 1);
  std::vector<char> memory(100);
  Transfer transfer;
  transfer.kind = Transfer::Kind::kRead;
  transfer.memory = memory.data();
  transfer.bytes = memory.size();
  transfer.pieces = {{0, 4096}};
  threads.run(transfer);
  CHECK(transfer.error == ENODATA);
  transfer.kind = Transfer::Kind::kWrite;
  threads.run(transfer);
  CHECK(transfer.error == ENOSPC);
  threads.run(transfer);
  CHECK(transfer.error == 0);
}

}  // namespace
}  // namespace tidepool
