// Who holds a reentrant lock, where that is not a thread.
#ifndef REDLATCH_OWNER_H_
#define REDLATCH_OWNER_H_

#include <memory>
#include <string>
#include <string_view>

namespace redlatch {

// A name for work that crosses threads or processes, such as a job or a request: whoever presents
// the same Owner to a ReentrantLock enters a lock that it already holds, from any client.
//
//   lock.Acquire({.owner = redlatch::Owner("job-42")})
//
// An empty Owner, the default, is the calling thread.
class Owner {
 public:
  Owner() = default;
  explicit Owner(std::string_view name)
      : name_(name.empty() ? nullptr : std::make_shared<const std::string>(name)) {}

  const std::string& name() const {
    static const std::string* const nobody = new std::string();
    return name_ == nullptr ? *nobody : *name_;
  }
  bool is_calling_thread() const { return name_ == nullptr; }

  friend bool operator==(const Owner& a, const Owner& b) { return a.name() == b.name(); }

 private:
  // Not the text itself: GCC 12 copies an AcquireOptions that is written within a co_await
  // expression byte by byte, and a string may point into itself.
  std::shared_ptr<const std::string> name_;
};

}  // namespace redlatch

#endif  // REDLATCH_OWNER_H_
