#include "src/lock/event_script.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/lock/client_core.h"
#include "src/lock/script_codec.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(2);
constexpr absl::Duration kLongestRetry = absl::Milliseconds(100);
// The time between two checks for a connection. A task that was refused goes behind the others.
constexpr absl::Duration kUnreachable = absl::Milliseconds(20);
// A batch that ends with its script's deadline says why; one that has not begun by then does not.
constexpr absl::Duration kBatchGrace = absl::Milliseconds(5);

}  // namespace

EventReply::EventReply(EventDriver& its_driver, EventTask& task)
    : driver(its_driver.shared_from_this()), task_(&task) {}

void EventReply::Arrive() {
  EventTask* task = nullptr;
  {
    const base::MutexLock lock(driver->mu_);
    arrived_ = true;
    if (count_in_flight != nullptr) --*count_in_flight;
    task = task_;
    task != nullptr ? driver->PushHeld(*task, EventTask::kAnswered) : driver->Signal();
  }
  if (task == nullptr) delete this;
}

void EventReply::Abandon(EventReply* reply) {
  {
    const base::MutexLock lock(reply->driver->mu_);
    reply->task_ = nullptr;
    if (!reply->arrived_) return;
  }
  delete reply;
}

bool EventReply::HasArrived() {
  const base::MutexLock lock(driver->mu_);
  return arrived_;
}

EventScript::EventScript(EventDriver& driver, EventTask& task, Entry& entry, Request request,
                         base::Instant until)
    : driver_(driver),
      task_(task),
      entry_(entry),
      request_(std::move(request)),
      until_(until),
      backoff_(kFirstRetry, kLongestRetry) {
  driver_.core().MakeReady(entry_, request_);
}

base::Instant EventScript::due() const {
  if (reply_ == nullptr) return std::min(until_, try_at_);
  return in_batch_ ? until_ + kBatchGrace : until_;
}

bool EventScript::Wanted() {
  const base::MutexLock lock(entry_.mu);
  return entry_.state.IsWanted(request_);
}

Result EventScript::End(const absl::StatusOr<redis::Reply>& reply) {
  return driver_.core().TakeResult(entry_, request_, ReadResult(request_, reply));
}

std::optional<Result> EventScript::Step(base::Instant now) {
  if (reply_ != nullptr && reply_->HasArrived()) {
    driver_.silent_ = false;
    if (in_batch_) return TakeResult(std::move(reply_->ran), now);
    absl::StatusOr<redis::Reply> reply = std::move(reply_->answers[1]);
    reply_.reset();
    return TakeReply(std::move(reply), now);
  }
  if (reply_ == nullptr) return try_at_ <= now || until_ <= now ? Try(now) : std::nullopt;
  if (now < due()) return std::nullopt;
  driver_.stalled_ = driver_.silent_ = true;
  reply_.reset();
  return End(redis::MarkMayHaveExecuted(absl::UnavailableError(
      absl::StrCat(driver_.core().server(entry_.keys.main()),
                   " did not answer in time (the command was sent and may have been executed)"))));
}

std::optional<Result> EventScript::TakeReply(absl::StatusOr<redis::Reply> reply,
                                             base::Instant now) {
  reply = redis::ResultOfPosted(std::move(reply), driver_.core().server(entry_.keys.main()));
  if (reply.ok() || until_ <= now) return End(reply);
  if (redis::RedirectOf(reply.status())) {
    if (!Wanted()) return End(reply);
    RunInBatch();
    return std::nullopt;
  } else if (redis::RefusedForNow(reply.status())) {
    try_at_ = now + backoff_.Next();
  } else if (absl::IsUnavailable(reply.status()) && redis::NotSent(reply.status())) {
    try_at_ = now;  // it was not written, or the server did not know the script
  } else {
    return End(reply);
  }
  if (!Wanted()) return End(reply);
  why_not_ = redis::MarkNotSent(std::move(reply).status());
  return try_at_ <= now ? Try(now) : std::nullopt;
}

std::optional<Result> EventScript::Try(base::Instant now) {
  ClientCore& core = driver_.core();
  if (until_ <= now) {
    if (why_not_.ok()) {
      why_not_ = absl::UnavailableError(absl::StrCat("the command could not be sent to ",
                                                     core.server(entry_.keys.main()), " in time"));
    }
    return End(why_not_);
  }
  if (core.is_quorum()) {
    RunInBatch();
    return std::nullopt;
  }
  reply_ = EventReplyPtr(new EventReply(driver_, task_));
  EventReply* const reply = reply_.get();
  const auto* const release = std::get_if<ReleaseRequest>(&request_.what);
  reply->in_flight.results =
      absl::MakeSpan(reply->answers).last(release != nullptr && release->awaited ? 2 : 1);
  reply->count_in_flight = task_.in_flight_;
  reply->in_flight.done = [reply] {
    --reply->driver->in_flight_count_;
    reply->Arrive();
  };
  reply->in_flight.unhurried = true;
  EncodedRequest request(core.SubjectOf(entry_), request_);
  const redis::ScriptCall call = request.call();
  ++driver_.in_flight_count_;
  ++*reply->count_in_flight;
  absl::Status sent = core.server_group().Post(call, reply->in_flight);
  if (sent.ok()) return std::nullopt;
  --driver_.in_flight_count_;
  --*reply->count_in_flight;
  delete reply_.release();  // it was not sent
  if (!absl::IsUnavailable(sent)) return End(redis::MarkNotSent(std::move(sent)));
  why_not_ = core.in_forked_child() ? sent : driver_.Reach(entry_.keys.main(), now);
  if (why_not_.ok()) {
    try_at_ = now;
    why_not_ = std::move(sent);
  } else if (absl::IsUnavailable(why_not_)) {
    try_at_ = base::Now() + kUnreachable;
  } else {
    return End(redis::MarkNotSent(why_not_));
  }
  return std::nullopt;
}

void EventScript::RunInBatch() {
  in_batch_ = true;
  reply_ = driver_.RunInBatch(task_, entry_, request_, until_);
}

std::optional<Result> EventScript::TakeResult(Result result, base::Instant now) {
  in_batch_ = false;
  reply_.reset();
  const Failed* const failed = result.failed();
  const bool may_pass = failed != nullptr && absl::IsUnavailable(failed->why) &&
                        !failed->may_have_executed && !driver_.core().is_quorum();
  if (!may_pass || until_ <= now || !Wanted()) {
    return driver_.core().TakeResult(entry_, request_, std::move(result));
  }
  why_not_ = redis::MarkNotSent(failed->why);
  try_at_ = now + backoff_.Next();
  return std::nullopt;
}

}  // namespace redlatch::internal
