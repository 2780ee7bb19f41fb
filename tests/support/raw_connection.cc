#include "tests/support/raw_connection.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

using redis::Reply;

Reply FromHiredis(const redisReply& reply) {
  Reply result;
  if (reply.str != nullptr) result.text.assign(reply.str, reply.len);
  switch (reply.type) {
    case REDIS_REPLY_INTEGER:
      result.type = Reply::Type::kInteger;
      result.integer = reply.integer;
      break;
    case REDIS_REPLY_STRING:
      result.type = Reply::Type::kString;
      break;
    case REDIS_REPLY_STATUS:
      result.type = Reply::Type::kStatus;
      break;
    case REDIS_REPLY_ERROR:
      result.type = Reply::Type::kError;
      break;
    case REDIS_REPLY_ARRAY:
      result.type = Reply::Type::kArray;
      for (size_t i = 0; i < reply.elements; ++i) {
        result.elements.push_back(FromHiredis(*reply.element[i]));
      }
      break;
    default:
      break;
  }
  return result;
}

}  // namespace

void RawConnection::Free::operator()(redisContext* context) const { redisFree(context); }

RawConnection RawConnection::ToPort(int port, absl::Duration timeout) {
  return {redisConnectWithTimeout("127.0.0.1", port, absl::ToTimeval(timeout)), timeout};
}

RawConnection RawConnection::ToSocket(const std::string& path, absl::Duration timeout) {
  return {redisConnectUnixWithTimeout(path.c_str(), absl::ToTimeval(timeout)), timeout};
}

RawConnection::RawConnection(redisContext* context, absl::Duration timeout) : context_(context) {
  if (context == nullptr) Fatal("hiredis: out of memory");
  if (broken()) return;
  fcntl(context->fd, F_SETFD, FD_CLOEXEC);
  redisSetTimeout(context, absl::ToTimeval(timeout));
}

bool RawConnection::broken() const { return context_->err != 0 || !send_error_.empty(); }

int RawConnection::descriptor() const { return context_->fd; }

Reply RawConnection::Command(const std::vector<std::string>& args) {
  Send(args);
  return Receive();
}

bool RawConnection::Send(const std::vector<std::string>& args) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  for (const std::string& arg : args) {
    data.push_back(arg.data());
    sizes.push_back(arg.size());
  }
  char* command = nullptr;
  const int64_t length =  // an int in old hiredis
      redisFormatCommandArgv(&command, static_cast<int>(args.size()), data.data(), sizes.data());
  if (length < 0) Fatal("hiredis: out of memory");
  // hiredis would use write(2), which raises SIGPIPE on a closed connection.
  for (std::string_view rest(command, static_cast<size_t>(length)); !rest.empty() && !broken();) {
    const ssize_t written = send(context_->fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR) send_error_ = std::strerror(errno);
  }
  redisFreeCommand(command);
  return !broken();
}

Reply RawConnection::Receive() {
  void* got = nullptr;
  if (!broken() && redisGetReply(context_.get(), &got) == REDIS_OK) {
    const std::unique_ptr<redisReply, decltype(&freeReplyObject)> reply(
        static_cast<redisReply*>(got), &freeReplyObject);
    return FromHiredis(*reply);
  }
  Reply error;
  error.type = Reply::Type::kError;
  error.text =
      std::string("ERR connection: ") + (context_->err != 0 ? context_->errstr : send_error_);
  return error;
}

}  // namespace redlatch::support
