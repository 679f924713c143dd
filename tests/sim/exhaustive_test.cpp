// Every order of a few events on a few tensors: breadth first over the states that they lead to,
// equal states merged (SmallScope::key()), from every graph in which the tensors may have been
// made. Each step is taken on a runtime that has got there by the events of the shortest way, and
// ends in a comparison of all contents.
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "tests/sim/small_scope.h"
#include "tests/support/catch.h"

namespace tidepool::sim {
namespace {

constexpr size_t kMostEvents = 8;

// Millions of ways are kept: no memory of their own.
struct Way {
  SmallScope::Shape shape = {};
  uint8_t length = 0;
  std::array<Event, kMostEvents> events = {};
};

// Two hashes of a key: with 128 bits, equal ones of different keys are not to be expected.
using Digest = std::pair<uint64_t, uint64_t>;

Digest digest_of(const std::string& key) {
  Digest digest{1, 2};
  for (const char byte : key) {
    digest.first = mixed((digest.first ^ static_cast<uint8_t>(byte)) * kGoldenStep + 1);
    digest.second = mixed((digest.second + static_cast<uint8_t>(byte)) * 0x5851f42d4c957f2d + 3);
  }
  return digest;
}

struct Counts {
  uint64_t states = 0;
  uint64_t transitions = 0;
  std::vector<uint64_t> new_states;  // after so many events
};

std::vector<SmallScope::Shape> all_shapes(size_t tensors) {
  std::vector<SmallScope::Shape> shapes = {{}};
  for (size_t k = 1; k < tensors; ++k) {
    std::vector<SmallScope::Shape> longer;
    for (SmallScope::Shape shape : shapes) {
      for (size_t mask = 0; mask < size_t{1} << k; ++mask) {
        shape[k] = static_cast<uint8_t>(mask);
        longer.push_back(shape);
      }
    }
    shapes = longer;
  }
  return shapes;
}

// What may happen besides updates of one tensor, overwrites, deaths, evictions, escapes, restores
// and a fork. (All tensors have the same events, since states are merged without their numbers.)
struct Scope {
  size_t tensors;
  size_t events;
  bool late_deaths;
  bool updates_from_others;
};

std::vector<Event> all_events(const Scope& scope) {
  std::vector<Event> events = {{Event::kFork, 0, 0}};
  for (uint8_t k = 0; k < scope.tensors; ++k) {
    for (const auto kind : {Event::kUpdate, Event::kOverwrite, Event::kDie, Event::kEvict,
                            Event::kEscape, Event::kTouch}) {
      events.push_back({kind, k, k});
    }
    if (scope.late_deaths) events.push_back({Event::kDieLate, k, k});
    if (scope.late_deaths) events.push_back({Event::kReport, k, k});
    for (uint8_t other = 0; other < scope.tensors && scope.updates_from_others; ++other) {
      if (other != k) events.push_back({Event::kUpdate, k, other});
    }
  }
  return events;
}

std::string text_of(const Way& way) {
  std::string text = "made from";
  for (const uint8_t mask : way.shape) text += " " + std::to_string(mask);
  for (size_t k = 0; k < way.length; ++k) text += "; " + way.events[k].text();
  return text;
}

class Search {
 public:
  explicit Search(const Scope& scope) : scope_(scope.tensors), events_(all_events(scope)) {
    for (const SmallScope::Shape& shape : all_shapes(scope.tensors)) visit({shape, 0, {}});
  }

  Counts run(size_t length) {
    REQUIRE(length <= kMostEvents);
    for (size_t done = 0; done < length; ++done) {
      counts_.new_states.push_back(next_.size());
      const std::vector<Way> ways = std::move(next_);
      next_.clear();
      for (const Way& way : ways) extend(way);
    }
    counts_.new_states.push_back(next_.size());
    counts_.states = known_.size();
    return counts_;
  }

 private:
  void extend(const Way& way) {
    reach(way);
    std::vector<Event> possible;
    for (const Event& event : events_) {
      if (scope_.possible(event)) possible.push_back(event);
    }
    scope_.end();
    for (const Event& event : possible) {
      Way longer = way;
      longer.events[longer.length++] = event;
      visit(longer);
    }
  }

  void reach(const Way& way) {
    scope_.begin(way.shape);
    for (size_t k = 0; k < way.length; ++k) scope_.apply(way.events[k]);
  }

  void visit(const Way& way) {
    ++counts_.transitions;
    reach(way);
    const bool is_new = known_.insert(digest_of(scope_.key())).second;
    const std::string failure = scope_.end();
    if (!failure.empty()) FAIL(text_of(way) << ": " << failure);
    if (is_new) next_.push_back(way);
  }

  SmallScope scope_;
  const std::vector<Event> events_;
  absl::flat_hash_set<Digest> known_;
  std::vector<Way> next_;
  Counts counts_;
};

size_t from_environment(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

void search(Scope scope) {
  scope.events = from_environment("TIDEPOOL_SCOPE_EVENTS", scope.events);
  const Counts counts = Search(scope).run(scope.events);
  std::cout << scope.tensors << " tensors, " << scope.events << " events"
            << (scope.late_deaths ? ", late deaths" : "")
            << (scope.updates_from_others ? ", updates from others" : "") << ": " << counts.states
            << " states, " << counts.transitions << " transitions; new states after each event:";
  for (const uint64_t count : counts.new_states) std::cout << " " << count;
  std::cout << std::endl;
  CHECK(counts.states > 300);
}

TEST_CASE("every order of a few events of all kinds") {
#ifdef TIDEPOOL_SANITIZED
  search({3, 4, true, true});
#else
  search({3, 6, true, true});
#endif
}

TEST_CASE("every order of more events") {
  if (std::getenv("TIDEPOOL_FULL") == nullptr) {
    search({4, 4, false, false});
  } else {
    search({4, 7, true, false});
    search({4, 4, true, true});
  }
}

}  // namespace
}  // namespace tidepool::sim
