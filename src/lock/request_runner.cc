#include "src/lock/request_runner.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/cleanup/cleanup.h"

namespace redlatch::internal {

Result ServerRunner::Run(const Subject& subject, const Request& request, base::Instant deadline,
                         redis::StillWanted still_wanted) {
  EncodedRequest encoded(subject, request);
  return ReadResult(request, group_.Run(encoded.call(), deadline, still_wanted));
}

template <class Function>
auto ServerRunner::RunAll(absl::Span<const Item> items, absl::Span<Result> results, Function run) {
  std::vector<EncodedRequest> encoded;
  std::vector<redis::ScriptCall> calls;
  std::vector<absl::StatusOr<redis::Reply>> replies(items.size());
  encoded.reserve(items.size());  // calls refer to them
  for (const Item& item : items) {
    calls.push_back(encoded.emplace_back(item.subject, item.request).call());
  }
  const absl::Cleanup hand_out = [&] {
    for (size_t i = 0; i < items.size(); ++i) {
      results[i] = OrNoMemory([&] { return ReadResult(items[i].request, replies[i]); });
    }
  };
  return run(calls, absl::MakeSpan(replies));
}

void ServerRunner::RunBatch(absl::Span<const Item> items, base::Instant deadline,
                            absl::Span<Result> results) {
  RunAll(items, results,
         [&](const auto& calls, auto replies) { group_.Run(calls, deadline, replies); });
}

absl::StatusOr<base::Acks> ServerRunner::RunConfirmed(absl::Span<const Item> items,
                                                      const base::AcksWanted& wanted,
                                                      absl::Duration ack_timeout,
                                                      base::Instant deadline,
                                                      absl::Span<Result> results) {
  return RunAll(items, results, [&](const auto& calls, auto replies) {
    return group_.RunAcked(calls, wanted, ack_timeout, deadline, replies);
  });
}

absl::Status ServerRunner::Post(const Subject& subject, const Request& request,
                                RequestInFlight& posted) {
  posted.in_flight.results = absl::MakeSpan(&posted.reply, 1);
  EncodedRequest encoded(subject, request);
  return group_.Post(encoded.call(), posted.in_flight);
}

absl::StatusOr<redis::Reply> ServerRunner::RunScript(const Subject& subject,
                                                     const LuaScript& script,
                                                     absl::Span<const std::string> args,
                                                     std::string_view own_key,
                                                     base::Instant deadline) {
  const ScriptRequest what{&script, {args.begin(), args.end()}, own_key};
  return group_.Run(EncodedRequest(subject, {.what = what}).call(), deadline);
}

}  // namespace redlatch::internal
