// The owner of a reentrant lock's hold, if the owner is not a thread.
#ifndef REDLATCH_OWNER_H_
#define REDLATCH_OWNER_H_

#include <string>
#include <string_view>

namespace redlatch {

// A name for work that crosses threads or processes, such as a job or a request. An acquisition for
// an Owner enters a ReentrantLock that this Owner already holds, from any client. All callers that
// wait for the same Owner enter when the first of them gets the lock: at once if their client is
// among the first 64 in the queue, otherwise with its next heartbeat.
//
//   lock.AcquireAs(redlatch::Owner("job-42"), {.wait = 5s})
//
// A class of your own may have Owners without being reentrant: see LockTraits::owners.
//
// An empty Owner, the default, is the calling thread.
class Owner {
 public:
  Owner() = default;
  explicit Owner(std::string_view name) : name_(name) {}

  const std::string& name() const { return name_; }
  bool is_calling_thread() const { return name_.empty(); }

  friend bool operator==(const Owner& a, const Owner& b) = default;

 private:
  std::string name_;
};

}  // namespace redlatch

#endif  // REDLATCH_OWNER_H_
