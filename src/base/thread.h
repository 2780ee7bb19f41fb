#ifndef REDLATCH_SRC_BASE_THREAD_H_
#define REDLATCH_SRC_BASE_THREAD_H_

#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace redlatch::base {

// Starts a thread of the library's own. It blocks all signals to the process, which are for the
// program's threads: one of them may be in sigwait(). Signals that the thread itself causes, such
// as SIGSEGV and SIGPIPE, are blocked only if the caller has blocked them.
//
// While the thread runs, dlclose() does not unload the plugin that contains the library.
//
// `name` has 15 characters at most; ps, top and debuggers show it. Throws std::system_error, as
// std::thread does, if no thread can be started.
std::thread StartThread(const char* name, std::function<void()> code);
// The same, but returns false if no thread can be started, or if there is no memory for one.
template <class Code>
[[nodiscard]] bool TryStartThread(std::thread& thread, const char* name, Code&& code) try {
  thread = StartThread(name, std::forward<Code>(code));
  return true;
} catch (const std::exception&) {
  return false;
}
// Starts a thread that no other waits for. Returns false if none can be started.
[[nodiscard]] bool TryStartDetached(const char* name, std::function<void()> code);
// Runs the code on a thread of its own, or on the calling thread if none can be started.
void RunApart(const char* name, const std::function<void()>& code);

// Waits for the end of the thread, if there is one. It is not a cancellation point.
void Join(std::thread& thread);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_THREAD_H_
