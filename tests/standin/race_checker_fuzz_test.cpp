// The race checker against a brute-force search over the graph of all operations.
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tests/standin/driver.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda/control.h"
#include "tests/support/fake_cuda/core/race_checker.h"
#include "tests/support/random.h"

namespace tidepool::fake_cuda {
namespace {

// The oracle: every operation is a node, with edges from what it must come after. One range.
class Graph {
 public:
  using Node = size_t;

  Node add(const std::set<Node>& after) {
    std::set<Node> before;
    for (const Node node : after) {
      before.insert(node);
      before.insert(before_[node].begin(), before_[node].end());
    }
    before_.push_back(before);
    return before_.size() - 1;
  }
  bool comes_after(Node later, Node earlier) const { return before_[later].contains(earlier); }

 private:
  std::vector<std::set<Node>> before_;
};

// Random programs over three streams and two events, on one range, against the oracle.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed)
      : random_(seed), cuda_({.late_queries = kOnlyWhenAsked, .log_entries = 0}) {
    for (Lane& lane : lanes_) lane.stream = cuda_.stream();
    for (Mark& mark : marks_) mark.event = cuda_.event();
  }

  // How many races the oracle found; the checker's are in the machine.
  size_t run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    return races_;
  }
  size_t reported() const { return cuda_.machine.races.races().size(); }

 private:
  using Node = Graph::Node;
  struct Lane {
    void* stream = nullptr;
    std::set<Node> after;  // what the next operation comes after
    std::optional<Node> newest;
  };
  struct Mark {
    void* event = nullptr;
    std::set<Node> after;
  };

  void step() {
    Lane& lane = lanes_[random_.below(std::size(lanes_))];
    Mark& mark = marks_[random_.below(std::size(marks_))];
    switch (random_.below(9)) {
      case 0:
        return record(lane, mark);
      case 1:
        return wait(lane, mark);
      case 2:
        return synchronize(mark);
      case 3:
        return live_ ? free() : allocate(lane);
      case 4:
        return live_ ? use(lane) : allocate(lane);
      case 5:
        return live_ ? share(lane) : allocate(lane);
      default:
        return launch(lane);
    }
  }

  void record(Lane& lane, Mark& mark) {
    cuda_.record(mark.event, lane.stream);
    mark.after = lane.after;
    mark.after.insert(host_.begin(), host_.end());
  }
  void wait(Lane& lane, const Mark& mark) {
    cuda_.wait(lane.stream, mark.event, 0);
    lane.after.insert(mark.after.begin(), mark.after.end());
    lane.after.insert(host_.begin(), host_.end());
  }
  void synchronize(const Mark& mark) {
    cuda_.synchronize(mark.event);
    host_.insert(mark.after.begin(), mark.after.end());
  }

  void launch(Lane& lane) {
    cuda_.run_kernel(lane.stream);
    lane.after.insert(host_.begin(), host_.end());
    newest_ = graph_.add(lane.after);
    lane.after = {newest_};
    lane.newest = newest_;
    lane_of_.push_back(&lane);
    if (live_ && holds(lane)) touch(lane);
  }
  bool holds(const Lane& lane) const { return owner_ == &lane || sharers_.contains(&lane); }
  void share(Lane& lane) {
    if (owner_ == &lane) return;
    fake_cuda_range_shared(kRange, lane.stream);
    sharers_.insert(&lane);
  }
  // The newest operation touches the range: compare with the uses of its earlier lives, once for
  // each stream, as the checker does.
  void touch(const Lane& lane) {
    now_.insert(newest_);
    if (!seen_.insert(&lane).second) return;
    std::set<const Lane*> raced;
    for (const auto& [node, other] : before_) {
      if (node != newest_ && !graph_.comes_after(newest_, node)) raced.insert(other);
    }
    races_ += raced.size();
  }
  void use(Lane& lane) {
    launch(lane);
    if (!holds(lane)) touch(lane);
    fake_cuda_range_used(kRange, 64, lane.stream);
  }
  void allocate(Lane& lane) {
    fake_cuda_range_allocated(kRange, 64, lane.stream);
    live_ = true;
    owner_ = &lane;
    sharers_.clear();
    seen_.clear();
    now_.clear();
  }
  void free() {
    fake_cuda_range_freed(kRange);
    live_ = false;
    if (!seen_.empty()) before_.clear();  // else never used: what was before still is
    for (const Node node : now_) before_[node] = lane_of_[node];
    for (const Lane* lane : sharers_) {
      if (lane->newest) before_[*lane->newest] = lane;
    }
  }

  static inline char* const kRange = reinterpret_cast<char*>(uintptr_t{1} << 41);
  test::Random random_;
  Driver cuda_;
  Graph graph_;
  Lane lanes_[3];
  Mark marks_[2];
  std::set<Node> host_;
  Node newest_ = 0;
  bool live_ = false;
  const Lane* owner_ = nullptr;
  std::set<const Lane*> sharers_;
  std::vector<const Lane*> lane_of_;    // each operation
  std::map<Node, const Lane*> before_;  // uses of earlier lives
  std::set<Node> now_;                  // uses of this life
  std::set<const Lane*> seen_;
  size_t races_ = 0;
};

TEST_CASE("random programs have the races that a search of their graph finds") {
  size_t races = 0;
  size_t clean = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    RandomProgram program(seed);
    const size_t expected = program.run(60);
    INFO("seed " << seed);
    REQUIRE(program.reported() == expected);
    races += expected;
    clean += expected == 0;
  }
  CHECK(races > 1000);
  CHECK(clean > 30);
}

}  // namespace
}  // namespace tidepool::fake_cuda
