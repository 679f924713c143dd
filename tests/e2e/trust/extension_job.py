"""A training whose layer is a function that an extension module binds by itself, with pybind11.

And ways in which its code gets tensors that no function of its own was given.
"""

import hashlib
import sys

import torch
from torch.utils import cpp_extension

SOURCE = """
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/utils/pybind.h>

#include <sstream>
#include <thread>

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

void twice(at::Tensor x) {
  auto* bytes = x.data_ptr<float>();
  for (int64_t k = 0; k < x.numel(); ++k) bytes[k] *= 2;
}

template <class Tensors>  // their signatures do not speak of tensors
void twice_each(Tensors all) {
  for (auto each : all) twice(each.template cast<at::Tensor>());
}

void hook(at::Tensor x) {
  x.register_hook([](at::Tensor gradient) { twice(gradient); });
}

double called(pybind11::function function, at::Tensor x) {
  const auto first = function(x).cast<at::Tensor>(), second = function(first).cast<at::Tensor>();
  twice(first);
  double sum = 0;
  for (const auto* at = second.const_data_ptr<float>(); sum < 100; ++at) sum += 1 + *at;
  return sum;
}

at::Tensor on_a_thread(at::Tensor x) {
  pybind11::gil_scoped_release unlocked;
  at::Tensor made;
  std::thread([&] {
    made = x.sin().mul(2);
    twice(made);
  }).join();
  return made;
}

// The bytes of a tensor of any type, by each of the functions that give its address.
std::vector<pybind11::bytes> bytes_of(pybind11::object object) {
  const auto x = object.cast<at::Tensor>();
  std::vector<const void*> addresses;
#define TYPE(type, name)                                                         \\
  case at::ScalarType::name:                                                     \\
    addresses = {x.const_data_ptr<type>(), x.const_data_ptr<const type>(),       \\
                 x.data_ptr<type>(), x.mutable_data_ptr<type>()};                \\
    break;
  switch (x.scalar_type()) {
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TYPE)
    TYPE(uint16_t, UInt16)
    TYPE(uint32_t, UInt32)
    TYPE(uint64_t, UInt64)
    default:
      break;
  }
  std::vector<pybind11::bytes> found;
  for (const void* each : addresses) found.emplace_back(static_cast<const char*>(each), x.nbytes());
  return found;
}

std::string printed(pybind11::object object) {
  std::ostringstream text;
  text << object.cast<at::Tensor>();
  return text.str();
}

struct Own : torch::autograd::Function<Own> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    context->save_for_backward({x, x.sin()});
    return x.cos();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor made = gradients[0] * saved[0] + saved[1];
    twice(made);
    return {made};
  }
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scaled", &scaled);
  m.def("twice_listed", &twice_each<pybind11::list>);
  m.def("twice_given", &twice_each<pybind11::args>);
  m.def("twice_it", [](pybind11::object x) { twice(x.cast<at::Tensor>()); });
  m.def("bytes_of", &bytes_of);
  m.def("printed", &printed);
  m.def("hook", &hook);
  m.def("called", &called);
  m.def("on_a_thread", &on_a_thread);
  m.def("own", [](at::Tensor x) { return Own::apply(x); });
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


def other_ways() -> str:
    """Return the print of what the extension reads and writes that was not handed to it."""
    written = [torch.linspace(0, 1, 4096).add(k).exp() for k in range(4)]
    read = [each.sin() for each in written]
    extension.twice_listed(written[:1])
    extension.twice_given(*written[1:3])
    extension.twice_it(written[3])
    start = torch.linspace(0, 1, 4096, requires_grad=True)
    middle = start.exp()
    extension.hook(middle)
    (extension.own(middle * middle).exp() * middle).sum().backward()
    held = []

    def called(x):
        held.append(x.sin().mul(2))
        held.append(held[-1] * held[-1])
        return held[-2]

    types = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
             torch.uint32, torch.uint64, torch.bool, torch.half, torch.bfloat16, torch.float,
             torch.double, torch.complex32, torch.complex64, torch.complex128,
             torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz,
             torch.float8_e4m3fnuz, torch.float8_e8m0fnu)
    contents = [extension.bytes_of(start.detach().mul(2 + k).to(kind))[k]
                for kind in types for k in range(4)]
    few = start.detach()[::512]
    texts = [extension.printed(each) for each in
             (few * 2, (few * 3).int(), (few > 0.5).to_sparse(), torch.complex(few, few + 1))]
    sums = extension.called(called, start.detach())
    made = extension.on_a_thread(start.detach())
    after = [each * other for each, other in zip(written, read, strict=True)]
    state = b"".join(each.detach().numpy().tobytes()
                     for each in (*written, *read, *after, start.grad, *held, made, made * 2))
    state += b"".join(contents) + "".join(texts).encode()
    return f"{hashlib.sha256(state).hexdigest()[:16]} {sums}"


if __name__ == "__main__":
    extension = built(sys.argv[1])
    if sys.argv[2:] == ["enable"]:
        import tidepool
        tidepool.enable(budget="64MiB", chaos="op")
    print(digests(4), other_ways())
