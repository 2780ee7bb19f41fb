#ifndef REDLATCH_SRC_CLI_DOCTOR_EMBEDDED_H_
#define REDLATCH_SRC_CLI_DOCTOR_EMBEDDED_H_

#include <optional>
#include <string>

#include "src/cli/doctor/facts.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// A look at the private server of an `embedded:` URL, begun before anything starts one.
class EmbeddedLook {
 public:
  explicit EmbeddedLook(const redis::Url& url);

  // Nothing for another URL.
  std::optional<EmbeddedFacts> Facts(const Told<Fields>& info) const;

 private:
  std::optional<std::string> directory_;
  bool was_there_ = false;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_EMBEDDED_H_
