// HeuristicModel: the papers' heuristics by their definitions, on a graph of its own: an oracle
// that shares nothing with remat/ but the names of policies. Sets of nodes are words of bits; all
// is found by searching the whole graph again, and components are such sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::test {

class HeuristicModel {
 public:
  static constexpr size_t kMostNodes = 64;
  enum State { kResident, kEvicted, kDead };

  size_t add_root();
  // Outputs of one record; `inputs` as the operator has them, doubles included.
  std::vector<size_t> add_results(const std::vector<size_t>& inputs, size_t count, uint64_t cost,
                                  double bytes);
  void evict(size_t node) { change(node, kEvicted); }
  void bring_back(size_t node) { change(node, kResident); }
  // The storage dies: its bytes go at once (eager eviction), and it can be recomputed for others.
  void die(size_t node) { change(node, kDead); }

  // h of the policy. Requires: resident, no root. Not for "random".
  double h(const std::string& policy, size_t node, double staleness, double free_beside) const;

 private:
  using Nodes = uint64_t;  // bit n: node n

  struct Node {
    std::vector<size_t> inputs;
    Nodes above = 0;     // the same
    Nodes below = 0;     // results of records that read it
    Nodes siblings = 0;  // other results of its record
    size_t record = 0;
    double cost = 0;
    double bytes = 0;
    State state = kResident;
    bool root = false;
  };

  static Nodes only(size_t node) { return Nodes{1} << node; }
  static bool has(Nodes nodes, size_t node) { return (nodes & only(node)) != 0; }

  size_t add(Node node);
  void change(size_t node, State state);
  // Remembered, not resident, and no root. Remembered is what storages hold, and what a record
  // reads of which an output is remembered.
  Nodes find_missing() const;
  // All that is missing and reached from `node` through missing values, upwards or downwards.
  Nodes reach(size_t node, Nodes Node::* towards) const;
  double sum(Nodes nodes) const;
  void update(std::vector<Nodes>& components, Nodes Node::* further) const;

  double cost_needed(size_t node) const;
  double cost_eq(size_t node) const;
  double cost_coop(size_t node) const;

  std::vector<Node> nodes_;
  size_t records_ = 0;
  Nodes missing_ = 0;
  std::vector<Nodes> dtr_components_, coop_components_;
};

}  // namespace tidepool::test
