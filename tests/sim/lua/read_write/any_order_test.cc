// Whatever is asked, in any order, nobody writes while others read, and nobody is forgotten.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What the keys say, where an expiry of 1000 is one that the test has put into the past.
struct State {
  std::string writer;  // the owner; "" if nobody writes
  int counted = 0;     // its holds, as the hash says
  bool fair = false;   // readers that wait may go before writers
  std::set<std::string> writes, reads, waiting_writers, waiting_readers;
};

// With windows of this size.
class AnyOrderTest : public ReadWriteScriptsTest, public ::testing::WithParamInterface<int> {
 protected:
  AnyOrderTest()
      : bodies_{Narrow(scripts_.acquire),         Narrow(scripts_.release),
                Narrow(scripts_.cancel),          Narrow(reading_.scripts.acquire),
                Narrow(reading_.scripts.release), Narrow(reading_.scripts.cancel),
                Narrow(scripts_.renew),           Narrow(reading_.scripts.renew)} {
    const auto script = [this](size_t i) { return LuaScript{.body = bodies_[i], .sha1 = ""}; };
    writers_scripts_ = {.acquire = script(0),
                        .release = script(1),
                        .renew = script(6),
                        .cancel = script(2),
                        .inspect = scripts_.inspect,
                        .force_release = scripts_.force_release};
    readers_scripts_ = {.acquire = script(3),
                        .release = script(4),
                        .renew = script(7),
                        .cancel = script(5),
                        .inspect = scripts_.inspect,
                        .force_release = scripts_.force_release};
  }
  const LockScripts& ScriptsFor(const Request& request) const override {
    return &ReadWriteScriptsTest::ScriptsFor(request) == &reading_.scripts ? readers_scripts_
                                                                           : writers_scripts_;
  }
  static std::string Narrow(const LuaScript& script) {
    return absl::StrReplaceAll(
        std::string(script.body),
        {{"local window = 64", absl::StrCat("local window = ", GetParam())},
         {"local least = 16", absl::StrCat("local least = ", (GetParam() + 3) / 4)}});
  }

  State Look() {
    State state;
    const std::vector<redis::Reply> fields = server_->Command({"HGETALL", name_}).elements;
    for (size_t i = 0; i + 1 < fields.size(); i += 2) {
      const std::string &field = fields[i].text, &value = fields[i + 1].text;
      if (field.find(':') == 32 && value != kEnded) state.writes.insert(field);
      if (field == "owner") state.writer = value;
      if (field == "policy" || field == "phase") state.fair = true;
    }
    if (state.writes.empty()) state.writer.clear();
    state.counted = state.writer.empty() ? 0 : std::atoi(Count(state.writer).c_str());
    for (const std::string& hold : Reading()) {
      if (server_->Text({"ZSCORE", Readers(), hold}) != "1000") state.reads.insert(hold);
    }
    for (const std::string& hold : WaitingWriters()) state.waiting_writers.insert(hold);
    for (const std::string& hold : WaitingReaders()) state.waiting_readers.insert(hold);
    EXPECT_EQ(Waiting().size(), state.waiting_writers.size() + state.waiting_readers.size());
    return state;
  }

  // As if that hold's time were over.
  void Expire(const std::string& hold) {
    if (server_->Integer({"HEXISTS", name_, hold}) == 1) {
      if (server_->Integer({"EXISTS", Holds()}) == 1) {
        server_->Command({"HSET", name_, hold, kEnded});
        server_->Command({"ZADD", Holds(), "XX", "1000", hold});
      } else {
        server_->Command({"DEL", name_});
      }
    }
    server_->Command({"ZADD", Readers(), "XX", "1000", hold});
  }

  // What must be true between two states of which the second is `asked`'s doing.
  void Check(const State& before, const State& after, const Request& asked, bool settled) {
    for (const std::string& hold : after.writes) {
      EXPECT_FALSE(after.waiting_writers.contains(hold));
    }
    for (const std::string& hold : after.reads) {
      EXPECT_FALSE(after.waiting_readers.contains(hold));
      if (before.reads.contains(hold)) continue;
      if (!after.writer.empty()) {
        EXPECT_EQ(hold, asked.hold) << "let in while somebody writes";
        EXPECT_THAT(after.writes, ElementsAre(asked.owner.substr(7)));
      } else if (!before.fair) {
        for (const std::string& writer : after.waiting_writers) {
          EXPECT_FALSE(before.waiting_writers.contains(writer) && ears_[writer[0]] != nullptr)
              << hold << " was let in past " << writer;
        }
      }
    }
    for (const std::string& hold : after.writes) {
      if (before.writes.contains(hold)) continue;
      EXPECT_THAT(after.reads, IsEmpty()) << "a writer was let in to readers";
    }
    if (!settled) return;
    EXPECT_EQ(after.counted, static_cast<int>(after.writes.size()));
    if (!after.writer.empty()) return;
    EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0) << "a phase that nobody ends";
    if (after.reads.empty()) {
      EXPECT_THAT(after.waiting_writers, IsEmpty());
    }
    if (after.waiting_writers.empty()) {
      EXPECT_THAT(after.waiting_readers, IsEmpty());
    }
  }

  bool ToGoOn() const { return notes_.find("look 1") == 0 && notes_ != "look 10"; }

  static constexpr char kEnded[] = "1000 1";
  const std::vector<std::string> bodies_;
  LockScripts writers_scripts_, readers_scripts_;
  std::map<char, std::unique_ptr<Ear>> ears_;
};

