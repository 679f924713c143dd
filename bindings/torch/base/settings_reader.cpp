#include "bindings/torch/base/settings_reader.h"

#include <stdexcept>
#include <utility>

namespace tidepool::torch_glue {

SettingsReader::SettingsReader(const std::string& text) {
  try {
    json_ = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("settings: expected JSON: ") + error.what());
  }
  if (!json_.is_object()) throw std::invalid_argument("settings: expected a JSON object");
}

const nlohmann::json* SettingsReader::find(const char* name) const {
  const auto found = json_.find(name);
  return found != json_.end() ? &*found : nullptr;
}

void SettingsReader::refuse(const char* name, const nlohmann::json& found,
                            const std::string& expected) const {
  constexpr size_t kShown = 80;
  throw std::invalid_argument(prefix_ + name + ": expected " + expected + ", not " +
                              found.dump(-1, ' ', true).substr(0, kShown));
}

uint64_t SettingsReader::number(const char* name, uint64_t otherwise, uint64_t most) const {
  const nlohmann::json* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_number_unsigned() || found->get<uint64_t>() > most) {
    refuse(name, *found, "a whole number up to " + std::to_string(most));
  }
  return found->get<uint64_t>();
}

double SettingsReader::share(const char* name, double otherwise) const {
  const nlohmann::json* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_number() || !(found->get<double>() >= 0 && found->get<double>() <= 1)) {
    refuse(name, *found, "a number from 0 to 1");
  }
  return found->get<double>();
}

bool SettingsReader::flag(const char* name, bool otherwise) const {
  const nlohmann::json* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse(name, *found, "true or false");
  return found->get<bool>();
}

std::string SettingsReader::text(const char* name, const std::string& otherwise) const {
  const nlohmann::json* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->is_string()) refuse(name, *found, "a text");
  return found->get<std::string>();
}

SettingsReader SettingsReader::part(const char* name) const {
  const nlohmann::json* found = find(name);
  if (found != nullptr && !found->is_object()) refuse(name, *found, "an object");
  return {found != nullptr ? *found : nlohmann::json::object(), prefix_ + name + "."};
}

}  // namespace tidepool::torch_glue
