#include "remat/lineage/lineage_store.h"

#include "tests/support/catch.h"
#include "tests/support/lineage_builder.h"

namespace tidepool {
namespace {

using remat::Storage;

TEST_CASE("records go with the last value that they produce or that reads them") {
  LineageBuilder built;
  Storage* x = built.root();
  Storage* a = built.result({x});
  Storage* b = built.result({a, a});
  CHECK(built.store.values() == 3);
  CHECK(built.store.records() == 2);
  CHECK(b->current->depth == 2);
  built.die(a);
  CHECK(built.store.values() == 3);  // b needs it
  built.check();
  built.die(b);
  CHECK(built.store.values() == 1);
  CHECK(built.store.records() == 0);
  CHECK(x->current->consumers == nullptr);
  built.die(x);
  CHECK(built.store.values() == 0);
  CHECK(built.store.storages() == 0);
}

TEST_CASE("a long chain is freed without recursion") {
  LineageBuilder built;
  Storage* last = built.root();
  for (int k = 0; k < 200'000; ++k) {
    Storage* next = built.result({last});
    // Only a dead root would be retained or cut: the chain stays whole below a live one.
    if (k > 0) built.die(last);
    last = next;
  }
  CHECK(built.store.records() == 200'000);
  built.die(last);
  CHECK(built.store.records() == 0);
}

TEST_CASE("a cut value keeps its readers and loses its producer") {
  LineageBuilder built;
  Storage* x = built.root();
  auto pair = built.results({x}, 2, 10);
  Storage* c = built.result({pair[0]});
  built.residency.unlist(*pair[0]);
  built.store.cut(*pair[0]->current, remat::RootReason::kLostRoot);
  built.check();
  CHECK(pair[0]->current->producer == nullptr);
  CHECK(pair[1]->current->producer != nullptr);
  CHECK(c->current->producer->edges[0].value == pair[0]->current);
  CHECK(pair[0]->current->reason == remat::RootReason::kLostRoot);
  CHECK(built.store.records() == 2);
}

TEST_CASE("memory for lineage is reused") {
  LineageBuilder built;
  Storage* x = built.root();
  size_t most = 0;
  for (int k = 0; k < 10'000; ++k) {
    Storage* y = built.result({x});
    most = std::max(most, built.store.bytes());
    built.die(y);
  }
  CHECK(built.store.bytes() < most);
  CHECK(most < 4096);
}

TEST_CASE("what a body keeps on the heap counts as long as its record lives") {
  LineageBuilder built;
  Storage* x = built.root();
  const size_t before = built.store.bytes();
  Storage* y = built.result({x});
  const size_t with_record = built.store.bytes();
  built.store.add_heap_bytes(*y->current->producer, 1000);
  CHECK(built.store.bytes() >= with_record + 1000);
  CHECK(built.store.bytes() < with_record + 1032);
  built.die(y);
  CHECK(built.store.bytes() == before);
}

TEST_CASE("a record has as many inputs and outputs as its operator") {
  constexpr size_t kMany = 70000;  // more than 16 bits count
  LineageBuilder built;
  Storage* x = built.root();
  const std::vector<Storage*> inputs(kMany, x);
  const std::vector<Storage*> outputs = built.results(inputs, kMany, 10);
  const remat::Record& record = *outputs.back()->current->producer;
  CHECK(record.edge_count == kMany);
  CHECK(record.output_count == kMany);
  CHECK(outputs.back()->current->output == kMany - 1);
  CHECK(record.edges[kMany - 1].value == x->current);
  built.check();
  for (Storage* output : outputs) built.die(output);
  CHECK(built.store.records() == 0);
}

}  // namespace
}  // namespace tidepool
