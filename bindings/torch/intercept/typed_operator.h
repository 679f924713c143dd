// TypedOperator: the interception of one operator without boxing its arguments, which costs half of
// what the boxed fallback does. For each PyTorch version generate_operators.py generates, from
// at::_ops, the list of operators that are intercepted so, as register_typed_operators().
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/torch/engine/engine.h"
#include "bindings/torch/intercept/intercepted_call.h"
#include "bindings/torch/intercept/interception.h"

namespace tidepool::torch_glue {

// Generated. Appends the handles, which keep the kernels registered.
void register_typed_operators(std::vector<c10::RegistrationHandleRAII>& handles);

namespace typed {

template <class T>
inline constexpr bool kIsTensor = std::is_same_v<std::decay_t<T>, at::Tensor>;
template <class T>
inline constexpr bool kIsOptionalTensor =
    std::is_same_v<std::decay_t<T>, std::optional<at::Tensor>>;
template <class T>
inline constexpr bool kIsOptionalGenerator =
    std::is_same_v<std::decay_t<T>, std::optional<at::Generator>>;

// Walks the tensor arguments along with their descriptions.
struct Sight {
  InterceptedCall& call;
  const TensorArgument* next;
  bool switched;
  const at::Generator* generator = nullptr;

  template <class T>
  void operator()(const T& argument) {
    if constexpr (kIsTensor<T>) {
      call.see(argument.unsafeGetTensorImpl(), *next++, switched);
    } else if constexpr (kIsOptionalTensor<T>) {
      call.see(argument ? argument->unsafeGetTensorImpl() : nullptr, *next++, switched);
    } else if constexpr (kIsOptionalGenerator<T>) {
      if (argument && argument->defined()) generator = &*argument;
    }
  }
};

// `given`: takes the generator that was there, which the argument alone may hold.
template <class T, class Given>
void substitute_generator(T& argument, const at::Generator& generator, Given& given) {
  if constexpr (kIsOptionalGenerator<T>) given = std::exchange(argument, generator);
}

template <class T>
void copy_argument(CallBody& body, size_t index, const T& argument) {
  if constexpr (kIsTensor<T>) {
    if (!argument.defined()) body.set_argument(index, c10::IValue(argument));
  } else if constexpr (kIsOptionalTensor<T>) {
    if (argument && !argument->defined()) body.set_argument(index, c10::IValue(*argument));
  } else if constexpr (!kIsOptionalGenerator<T>) {  // a replay has a generator of its own
    body.set_argument(index, c10::IValue(argument));
  }
}

template <class R>
void see_results(InterceptedCall& call, R& result) {
  if constexpr (kIsTensor<R>) {
    call.see_output(result.unsafeGetTensorImpl());
  } else {
    std::apply([&](auto&... each) { (call.see_output(each.unsafeGetTensorImpl()), ...); }, result);
  }
}

template <class... A>
bool is_switched(int argument, const A&... arguments) {
  if (argument < 0) return false;
  int index = 0;
  bool switched = false;
  auto look = [&](const auto& each) {
    if constexpr (std::is_same_v<std::decay_t<decltype(each)>, bool>) {
      if (index == argument) switched = each;
    }
    ++index;
  };
  (look(arguments), ...);
  return switched;
}

template <class Op, class Signature>
struct TypedOperator;

template <class Op, class R, class... A>
struct TypedOperator<Op, R(A...)> {
  static inline const OperatorInfo* info = nullptr;

  static R call(c10::DispatchKeySet keys, A... arguments) {
    if (g_operators_pending.load(std::memory_order_relaxed)) [[unlikely]]
      rescan_operators();
    if (g_passive.load(std::memory_order_relaxed)) [[unlikely]] {
      BelowInterception below;
      return Op::redispatch(keys & kBelowInterception, std::forward<A>(arguments)...);
    }
    std::conditional_t<(kIsOptionalGenerator<A> || ...), std::optional<at::Generator>,
                       std::monostate>
        given;
    InterceptedCall call(*info);
    Sight sight{call, info->tensors.data(), is_switched(info->switch_argument, arguments...)};
    (sight(arguments), ...);
    if (CallBody* body = call.begin(sight.generator)) {
      size_t index = 0;
      (copy_argument(*body, index++, arguments), ...);
    }
    if (const at::Generator* own = call.private_generator()) [[unlikely]] {
      (substitute_generator(arguments, *own, given), ...);
    }
    R result = [&]() -> R {
      std::optional<BelowInterception> below;
      if (!info->is_foreign()) below.emplace();  // else what it is made of is seen, and kept
      return Op::redispatch(keys & kBelowInterception, std::forward<A>(arguments)...);
    }();
    if constexpr (!std::is_reference_v<R>) see_results(call, result);
    call.finish();
    return result;
  }
};

template <class Op>
void add(std::vector<c10::RegistrationHandleRAII>& handles) {
  using Typed = TypedOperator<Op, typename Op::schema>;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const c10::OperatorHandle op = dispatcher.findSchemaOrThrow(Op::name, Op::overload_name);
  if (is_composite_only(op) || info_of(op).is_metadata) return;
  Typed::info = &info_of(op);
  handles.push_back(
      dispatcher.registerImpl(op.operator_name(), kInterceptionKey,
                              c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN((Typed::call))),
                              std::nullopt, nullptr, "tidepool"));
}

}  // namespace typed
}  // namespace tidepool::torch_glue