TEST_P(AnyOrderTest, NobodyWritesWhileOthersReadAndNobodyIsForgotten) {
  const char* seed = std::getenv("REDLATCH_MODEL_SEED");
  std::mt19937 random(seed != nullptr ? std::atoi(seed) : 20);
  const auto pick = [&random](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  std::map<std::string, Request> asked;  // by hold
  int64_t fence = 0;
  int sequence = 0;
  int unfinished = 0;
  State before = Look();
  for (int step = 0; step < 1000 && !HasFailure(); ++step) {
    const char client = static_cast<char>('a' + pick(5));
    const std::vector<Request> kinds = {Writer(client, ++sequence), Fair(client, sequence),
                                        Job(client, sequence),      Reader(client, sequence),
                                        Reader(client, sequence),   Nest(Writer(client), sequence),
                                        Nest(Job(client), sequence)};
    Request request = kinds[static_cast<size_t>(pick(7))];
    request.wait = pick(4) != 0;
    int operation = pick(16);
    if (!asked.empty() && (operation < 8 || pick(3) == 0)) {
      request = std::next(asked.begin(), pick(static_cast<int>(asked.size())))->second;
    }
    const std::set<std::string>& holders = before.writes.empty() ? before.reads : before.writes;
    if (operation < 5 && !holders.empty() && pick(2) == 0) {
      const auto holder = std::next(holders.begin(), pick(static_cast<int>(holders.size())));
      if (asked.contains(*holder)) request = asked[*holder];
    }
    bool settled = true;
    std::string what;
    notes_.clear();
    do {
      switch (operation) {
        case 0:
        case 1:
        case 2:
          what = Release(request);
          asked.erase(request.hold);
          break;
        case 3:
          what = Cancel(request);
          asked.erase(request.hold);
          break;
        case 4: {
          Request fresh = request;
          fresh.hold = Hold(request.hold[0], ++sequence);
          fresh.wait = true;
          what = ReleaseAndQueue(request, fresh).DebugString();
          asked.erase(request.hold);
          asked[fresh.hold] = fresh;
          request = fresh;
          operation = 9;  // what goes on asks for that one
          break;
        }
        case 5:
          what = Renew(request);
          settled = false;
          break;
        case 6:
          if (pick(3) == 0) what = ForceRelease();
          break;
        case 7:
          Expire(request.hold);
          settled = false;
          what = "expires";
          break;
        case 8:  // dies or comes back
          if (ears_[client] && pick(4) == 0) {
            ears_[client].reset();
          } else if (!ears_[client]) {
            ears_[client] = std::make_unique<Ear>(*server_, Channel(client));
          }
          settled = false;
          break;
        default:
          what = Acquire(request);
          asked[request.hold] = request;
      }
      if (what.empty()) settled = false;
      // A writer that finds others reading leaves all else to whoever else asks.
      if (what.find("busy") != what.npos && !request.more.empty()) settled = false;
      const bool to_go_on = ToGoOn();
      unfinished += to_go_on ? 1 : 0;
      const State after = Look();
      SCOPED_TRACE(absl::StrCat("step ", step, ": ", request.owner, " ", request.hold, " ", what,
                                " ", to_go_on));
      EXPECT_EQ(what.find("ERR"), what.npos);
      Check(before, after, request, settled && !to_go_on);
      EXPECT_GE(StoredFence(), fence);
      fence = StoredFence();
      ExpectATtlOnEveryKey();
      before = after;
      if (to_go_on && pick(4) == 0) break;  // who was told so dies: whoever comes next goes on
    } while (ToGoOn() && !HasFailure());
  }
  EXPECT_EQ(unfinished > 0, GetParam() < 64);
}

INSTANTIATE_TEST_SUITE_P(Windows, AnyOrderTest, ::testing::Values(64, 2, 1));

}  // namespace
}  // namespace redlatch
