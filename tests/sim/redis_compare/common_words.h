#ifndef REDLATCH_TESTS_SIM_REDIS_COMPARE_COMMON_WORDS_H_
#define REDLATCH_TESTS_SIM_REDIS_COMPARE_COMMON_WORDS_H_

#include "absl/strings/str_replace.h"
#include "src/redis/wire/codec.h"
#include "tests/support/testing.h"

namespace redlatch::sim {

// Replaces the wording of an error that differs between versions by that of Redis 7.0, and removes
// the position in the script.
inline std::string InCommonWords(std::string error) {
  const size_t end = error.find("on @user_script");
  if (end != error.npos) error.resize(error.rfind(" script: ", end));
  return absl::StrReplaceAll(
      error, {{"ERR Command arguments must", "ERR Lua redis lib command arguments must"},
              {"This Valkey command", "This Redis command"},
              {"args calling command", "args calling Redis command"}});
}

// The same for all errors in a reply.
inline redis::Reply InCommonWords(redis::Reply reply) {
  if (reply.is_error()) reply.text = InCommonWords(std::move(reply.text));
  for (redis::Reply& element : reply.elements) element = InCommonWords(std::move(element));
  return reply;
}

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_REDIS_COMPARE_COMMON_WORDS_H_
