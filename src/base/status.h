#ifndef REDLATCH_SRC_BASE_STATUS_H_
#define REDLATCH_SRC_BASE_STATUS_H_

#include <cstddef>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/parker.h"

namespace redlatch::base {

// Returns a copy that shares no memory with its original, unless memory is lacking: it is to be
// handed to another thread. Debian's Abseil, which counts the copies of a status, is not built for
// ThreadSanitizer: TSan would report the destruction of the last copy as a race with the use of
// another.
absl::Status Unshared(const absl::Status& status) noexcept;

// Returns a copy for users: code and message, without the payloads that internal layers pass to
// each other. The message is safe for a terminal, whatever a server said.
absl::Status WithoutPayloads(const absl::Status& status);

// Returns a status with both texts, or with none if memory is lacking.
absl::Status MakeStatus(absl::StatusCode code, absl::string_view text,
                        absl::string_view more = "") noexcept;

// kResourceExhausted: a thread that the client needs cannot be started, or an allocation failed.
absl::Status NoThread() noexcept;
absl::Status NoMemory() noexcept;

// Takes a step that cannot be left out. If memory is lacking, it waits and takes the step again, so
// a step that throws std::bad_alloc must have changed nothing, or nothing that it does not do
// again.
template <class Step>
auto WithMemory(Step step) noexcept {
  for (;;) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      Parker().ParkUntil(Now() + absl::Milliseconds(1));
    }
  }
}

// The same for one step on a container. It may be one that a mutex guards: clang's analysis does
// not see through a lambda.
template <class Container>
void Reserve(Container& container, size_t size) noexcept {
  WithMemory([&] { container.reserve(size); });
}
template <class Container, class... Args>
void Append(Container& container, Args&&... args) noexcept {
  WithMemory([&] { container.emplace_back(std::forward<Args>(args)...); });
}

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_STATUS_H_
