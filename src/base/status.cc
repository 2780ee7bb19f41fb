#include "src/base/status.h"

#include <new>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/utf8.h"

namespace redlatch::base {

absl::Status Unshared(const absl::Status& status) noexcept try {
  if (status.ok()) return absl::OkStatus();
  absl::Status copy = WithoutPayloads(status);
  status.ForEachPayload([&copy](absl::string_view type, const absl::Cord& payload) {
    copy.SetPayload(type, absl::Cord(std::string(payload)));
  });
  return copy;
} catch (const std::bad_alloc&) {
  return status;
}

absl::Status WithoutPayloads(const absl::Status& status) {
  return {status.code(), Shown({status.message().data(), status.message().size()})};
}

absl::Status MakeStatus(absl::StatusCode code, absl::string_view text,
                        absl::string_view more) noexcept try {
  return {code, absl::StrCat(text, more)};
} catch (const std::bad_alloc&) {
  return {code, ""};  // needs no memory
}

absl::Status NoThread() noexcept {
  return MakeStatus(
      absl::StatusCode::kResourceExhausted,
      "a thread of the client cannot be started (raise ulimit -u, or the limit of the cgroup)");
}

absl::Status NoMemory() noexcept {
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "there was no memory for it (std::bad_alloc)");
}

}  // namespace redlatch::base
