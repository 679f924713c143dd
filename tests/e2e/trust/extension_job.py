"""A training whose layer is a function that an extension module binds by itself, with pybind11."""

import hashlib
import sys

import torch
from torch.utils import cpp_extension

SOURCE = """
#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

at::Tensor scaled(at::Tensor x, double factor) {
  auto made = at::empty_like(x);
  const auto* from = x.data_ptr<float>();
  auto* to = made.data_ptr<float>();
  for (int64_t k = 0; k < x.numel(); ++k) to[k] = static_cast<float>(factor) * from[k];
  return made;
}

void halve(std::vector<at::Tensor> all) {
  for (at::Tensor& each : all) {
    auto* bytes = each.data_ptr<float>();
    for (int64_t k = 0; k < each.numel(); ++k) bytes[k] *= 0.5f;
  }
}

class Sums {
 public:
  explicit Sums(at::Tensor total) : total_(total) {}
  void add(at::Tensor x) {
    auto* total = total_.data_ptr<float>();
    const auto* from = x.data_ptr<float>();
    for (int64_t k = 0; k < x.numel(); ++k) total[k] += from[k];
  }
  static double of(at::Tensor x) {
    const auto* from = x.data_ptr<float>();
    double sum = 0;
    for (int64_t k = 0; k < x.numel(); ++k) sum += from[k];
    return sum;
  }

 private:
  at::Tensor total_;
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scaled", &scaled);
  m.def_submodule("inner").def("halve", &halve);
  pybind11::class_<Sums>(m, "Sums")
      .def(pybind11::init<at::Tensor>())
      .def("add", &Sums::add)
      .def_static("of", &Sums::of);
}
"""


def built(folder: str):
    """Return the module, built in `folder` if it is not there yet."""
    source = f"{folder}/extension.cpp"
    with open(source, "w") as file:
        file.write(SOURCE)
    return cpp_extension.load("tidepool_extension", [source], build_directory=folder,
                              extra_cflags=["-O0"])


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return extension.scaled(x, 1.5)

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return extension.scaled((gradient * x.cos()).contiguous(), 1.5)


def digests(steps: int) -> list[str]:
    """Train; return what came out of each step."""
    torch.manual_seed(0)
    weights = [torch.randn(64, 64, requires_grad=True) for _ in range(6)]
    found = []
    for _ in range(steps):
        x = torch.randn(256, 64)
        seen = []
        for weight in weights:
            x = Scaled.apply(torch.tanh(x @ weight))
            seen.append(x * 2)
        extension.inner.halve(seen[::2])
        total = torch.tanh(x.detach())
        sums = extension.Sums(total)
        for each in seen:
            sums.add(each.detach())
        loss = sum(each.sum() for each in seen[1::2]) + x.square().sum()
        loss.backward()
        with torch.no_grad():
            for weight in weights:
                weight -= 1e-4 * weight.grad
                weight.grad = None
        state = b"".join(each.detach().numpy().tobytes() for each in (*weights, *seen, total))
        found.append(f"{hashlib.sha256(state).hexdigest()[:16]} {extension.Sums.of(seen[0] * 3)}")
    return found


if __name__ == "__main__":
    extension = built(sys.argv[1])
    print(digests(4))
