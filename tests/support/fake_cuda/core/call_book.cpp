#include "tests/support/fake_cuda/core/call_book.h"

#include <fmt/format.h>

#include <charconv>

namespace tidepool::fake_cuda {
namespace {

// Cuts `text` at the first `mark` and returns what comes after it; nothing where there is none.
std::optional<std::string_view> cut(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

uint64_t number(std::string_view digits, std::string_view whole) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure != std::errc() || end != digits.data() + digits.size()) {
    throw std::invalid_argument(fmt::format("'{}' in '{}' is not a number", digits, whole));
  }
  return value;
}

Call known_call(std::string_view name, std::string_view whole) {
  if (const std::optional<Call> call = call_of(name)) return *call;
  throw std::invalid_argument(
      fmt::format("'{}' in '{}' is not one of: {}", name, whole, fmt::join(kCallNames, " ")));
}

}  // namespace

std::optional<Call> call_of(std::string_view name) {
  for (size_t i = 0; i < kCalls; ++i) {
    if (name == kCallNames[i]) return static_cast<Call>(i);
  }
  return std::nullopt;
}

const char* name_of(Call call) { return kCallNames[static_cast<size_t>(call)]; }

Error usual_error(Call call) {
  switch (call) {
    case Call::kMalloc:
    case Call::kReserve:
    case Call::kCreate:
    case Call::kMap:
    case Call::kAccess:
    case Call::kHostAlloc:
    case Call::kEventCreate:
    case Call::kStreamCreate:
      return Error::kOutOfMemory;
    default:
      return Error::kUnknown;
  }
}

std::vector<FailureRule> parse_failures(std::string_view text) {
  std::vector<FailureRule> rules;
  for (std::optional<std::string_view> rest = text; rest && !rest->empty();) {
    std::string_view item = *rest;
    rest = cut(item, ',');
    std::string_view name = item;
    std::string_view which = cut(name, ':').value_or("");
    const std::optional<std::string_view> error = cut(which, '=');
    const std::optional<std::string_view> count = cut(which, 'x');
    FailureRule rule{.call = known_call(name, item)};
    rule.error = error ? static_cast<Error>(number(*error, item)) : usual_error(rule.call);
    rule.first = number(which, item);
    if (count) rule.count = number(*count, item);
    if (rule.first == 0) throw std::invalid_argument(fmt::format("'{}': calls count from 1", item));
    rules.push_back(rule);
  }
  return rules;
}

std::vector<Price> parse_prices(std::string_view text) {
  std::vector<Price> prices;
  for (std::optional<std::string_view> rest = text; rest && !rest->empty();) {
    std::string_view item = *rest;
    rest = cut(item, ',');
    std::string_view name = item;
    std::string_view host = cut(name, ':').value_or("");
    const std::optional<std::string_view> device = cut(host, '+');
    Price price{.call = known_call(name, item)};
    price.host_ns = number(host, item);
    if (device) price.device_ns = number(*device, item);
    prices.push_back(price);
  }
  return prices;
}

Speeds parse_speeds(std::string_view text) {
  Speeds speeds;
  for (std::optional<std::string_view> rest = text; rest && !rest->empty();) {
    std::string_view item = *rest;
    rest = cut(item, ',');
    std::string_view name = item;
    const uint64_t speed = number(cut(name, ':').value_or(""), item);
    if (name == "link") {
      speeds.link_bytes = speed;
    } else if (name == "memory") {
      speeds.memory_bytes = speed;
    } else if (name == "threads") {
      speeds.threads = speed;
    } else {
      throw std::invalid_argument(fmt::format("'{}' is not link, memory or threads", item));
    }
  }
  return speeds;
}

Error CallBook::begin(Call call) {
  const size_t index = static_cast<size_t>(call);
  const uint64_t nth = ++counts_[index];
  pass(prices_[index].host_ns);
  for (const FailureRule& rule : rules_) {
    if (rule.call == call && nth >= rule.first && nth - rule.first < rule.count) {
      ++failures_[index];
      return rule.error;
    }
  }
  return Error::kSuccess;
}

void CallBook::fail(FailureRule rule) {
  rule.first += calls(rule.call);
  rules_.push_back(rule);
}

void CallBook::set_price(Price price) { prices_[static_cast<size_t>(price.call)] = price; }

}  // namespace tidepool::fake_cuda
