// Scripted clients of simple locks, and of locks of several of their names.
#ifndef REDLATCH_TESTS_SIM_LUA_MULTI_FIXTURE_H_
#define REDLATCH_TESTS_SIM_LUA_MULTI_FIXTURE_H_

#include "lua/scripts.h"
#include "redlatch/lua_script.h"
#include "tests/sim/lua/script_clients.h"
#include "tests/support/lock_keys.h"

namespace redlatch {

using Names = std::vector<std::string>;

class MultiScriptsFixture : public ::testing::Test {
 protected:
  void TearDown() override { server_->ExpectATtlOnEveryKey(); }

  static Request By(char client, int sequence = 1) {
    return {.grant = absl::StrCat(std::string(32, client), ":", sequence),
            .owner = std::string(32, client)};
  }
  static std::string Channel(char client) { return "redlatch:" + std::string(32, client); }

  // What several names are asked for; of one, what a simple lock is.
  std::string Ask(const Names& names, const Request& request) {
    return Run(names, names.size() > 1 ? lua::kMultiAcquire : lua::kSimpleAcquire,
               {Gone(names, request.grant)}, ArgsOf(names, request));
  }
  std::string Release(const Names& names, const Request& held, int gone_ms = 0) {
    const LuaScript& script = names.size() > 1 ? lua::kMultiRelease : lua::kSimpleRelease;
    if (gone_ms == 0) return Run(names, script, {}, {held.grant});
    return Run(names, script, {Gone(names, held.grant), Gone(names, held.grant)},
               {held.grant, absl::StrCat("0 0 ", gone_ms), held.owner});
  }
  std::string ReleaseUsing(const Names& names, const Request& held, int64_t used,
                           int64_t reserved) {
    return Run(names, lua::kMultiRelease, {Gone(names, held.grant), Gone(names, held.grant)},
               {held.grant, absl::StrCat(used, " ", reserved, " 0"), held.owner});
  }
  std::string ReleaseAndQueue(const Names& names, const Request& held, const Request& fresh) {
    if (names.size() > 1) {  // by two scripts; the notes of the first come last
      const std::string reply = Release(names, held), released = "released";
      if (reply.rfind(released, 0) != 0) return reply;
      return absl::StrCat(released, " ", Ask(names, fresh), reply.substr(released.size()));
    }
    std::vector<std::string> args = {held.grant, "0 0 0", held.owner};
    for (std::string& arg : ArgsOf(names, fresh)) args.push_back(std::move(arg));
    return Run(names, lua::kSimpleRelease, {Gone(names, held.grant), Gone(names, fresh.grant)},
               args);
  }
  std::string Cancel(const Names& names, const Request& request, int gone_ms = 0) {
    return Run(names, names.size() > 1 ? lua::kMultiCancel : lua::kSimpleCancel,
               {Gone(names, request.grant)},
               {request.grant, absl::StrCat(gone_ms), absl::StrCat(request.amount)});
  }
  // As a handover check does it.
  std::string Check(const Names& names) { return Cancel(names, By('f', 99)); }
  std::string Renew(const Names& names, const Request& held) {
    return Run(names, names.size() > 1 ? lua::kMultiRenew : lua::kSimpleRenew, {},
               {held.grant, absl::StrCat(held.lease_ms)});
  }
  redis::Reply Force(const Names& names) {
    return Eval(names, names.size() > 1 ? lua::kMultiForceRelease : lua::kSimpleForceRelease, {},
                {"redlatch:"});
  }
  redis::Reply Inspect(const Names& names) {
    return Eval(names, names.size() > 1 ? lua::kMultiInspect : lua::kSimpleInspect, {}, {"10"});
  }

  std::string Holder(const std::string& name) {
    const std::string value = server_->Text({"GET", name});
    return value == "redlatch:free" ? "" : value;  // see lua/simple/common/give.lua
  }
  // True if it gets the lock.
  bool AcquireNatively(const std::string& name) {
    const std::string grant = By('n').grant + "n";
    return server_->Text({"SET", name, grant, "NX", "PX", "2000"}) == "OK";
  }
  static std::string Queue(const std::string& name) {
    return support::AuxiliaryKey(name, "simple.queue");
  }
  static std::string Waiters(const std::string& name) {
    return support::AuxiliaryKey(name, "simple.waiters");
  }
  int64_t Fence(const std::string& name) {
    return std::atoll(server_->Text({"GET", support::AuxiliaryKey(name, "fence")}).c_str());
  }
  // All that wait for it, in their order.
  std::vector<std::string> Waiting(const std::string& name) {
    std::vector<std::string> grants;
    for (const redis::Reply& each : server_->Command({"ZRANGE", Queue(name), "0", "-1"}).elements) {
      grants.push_back(each.text);
    }
    EXPECT_EQ(static_cast<int64_t>(grants.size()), server_->Integer({"HLEN", Waiters(name)}));
    return grants;
  }

  static std::string Word(std::string_view text, int place) {
    size_t begin = 0;
    for (int i = 0; i < place && begin != text.npos; ++i) {
      begin = text.find(' ', begin);
      begin += begin == text.npos ? 0 : 1;
    }
    return begin == text.npos ? "" : std::string(text.substr(begin, text.find(' ', begin) - begin));
  }

  const std::unique_ptr<ScriptServer> server_ = std::make_unique<ScriptServer>();

 private:
  static std::string Gone(const Names& names, const std::string& grant) {
    return support::AuxiliaryKey(names.front(), "simple.gone." + grant);
  }
  static std::vector<std::string> ArgsOf(const Names& names, const Request& request) {
    std::vector<std::string> args = request.Args();
    if (names.size() > 1 && request.wait) {
      const std::string before = absl::StrCat(request.amount, " ", request.attempt, " ");
      args[2].replace(before.size(), 1, "2");
    }
    return args;
  }
  std::string Run(const Names& names, const LuaScript& script, const std::vector<std::string>& own,
                  const std::vector<std::string>& args) {
    return Eval(names, script, own, args).text;
  }
  redis::Reply Eval(const Names& names, const LuaScript& script,
                    const std::vector<std::string>& own, const std::vector<std::string>& args) {
    std::vector<std::string> keys;
    for (const std::string& name : names) {
      const std::vector<std::string> its = {name, Queue(name), Waiters(name),
                                            support::AuxiliaryKey(name, "fence")};
      keys.insert(keys.end(), its.begin(), its.end());
      if (keys.size() == 4) keys.insert(keys.end(), own.begin(), own.end());
    }
    return server_->Eval(script, keys, args);
  }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_MULTI_FIXTURE_H_
