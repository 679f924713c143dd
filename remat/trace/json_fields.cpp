#include "remat/trace/json_fields.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "remat/trace/trace.h"

namespace tidepool::remat {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const char* name, const char* expected, const Json& value) {
  std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 40) shown = shown.substr(0, 37) + "...";
  throw TraceError(fmt::format("\"{}\" is {}; expected {}", name, shown, expected));
}

}  // namespace

Json parse_object(std::string_view text) {
  Json value;
  try {
    value = Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    throw TraceError(fmt::format("not JSON, at byte {} of {}", error.byte, text.size()));
  } catch (const Json::out_of_range&) {
    throw TraceError("not JSON: a number is too large for any type");
  }
  if (!value.is_object()) throw TraceError("not a JSON object");
  return value;
}

uint64_t as_count(const Json& value, const char* name) {
  if (!value.is_number_unsigned()) refuse(name, "a whole number from 0", value);
  return value.get<uint64_t>();
}

double as_number(const Json& value, const char* name) {
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0) {
    refuse(name, "a number from 0", value);
  }
  return value.get<double>();
}

const Json* JsonFields::find(const char* name) {
  const auto found = object_.find(name);
  if (found == object_.end()) return nullptr;
  read_.push_back(name);
  return &*found;
}

const Json& JsonFields::need(const char* name) {
  const Json* found = find(name);
  if (found == nullptr) throw TraceError(fmt::format("\"{}\" is missing", name));
  return *found;
}

uint64_t JsonFields::count_or(const char* name, uint64_t otherwise, uint64_t most) {
  const Json* found = find(name);
  if (found == nullptr) return otherwise;
  const uint64_t value = as_count(*found, name);
  if (value > most) throw TraceError(fmt::format("\"{}\" is {}; at most {}", name, value, most));
  return value;
}

double JsonFields::number_or(const char* name, double otherwise) {
  const Json* found = find(name);
  return found == nullptr ? otherwise : as_number(*found, name);
}

bool JsonFields::flag_or(const char* name, bool otherwise) {
  const Json* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse(name, "true or false", *found);
  return found->get<bool>();
}

const std::string& JsonFields::text(const char* name) {
  const Json& value = need(name);
  if (!value.is_string()) refuse(name, "a text", value);
  return value.get_ref<const std::string&>();
}

const Json& JsonFields::list(const char* name) {
  static const Json empty = Json::array();
  const Json* found = find(name);
  if (found == nullptr) return empty;
  if (!found->is_array()) refuse(name, "a list", *found);
  return *found;
}

void JsonFields::check_all_read() const {
  if (read_.size() == object_.size()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(read_.begin(), read_.end(), name) != read_.end()) continue;
    throw TraceError(fmt::format("unknown field \"{}\"", name));
  }
}

}  // namespace tidepool::remat
