// An extension as users write them: operators that tell the truth about their effects, operators
// that lie, and plain C functions that go around the dispatcher.
#include <ATen/ATen.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace {

float* g_kept = nullptr;
int64_t g_kept_numel = 0;

at::Tensor twice(const at::Tensor& x) {
  at::Tensor out = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t k = 0; k < x.numel(); ++k) to[k] = 2 * from[k];
  return out;
}

void add_in_place(at::Tensor& x, double value) {
  float* to = x.mutable_data_ptr<float>();
  for (int64_t k = 0; k < x.numel(); ++k) to[k] += static_cast<float>(value);
}

// Says that it only reads.
double secretly_negates(const at::Tensor& x) {
  float* to = x.mutable_data_ptr<float>();
  for (int64_t k = 0; k < x.numel(); ++k) to[k] = -to[k];
  return to[0];
}

// Says that it only reads, and writes through a cast.
double casts_away_const(const at::Tensor& x) {
  float* to = const_cast<float*>(x.const_data_ptr<float>());
  for (int64_t k = 0; k < x.numel(); ++k) to[k] += 100;
  return to[0];
}

// Returns memory of its argument as if it were fresh.
at::Tensor alias(const at::Tensor& x) {
  return at::from_blob(x.mutable_data_ptr<float>(), x.sizes(), [keep = x](void*) {}, x.options());
}

void keep(const at::Tensor& x) {
  g_kept = x.mutable_data_ptr<float>();
  g_kept_numel = x.numel();
}
double read_kept() {
  double sum = 0;
  for (int64_t k = 0; k < g_kept_numel; ++k) sum += g_kept[k];
  return sum;
}
void write_kept(double value) {
  for (int64_t k = 0; k < g_kept_numel; ++k) g_kept[k] = static_cast<float>(value);
}

// A class for Python, which keeps a tensor, and reads and writes it by no operator.
struct Holder : torch::CustomClassHolder {
  explicit Holder(at::Tensor tensor) : kept(std::move(tensor)) {}
  double sum() const {
    double sum = 0;
    for (int64_t k = 0; k < kept.numel(); ++k) sum += kept.const_data_ptr<float>()[k];
    return sum;
  }
  at::Tensor plus(const at::Tensor& x) const {
    at::Tensor out = at::empty_like(x);
    const float *left = kept.const_data_ptr<float>(), *right = x.const_data_ptr<float>();
    for (int64_t k = 0; k < x.numel(); ++k) out.mutable_data_ptr<float>()[k] = left[k] + right[k];
    return out.mul(2).add(left[0]);
  }
  void fill(double value) { std::fill_n(kept.mutable_data_ptr<float>(), kept.numel(), value); }
  static double last(const at::Tensor& x) { return x.const_data_ptr<float>()[x.numel() - 1]; }

  at::Tensor kept;
};

TORCH_LIBRARY(tidepool_extension, library) {
  library.class_<Holder>("Holder")
      .def(torch::init<at::Tensor>())
      .def("sum", &Holder::sum)
      .def("plus", &Holder::plus)
      .def("fill", &Holder::fill)
      .def_static("last", &Holder::last);
  library.def("twice(Tensor x) -> Tensor");
  library.def("add_in_place(Tensor(a!) x, float value) -> ()");
  library.def("secretly_negates(Tensor x) -> float");
  library.def("casts_away_const(Tensor x) -> float");
  library.def("alias(Tensor x) -> Tensor");
  library.def("keep(Tensor x) -> ()");
  library.def("read_kept() -> float", &read_kept);
  library.def("write_kept(float value) -> ()", &write_kept);
}

TORCH_LIBRARY_IMPL(tidepool_extension, CPU, library) {
  library.impl("twice", &twice);
  library.impl("add_in_place", &add_in_place);
  library.impl("secretly_negates", &secretly_negates);
  library.impl("casts_away_const", &casts_away_const);
  library.impl("alias", &alias);
  library.impl("keep", &keep);
}

}  // namespace

// As a function bound by pybind11 does: gets at a tensor's memory, and nobody is told.
// `storage`: a c10::StorageImpl*. Returns 0, or 1 if PyTorch refuses.
extern "C" __attribute__((visibility("default"))) int extension_fill(void* storage, float value) {
  try {
    auto* impl = static_cast<c10::StorageImpl*>(storage);
    float* to = static_cast<float*>(impl->mutable_data());
    for (size_t k = 0; k < impl->nbytes() / sizeof(float); ++k) to[k] = value;
    return 0;
  } catch (const c10::Error&) {
    return 1;
  }
}

// Writes the first number only.
extern "C" __attribute__((visibility("default"))) int extension_set_first(void* storage,
                                                                          float value) {
  try {
    static_cast<float*>(static_cast<c10::StorageImpl*>(storage)->mutable_data())[0] = value;
    return 0;
  } catch (const c10::Error&) {
    return 1;
  }
}

extern "C" __attribute__((visibility("default"))) int extension_first(void* storage, float* out) {
  try {
    std::memcpy(out, static_cast<c10::StorageImpl*>(storage)->data(), sizeof(float));
    return 0;
  } catch (const c10::Error&) {
    return 1;
  }
}
