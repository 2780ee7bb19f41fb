// What the tests of the semaphore's scripts share.
#ifndef REDLATCH_TESTS_REDIS_LUA_SEMAPHORE_FIXTURE_H_
#define REDLATCH_TESTS_REDIS_LUA_SEMAPHORE_FIXTURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/redis/lua/lock_scripts_fixture.h"

namespace redlatch {

// KEYS 1 the permits, 2 the semaphore. ARGV 1 how many, 2 in how many us they end, 3 permits each.
inline constexpr char kMakeHolds[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:3', i)
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2] + i), hold)
  if ARGV[3] ~= '1' then
    redis.call('HSET', KEYS[2], hold, ARGV[3])
    redis.call('HINCRBY', KEYS[2], 'extra', ARGV[3] - 1)
  end
end
redis.call('PEXPIRE', KEYS[1], 60000)
)lua";

class SemaphoreScriptsFixture : public LockScriptsFixture {
 protected:
  static constexpr char kHeld[] = "[\"held\"]";
  static constexpr char kNotHeld[] = "[\"not_held\"]";
  static constexpr char kReleased[] = "[\"released\"]";
  static constexpr char kLeft[] = "[\"left\"]";
  static constexpr char kPassedOn[] = "[\"passed_on\"]";
  static constexpr char kUnknown[] = "[\"unknown\"]";
  static constexpr char kSet[] = "[\"set\"]";

  SemaphoreScriptsFixture()
      : LockScriptsFixture({.acquire = lua::kSemaphoreAcquire,
                            .release = lua::kSemaphoreRelease,
                            .renew = lua::kSemaphoreRenew,
                            .cancel = lua::kSemaphoreCancel,
                            .inspect = lua::kSemaphoreInspect,
                            .force_release = lua::kSemaphoreForceRelease}) {}

  void TearDown() override {
    ExpectConsistent();
    LockScriptsFixture::TearDown();
  }

  std::vector<std::string> OwnKeys() const override { return {Permits()}; }
  std::string Permits() const { return "{" + name_ + "}:permits"; }
  std::string Untold() const { return "{" + name_ + "}:forced"; }

  // A request by an object of capacity `capacity_`.
  Request One(char client, int sequence = 1) const {
    Request request = Of(client, sequence);
    request.more = {absl::StrCat(capacity_)};
    return request;
  }
  Request Many(int permits, char client, int sequence = 1) const {
    Request request = One(client, sequence);
    request.block = permits;
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
  // The same hold at another attempt, as a client repeats it: at its ticket, if it has one.
  static Request Again(Request request, const std::string& ticket = "0") {
    ++request.attempt;
    request.ticket = ticket;
    return request;
  }
  static std::string Granted(int lease_ms = 30000) {
    return absl::StrCat("[\"granted\", 0, ", lease_ms, ", 0]");
  }
  std::string GrantOf(const Request& request) const {
    return absl::StrCat("grant ", request.hold, " ", request.attempt, " 0 ", request.lease_ms,
                        " 0 ", name_);
  }

  std::string SetCapacity(int capacity, const std::string& more = "") {
    std::vector<std::string> args = {absl::StrCat(capacity)};
    if (!more.empty()) args.push_back(more);
    return PartOf(lua::kSemaphoreSetCapacity, args).DebugString();
  }
  redis::Reply PartOfForce(const std::vector<std::string>& args) {
    return PartOf(scripts_.force_release, args, {Untold()});
  }
  std::string ForceRelease() { return PartOfForce({"redlatch:"}).DebugString(); }
  // As whoever looks does it.
  std::string Look() { return Cancel(One('z', 99)); }

  // Waiters for so many permits each, who came before everybody else and hear at that channel.
  void MakeWaiters(int count, const std::string& channel = "redlatch:nobody", int permits = 1) {
    server_->Command({"EVAL", kMakeWaiters, "2", Queue(), Waiters(), absl::StrCat(count), "x",
                      channel, "1", absl::StrCat(permits)});
  }
  // Holds of so many permits each that end in so many us.
  void MakeHolds(int count, int64_t ending_us, int permits = 1) {
    server_->Command({"EVAL", kMakeHolds, "2", Permits(), name_, absl::StrCat(count),
                      absl::StrCat(ending_us), absl::StrCat(permits)});
  }

  std::vector<std::string> Holding() {
    std::vector<std::string> holds;
    for (const redis::Reply& hold : server_->Command({"ZRANGE", Permits(), "0", "-1"}).elements) {
      holds.push_back(hold.text);
    }
    return holds;
  }
  std::string Field(const std::string& field) { return server_->Text({"HGET", name_, field}); }
  int64_t Used() { return Eval(scripts_.inspect, {}, {"0"}).elements.at(7).integer; }

  // In how many ms of server time a hold's expiry comes.
  double Remaining(const std::string& hold) {
    const redis::Reply time = server_->Command({"TIME"});
    const double now = std::stod(time.elements[0].text) * 1e6 + std::stod(time.elements[1].text);
    return (std::atof(server_->Text({"ZSCORE", Permits(), hold}).c_str()) - now) / 1000;
  }
  // As if the hold's lease had ended, or its last heartbeat were long ago.
  void Expire(const std::string& hold) {
    server_->Command({"ZADD", Permits(), "XX", "1000", hold});
  }
  void MakeOverdue(const std::string& hold) {
    std::string record = server_->Text({"HGET", Waiters(), hold});
    record.replace(0, record.find(' '), "1000");
    server_->Command({"HSET", Waiters(), hold, record});
  }

  // That the weights are those of holds that there are, and are summed up; and that the semaphore
  // is remembered for 24 hours after each.
  void ExpectConsistent() {
    std::map<std::string, std::string> fields;
    const redis::Reply reply = server_->Command({"HGETALL", name_});
    if (reply.type != redis::Reply::Type::kArray) return;  // another type's
    for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
      fields[reply.elements[i].text] = reply.elements[i + 1].text;
    }
    if (fields["kind"] != "semaphore/2") return;
    int64_t extra = 0;
    for (const auto& [field, value] : fields) {
      if (field.find(':') != 32) continue;
      EXPECT_NE(server_->Text({"ZSCORE", Permits(), field}), "") << "no hold of " << field;
      EXPECT_GT(std::stoll(value), 1);
      extra += std::stoll(value) - 1;
    }
    EXPECT_EQ(fields["extra"], extra == 0 ? "" : absl::StrCat(extra));
    const int64_t key_ends = server_->Integer({"PEXPIRETIME", name_});
    const int64_t holds_end = server_->Integer({"PEXPIRETIME", Permits()});
    for (const std::string& hold : Holding()) {
      const auto ends = std::stoll(server_->Text({"ZSCORE", Permits(), hold})) / 1000;
      EXPECT_GT(key_ends, ends + 86'400'000 - 5) << hold;
      EXPECT_GE(holds_end, ends - 5) << hold;
    }
  }

  int64_t capacity_ = 2;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_LUA_SEMAPHORE_FIXTURE_H_
