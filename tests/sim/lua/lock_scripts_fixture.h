// What the tests of the locks' scripts share: a server, and calls.
#ifndef REDLATCH_TESTS_SIM_LUA_LOCK_SCRIPTS_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_LOCK_SCRIPTS_FIXTURE_H_

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "tests/sim/lua/lock_kinds.h"
#include "tests/sim/lua/script_clients.h"

namespace redlatch {

struct LockScriptsFixture : ::testing::Test {
  explicit LockScriptsFixture(LockKind kind) : kind_(std::move(kind)) {}

  void TearDown() override { server_->ExpectATtlOnEveryKey(); }

  // The grant `sequence` of client 'a', 'b', ...
  static std::string GrantId(char client, int sequence = 1) {
    return absl::StrCat(std::string(32, client), ":", sequence);
  }
  static Request Of(char client, int sequence = 1) {
    return {.grant = GrantId(client, sequence), .owner = std::string(32, client)};
  }
  // The same, as this kind is asked.
  Request By(char client, int sequence = 1) const {
    Request request = Of(client, sequence);
    request.owner = absl::StrReplaceAll(kind_.owner, {{"CLIENT", request.client()}});
    request.more = kind_.more_args;
    request.amount = kind_.amount;
    return request;
  }
  // A request of the explicit owner that several clients share.
  Request Job(char client, int sequence = 1) const {
    Request request = By(client, sequence);
    request.owner = kJob;
    return request;
  }
  static std::string Channel(char client) { return "redlatch:" + std::string(32, client); }

  // Scripts do not care what their keys are called.
  virtual std::string Auxiliary(const std::string& suffix) const {
    return "{" + name_ + "}:" + suffix;
  }
  std::string Queue() const { return Auxiliary("queue"); }
  std::string Waiters() const { return Auxiliary("waiters"); }
  std::string Fence() const { return Auxiliary("fence"); }
  std::string Gone(const std::string& grant) const { return Auxiliary("gone:" + grant); }

  // The scripts that serve this request.
  virtual const LockScripts& ScriptsFor(const Request&) const { return scripts_; }

  redis::Reply Eval(const LuaScript& script, const std::vector<std::string>& more_keys,
                    std::vector<std::string> args) {
    std::vector<std::string> keys = {name_, Queue(), Waiters(), Fence()};
    keys.insert(keys.end(), more_keys.begin(), more_keys.end());
    for (const std::string& key : kind_.own_keys) keys.push_back(Auxiliary(key));
    args.insert(args.end(), kind_.last_args.begin(), kind_.last_args.end());
    return WithoutNotes(Split(server_->Eval(script, keys, args)));
  }

  // The reply without its notes, which are then in notes_, as in "look 2000 deaf".
  redis::Reply WithoutNotes(redis::Reply reply) {
    notes_.clear();
    auto& words = reply.elements;
    const auto is_note = [](const redis::Reply& word) {
      return word.text == "look" || word.text == "deaf" || word.text == "missed" ||
             word.text == "told";
    };
    if (words.empty()) return reply;
    const auto notes = std::find_if(words.begin() + 1, words.end(), is_note);
    for (auto word = notes; word != words.end(); ++word) {
      const bool number = word->type == redis::Reply::Type::kInteger;
      absl::StrAppend(&notes_, notes_.empty() ? "" : " ",
                      number ? absl::StrCat(word->integer) : word->text);
    }
    words.erase(notes, words.end());
    return reply;
  }

  // A reply, and the notes that came with it.
  using Noted = std::pair<std::string, std::string>;
  Noted Said(std::string reply) const { return {std::move(reply), notes_}; }

  // The words of a reply; numbers as such, except that tokens and tickets stay text.
  static redis::Reply Split(redis::Reply reply) {
    if (reply.type != redis::Reply::Type::kString) return reply;
    redis::Reply split{.type = redis::Reply::Type::kArray};
    for (const absl::string_view word : absl::StrSplit(reply.text, ' ')) {
      int64_t number = 0;
      if (word.size() < 16 && absl::SimpleAtoi(word, &number)) {
        split.elements.push_back({.type = redis::Reply::Type::kInteger, .integer = number});
      } else {
        split.elements.push_back({.type = redis::Reply::Type::kString, .text = std::string(word)});
      }
    }
    return split;
  }

