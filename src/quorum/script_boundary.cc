// The client still speaks of script calls and replies here. They become requests and results.
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/words.h"
#include "src/lock/kinds.h"
#include "src/quorum/quorum.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

using base::TakeNumber;

const internal::LockType& TypeOfRedLock() {
  static const internal::LockType* const type = [] {
    auto* const made = new internal::LockType();
    made->scripts = {.acquire = lua::kQuorumAcquire,
                     .release = lua::kQuorumRelease,
                     .renew = lua::kQuorumRenew,
                     .cancel = lua::kQuorumCancel,
                     .inspect = lua::kQuorumInspect,
                     .force_release = lua::kQuorumForceRelease};
    made->traits.kind = internal::kinds::kQuorum;
    made->keys =
        internal::KeyNames(internal::kinds::kQuorum, {std::string(internal::kinds::kTurnSuffix)});
    return made;
  }();
  return *type;
}

absl::Duration ReadMillis(std::string_view text) {
  int64_t millis = 0;
  base::ReadNumber(text, millis);
  return absl::Milliseconds(millis);
}

// A call as a request and its subject.
class CallAsRequest {
 public:
  explicit CallAsRequest(const redis::ScriptCall& call) : keys_(call.keys.front()) {
    if (!call.args.empty() && call.args[0].size() > 32) {
      identity_.client = call.args[0].substr(0, 32);
      request_.grant = ReadGrant(call.args[0]);
    }
    owner_ = identity_.client;
    const auto args = call.args;
    if (call.script->sha1 == lua::kQuorumAcquire.sha1) {
      request_.what = ReadAcquire(args);
    } else if (call.script->sha1 == lua::kQuorumRenew.sha1) {
      request_.what = internal::RenewRequest();
      request_.lease = ReadMillis(args[1]);
    } else if (call.script->sha1 == lua::kQuorumCancel.sha1) {
      request_.lease = ReadMillis(args[1]);
      request_.what = internal::CancelRequest{.tombstone = request_.lease > absl::ZeroDuration()};
    } else if (call.script->sha1 == lua::kQuorumRelease.sha1) {
      request_.what = ReadRelease(args);
    } else {
      is_request_ = false;
    }
  }
  bool is_request() const { return is_request_; }
  const Request& request() const { return request_; }
  Subject subject() const {
    return {.identity = identity_,
            .keys = keys_,
            .type = TypeOfRedLock(),
            .owner = owner_,
            .claim = claim_};
  }

 private:
  using Args = absl::Span<const std::string_view>;

  static GrantId ReadGrant(std::string_view text) {
    GrantId grant = 0;
    base::ReadNumber(text.substr(text.find(':') + 1), grant);
    return grant;
  }

  internal::AcquireRequest ReadAcquire(Args args) {
    internal::AcquireRequest acquire{.grant = ReadGrant(args[0])};
    acquire.terms.lease = ReadMillis(args[1]);
    std::string_view word = args[2];
    int wait = 0;
    int64_t unread = 0;
    int manual = 0;
    int64_t claim = 0;
    int listen = 0;
    TakeNumber(word, acquire.block);
    TakeNumber(word, acquire.attempt);
    TakeNumber(word, wait);
    TakeNumber(word, unread);
    TakeNumber(word, manual);
    TakeNumber(word, acquire.ticket);
    TakeNumber(word, claim);
    TakeNumber(word, listen);
    acquire.wait = wait == 1;
    acquire.calls = wait == 3;
    acquire.terms.manual = manual == 1;
    acquire.listen = listen == 1;
    claim_ = absl::Milliseconds(claim);
    if (args.size() > 3) owner_ = args[3];
    return acquire;
  }

  internal::ReleaseRequest ReadRelease(Args args) {
    internal::ReleaseRequest release;
    if (args.size() == 1) return release;
    std::string_view word = args[1];
    int64_t gone_ms = 0;
    TakeNumber(word, release.last_used);
    TakeNumber(word, release.last_reserved);
    TakeNumber(word, gone_ms);
    release.tombstone = gone_ms > 0;
    request_.lease = absl::Milliseconds(gone_ms);
    owner_ = args[2];
    if (args.size() > 5) release.next = ReadAcquire(args.subspan(3));
    return release;
  }

