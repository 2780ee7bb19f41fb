#include "src/redis/link/scripts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

constexpr absl::Duration kFirstScriptBackoff = absl::Milliseconds(2);
constexpr absl::Duration kLongestScriptBackoff = absl::Milliseconds(100);

// A call on its way, and how it is to be sent.
struct Open {
  size_t index;
  bool by_text;
};

}  // namespace

Command EncodeCall(const ScriptCall& call, bool by_text) {
  absl::InlinedVector<std::string_view, 24> words;
  const std::string key_count = std::to_string(call.keys.size());
  words.push_back(by_text ? "EVAL" : "EVALSHA");
  words.push_back(by_text ? call.script->body : call.script->sha1);
  words.push_back(key_count);
  words.insert(words.end(), call.keys.begin(), call.keys.end());
  words.insert(words.end(), call.args.begin(), call.args.end());
  return Command(words);
}

absl::Status NoTimeForText(std::string_view server) {
  return MarkNotSent(absl::UnavailableError(absl::StrCat(
      std::string(server), " does not know the script, and there was no time left to send it")));
}

absl::StatusOr<Reply> Unrepeated(absl::StatusOr<Reply> answer, std::string_view server) {
  if (!answer.ok() || !answer->is_error()) return answer;
  const ErrorCode code = ClassifyError(answer->text);
  absl::Status refused = ErrorStatus(answer->text, server);
  const bool again = code == ErrorCode::kNoScript || RedirectOf(refused).has_value();
  return again ? MarkNotSent(std::move(refused)) : refused;
}

absl::StatusOr<Reply> Scripts::Run(const ScriptCall& call, base::Instant deadline,
                                   StillWanted still_wanted) {
  absl::StatusOr<Reply> result;
  RunBatch(absl::MakeConstSpan(&call, 1), deadline, absl::MakeSpan(&result, 1), still_wanted);
  return result;
}

void Scripts::RunBatch(absl::Span<const ScriptCall> calls, base::Instant deadline,
                       absl::Span<absl::StatusOr<Reply>> results, StillWanted still_wanted) {
  absl::InlinedVector<Open, 1> open;
  for (size_t i = 0; i < calls.size(); ++i) open.push_back({.index = i, .by_text = false});
  base::Backoff backoff(kFirstScriptBackoff, kLongestScriptBackoff);

  while (!open.empty()) {
    absl::InlinedVector<Command, 1> commands;
    absl::InlinedVector<absl::StatusOr<Reply>, 1> replies(open.size());
    for (const Open& each : open) commands.push_back(EncodeCall(calls[each.index], each.by_text));
    connection_.CallBatch(commands, deadline, absl::MakeSpan(replies));

    absl::InlinedVector<Open, 1> again;
    bool refused_for_now = false;
    for (size_t i = 0; i < open.size(); ++i) {
      const size_t index = open[i].index;
      if (!replies[i].ok() || !replies[i]->is_error()) {
        results[index] = std::move(replies[i]);
        continue;
      }
      const ErrorCode code = ClassifyError(replies[i]->text);
      results[index] = ErrorStatus(replies[i]->text, connection_.server());
      if (code == ErrorCode::kNoScript && !open[i].by_text) {
        results[index] = NoTimeForText(connection_.server());
        again.push_back({.index = index, .by_text = true});
      } else if (IsTransient(code)) {
        refused_for_now = true;
        again.push_back(open[i]);
      }
    }
    if (again.empty()) return;
    if (refused_for_now) {
      const base::Instant next = base::Now() + backoff.Next();
      if (deadline <= next) return;  // the server's own words say more than a missed deadline
      base::Parker().ParkUntil(next);
    }
    if (!still_wanted()) return;
    open = std::move(again);
  }
}

}  // namespace redlatch::redis
