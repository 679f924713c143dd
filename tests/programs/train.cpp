// Trains a small network by LibTorch alone, and prints what identifies every bit of it: losses,
// parameters, random numbers. The first argument says how:
//   train          plain; whatever is preloaded decides
//   enable BUDGET  attaches by a call
//   loop BUDGET    the same without an optimizer object: says where its steps end
//   save FILE      saves and loads the network half-way
//   address        takes addresses of tensors, and writes through them later
//   switch         changes a switch of the process half-way
//   threads        trains on a thread of its own
//   oom            asks for too much half-way, and goes on
#include <tidepool/tidepool.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

namespace {

constexpr int kSteps = 3, kBatch = 256, kWidth = 256, kLayers = 5;

uint64_t fingerprint(const torch::Tensor& tensor) {
  const torch::Tensor copy = tensor.detach().to(torch::kDouble).contiguous().clone();
  uint64_t hash = 1469598103934665603u;
  const double* values = copy.const_data_ptr<double>();
  for (int64_t k = 0; k < copy.numel(); ++k) {
    uint64_t bits;
    std::memcpy(&bits, values + k, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

struct Network : torch::nn::Module {
  Network() {
    for (int k = 0; k < kLayers; ++k) {
      layers->push_back(torch::nn::Linear(kWidth, kWidth));
      layers->push_back(torch::nn::Dropout(0.1));
      layers->push_back(torch::nn::Tanh());
    }
    register_module("layers", layers);
  }
  torch::nn::Sequential layers;
};

torch::Tensor loss_of(Network& network, const torch::Tensor& input) {
  return network.layers->forward(input).square().mean();
}

// A tensor that operators have made, and which is evicted now if anything can be.
torch::Tensor evictable() {
  const torch::Tensor made = torch::ones({1024}) + 1, other = torch::ones({1024}) + 2;
  return made;
}

// Takes the address of a tensor that operators have made, and writes there after others have read
// it; and one of a tensor of which they know nothing.
void write_through_addresses() {
  torch::Tensor known = torch::full({1024}, 2.0f), fresh = torch::empty({1024});
  float* at_known = known.data_ptr<float>();
  float* at_fresh = fresh.data_ptr<float>();
  for (int k = 0; k < 1024; ++k) at_fresh[k] = 3.0f;
  const torch::Tensor doubled = known * 2, tripled = fresh * 3;
  at_known[0] = at_fresh[0] = 7.0f;
  const torch::Tensor other = torch::ones({1024}) + 1;
  std::printf("addresses %.0f %.0f %.0f %.0f\n", (doubled + other)[0].item<float>(),
              (tripled + other)[0].item<float>(), known[0].item<float>(), fresh[0].item<float>());
}

void ask_for_too_much() {
  try {
    const torch::Tensor large = torch::empty({int64_t{1} << 28}) + 1;
    std::printf("not refused\n");
  } catch (const c10::OutOfMemoryError& error) {
    std::printf("refused\n");
  }
}

void half_way(const std::string& how, const std::string& argument,
              std::shared_ptr<Network>& network) {
  if (how == "save") {
    torch::save(network, argument);
    torch::load(network, argument);
    const torch::Tensor made = evictable();
    torch::Tensor loaded;
    torch::save(made, argument);
    torch::load(loaded, argument);
    std::printf("loaded %016lx\n", fingerprint(loaded));
  }
  if (how == "address") write_through_addresses();
  if (how == "switch") {
    const torch::Tensor made = evictable();
    at::globalContext().setDeterministicAlgorithms(true, false);
    std::printf("there %d\n", made.data_ptr() != nullptr);  // what was made before is
  }
  if (how == "oom") ask_for_too_much();
}

void train(const std::string& how, const std::string& argument) {
  torch::manual_seed(7);
  auto network = std::make_shared<Network>();
  torch::optim::Adam optimizer(network->parameters(), 1e-3);
  for (int step = 0; step < kSteps; ++step) {
    const torch::Tensor input = torch::randn({kBatch, kWidth});
    optimizer.zero_grad();
    const torch::Tensor loss = loss_of(*network, input);
    loss.backward();
    if (step == kSteps / 2) half_way(how, argument, network);
    if (how == "loop") {
      torch::NoGradGuard guard;
      for (torch::Tensor& parameter : network->parameters()) {
        parameter.sub_(parameter.grad(), 0.01);
      }
      tidepool::step();
    } else {
      optimizer.step();
    }
    std::printf("step %d loss %016lx\n", step, fingerprint(loss));
  }
  for (const auto& each : network->named_parameters()) {
    std::printf("%s %016lx\n", each.key().c_str(), fingerprint(each.value()));
  }
  std::printf("random %016lx\n", fingerprint(torch::rand({16})));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "train";
  const std::string argument = count > 2 ? arguments[2] : "";
  try {
    if (how == "enable" || how == "loop") tidepool::enable({.budget = argument});
  } catch (const tidepool::Error& error) {
    std::printf("error %d: %s\n", error.code, error.what());
    return 3;
  }
  torch::set_num_threads(1);
  if (how == "threads") {
    std::thread(train, how, argument).join();
  } else {
    train(how, argument);
  }
  if (how != "enable" && how != "loop") return 0;
  const tidepool::Statistics statistics = tidepool::statistics();
  std::fprintf(stderr, "statistics %lu of %lu, %lu evictions\n", statistics.reserved_peak_bytes,
               statistics.budget_bytes, statistics.evictions);
  return 0;
}
