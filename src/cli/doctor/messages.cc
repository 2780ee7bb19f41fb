// Whether those who wait are told when it is their turn.

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
namespace {

constexpr int64_t kSmallBuffer = int64_t{1} << 20;

// The hard limit of class "pubsub" in "normal 0 0 0 slave 1 2 3 pubsub 4 5 6"; nothing where it is
// not there.
std::optional<int64_t> PubSubLimit(const std::string& limits) {
  const std::vector<std::string> words = absl::StrSplit(limits, ' ', absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t bytes = 0;
    if (words[i] == "pubsub" && absl::SimpleAtoi(words[i + 1], &bytes)) return bytes;
  }
  return std::nullopt;
}

void CheckBufferLimit(const DoctorFacts& facts, Findings& findings) {
  const auto limits = TextIn(facts.config, "client-output-buffer-limit");
  const std::optional<int64_t> hard = limits ? PubSubLimit(*limits) : std::nullopt;
  if (!hard) {
    findings.Unchecked(
        "buffers",
        "only CONFIG shows how much may queue for a subscriber before it is disconnected");
  } else if (*hard > 0 && *hard < kSmallBuffer) {
    findings.Warn(
        "buffers",
        absl::StrCat("a subscriber is disconnected when ", ShortSize(*hard),
                     " are queued for it: a waiter may miss its turn and get the lock late"),
        WhereToSet(facts),
        {Setting(facts, "client-output-buffer-limit", "\"pubsub 32mb 8mb 60\"")});
  } else {
    findings.Ok("buffers", *hard == 0
                               ? std::string("any number of messages may queue for a subscriber")
                               : absl::StrCat(ShortSize(*hard), " may queue for a subscriber"));
  }
}

void CheckBacklogs(const DoctorFacts& facts, Findings& findings) {
  if (!facts.pubsub_backlogs.ok()) {
    findings.Unchecked(
        "subscribers",
        absl::StrCat("only CLIENT LIST shows which subscribers do not read their messages: ",
                     std::string(facts.pubsub_backlogs.status().message())));
    return;
  }
  int64_t late = 0;
  const PubSubBacklog* worst = nullptr;
  for (const PubSubBacklog& backlog : *facts.pubsub_backlogs) {
    if (backlog.bytes < kSmallBuffer) continue;
    ++late;
    if (worst == nullptr || backlog.bytes > worst->bytes) worst = &backlog;
  }
  if (worst == nullptr) {
    findings.Ok("subscribers", absl::StrCat(facts.pubsub_backlogs->size(),
                                            " connected, all of them read their messages"));
    return;
  }
  findings.Warn("subscribers",
                absl::StrCat(late, " do not read their messages, among them ", worst->address,
                             worst->name.empty() ? "" : absl::StrCat(" (", worst->name, ")"), ", ",
                             ShortSize(worst->bytes), " behind"),
                "check whether that program is stopped or overloaded");
}

}  // namespace

void CheckMessages(const DoctorFacts& facts, Findings& findings) {
  if (facts.message.ok()) {
    findings.Ok("messages",
                absl::StrCat("a published message arrived after ", ShortTime(*facts.message)));
  } else if (facts.place != Place::kAlone && absl::IsPermissionDenied(facts.message.status())) {
    findings.Bad(
        "messages",
        absl::StrCat("sharded channels are refused: ",
                     std::string(facts.message.status().message())),
        "in a cluster redlatch tells waiters of their turn by them; permit them, or, if a hosted "
        "service forbids them, use it without cluster mode",
        {absl::StrCat("ACL SETUSER ", facts.user,
                      " +spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub &redlatch:*")});
  } else if (absl::IsPermissionDenied(facts.message.status()) ||
             absl::IsDeadlineExceeded(facts.message.status())) {
    findings.Bad(
        "messages",
        absl::StrCat("they do not arrive: ", std::string(facts.message.status().message())),
        "those who wait would not be told, and ask several times per second instead; let the "
        "address "
        "lead to the primary alone, and permit PUBLISH");
  } else {
    findings.Unchecked("messages", absl::StrCat("it could not be tested whether they arrive: ",
                                                std::string(facts.message.status().message())));
  }
  CheckBufferLimit(facts, findings);
  CheckBacklogs(facts, findings);
}

}  // namespace redlatch::cli
