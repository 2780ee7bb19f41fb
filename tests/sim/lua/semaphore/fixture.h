// What the tests of the semaphore's scripts share.
#ifndef REDLATCH_TESTS_SIM_LUA_SEMAPHORE_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_SEMAPHORE_FIXTURE_H_

#include "tests/sim/lua/lock_scripts_fixture.h"

namespace redlatch {

// KEYS 1 the permits, 2 the semaphore. ARGV 1 how many, 2 in how many us they end, 3 permits each.
inline constexpr char kMakeHolds[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  local grant = string.format('%032x:3', i)
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2] + i), grant)
  if ARGV[3] ~= '1' then
    redis.call('HSET', KEYS[2], grant, ARGV[3])
    redis.call('HINCRBY', KEYS[2], 'extra', ARGV[3] - 1)
  end
end
redis.call('PEXPIRE', KEYS[1], 60000)
)lua";

struct SemaphoreScriptsFixture : LockScriptsFixture {
  static constexpr char kSet[] = "[\"set\"]";

  SemaphoreScriptsFixture() : LockScriptsFixture(SemaphoreKind()) {}

  void TearDown() override {
    ExpectConsistent();
    LockScriptsFixture::TearDown();
  }

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
    request.amount = permits;
    return request;
  }
  static std::string Granted(int lease_ms = 30000) {
    return absl::StrCat("[\"granted\", 0, ", lease_ms, ", 0]");
  }

  std::string SetCapacity(int capacity, const std::string& more = "") {
    std::vector<std::string> args = {absl::StrCat(capacity)};
    if (!more.empty()) args.push_back(more);
    return PartOf(lua::kSemaphoreSetCapacity, args).DebugString();
  }

  // Holds of so many permits each that end in so many us.
  void MakeHolds(int count, int64_t ending_us, int permits = 1) {
    server_->Command({"EVAL", kMakeHolds, "2", Permits(), name_, absl::StrCat(count),
                      absl::StrCat(ending_us), absl::StrCat(permits)});
  }

  std::vector<std::string> Holding() { return Members(Permits()); }
  std::string Field(const std::string& field) { return server_->Text({"HGET", name_, field}); }
  int64_t Used() { return Eval(scripts_.inspect, {}, {"0"}).elements.at(7).integer; }

  double Remaining(const std::string& grant) {
    return LockScriptsFixture::Remaining(Permits(), grant);
  }
  // As if the grant's lease had ended.
  void Expire(const std::string& grant) {
    server_->Command({"ZADD", Permits(), "XX", "1000", grant});
  }

  // That the weights are those of existing grants, and are summed up; and that the semaphore
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
      EXPECT_NE(server_->Text({"ZSCORE", Permits(), field}), "") << "no grant of " << field;
      EXPECT_GT(std::stoll(value), 1);
      extra += std::stoll(value) - 1;
    }
    EXPECT_EQ(fields["extra"], extra == 0 ? "" : absl::StrCat(extra));
    const int64_t key_ends = server_->Integer({"PEXPIRETIME", name_});
    const int64_t holds_end = server_->Integer({"PEXPIRETIME", Permits()});
    for (const std::string& grant : Holding()) {
      const auto ends = std::stoll(server_->Text({"ZSCORE", Permits(), grant})) / 1000;
      EXPECT_GT(key_ends, ends + 86'400'000 - 5) << grant;
      EXPECT_GE(holds_end, ends - 5) << grant;
    }
  }

  int64_t capacity_ = 2;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_SEMAPHORE_FIXTURE_H_
