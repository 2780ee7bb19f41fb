#ifndef REDLATCH_TESTS_SIM_OS_FIBRE_H_
#define REDLATCH_TESTS_SIM_OS_FIBRE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace redlatch::sim {

class Process;

// A simulated thread: its own stack, its own copies of thread-local variables, and the wait it is
// in. The kernel switches between fibres; all of them run in one real thread.
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
  uint64_t wait = 0;       // counts waits, so that an old timer does not end a later wait
  bool ready = false;      // in the kernel's list, or to be put there when its process continues
  bool timed_out = false;  // the last wait ended by its deadline
  int64_t deadline = 0;    // of this wait, in kernel time
  const void* futex = nullptr;
  Fibre* next = nullptr;  // among the waiters of one mutex or condition variable
  void* queue = nullptr;  // the mutex or condition variable that it waits for
  Fibre* joiner = nullptr;
  int shared_mutexes = 0;  // mutexes that it holds and other processes use too
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
  void* inside_;             // the top of its stack while it does not run
  void* outside_ = nullptr;  // the top of the main stack while it runs
  void* fake_stack_ = nullptr;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_OS_FIBRE_H_
