#ifndef REDLATCH_SRC_CLI_TERM_SERVER_H_
#define REDLATCH_SRC_CLI_TERM_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"
#include "src/redis/wire/slot.h"

namespace redlatch::cli {

// What becomes of a question whose node can't be asked, while others can.
enum class Unreachable : uint8_t {
  kFails,  // all that were asked together
  kIsNil,  // it is answered nil, and soon
};

// A server that is looked at, or all primaries of a cluster: by plain commands, none of which takes
// long, and as no client of its locks. So it may be a replica, and its user one who may only read.
class Server {
 public:
  // Errors as those of Client::Connect(), and kNotFound where the URL is that of an embedded server
  // which does not run: it is not started to be asked what nobody has told it.
  static absl::StatusOr<std::unique_ptr<Server>> Open(std::string_view url);
  virtual ~Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The replies, in order. `slots` are those of the commands' keys, one each. What has become
  // another type meanwhile answers nil, and where so asked what this user may not see; any other
  // refusal is the status of them all.
  virtual absl::StatusOr<std::vector<redis::Reply>> Ask(absl::Span<const redis::Command> commands,
                                                        absl::Span<const redis::Slot> slots,
                                                        Unreachable unreachable) = 0;

  // Each has keys of its own: one, or the primaries of a cluster, of which more may show.
  virtual size_t parts() const = 0;
  // Makes sure that those are among them which serve no slots yet, if the server tells.
  virtual void FindAllParts() {}
  // Where the key is, as far as it is known.
  virtual size_t PartOf(std::string_view key) const = 0;
  virtual absl::StatusOr<redis::Reply> AskPart(size_t part, const redis::Command& command) = 0;

  virtual bool is_cluster() const = 0;
  bool is_replica() const { return is_replica_; }
  void PassOverWhatIsForbidden() { passes_over_forbidden_ = true; }
  // Takes every question as Unreachable::kIsNil, with all patience, and remembers in missing() why.
  void PassOverWhatIsUnreachable() { passes_over_unreachable_ = true; }
  // Whether that is done, of a node which failed so.
  bool PassesOver(const absl::Status& why);
  const std::vector<absl::Status>& missing() const { return missing_; }

  // What the clock says by which the key expires, in µs.
  absl::StatusOr<int64_t> NowMicros(std::string_view key);

  const std::string& url() const { return url_; }
  // The URL, without user and password.
  const std::string& name() const { return name_; }

 protected:
  Server(const redis::Url& parsed, std::string_view url);
  bool IsNil(const std::string& error) const;

  const std::string url_;
  const std::string name_;
  const absl::Duration patience_;
  bool passes_over_unreachable() const { return passes_over_unreachable_; }
  bool passes_over_forbidden_ = false;
  bool is_replica_ = false;

 private:
  bool passes_over_unreachable_ = false;
  std::vector<absl::Status> missing_;
};

// Commands that travel together, and what is done with each one's reply.
class Questions {
 public:
  using Take = std::function<void(const redis::Reply&)>;

  // The second of the words is the key.
  void Add(std::initializer_list<std::string_view> words, Take take) {
    commands_.emplace_back(words);
    slots_.push_back(redis::SlotOf(words.begin()[1]));
    takes_.push_back(std::move(take));
  }
  absl::Status Ask(Server& server, Unreachable unreachable = Unreachable::kFails);

 private:
  std::vector<redis::Command> commands_;
  std::vector<redis::Slot> slots_;
  std::vector<Take> takes_;
};

// What a reply says as a number; 0 where it says none.
int64_t NumberIn(const redis::Reply& reply);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_SERVER_H_