  // Each answers as text: `["granted", "17", 30000, 0]`, or the error.
  redis::Reply Ask(const Request& request) {
    return Eval(ScriptsFor(request).acquire, {Gone(request.grant)}, request.Args());
  }
  std::string Acquire(const Request& request) { return Ask(request).DebugString(); }
  // "granted", "queued", "busy" or "gone"
  std::string Outcome(const Request& request) { return First(Ask(request)); }
  int64_t Token(const Request& request) {
    const redis::Reply reply = Ask(request);
    EXPECT_EQ(First(reply), "granted") << reply.DebugString();
    return reply.elements.size() < 2 ? 0 : std::stoll(reply.elements[1].text);
  }
  std::string Release(const Request& held, int64_t used = 0, int64_t reserved = 0,
                      int gone_ms = 0) {
    std::vector<std::string> args = {held.grant};
    const bool reads = held.owner.starts_with("read:") || held.owner.starts_with("nest:");
    const bool plain = kind_.last_args.empty() && (reads || held.owner == held.client());
    if (plain && used == reserved && gone_ms == 0) {
      args.insert(args.end(), kind_.release_args.begin(), kind_.release_args.end());
      return Eval(ScriptsFor(held).release, {}, args).DebugString();
    }
    args.push_back(absl::StrCat(used, " ", reserved, " ", gone_ms));
    args.push_back(held.owner);
    return Eval(ScriptsFor(held).release, {Gone(held.grant), Gone(held.grant)}, args).DebugString();
  }
  redis::Reply ReleaseAndQueue(const Request& held, const Request& fresh) {
    std::vector<std::string> args = {held.grant, "0 0 0", held.owner};
    for (std::string& arg : fresh.Args()) args.push_back(std::move(arg));
    return Eval(ScriptsFor(held).release, {Gone(held.grant), Gone(fresh.grant)}, args);
  }
  std::string Cancel(const Request& request, int gone_ms = 0) {
    return Eval(ScriptsFor(request).cancel, {Gone(request.grant)},
                {request.grant, absl::StrCat(gone_ms), absl::StrCat(request.amount)})
        .DebugString();
  }
  std::string Renew(const Request& held) {
    std::vector<std::string> args = {held.grant, absl::StrCat(held.lease_ms)};
    if (held.grant.ends_with('k')) args.push_back(held.channel());
    return Eval(ScriptsFor(held).renew, {}, args).DebugString();
  }
  std::string Inspect(int most = 10) {
    return Eval(scripts_.inspect, {}, {absl::StrCat(most)}).DebugString();
  }
  std::string ForceRelease() { return PartOfForce({"redlatch:"}).DebugString(); }
  redis::Reply PartOfForce(const std::vector<std::string>& args) {
    std::vector<std::string> keys;
    for (const std::string& key : kind_.force_keys) keys.push_back(Auxiliary(key));
    return PartOf(scripts_.force_release, args, keys);
  }
  // The reply of a script whose work may take several calls; the handover check that it asks for is
  // in notes_.
  redis::Reply PartOf(const LuaScript& script, const std::vector<std::string>& args,
                      const std::vector<std::string>& keys = {}) {
    redis::Reply reply = Eval(script, keys, args);
    if (reply.elements.size() > 1 && reply.elements[1].type == redis::Reply::Type::kInteger) {
      notes_ = absl::StrCat("look ", reply.elements[1].integer);
      reply.elements.erase(reply.elements.begin() + 1);
    }
    return reply;
  }

  static std::string First(const redis::Reply& reply) {
    return reply.elements.empty() ? reply.DebugString() : reply.elements[0].text;
  }