  const internal::KeySet keys_;
  internal::Identity identity_;
  std::string owner_;
  absl::Duration claim_ = absl::InfiniteDuration();
  Request request_;
  bool is_request_ = true;
};

std::string TextOf(const internal::AcquireResult& result) {
  using namespace internal;
  if (const auto* const granted = std::get_if<AcquireGranted>(&result)) {
    return absl::StrCat("granted ", granted->token, " ", absl::ToInt64Milliseconds(granted->lease),
                        " ", granted->others);
  }
  if (const auto* const queued = std::get_if<AcquireQueued>(&result)) {
    return absl::StrCat("queued ", absl::ToInt64Milliseconds(queued->retry_after), " 0 ",
                        queued->ticket);
  }
  if (const auto* const busy = std::get_if<AcquireBusy>(&result)) {
    return absl::StrCat("busy ", absl::ToInt64Milliseconds(busy->retry_after));
  }
  return std::holds_alternative<AcquireCancelled>(result) ? "gone" : "";
}

absl::StatusOr<redis::Reply> ReplyOf(const Result& result) {
  if (const internal::Failed* const failed = result.failed()) {
    absl::Status why = failed->why;
    if (failed->may_have_executed) return redis::MarkMayHaveExecuted(std::move(why));
    return failed->not_sent ? redis::MarkNotSent(std::move(why)) : why;
  }
  std::string text;
  if (const auto* const acquire = std::get_if<internal::AcquireResult>(&result.what)) {
    text = TextOf(*acquire);
  } else if (const auto* const freed = std::get_if<internal::Freed>(&result.what)) {
    const std::string next = TextOf(freed->next);
    text = next.empty() ? "released" : "released " + next;
  } else {
    text = std::holds_alternative<internal::StillHeld>(result.what)   ? "held"
           : std::holds_alternative<internal::Cancelled>(result.what) ? "unknown"
                                                                      : "not_held";
  }
  for (const absl::Duration check : {result.check_after, result.check_later}) {
    if (check > absl::ZeroDuration()) {
      absl::StrAppend(&text, " look ", absl::ToInt64Milliseconds(check));
    }
  }
  if (result.unsubscribed) text += " deaf";
  redis::Reply reply;
  reply.type = redis::Reply::Type::kString;
  reply.text = std::move(text);
  return reply;
}

}  // namespace

absl::StatusOr<redis::Reply> Quorum::Run(const redis::ScriptCall& call, base::Instant deadline,
                                         redis::StillWanted) {
  absl::StatusOr<redis::Reply> result;
  RunBatch(absl::MakeConstSpan(&call, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

void Quorum::RunBatch(absl::Span<const redis::ScriptCall> calls, base::Instant deadline,
                      absl::Span<absl::StatusOr<redis::Reply>> results) {
  std::deque<CallAsRequest> requests;
  std::vector<Item> items;
  for (size_t i = 0; i < calls.size(); ++i) {
    const CallAsRequest& request = requests.emplace_back(calls[i]);
    if (request.is_request()) {
      items.push_back(
          {.subject = request.subject(), .request = request.request(), .until = calls[i].until});
      continue;
    }
    const std::vector<std::string> args(calls[i].args.begin(), calls[i].args.end());
    results[i] = RunScript(request.subject(), *calls[i].script, args, {}, deadline);
  }
  std::vector<Result> its(items.size());
  RunBatch(absl::MakeConstSpan(items), deadline, absl::MakeSpan(its));
  for (size_t i = 0, item = 0; i < calls.size(); ++i) {
    if (requests[i].is_request()) results[i] = ReplyOf(its[item++]);
  }
}

absl::Status Quorum::Post(const redis::ScriptCall& call, redis::InFlight& in_flight) {
  const CallAsRequest request(call);
  return Post(request.subject(), request.request(), [&in_flight](Result result) {
    in_flight.results.back() = ReplyOf(result);
    std::exchange(in_flight.done, nullptr)();
  });
}

}  // namespace redlatch::quorum
