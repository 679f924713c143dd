#include "tests/remat/policies/heuristic_model.h"

#include <algorithm>
#include <stdexcept>

namespace tidepool::test {

size_t HeuristicModel::add(Node node) {
  if (nodes_.size() == kMostNodes) throw std::length_error("too many nodes");
  const size_t number = nodes_.size();
  for (const size_t input : node.inputs) {
    node.above |= only(input);
    nodes_[input].below |= only(number);
  }
  nodes_.push_back(node);
  return number;
}

size_t HeuristicModel::add_root() {
  Node node;
  node.record = records_++;
  node.root = true;
  return add(node);
}

std::vector<size_t> HeuristicModel::add_results(const std::vector<size_t>& inputs, size_t count,
                                                uint64_t cost, double bytes) {
  std::vector<size_t> made;
  for (size_t k = 0; k < count; ++k) {
    Node node;
    node.inputs = inputs;
    node.record = records_;
    node.cost = static_cast<double>(cost);
    node.bytes = bytes;
    made.push_back(add(node));
  }
  ++records_;
  for (const size_t one : made) {
    for (const size_t other : made) {
      if (one != other) nodes_[one].siblings |= only(other);
    }
  }
  return made;
}

HeuristicModel::Nodes HeuristicModel::find_missing() const {
  Nodes remembered = 0;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (nodes_[k].state != kDead) remembered |= only(k);
  }
  Nodes before = 0;
  while (remembered != before) {
    before = remembered;
    for (size_t k = 0; k < nodes_.size(); ++k) {
      if (has(remembered, k)) remembered |= nodes_[k].above;
    }
  }
  Nodes found = 0;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (has(remembered, k) && nodes_[k].state != kResident && !nodes_[k].root) found |= only(k);
  }
  return found;
}

HeuristicModel::Nodes HeuristicModel::reach(size_t node, Nodes Node::* towards) const {
  Nodes found = 0;
  Nodes next = nodes_[node].*towards & missing_;
  while (next != found) {
    found = next;
    for (size_t k = 0; k < nodes_.size(); ++k) {
      if (has(found, k)) next |= nodes_[k].*towards & missing_;
    }
  }
  return found;
}

double HeuristicModel::sum(Nodes nodes) const {
  double total = 0;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (has(nodes, k)) total += nodes_[k].cost;
  }
  return total;
}

void HeuristicModel::change(size_t node, State state) {
  nodes_[node].state = state;
  missing_ = find_missing();
  update(dtr_components_, &Node::below);
  update(coop_components_, &Node::siblings);
}

// Who is not missing any more leaves its component, and those that it joined stay joined. Who is
// newly missing (one at most) joins the components of its inputs and of its `further` kin.
void HeuristicModel::update(std::vector<Nodes>& components, Nodes Node::* further) const {
  Nodes known = 0;
  for (Nodes& component : components) known |= component &= missing_;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (!has(missing_, k) || has(known, k)) continue;
    Nodes joined = only(k);
    for (Nodes& component : components) {
      if ((component & (nodes_[k].above | nodes_[k].*further)) == 0) continue;
      joined |= component;
      component = 0;
    }
    components.push_back(joined);
  }
  std::erase(components, Nodes{0});
}

double HeuristicModel::cost_needed(size_t node) const {
  Nodes wanted = 0;  // evicted storages that are not dead
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (nodes_[k].state == kEvicted) wanted |= only(k);
  }
  Nodes counted = reach(node, &Node::above);
  const Nodes below = reach(node, &Node::below);
  for (size_t k = 0; k < nodes_.size(); ++k) {
    const bool needed = ((only(k) | reach(k, &Node::below)) & wanted) != 0;
    if (has(below, k) && needed) counted |= only(k);
  }
  double total = 0;
  std::vector<size_t> records;  // each counts once
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (!has(counted, k) || std::ranges::count(records, nodes_[k].record) > 0) continue;
    records.push_back(nodes_[k].record);
    total += nodes_[k].cost;
  }
  return total;
}

double HeuristicModel::cost_eq(size_t node) const {
  double total = 0;
  for (const Nodes component : dtr_components_) {
    if ((component & (nodes_[node].above | nodes_[node].below)) != 0) total += sum(component);
  }
  return total;
}

double HeuristicModel::cost_coop(size_t node) const {
  std::vector<size_t> kin = nodes_[node].inputs;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    if (has(nodes_[node].siblings, k)) kin.push_back(k);
  }
  double total = 0;
  for (const size_t k : kin) {
    for (const Nodes component : coop_components_) {
      if (has(component, k)) total += std::max(sum(component), nodes_[k].cost);
    }
  }
  return total;
}

double HeuristicModel::h(const std::string& policy, size_t node, double staleness,
                         double free_beside) const {
  const double own = nodes_[node].cost;
  const double bytes = nodes_[node].bytes;
  const double above = sum(reach(node, &Node::above));
  const double below = sum(reach(node, &Node::below));
  if (policy == "dtr") return (own + above + below) / (bytes * staleness);
  if (policy == "dtr-eq") return (own + cost_eq(node)) / (bytes * staleness);
  if (policy == "dtr-local") return own / (bytes * staleness);
  if (policy == "lru") return 1 / staleness;
  if (policy == "size") return 1 / bytes;
  if (policy == "delta") return 1 / (bytes * staleness);
  if (policy == "msps") return (own + above) / bytes;
  if (policy == "needed-cost") return (own + cost_needed(node)) / (bytes * staleness);
  if (policy == "coop") return (own + cost_coop(node)) / staleness;
  if (policy == "dte") return (own + cost_coop(node)) / ((bytes + free_beside) * staleness);
  throw std::invalid_argument(policy);
}

}  // namespace tidepool::test
