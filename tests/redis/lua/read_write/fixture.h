// Clients that read and write by the scripts of the read-write lock.
#ifndef REDLATCH_TESTS_REDIS_LUA_READ_WRITE_FIXTURE_H_
#define REDLATCH_TESTS_REDIS_LUA_READ_WRITE_FIXTURE_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/lock_scripts_fixture.h"

namespace redlatch {

inline constexpr char kHeld[] = "[\"held\"]";
inline constexpr char kReading[] = "[\"held\", 0]";
inline constexpr char kLastReading[] = "[\"held\", 1]";
inline constexpr char kNotHeld[] = "[\"not_held\"]";
inline constexpr char kReleased[] = "[\"released\"]";
inline constexpr char kLeft[] = "[\"left\"]";
inline constexpr char kPassedOn[] = "[\"passed_on\"]";
inline constexpr char kUnknown[] = "[\"unknown\"]";
inline constexpr char kJob[] = "user:job 7";

class ReadWriteScriptsTest : public LockScriptsFixture {
 protected:
  ReadWriteScriptsTest()
      : LockScriptsFixture({.acquire = lua::kReadWriteAcquire,
                            .release = lua::kReadWriteRelease,
                            .renew = lua::kReadWriteRenew,
                            .cancel = lua::kReadWriteCancel,
                            .inspect = lua::kReadWriteInspect,
                            .force_release = lua::kReadWriteForceRelease}) {}

  const LockScripts& ScriptsFor(const Request& request) const override {
    return request.owner.starts_with("read:") || request.owner.starts_with("nest:") ? reading_
                                                                                    : scripts_;
  }
  std::vector<std::string> OwnKeys() const override { return {Readers(), Writers(), Holds()}; }
  std::string Readers() const { return "{" + name_ + "}:readers"; }
  std::string Writers() const { return "{" + name_ + "}:writers"; }
  std::string Holds() const { return "{" + name_ + "}:holds"; }

  static Request Writer(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.more = {"writer_first"};
    return request;
  }
  static Request Fair(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.more = {"phase_fair"};
    return request;
  }
  // A request of that client for the explicit owner that several share.
  static Request Job(char client, int sequence = 1) {
    Request request = Writer(client, sequence);
    request.owner = kJob;
    return request;
  }
  static Request Reader(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.owner = absl::StrCat("read:7:", request.owner);
    return request;
  }
  // A reader under that write hold.
  static Request Nest(const Request& writer, int sequence = 2) {
    Request request = Reader(writer.hold[0], sequence);
    request.owner = absl::StrCat("nest:7:", writer.hold);
    return request;
  }
  static Request Impatient(Request request) {
    request.wait = false;
    return request;
  }
  static Request For(int lease_ms, Request request) {
    request.lease_ms = lease_ms;
    return request;
  }
  static Request Beating(int heartbeat_ms, Request request) {
    request.heartbeat_ms = heartbeat_ms;
    return request;
  }

  // How many write holds that owner has; what was always alone is not counted.
  std::string Count(const std::string& owner) {
    if (server_->Text({"HGET", name_, "owner"}) != owner) return "";
    const std::string count = server_->Text({"HGET", name_, "holds"});
    return count.empty() ? "1" : count;
  }
  bool Writes(const std::string& hold) { return server_->Integer({"HEXISTS", name_, hold}) == 1; }
  std::vector<std::string> Members(const std::string& key) {
    std::vector<std::string> members;
    for (const redis::Reply& member : server_->Command({"ZRANGE", key, "0", "-1"}).elements) {
      members.push_back(member.text);
    }
    return members;
  }
  std::vector<std::string> Reading() { return Members(Readers()); }
  std::vector<std::string> WaitingWriters() { return Members(Writers()); }
  std::vector<std::string> WaitingReaders() { return Members(Queue()); }
  // All that wait, writers first.
  std::vector<std::string> Waiting() {
    std::vector<std::string> holds = WaitingWriters();
    for (std::string& hold : WaitingReaders()) holds.push_back(std::move(hold));
    EXPECT_EQ(static_cast<int64_t>(holds.size()), server_->Integer({"HLEN", Waiters()}));
    return holds;
  }
  // In how many ms of server time a member's expiry comes.
  double Remaining(const std::string& key, const std::string& hold) {
    const redis::Reply time = server_->Command({"TIME"});
    const double now = std::stod(time.elements[0].text) * 1e6 + std::stod(time.elements[1].text);
    return (std::atof(server_->Text({"ZSCORE", key, hold}).c_str()) - now) / 1000;
  }
  void AwaitEnd(const std::string& key, const std::string& hold) {
    const base::Instant deadline = base::Now() + absl::Seconds(10);
    while (Remaining(key, hold) > 0 && base::Now() < deadline) {
    }
    ASSERT_LE(Remaining(key, hold), 0);
  }
  // Many that wait. Those whose channel nobody hears are dead.
  void MakeReaders(int count, const std::string& channel = "redlatch:nobody") {
    server_->Command({"EVAL", kMakeWaiters, "2", Queue(), Waiters(), absl::StrCat(count),
                      "read:7:x", channel, "1"});
  }
  void MakeWriters(int count, const std::string& channel = "redlatch:nobody") {
    server_->Command({"EVAL", kMakeWaiters, "2", Writers(), Waiters(), absl::StrCat(count),
                      std::string(32, 'f'), channel, "2"});
  }
  // Who writes; "" if nobody does.
  std::string Owner() { return server_->Text({"HGET", name_, "owner"}); }
  // As whoever looks does it.
  std::string Look(bool reads = false) { return Cancel(reads ? Reader('f', 99) : Writer('f', 99)); }
  static Request Claiming(int claim_ms, Request request) {
    request.claim_ms = claim_ms;
    return request;
  }
  static Request Again(Request request) {
    ++request.attempt;
    return request;
  }
  // As if so much time had passed since the waiter's last heartbeat.
  void MakeOverdue(const std::string& hold) {
    std::string record = server_->Text({"HGET", Waiters(), hold});
    record.replace(0, record.find(' '), "1000");
    server_->Command({"HSET", Waiters(), hold, record});
  }
  // The `granted` that a lone reader gets, with this token.
  static std::string Granted(int64_t token, int others = 0, int lease_ms = 30000) {
    return absl::StrCat("[\"granted\", ", token == 0 ? "0" : absl::StrCat("\"", token, "\""), ", ",
                        lease_ms, ", ", others, "]");
  }
  std::string GrantOf(const Request& request, int64_t token, int waiting) const {
    return absl::StrCat("grant ", request.hold, " ", request.attempt, " ", token, " ",
                        request.lease_ms, " ", waiting, " ", name_);
  }
  int64_t RetryAfter(const Request& request) {
    const redis::Reply reply = Ask(request);
    EXPECT_THAT(First(reply), ::testing::AnyOf("busy", "queued"));
    return reply.elements.size() < 2 ? -2 : reply.elements[1].integer;
  }

  const LockScripts reading_ = {.acquire = lua::kReadWriteAcquireRead,
                                .release = lua::kReadWriteReleaseRead,
                                .renew = lua::kReadWriteRenewRead,
                                .cancel = lua::kReadWriteCancelRead,
                                .inspect = lua::kReadWriteInspect,
                                .force_release = lua::kReadWriteForceRelease};
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_LUA_READ_WRITE_FIXTURE_H_
