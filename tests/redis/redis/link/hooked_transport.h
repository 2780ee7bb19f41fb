// A transport around a real one, whose steps a test may watch, replace or hold up.
//
//   TransportHooks hooks;
//   SharedConnection connection(url, {.open = Hooked(hooks)});
//   hooks.write = [](Transport& real, std::string_view bytes) {
//     return IoResult{.kind = IoResult::Kind::kError, .error = EPIPE};
//   };
//
// Hooks are set while no thread is in a call, and outlive the transports.
#ifndef REDLATCH_TESTS_REDIS_REDIS_LINK_HOOKED_TRANSPORT_H_
#define REDLATCH_TESTS_REDIS_REDIS_LINK_HOOKED_TRANSPORT_H_

#include "src/redis/transport/open.h"
#include "src/redis/transport/transport.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {

struct TransportHooks {
  std::function<IoResult(Transport& real, std::string_view bytes)> write;
  std::function<Readiness(Transport& real, Interest, int wake_fd, base::Instant)> wait;

  std::atomic<int> reads = 0;
  std::atomic<int> writes = 0;
  std::atomic<int> waits = 0;

  void ResetCounts() { reads = writes = waits = 0; }
};

class HookedTransport final : public Transport {
 public:
  HookedTransport(TransportHooks& hooks, std::unique_ptr<Transport> real)
      : hooks_(hooks), real_(std::move(real)) {}

  IoResult Connect() override { return real_->Connect(); }
  IoResult Read(char* buffer, size_t size) override {
    ++hooks_.reads;
    return real_->Read(buffer, size);
  }
  IoResult Write(std::string_view bytes) override {
    ++hooks_.writes;
    return hooks_.write ? hooks_.write(*real_, bytes) : real_->Write(bytes);
  }
  Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) override {
    ++hooks_.waits;
    return hooks_.wait ? hooks_.wait(*real_, interest, wake_fd, deadline)
                       : real_->Wait(interest, wake_fd, deadline);
  }
  Polled BeginPoll(Interest interest) override {
    ++hooks_.waits;
    return real_->BeginPoll(interest);
  }
  Readiness EndPoll(const Polled& polled, int16_t came) override {
    return real_->EndPoll(polled, came);
  }
  bool full_duplex() const override { return real_->full_duplex(); }
  void DiscardUnsent() override { real_->DiscardUnsent(); }

 private:
  TransportHooks& hooks_;
  const std::unique_ptr<Transport> real_;
};

inline TransportFactory Hooked(TransportHooks& hooks, TransportFactory open = OpenTransport) {
  return [&hooks, open = std::move(open)](
             const Target& target) -> absl::StatusOr<std::unique_ptr<Transport>> {
    auto real = open(target);
    if (!real.ok()) return real.status();
    return std::make_unique<HookedTransport>(hooks, *std::move(real));
  };
}

}  // namespace redlatch::redis

#endif  // REDLATCH_TESTS_REDIS_REDIS_LINK_HOOKED_TRANSPORT_H_
