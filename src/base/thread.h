#ifndef REDLATCH_SRC_BASE_THREAD_H_
#define REDLATCH_SRC_BASE_THREAD_H_

#include <functional>
#include <thread>

namespace redlatch::base {

// A thread of the library's own. It takes no signal that is meant for the process: those are for
// the program's threads, of which one may be in sigwait(). What the thread itself brings about
// (SIGSEGV, SIGPIPE and their like) is blocked only if the caller has blocked it.
//
// `name`: for ps, top and debuggers; 15 characters at most. Throws std::system_error as std::thread
// does if there is no thread to be had.
std::thread StartThread(const char* name, std::function<void()> code);
// For those who ask again, and do without one until then: false if there is none to be had.
[[nodiscard]] bool TryStartThread(std::thread& thread, const char* name,
                                  std::function<void()> code);
// Runs it on a thread of its own, or on the calling thread if none can be started.
void RunApart(const char* name, const std::function<void()>& code);

// Waits for its end, if there is one. No cancellation point.
void Join(std::thread& thread);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_THREAD_H_
