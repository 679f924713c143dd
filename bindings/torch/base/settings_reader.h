// SettingsReader: the entries of a JSON object of settings, each checked to be what it should be.
// Errors are std::invalid_argument and name the entry: nothing is converted, rounded or cut.
// Knows nothing of PyTorch. Immutable; thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tidepool::torch_glue {

class SettingsReader {
 public:
  // Throws: std::invalid_argument if the text is no JSON object, as all below if an entry does not
  // fit. Entries that nobody asks for are not looked at.
  explicit SettingsReader(const std::string& text);

  // A whole number up to `most`; `otherwise` where there is no such entry.
  uint64_t number(const char* name, uint64_t otherwise, uint64_t most = UINT64_MAX) const;
  // A number from 0 to 1.
  double share(const char* name, double otherwise) const;
  bool flag(const char* name, bool otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  // The object of that name; an empty one where there is none.
  SettingsReader part(const char* name) const;

 private:
  SettingsReader(nlohmann::json json, std::string prefix)
      : json_(std::move(json)), prefix_(std::move(prefix)) {}
  // Null where there is no such entry.
  const nlohmann::json* find(const char* name) const;
  [[noreturn]] void refuse(const char* name, const nlohmann::json& found,
                           const std::string& expected) const;

  nlohmann::json json_;
  std::string prefix_;  // of the entries' names: "limits."
};

}  // namespace tidepool::torch_glue
