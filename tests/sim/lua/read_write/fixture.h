// Clients that read and write by the scripts of the read-write lock.
#ifndef REDLATCH_TESTS_SIM_LUA_READ_WRITE_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_READ_WRITE_FIXTURE_H_

#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {

inline constexpr char kReading[] = "[\"held\", 0]";
inline constexpr char kLastReading[] = "[\"held\", 1]";

// The token of a write by another client.
inline constexpr int64_t kWritten = 1'500'000'000'000'000;

struct ReadWriteScripts : LockScriptsFixture {
  ReadWriteScripts() : LockScriptsFixture(WriteKind()) {}

  const LockScripts& ScriptsFor(const Request& request) const override {
    return request.owner.starts_with("read:") || request.owner.starts_with("nest:")
               ? reading_.scripts
               : scripts_;
  }
  std::string Readers() const { return "{" + name_ + "}:readers"; }
  std::string Writers() const { return "{" + name_ + "}:writers"; }
  std::string GrantsKey() const { return "{" + name_ + "}:holds"; }

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
  static Request Reader(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.owner = absl::StrCat("read:7:", request.owner);
    return request;
  }
  // A reader under that write grant.
  static Request Nest(const Request& writer, int sequence = 2) {
    Request request = Reader(writer.grant[0], sequence);
    request.owner = absl::StrCat("nest:7:", writer.grant);
    return request;
  }

  std::vector<std::string> Reading() { return Members(Readers()); }
  std::vector<std::string> WaitingWriters() { return Members(Writers()); }
  std::vector<std::string> WaitingReaders() { return Members(Queue()); }
  // Many waiters. Those without a subscriber are dead.
  void MakeReaders(int count, const std::string& channel = "redlatch:dead") {
    MakeWaitersIn(Queue(), Reader('x'), count, channel);
  }
  void MakeWriters(int count, const std::string& channel = "redlatch:dead") {
    MakeWaitersIn(Writers(), Writer('x', 2), count, channel);
  }
  // The writer's owner; "" if there is none.
  std::string Owner() { return server_->Text({"HGET", name_, "owner"}); }
  void WriteOnce() { server_->Command({"SET", Fence(), absl::StrCat(kWritten), "PX", "30000"}); }
  // As a handover check does it.
  std::string Check(bool reads = false) {
    return Cancel(reads ? Reader('f', 99) : Writer('f', 99));
  }
  // The `granted` that a lone reader gets, with this token.
  static std::string Granted(int64_t token, int others = 0, int lease_ms = 30000) {
    return absl::StrCat("[\"granted\", ", token == 0 ? "0" : absl::StrCat("\"", token, "\""), ", ",
                        lease_ms, ", ", others, "]");
  }
  int64_t RetryAfter(const Request& request) {
    const redis::Reply reply = Ask(request);
    EXPECT_THAT(First(reply), ::testing::AnyOf("busy", "queued"));
    return reply.elements.size() < 2 ? -2 : reply.elements[1].integer;
  }

  const LockKind reading_ = ReadKind();
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_READ_WRITE_FIXTURE_H_
