#ifndef REDLATCH_TESTS_SIM_OS_FIBRE_H_
#define REDLATCH_TESTS_SIM_OS_FIBRE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace redlatch::sim {

class Process;

// A simulated thread: a stack of its own, its own copies of thread-local variables, and what it
// waits for. The kernel switches between fibres; all of them run in one thread of the real system.
class Fibre {
 public:
  Fibre(Process* process, std::function<void()> code);
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Called on the main stack: runs the fibre until it calls Leave() or ends.
  void Enter();
  // Called by the fibre: returns to the main stack.
  void Leave();

  static Fibre* Current() { return current_; }

  // Registers a destructor of a thread-local variable of the current fibre.
  void AtExit(void (*destroy)(void*), void* object) { destructors_.push_back({destroy, object}); }

  Process* const process;
  bool ended = false;
  bool detached = false;

  // The kernel's notes.
  uint64_t number = 0;     // order of creation
  uint64_t wait = 0;       // counts waits, so that an old timer does not end a new one
  bool ready = false;      // in the kernel's list, or to be put there when its process goes on
  bool timed_out = false;  // the last wait ended by its deadline
  int64_t deadline = 0;    // of this wait, in kernel time
  const void* futex = nullptr;
  Fibre* next = nullptr;  // among the waiters of one mutex or condition variable
  void* queue = nullptr;  // the mutex or condition variable in whose list it is
  Fibre* joiner = nullptr;
  int shared_mutexes = 0;  // held, and used by other processes too
  std::string name;

 private:
  static void Main();
  void SwapThreadLocals();
  void Run();

  static Fibre* current_;

  struct Destructor {
    void (*destroy)(void*);
    void* object;
  };
  std::function<void()> code_;
  char* stack_;
  std::unique_ptr<char[]> thread_locals_;
  uint64_t exception_state_[2] = {0, 0};
  std::vector<Destructor> destructors_;
  void* inside_;             // the top of its stack while it is left
  void* outside_ = nullptr;  // the same of the main stack, while it runs
  void* fake_stack_ = nullptr;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_OS_FIBRE_H_
