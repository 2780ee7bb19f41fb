#ifndef REDLATCH_SRC_CLI_TERM_SERVER_H_
#define REDLATCH_SRC_CLI_TERM_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::cli {

// kUnimplemented for a cluster.
absl::StatusOr<redis::Url> ParseUrlOfServer(std::string_view url);

// A server that is looked at: by plain commands, none of which takes long, and as no client of its
// locks. So it may be a replica, and its user one who may only read.
class Server {
 public:
  // Errors as those of Client::Connect(), and kNotFound where the URL is that of an embedded server
  // which does not run: it is not started to be asked what nobody has told it.
  static absl::StatusOr<std::unique_ptr<Server>> Open(std::string_view url);

  // The replies, in order. What has become another type meanwhile answers nil, and where so asked
  // what this user may not see; any other refusal is the status of them all.
  absl::StatusOr<std::vector<redis::Reply>> Ask(const std::vector<redis::Command>& commands);

  bool is_replica() const { return is_replica_; }
  void PassOverWhatIsForbidden() { passes_over_forbidden_ = true; }

  // What the server's clock says, in µs.
  absl::StatusOr<int64_t> NowMicros();

  const std::string& url() const { return url_; }
  // The URL, without user and password.
  const std::string& name() const { return name_; }

 private:
  Server(const redis::Url& parsed, std::string_view url, redis::PlainConnection connection);
  void LookAtRole();
  bool IsNil(const std::string& error) const;

  const std::string url_;
  const std::string name_;
  const absl::Duration patience_;
  bool passes_over_forbidden_ = false;
  bool is_replica_ = false;
  redis::PlainConnection connection_;
};

// Commands that travel together, and what is done with each one's reply.
class Questions {
 public:
  using Take = std::function<void(const redis::Reply&)>;

  void Add(std::initializer_list<std::string_view> words, Take take) {
    commands_.emplace_back(words);
    takes_.push_back(std::move(take));
  }
  absl::Status Ask(Server& server);

 private:
  std::vector<redis::Command> commands_;
  std::vector<Take> takes_;
};

// What a reply says as a number; 0 where it says none.
int64_t NumberIn(const redis::Reply& reply);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_SERVER_H_
