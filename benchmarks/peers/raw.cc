// A lock written by hand over hiredis, for the comparison: see contender.h.
//
//   --wait=poll       tries again a millisecond later (the default)
//   --wait=broadcast  the release publishes, and all waiters try again
//
// The wait does not matter for `pair`. Each thread has its own connection.
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/time.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "contender.h"

namespace {

using redlatch::bench::Contender;

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;
struct FreeConnection {
  void operator()(redisContext* connection) const { redisFree(connection); }
};
using Connection = std::unique_ptr<redisContext, FreeConnection>;

constexpr char kRelease[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "redis.call('DEL', KEYS[1]) "
    "if ARGV[2] then redis.call('PUBLISH', ARGV[2], '') end "
    "return 1";

Connection Connect(const std::string& url) {
  const size_t colon = url.rfind(':');
  Connection connection(redisConnect("127.0.0.1", std::atoi(url.c_str() + colon + 1)));
  if (connection == nullptr || connection->err != 0) Contender::Fail("raw: cannot connect");
  return connection;
}

template <typename... Words>
Reply Ask(redisContext* connection, const char* format, Words... words) {
  Reply reply(static_cast<redisReply*>(redisCommand(connection, format, words...)));
  if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) {
    Contender::Fail(reply == nullptr ? connection->errstr : reply->str);
  }
  return reply;
}

class RawLock {
 public:
  RawLock(const std::string& url, std::string name, std::string id, long lease_ms, bool broadcast)
      : url_(url),
        name_(std::move(name)),
        id_(std::move(id)),
        lease_ms_(lease_ms),
        broadcast_(broadcast) {
    sha1_ = Ask(connection_.get(), "SCRIPT LOAD %s", kRelease)->str;
  }

  bool Lock(bool) {
    for (;;) {
      const Reply reply =
          Ask(connection_.get(), "SET %s %s NX PX %ld", name_.c_str(), id_.c_str(), lease_ms_);
      if (reply->type == REDIS_REPLY_STATUS) return true;
      if (broadcast_) {
        AwaitRelease();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  bool Unlock(bool) {
    const std::string channel = name_ + ":released";
    const Reply reply = broadcast_ ? Ask(connection_.get(), "EVALSHA %s 1 %s %s %s", sha1_.c_str(),
                                         name_.c_str(), id_.c_str(), channel.c_str())
                                   : Ask(connection_.get(), "EVALSHA %s 1 %s %s", sha1_.c_str(),
                                         name_.c_str(), id_.c_str());
    return reply->integer == 1;
  }

 private:
  // Stays subscribed, and treats all messages that are here as one: this is the fastest variant.
  void AwaitRelease() {
    if (subscriber_ == nullptr) {
      subscriber_ = Connect(url_);
      const timeval timeout = {lease_ms_ / 1000, lease_ms_ % 1000 * 1000};
      redisSetTimeout(subscriber_.get(), timeout);
      const std::string channel = name_ + ":released";
      Ask(subscriber_.get(), "SUBSCRIBE %s", channel.c_str());
      return;  // it may have been released before
    }
    void* message = nullptr;
    if (redisGetReply(subscriber_.get(), &message) != REDIS_OK) {
      subscriber_.reset();  // the holder died, and its lease is over
      return;
    }
    freeReplyObject(message);
    pollfd readable{subscriber_->fd, POLLIN, 0};
    if (poll(&readable, 1, 0) > 0) redisBufferRead(subscriber_.get());
    while (redisReaderGetReply(subscriber_->reader, &message) == REDIS_OK && message != nullptr) {
      freeReplyObject(message);
    }
  }

  const std::string url_;
  const std::string name_;
  const std::string id_;
  const long lease_ms_;
  const bool broadcast_;
  Connection connection_ = Connect(url_);
  Connection subscriber_;
  std::string sha1_;
};

}  // namespace

int main(int argc, char** argv) {
  Contender contender(argc, argv);
  long made = 0;
  return contender.Run([&](const std::string& name) {
    return std::make_unique<RawLock>(
        contender.urls()[0], name, contender.Option("index", "0") + ":" + std::to_string(made++),
        contender.Number("lease-ms", 30000), contender.Option("wait", "poll") == "broadcast");
  });
}
