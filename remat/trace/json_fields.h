// JsonFields: strict access to the fields of one JSON object: each has to be of the right type and
// size, is read once, and none may be left over. Throws: TraceError naming the field and what was
// expected. Does not own the object. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace tidepool::remat {

// Throws: TraceError if the text is not one JSON object.
nlohmann::json parse_object(std::string_view text);

// The value of the field `name` as a whole number, which is not negative.
uint64_t as_count(const nlohmann::json& value, const char* name);
// The same as a finite number that is not negative.
double as_number(const nlohmann::json& value, const char* name);

class JsonFields {
 public:
  explicit JsonFields(const nlohmann::json& object) : object_(object) {}

  // The field's value; nullptr if it is not there.
  const nlohmann::json* find(const char* name);
  const nlohmann::json& need(const char* name);

  uint64_t count(const char* name) { return as_count(need(name), name); }
  uint64_t count_or(const char* name, uint64_t otherwise,
                    uint64_t most = std::numeric_limits<uint64_t>::max());
  double number(const char* name) { return as_number(need(name), name); }
  double number_or(const char* name, double otherwise);
  bool flag_or(const char* name, bool otherwise);
  const std::string& text(const char* name);
  // The field's value, which has to be an array; an empty one if it is not there.
  const nlohmann::json& list(const char* name);

  // Throws: if there are fields that nobody has asked for.
  void check_all_read() const;

 private:
  const nlohmann::json& object_;
  std::vector<const char*> read_;  // names of fields, literals
};

}  // namespace tidepool::remat
