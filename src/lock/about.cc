#include "src/lock/about.h"

#include <new>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/lock/description.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

std::string TitleOf(const ClientCore& core, const Entry& entry) {
  return absl::StrCat(std::string(entry.type->noun), " \"",
                      absl::CHexEscape(std::string(entry.name())), "\" (",
                      core.server(entry.keys.main()), ")");
}

}  // namespace

absl::Status About(ClientCore& core, const Entry& entry, absl::StatusCode code,
                   absl::string_view message, absl::string_view more) noexcept try {
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  // The title names the server already.
  const bool of_server =
      absl::ConsumePrefix(&message, absl::StrCat(core.server(entry.keys.main()), " "));
  std::string text = absl::StrCat(TitleOf(core, entry), ": ", of_server ? "the server " : "",
                                  message, more.empty() ? "" : ": ", more);
  // Users learn a lock's keys here, since they are not known before the lock is used.
  if (code == absl::StatusCode::kPermissionDenied &&
      redis::DeniesKey({message.data(), message.size()})) {
    std::string rules = KeyRules(entry.keys.main());
    for (const KeySet& other : entry.type->others) rules += " " + KeyRules(other.main());
    absl::StrAppend(
        &text, "; this lock's: ACL SETUSER ", core.user(), " ", rules, " ~",
        std::string(kDescriptionKeyPrefix), "*",
        entry.type->quarantined ? " " + PrimaryEpochRule(core.server_group().slot_tag({})) : "");
  }
  return absl::Status(code, text);
} catch (const std::bad_alloc&) {
  return {code, ""};  // needs no memory
}

absl::Status StatusOf(ClientCore& core, const Entry& entry, const Released& released) noexcept {
  const absl::string_view why = released.failure.message();
  const auto about = [&](absl::StatusCode code, absl::string_view message,
                         absl::string_view more = "") {
    return About(core, entry, code, message, more);
  };
  switch (released.kind) {
    case Released::Kind::kDone:
      return absl::OkStatus();
    case Released::Kind::kUnconfirmed:
      return about(absl::StatusCode::kUnavailable,
                   "the release is not confirmed yet; it is being repeated in the background", why);
    case Released::Kind::kLost:
      return about(absl::StatusCode::kAborted, "the hold was lost before it was released");
    case Released::Kind::kNotHeld:
      return about(absl::StatusCode::kFailedPrecondition, "the calling thread does not hold it");
    case Released::Kind::kRefused:
      return about(released.failure.code(), why);
  }
  return absl::OkStatus();
}

}  // namespace redlatch::internal
