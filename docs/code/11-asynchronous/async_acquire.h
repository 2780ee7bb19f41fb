// Boost.Asio for the locks of redlatch: a piece of tutorials/11-asynchronous.md.
#ifndef REDLATCH_DOCS_CODE_ASYNC_ACQUIRE_H_
#define REDLATCH_DOCS_CODE_ASYNC_ACQUIRE_H_

// [adapter]
#include <utility>

// Boost 1.74 needs the header above.
#include <boost/asio.hpp>

#include "redlatch/redis_lock_base.h"

namespace asio = boost::asio;

// Makes lock.AcquireAsync() an Asio operation: for use_awaitable, a handler, or another token.
template <class Token>
auto AsyncAcquire(redlatch::RedisLockBase& lock, const redlatch::AcquireOptions& options,
                  Token&& token) {
  using Signature = void(absl::StatusOr<redlatch::Lease>);
  return asio::async_initiate<Token, Signature>(
      [&lock, options](auto handler) {
        // Keeps the io_context running while the call waits.
        auto work = asio::make_work_guard(asio::get_associated_executor(handler));
        lock.AcquireAsync(options, [work = std::move(work), handler = std::move(handler)](
                                       absl::StatusOr<redlatch::Lease> lease) mutable {
          // Continues where the coroutine belongs, which may be a strand.
          asio::dispatch(work.get_executor(),
                         [handler = std::move(handler), lease = std::move(lease)]() mutable {
                           std::move(handler)(std::move(lease));
                         });
        });
      },
      token);
}
// [/adapter]

#endif  // REDLATCH_DOCS_CODE_ASYNC_ACQUIRE_H_