  // The members of a zset.
  std::vector<std::string> Members(const std::string& key) {
    std::vector<std::string> members;
    for (const redis::Reply& member : server_->Command({"ZRANGE", key, "0", "-1"}).elements) {
      members.push_back(member.text);
    }
    return members;
  }
  // All that wait, in the order in which they will be served.
  std::vector<std::string> Waiting() {
    std::vector<std::string> grants;
    for (const std::string& queue : kind_.queues) {
      for (std::string& grant : Members(Auxiliary(queue))) grants.push_back(std::move(grant));
    }
    EXPECT_EQ(static_cast<int64_t>(grants.size()), server_->Integer({"HLEN", Waiters()}));
    return grants;
  }
  // Many waiters; those without a subscriber are dead.
  void MakeWaiters(int count, const std::string& channel = "redlatch:dead", int permits = 1) {
    Request like = By('x');
    like.amount = permits;
    MakeWaitersIn(Auxiliary(kind_.queues.front()), like, count, channel);
  }
  void MakeWaitersIn(const std::string& queue, const Request& like, int count,
                     const std::string& channel) {
    server_->Command({"EVAL", kMakeWaiters, "2", queue, Waiters(), absl::StrCat(count), like.owner,
                      channel, like.grant.substr(33), absl::StrCat(like.amount)});
  }
  std::string Record(const std::string& grant) { return server_->Text({"HGET", Waiters(), grant}); }
  void SetRecord(const std::string& grant, const std::string& record) {
    server_->Command({"HSET", Waiters(), grant, record});
  }
  // As if the waiter's last heartbeat were long ago.
  void MakeOverdue(const std::string& grant) {
    std::string record = Record(grant);
    SetRecord(grant, record.replace(0, record.find(' '), "1000"));
  }
  // As a handover check does it.
  std::string Check() { return Cancel(By('f', 99)); }
  // The message that grants the request.
  std::string GrantOf(const Request& request, int64_t token = 0, int waiting = 0) const {
    return absl::StrCat("grant ", request.grant, " ", request.attempt, " ", token, " ",
                        request.lease_ms, " ", waiting, " ", name_);
  }
  // How many grants the owner has, of a lock that is a hash; a single grant is not counted there.
  std::string Count(const std::string& owner) {
    if (server_->Text({"HGET", name_, "owner"}) != owner) return "";
    const std::string count = server_->Text({"HGET", name_, "holds"});
    return count.empty() ? "1" : count;
  }
  int64_t StoredFence() { return std::atoll(server_->Text({"GET", Fence()}).c_str()); }
  int64_t Pttl(const std::string& key) { return server_->Integer({"PTTL", key}); }

  // As if its time were over.
  void Expire(const std::string& key) {
    server_->Command({"PEXPIRE", key, "1"});
    AwaitExpiry(key);
  }
  // Time passes until the key has expired.
  void AwaitExpiry(const std::string& key) {
    ASSERT_TRUE(server_->Await([&] { return server_->Integer({"EXISTS", key}) == 0; }));
  }
  // In how many ms of server time a member's expiry comes.
  double Remaining(const std::string& key, const std::string& grant) {
    const double ends = std::atof(server_->Text({"ZSCORE", key, grant}).c_str());
    return (ends - static_cast<double>(server_->clock())) / 1000;
  }
  void AwaitEnd(const std::string& key, const std::string& grant) {
    ASSERT_TRUE(server_->Await([&] { return Remaining(key, grant) <= 0; }));
  }

  // A refusal with this text in it, by every script, that leaves the key as it is.
  void ExpectRefused(const std::string& key, const std::string& text,
                     const std::vector<std::string>& replies) {
    const std::string dump = server_->Text({"DUMP", key});
    for (const std::string& reply : replies) EXPECT_NE(reply.find(text), reply.npos) << reply;
    EXPECT_EQ(server_->Text({"DUMP", key}), dump);
  }

  // From here on, commands that need memory are refused.
  void FillMemory() { server_->Command({"CONFIG", "SET", "maxmemory", "1"}); }

  const LockKind kind_;
  const LockScripts& scripts_ = kind_.scripts;
  const std::unique_ptr<ScriptServer> server_ = std::make_unique<ScriptServer>();
  std::string name_ = "orders:42";
  std::string notes_;  // of the last reply
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_LOCK_SCRIPTS_FIXTURE_H_
