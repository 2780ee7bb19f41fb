// A transport around a real one that behaves as badly as TLS may, and detects callers that are in
// it at the same time. TLS has records of its own, so a step may wait for the opposite of what its
// name says:
//
//   A Write(), and the end of Connect(), sometimes waits until it can read a record of the peer.
//   The record arrives during a Wait() for it that finds nothing else. If a Read() consumes the
//   record first, no Wait() reports it.
//
//   A Read() sometimes waits until it can write a record, which leaves during the next Wait() for
//   that.
#include <sched.h>

#include "src/redis/connect/connector.h"
#include "src/redis/transport/transport.h"
#include "tests/redis/redis/link/connection_fixture.h"
#include "tests/support/messages_fixture.h"

namespace redlatch::redis {
namespace {

// The counts of all transports of a test.
struct StrictCounts {
  std::atomic<int> meetings = 0;  // of two callers; none is allowed
  std::atomic<int> writes_that_read = 0;
  std::atomic<int> reads_that_write = 0;
  std::atomic<uint64_t> dice = 1;
};

class StrictTransport final : public Transport {
 public:
  StrictTransport(StrictCounts& counts, std::unique_ptr<Transport> real)
      : counts_(counts), real_(std::move(real)) {}
  ~StrictTransport() override { const Caller alone(*this); }

  IoResult Connect() override {
    const Caller alone(*this);
    if (connected_) return MayWrite() ? IoResult{.kind = kDone} : IoResult{.kind = kWantRead};
    const IoResult result = real_->Connect();
    connected_ = result.kind == kDone;
    return connected_ ? WantToRead() : result;
  }

  IoResult Read(char* buffer, size_t size) override {
    const Caller alone(*this);
    if (record_ == Record::kDue || record_ == Record::kThere) record_ = Record::kTakenIn;
    if (!to_write_ && Sometimes()) {
      ++counts_.reads_that_write;
      to_write_ = true;
    }
    return to_write_ ? IoResult{.kind = kWantWrite} : real_->Read(buffer, size);
  }

  IoResult Write(std::string_view bytes) override {
    const Caller alone(*this);
    if (record_ == Record::kNone && Sometimes()) return WantToRead();
    if (!MayWrite()) return {.kind = kWantRead};
    return real_->Write(Sometimes() ? bytes.substr(0, bytes.size() / 2 + 1) : bytes);
  }

  Readiness Wait(Interest interest, int wake_fd, base::Instant deadline) override {
    if (Has(interest, Interest::kWrite)) {
      const Readiness ready = real_->Wait(interest, wake_fd, base::Instant());
      if (ready.writable) to_write_ = false;
      if (ready.writable) return ready;
    }
    if (Has(interest, Interest::kRead)) {
      Record due = Record::kDue;
      record_.compare_exchange_strong(due, Record::kThere);
      if (record_ == Record::kThere) return {.readable = true};
    }
    return real_->Wait(interest, wake_fd, deadline);
  }

  Polled BeginPoll(Interest interest) override {
    const Readiness already = Wait(interest, -1, base::Instant());
    return already.Meets(interest) ? Polled{.already = already} : real_->BeginPoll(interest);
  }

  void DiscardUnsent() override {
    const Caller alone(*this);
    real_->DiscardUnsent();
  }

 private:
  using enum IoResult::Kind;

  // Sometimes yields, so that callers that could meet do.
  class Caller {
   public:
    explicit Caller(StrictTransport& transport) : transport_(transport) {
      if (transport_.callers_++ > 0) ++transport_.counts_.meetings;
      if (transport_.Sometimes()) sched_yield();
    }
    ~Caller() { --transport_.callers_; }

   private:
    StrictTransport& transport_;
  };

  // Returns true if the record that a write waits for has come, and consumes it.
  bool MayWrite() {
    if (record_ == Record::kDue) return false;
    record_ = Record::kNone;
    return true;
  }

  IoResult WantToRead() {
    ++counts_.writes_that_read;
    record_ = Record::kDue;
    return {.kind = kWantRead};
  }

