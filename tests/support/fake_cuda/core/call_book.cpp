#include "tests/support/fake_cuda/core/call_book.h"

#include <fmt/format.h>

#include <charconv>

namespace tidepool::fake_cuda {
namespace {

// Takes the text up to one of `ends`, and that character too, off the front of `text`.
std::string_view take(std::string_view& text, std::string_view ends) {
  const size_t end = text.find_first_of(ends);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
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
  throw std::invalid_argument(fmt::format("'{}' in '{}' is not one of: {}", name, whole,
                                          fmt::join(kCallNames, " ")));
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
  while (!text.empty()) {
    const std::string_view item = take(text, ",");
    std::string_view rest = item;
    const Call call = known_call(take(rest, ":"), item);
    std::string_view which = take(rest, "=");
    FailureRule rule{.call = call, .error = usual_error(call)};
    rule.first = number(take(which, "x"), item);
    if (!which.empty()) rule.count = number(which, item);
    if (!rest.empty()) rule.error = static_cast<Error>(number(rest, item));
    if (rule.first == 0) throw std::invalid_argument(fmt::format("'{}': calls count from 1", item));
    rules.push_back(rule);
  }
  return rules;
}

std::vector<Price> parse_prices(std::string_view text) {
  std::vector<Price> prices;
  while (!text.empty()) {
    const std::string_view item = take(text, ",");
    std::string_view rest = item;
    Price price{.call = known_call(take(rest, ":"), item)};
    price.host_ns = number(take(rest, "+"), item);
    if (!rest.empty()) price.device_ns = number(rest, item);
    prices.push_back(price);
  }
  return prices;
}

Error CallBook::begin(Call call) {
  const size_t index = static_cast<size_t>(call);
  const uint64_t nth = ++counts_[index];
  host_time_ns_ += prices_[index].host_ns;
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
