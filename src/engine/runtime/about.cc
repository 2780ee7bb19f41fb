#include "src/engine/runtime/about.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/engine/protocol/description.h"
#include "src/redis/wire/errors.h"

namespace redlatch::engine {
namespace {

std::string TitleOf(const Core& core, const Entry& entry) {
  return absl::StrCat(std::string(entry.plan->noun), " \"",
                      absl::CHexEscape(std::string(entry.name())), "\" (",
                      core.server(entry.keys.main()), ")");
}

}  // namespace

absl::Status About(Core& core, const Entry& entry, const absl::Status& status) {
  if (status.ok()) return status;
  // The title names the server.
  absl::string_view message = status.message();
  const bool of_server =
      absl::ConsumePrefix(&message, absl::StrCat(core.server(entry.keys.main()), " "));
  std::string text =
      absl::StrCat(TitleOf(core, entry), ": ", of_server ? "the server " : "", message);
  // What keys a lock has is not known before it is used: here is where they are named.
  if (absl::IsPermissionDenied(status) && redis::DeniesKey({message.data(), message.size()})) {
    std::string rules = KeyRules(entry.keys.main());
    for (const KeySet& other : entry.plan->others) rules += " " + KeyRules(other.main());
    absl::StrAppend(&text, "; this lock's: ACL SETUSER ", core.user(), " ", rules, " ~",
                    std::string(kDescriptionKeyPrefix), "*",
                    entry.plan->quarantined ? " " + ReignRule(core.deployment().slot_tag({})) : "");
  }
  return absl::Status(status.code(), text);
}

absl::Status StatusOf(Core& core, const Entry& entry, const Released& released) {
  switch (released.kind) {
    case Released::Kind::kDone:
      return absl::OkStatus();
    case Released::Kind::kUnderWay:
      return About(core, entry,
                   absl::UnavailableError(absl::StrCat(
                       "the release is not confirmed yet; it is being repeated in the background",
                       released.failure.ok() ? "" : ": ", released.failure.message())));
    case Released::Kind::kLost:
      return About(core, entry, absl::AbortedError("the hold was lost before it was released"));
    case Released::Kind::kNotHeld:
      return About(core, entry,
                   absl::FailedPreconditionError("the calling thread does not hold it"));
    case Released::Kind::kRefused:
      return About(core, entry, released.failure);
  }
  return absl::OkStatus();
}

}  // namespace redlatch::engine
