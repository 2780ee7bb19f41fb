// What clang's -Wthread-safety reads, so that it checks users' code; nothing for other compilers.
#ifndef REDLATCH_INTERNAL_THREAD_ANNOTATIONS_H_
#define REDLATCH_INTERNAL_THREAD_ANNOTATIONS_H_

#if defined(__clang__)
#define REDLATCH_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define REDLATCH_THREAD_ANNOTATION(x)
#endif

// A class whose objects are locks.
#define REDLATCH_LOCKABLE REDLATCH_THREAD_ANNOTATION(lockable)

// Functions that take a lock, take it if they return true, and release it. Their own bodies are not
// checked.
#define REDLATCH_LOCKS() REDLATCH_THREAD_ANNOTATION(exclusive_lock_function()) REDLATCH_UNCHECKED
#define REDLATCH_LOCKS_SHARED() \
  REDLATCH_THREAD_ANNOTATION(shared_lock_function()) REDLATCH_UNCHECKED
#define REDLATCH_TRIES_TO_LOCK() REDLATCH_THREAD_ANNOTATION(exclusive_trylock_function(true))
#define REDLATCH_TRIES_TO_LOCK_SHARED() REDLATCH_THREAD_ANNOTATION(shared_trylock_function(true))
#define REDLATCH_UNLOCKS() REDLATCH_THREAD_ANNOTATION(unlock_function()) REDLATCH_UNCHECKED

#define REDLATCH_UNCHECKED REDLATCH_THREAD_ANNOTATION(no_thread_safety_analysis)

#endif  // REDLATCH_INTERNAL_THREAD_ANNOTATIONS_H_
