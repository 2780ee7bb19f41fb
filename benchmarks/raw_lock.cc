#include "benchmarks/raw_lock.h"

#include <poll.h>
#include <sys/time.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace redlatch::bench {
namespace {

constexpr char kRelease[] = R"lua(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
)lua";

constexpr char kReleaseAndPublish[] = R"lua(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '')
return 1
)lua";

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RawReply = std::unique_ptr<redisReply, FreeReply>;

RawReply Own(void* reply) { return RawReply(static_cast<redisReply*>(reply)); }

absl::Status Unexpected(const redisContext& connection, const RawReply& reply) {
  if (reply == nullptr) return absl::UnavailableError(connection.errstr);
  return absl::InternalError(absl::StrCat("unexpected reply of type ", reply->type, ": ",
                                          reply->str == nullptr ? "" : reply->str));
}

}  // namespace

absl::StatusOr<RawLock> RawLock::Open(std::string key, std::string id, std::string channel) {
  RawLock lock(std::move(key), std::move(id), std::move(channel));
  redisContext* connection = lock.connection_.get();
  const RawReply reply = Own(redisCommand(connection, "SCRIPT LOAD %s",
                                          lock.channel_.empty() ? kRelease : kReleaseAndPublish));
  if (reply == nullptr || reply->type != REDIS_REPLY_STRING) return Unexpected(*connection, reply);
  lock.release_sha1_ = reply->str;
  return lock;
}

absl::StatusOr<bool> RawLock::TryAcquire() {
  const RawReply reply = Own(redisCommand(connection_.get(), "SET %s %s NX PX %lld", key_.c_str(),
                                          id_.c_str(), absl::ToInt64Milliseconds(kRawTtl)));
  if (reply == nullptr) return Unexpected(*connection_, reply);
  if (reply->type == REDIS_REPLY_STATUS) return true;
  if (reply->type == REDIS_REPLY_NIL) return false;
  return Unexpected(*connection_, reply);
}

absl::Status RawLock::Release() {
  const RawReply reply =
      Own(channel_.empty()
              ? redisCommand(connection_.get(), "EVALSHA %s 1 %s %s", release_sha1_.c_str(),
                             key_.c_str(), id_.c_str())
              : redisCommand(connection_.get(), "EVALSHA %s 2 %s %s %s", release_sha1_.c_str(),
                             key_.c_str(), channel_.c_str(), id_.c_str()));
  if (reply == nullptr || reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) {
    return Unexpected(*connection_, reply);
  }
  return absl::OkStatus();
}

absl::StatusOr<RawSubscription> RawSubscription::Open(const std::string& channel,
                                                      absl::Duration timeout) {
  RawSubscription subscription;
  redisContext* connection = subscription.connection_.get();
  redisSetTimeout(connection, absl::ToTimeval(timeout));
  const RawReply reply = Own(redisCommand(connection, "SUBSCRIBE %s", channel.c_str()));
  if (reply == nullptr || reply->type != REDIS_REPLY_ARRAY) return Unexpected(*connection, reply);
  return subscription;
}

absl::Status RawSubscription::AwaitMessage() {
  void* message = nullptr;
  errno = 0;
  redisGetReply(connection_.get(), &message);
  const bool timed_out = errno == EAGAIN || errno == EWOULDBLOCK;
  const RawReply reply = Own(message);
  if (reply != nullptr && reply->type == REDIS_REPLY_ARRAY) return absl::OkStatus();
  if (reply == nullptr && timed_out) return absl::DeadlineExceededError("no message in time");
  return Unexpected(*connection_, reply);
}

absl::Status RawSubscription::DropMessages() {
  pollfd readable{connection_->fd, POLLIN, 0};
  if (poll(&readable, 1, 0) > 0 && redisBufferRead(connection_.get()) != REDIS_OK) {
    return Unexpected(*connection_, nullptr);
  }
  for (;;) {
    void* message = nullptr;
    if (redisReaderGetReply(connection_->reader, &message) != REDIS_OK) {
      return absl::InternalError(connection_->reader->errstr);
    }
    if (message == nullptr) return absl::OkStatus();
    freeReplyObject(message);
  }
}

absl::Status RawPublish(redisContext& connection, const std::string& channel) {
  const RawReply reply = Own(redisCommand(&connection, "PUBLISH %s %s", channel.c_str(), ""));
  if (reply == nullptr || reply->type != REDIS_REPLY_INTEGER) return Unexpected(connection, reply);
  return absl::OkStatus();
}

}  // namespace redlatch::bench
