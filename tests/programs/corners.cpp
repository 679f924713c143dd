// Small C++ programs that know nothing of Tidepool, each named by the argument: what they print has
// to be the same with it.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

// What evicts, under chaos, whatever may leave.
void stir() {
  at::Tensor other = at::ones({64}) + 1;
  other = other * 2;
}

uint64_t digest(const float* data, int64_t count) {
  uint64_t found = 1469598103934665603u;
  for (int64_t k = 0; k < count; ++k) {
    uint32_t bits = 0;
    std::memcpy(&bits, data + k, sizeof(bits));
    found = (found ^ bits) * 1099511628211u;
  }
  return found;
}

void say(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  std::printf("%016lx\n", digest(whole.const_data_ptr<float>(), whole.numel()));
}

// Runs `work` while another thread multiplies the matrix.
void beside_a_product(const at::Tensor& matrix, const std::function<void()>& work) {
  std::atomic<bool> begins{false};
  std::thread worker([&] {
    begins = true;
    at::Tensor product = matrix.mm(matrix);
  });
  while (!begins) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  work();
  worker.join();
  stir();
}

void read_beside_an_operator() {
  const at::Tensor matrix = at::ones({1000, 1000}) * 2;
  const float* data = nullptr;
  beside_a_product(matrix, [&] { data = matrix.const_data_ptr<float>(); });
  std::printf("%016lx\n", digest(data, matrix.numel()));
}

void write_beside_an_operator() {
  const at::Tensor matrix = at::ones({1000, 1000}) * 2;
  float* data = nullptr;
  beside_a_product(matrix, [&] { data = matrix.data_ptr<float>(); });
  data[7] = 100;
  stir();
  say(matrix + 1);
}

// The bits of a sum depend on how many threads add.
std::vector<at::Tensor> sums() {
  std::vector<at::Tensor> made;
  for (int k = 0; k < 8; ++k) {
    const at::Tensor x = at::arange(400000.0F + static_cast<float>(k), at::kFloat).sin();
    made.push_back(x * x.sum());
  }
  stir();
  return made;
}

void operators_in_a_region() {
  const std::vector<at::Tensor> made = sums();
  std::vector<at::Tensor> more(made.size());
  at::parallel_for(0, 8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) more[k] = made[k] + 1;
  });
  for (const at::Tensor& each : more) say(each);
}

void addresses_in_a_region() {
  const std::vector<at::Tensor> made = sums();
  std::vector<uint64_t> digests(made.size());
  at::parallel_for(0, 8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      digests[k] = digest(made[k].const_data_ptr<float>(), made[k].numel());
    }
  });
  for (uint64_t each : digests) std::printf("%016lx\n", each);
}

// Uses a tensor when it is destroyed.
struct Late {
  at::Tensor tensor;
  ~Late() {
    if (tensor.defined()) std::printf("late %.9g\n", (tensor * 2).sum().item<double>());
    std::fflush(stdout);
  }
};
Late g_late;

at::Tensor drawn() {
  at::Tensor made = at::randn({64}, at::kDouble) * 2;
  stir();
  return made;
}

void used_by_handlers() {
  static at::Tensor tensor = drawn();
  std::atexit([] {
    std::printf("in a handler %.9g\n", (tensor * 2).sum().item<double>());
    std::fflush(stdout);
  });
}

void used_by_destructors() {
  static Late late;
  static thread_local Late of_main;
  g_late.tensor = drawn();
  late.tensor = drawn();
  of_main.tensor = drawn();
  std::thread([] {
    static thread_local Late of_thread;
    of_thread.tensor = drawn();
  }).join();
}

void printed() {
  const at::Tensor doubles = at::arange(12, at::kDouble).view({3, 4}).sin();
  const at::Tensor numbers = at::arange(12).view({3, 4}) + 1;
  stir();
  std::cout << doubles << numbers << '\n';
  stir();
  std::cout << c10::IValue(doubles.cos()) << '\n';
}

void given_away() {
  const at::Tensor made = at::arange(64, at::kFloat).sin();
  stir();
  DLManagedTensor* const managed = at::toDLPack(made);
  stir();
  std::printf("%016lx\n", digest(static_cast<const float*>(managed->dl_tensor.data), 64));
  managed->deleter(managed);
}

void of_rare_types() {
  const at::Tensor small = (at::arange(64, at::kFloat) / 64).to(at::kFloat8_e4m3fn);
  const at::Tensor halves = at::arange(64, at::kFloat).sin().to(at::kComplexHalf);
  stir();
  uint64_t total = 0;
  for (int k = 0; k < 64; ++k) total = total * 31 + small.const_data_ptr<at::Float8_e4m3fn>()[k].x;
  for (int k = 0; k < 64; ++k) {
    total = total * 31 + halves.const_data_ptr<c10::complex<at::Half>>()[k].real().x;
  }
  std::printf("%016lx\n", total);
}

const std::map<std::string, void (*)()> kCases = {
    {"read_beside_an_operator", &read_beside_an_operator},
    {"write_beside_an_operator", &write_beside_an_operator},
    {"operators_in_a_region", &operators_in_a_region},
    {"addresses_in_a_region", &addresses_in_a_region},
    {"used_by_handlers", &used_by_handlers},
    {"used_by_destructors", &used_by_destructors},
    {"printed", &printed},
    {"given_away", &given_away},
    {"of_rare_types", &of_rare_types},
};

}  // namespace

int main(int, char** arguments) {
  at::manual_seed(7);
  kCases.at(arguments[1])();
  std::printf("main ends\n");
  std::fflush(stdout);
  return 0;
}
