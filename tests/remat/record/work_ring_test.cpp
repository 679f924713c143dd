#include "remat/record/work_ring.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/remat/trace/sample_traces.h"
#include "tests/support/catch.h"

namespace tidepool::remat {
namespace {

constexpr size_t kSmall = 1;  // bytes; the ring has as many as it needs at least
const char* const kMm = "aten::mm";
const char* const kRelu = "aten::relu";

struct Recorded {
  layout::Header header;
  std::vector<WorkEvent> events;  // as they lie in the file
};

Recorded read(const TemporaryFile& file) {
  std::ifstream stream(file.path(), std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(stream), {});
  Recorded recorded{};
  REQUIRE(content.size() >= layout::kEventsAt);
  std::memcpy(&recorded.header, content.data(), sizeof recorded.header);
  recorded.events.resize((content.size() - layout::kEventsAt) / sizeof(WorkEvent));
  std::memcpy(recorded.events.data(), content.data() + layout::kEventsAt,
              recorded.events.size() * sizeof(WorkEvent));
  return recorded;
}

uint8_t folded(const WorkEvent& event) {
  uint8_t bytes[sizeof event], all = 0;
  std::memcpy(bytes, &event, sizeof event);
  for (const uint8_t byte : bytes) all ^= byte;
  return all;
}

std::vector<uint8_t> kinds(const Recorded& recorded) {
  std::vector<uint8_t> found;
  for (const WorkEvent& event : recorded.events) {
    if (event.kind != 0) found.push_back(event.kind);
  }
  return found;
}

constexpr uint8_t kind(WorkKind kind) { return static_cast<uint8_t>(kind); }
constexpr uint8_t already(WorkKind kind) {
  return static_cast<uint8_t>(static_cast<uint8_t>(kind) | layout::kAlready);
}

TEST_CASE("names are numbered as they lie in the file, also after one that found no room") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  // Those of 1000 bytes fill the room but for a part of one more.
  constexpr size_t kLong = 1000, kFitting = layout::kNamesBytes / (kLong + sizeof(uint16_t));
  std::vector<std::string> names;
  for (size_t k = 0; k <= kFitting; ++k) names.emplace_back(kLong, 'x');
  for (const std::string& name : names) ring.replayed(name.c_str(), 1);
  ring.replayed(kMm, 1);
  const Recorded recorded = read(file);
  const WorkEvent& last = recorded.events[(recorded.header.written - 1) % recorded.events.size()];
  const WorkEvent& before = recorded.events[(recorded.header.written - 2) % recorded.events.size()];
  CHECK(before.label == 0);
  CHECK(last.label == kFitting + 1);
}

TEST_CASE("each event is in the file at once") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  const int storage = 0;
  ring.held(1024);
  ring.taken(64, 512, kMm);
  ring.evicted(64, 500, &storage, kMm, true);
  const Recorded recorded = read(file);
  CHECK(std::string(recorded.header.magic, 8) == "TideWork");
  CHECK(recorded.header.written == 5);
  CHECK(recorded.header.ended == 0);
  CHECK(recorded.header.budget_bytes == 4096);
  CHECK(std::string(recorded.header.name) == "job");
  CHECK(kinds(recorded) == std::vector{already(WorkKind::kHeld), already(WorkKind::kLimited),
                                       kind(WorkKind::kHeld), kind(WorkKind::kTaken),
                                       kind(WorkKind::kEvicted)});
  const WorkEvent& evicted = recorded.events[4];
  CHECK(evicted.where == 64);
  CHECK((evicted.bytes & 0xffff'ffff'ffff) == 500);
  CHECK(evicted.bytes >> 48 == 1);  // with a copy
  CHECK(evicted.storage == 1);
  CHECK(evicted.label == 1);
  for (size_t k = 0; k < recorded.header.written; ++k) {
    CHECK(folded(recorded.events[k]) == layout::kCheck);
  }
}

TEST_CASE("a segment begins with what is there") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  const size_t segment = read(file).header.segment_events;
  const int storage = 0, gone = 0;
  ring.taken(0, 512, kMm);
  ring.taken(512, 64, kRelu);
  ring.owned(0, &storage, nullptr, 1, 2);
  ring.evicted(1024, 100, &gone, kRelu, false);
  for (uint64_t k = read(file).header.written; k < segment; ++k) ring.step_ended(0, 0);
  ring.limited(2048);
  const Recorded recorded = read(file);
  std::vector<uint8_t> found;
  for (size_t k = segment; k < recorded.header.written; ++k) {
    found.push_back(recorded.events[k].kind);
  }
  // Blocks come in no order.
  REQUIRE(found.size() == 6);
  if (found[2] == already(WorkKind::kTaken)) std::swap(found[2], found[3]);
  CHECK(found == std::vector{already(WorkKind::kHeld), already(WorkKind::kLimited),
                             already(WorkKind::kOwned), already(WorkKind::kTaken),
                             already(WorkKind::kEvicted), kind(WorkKind::kLimited)});
}

TEST_CASE("a full ring writes over its oldest segment, and its file stays as large") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  const Recorded before = read(file);
  const size_t room = before.header.segment_events * before.header.segments;
  for (size_t k = 0; k <= room; ++k) ring.step_ended(0, 0);
  CHECK(read(file).header.written > room);
  const Recorded after = read(file);
  CHECK(after.events.size() == before.events.size());
  CHECK(after.events.front().time_ns > after.events.back().time_ns);  // which stays from before
  ring.finish();
  CHECK(read(file).header.ended == 1);
}

TEST_CASE("what is known of a block is written once, and more blocks than fit are left out") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  const size_t segment = read(file).header.segment_events;
  const int storage = 0;
  ring.taken(0, 512, kMm);
  ring.owned(0, &storage, kMm, 1, 2);
  const uint64_t written = read(file).header.written;
  ring.owned(0, &storage, kMm, 1, 2);
  ring.owned(512, &storage, kMm, 1, 2);  // no block starts there
  CHECK(read(file).header.written == written);
  ring.owned(0, &storage, kMm, 3, 2);
  CHECK(read(file).header.written == written + 1);
  for (size_t k = 1; k < 4 * segment; ++k) ring.taken(k * 512, 512, kMm);
  const Recorded recorded = read(file);
  for (size_t begin = 0; begin < recorded.header.written; begin += segment) {
    size_t known = 0;
    for (size_t k = begin; k < std::min(begin + segment, recorded.header.written); ++k) {
      known += (recorded.events[k].kind & layout::kAlready) != 0 ? 1 : 0;
    }
    CHECK(known <= segment / 2);
  }
}

TEST_CASE("a finished recording has no room that it did not need, and takes nothing more") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  ring.held(1024);
  ring.finish();
  ring.held(2048);
  const Recorded recorded = read(file);
  CHECK(recorded.header.ended == 1);
  CHECK(recorded.header.written == 3);
  CHECK(recorded.events.size() == 3);
}

TEST_CASE("a forked child writes nothing") {
  const TemporaryFile file("work.rec");
  WorkRing ring(file.path(), kSmall, {"job", "cpu", 4096});
  ring.held(1024);
  const pid_t child = ::fork();
  if (child == 0) {
    ring.become_forked_child();
    ring.held(2048);
    ring.finish();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(read(file).header.written == 3);
  CHECK(read(file).header.ended == 0);
}

TEST_CASE("a file that cannot be made is named") {
  CHECK_THROWS_WITH(WorkRing("/nowhere/work.rec", kSmall, {}),
                    "/nowhere/work.rec: No such file or directory");
}

}  // namespace
}  // namespace tidepool::remat