  bool Sometimes() {
    uint64_t dice = counts_.dice.fetch_add(0x9e3779b97f4a7c15);
    dice = (dice ^ (dice >> 30)) * 0xbf58476d1ce4e5b9;
    return (dice ^ (dice >> 27)) >> 62 == 0;
  }

  enum class Record : uint8_t { kNone, kDue, kThere, kTakenIn };

  StrictCounts& counts_;
  const std::unique_ptr<Transport> real_;
  bool connected_ = false;
  std::atomic<int> callers_ = 0;
  std::atomic<Record> record_ = Record::kNone;  // of the peer's
  std::atomic<bool> to_write_ = false;          // a record of its own
};

TransportFactory Strict(StrictCounts& counts) {
  return [&counts](const Target& target) -> absl::StatusOr<std::unique_ptr<Transport>> {
    auto real = OpenTransport(target);
    if (!real.ok()) return real.status();
    return std::make_unique<StrictTransport>(counts, *std::move(real));
  };
}

// All users of a transport call it one thread at a time, and wait for the readiness that a step
// wants, not for the one that its name suggests.

void ExpectPutToTheTest(const StrictCounts& counts) {
  EXPECT_EQ(counts.meetings, 0);
  EXPECT_GT(counts.writes_that_read, 0);
  EXPECT_GT(counts.reads_that_write, 0);
}

using StrictConnectorTest = ConnectionFixture;

TEST_F(StrictConnectorTest, ContinuesAfterShortCalls) {
  StrictCounts counts;
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(5));
  for (int i = 0; i < 20; ++i) {
    Connector connector(UrlOf(proxy_.url()), Handshake::Purpose::kCommands, Strict(counts));
    EXPECT_TRUE(Await([&] {
      const auto made = connector.Step(In(absl::Microseconds(200)));
      return made.ok() && made->has_value();
    }));
  }
  ExpectPutToTheTest(counts);
}

TEST_F(StrictConnectorTest, EachThreadGetsItsOwnReplies) {
  constexpr int kThreads = 6;
  constexpr int kCalls = 250;
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(80)}) {
    for (const size_t most_bytes : {0, 200'000}) {
      StrictCounts counts;
      const auto connection = Connected(Direct({.spin = spin, .open = Strict(counts)}));
      Crew().Start(kThreads, [&](int thread) {
        for (int i = 0; i < kCalls; ++i) {
          const std::string mine =
              absl::StrCat(thread, ":", i, std::string(i * most_bytes / kCalls, 'x'));
          ASSERT_EQ(Echo(*connection, mine), mine);
          if (i % 5 == 0) {
            ASSERT_TRUE(Post(*connection, {"INCR", "sent"}).ok());
          }
        }
      });
      EXPECT_EQ(connection->stats().connects, 1);
      EXPECT_EQ(connection->stats().late, 0);
      ExpectPutToTheTest(counts);
    }
  }
}

using StrictMessagesTest = support::MessagesFixture;

TEST_F(StrictMessagesTest, MessagesArriveWhileWaitersRead) {
  constexpr int kMessages = 300;
  constexpr uint32_t kReceived = 1;
  StrictCounts counts;
  base::Parker parker;
  ConnectionOptions options;
  options.open = Strict(counts);
  options.on_message = [&](std::string_view channel, std::string_view) {
    if (channel == "c") parker.Set(kReceived);
  };
  const auto connection = std::make_unique<Connection>(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(connection->Subscribe("c", Soon()).ok());
  std::vector<std::jthread> others;
  for (const char* channel : {"d", "e"}) {
    others.emplace_back([&, channel](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        EXPECT_TRUE(connection->Subscribe(channel, Soon()).ok());
        connection->Unsubscribe(channel);
      }
    });
  }
  for (int i = 0; i < kMessages; ++i) {
    parker.Arm();
    EXPECT_EQ(Publish("c", std::to_string(i)), 1);
    EXPECT_EQ(connection->Await(parker, Soon()), kReceived);
  }
  others.clear();
  EXPECT_EQ(connection->stats().breaks, 0);
  ExpectPutToTheTest(counts);
}

}  // namespace
}  // namespace redlatch::redis
