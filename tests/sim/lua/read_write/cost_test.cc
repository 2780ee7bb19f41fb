// A bar: no script of the read-write lock takes the server longer because 10,000 read, or wait for
// readers; see script_costs.h, and contract/cost_test.cc for writers alone.

#include "tests/sim/lua/read_write/fixture.h"
#include "tests/sim/lua/script_costs.h"

namespace redlatch {
namespace {

struct ReadWriteCost : ReadWriteScripts {
  void MakeReads(int count, int64_t ending_us) {
    server_->Command(
        {"EVAL", kMakeExpiries, "1", Readers(), absl::StrCat(count), absl::StrCat(ending_us)});
  }

  using Call = ScriptCosts::Call;
  void Costs(const char* what, const Call& prepare, const Call& call) {
    costs_.Compare(what, prepare, call);
  }

  ScriptCosts costs_{*server_};
  Inbox inbox_{*server_, Channel('b')};
};

TEST_F(ReadWriteCost, DoesNotGrowWithWaitingWriters) {
  const Call writers = [&](int many) {
    Ask(Reader('a'));
    MakeWriters(many, Channel('b'));
    Ask(Writer('c'));
  };
  Costs("heartbeat of a writer that waits", writers, [&](int) { Ask(Writer('c')); });
  Costs("a writer queues", writers, [&](int i) { Ask(Writer('d', i)); });
  Costs("a reader asks", writers, [&](int i) { Ask(Reader('d', i)); });
  Costs("a writer gives up", writers, [&](int i) {
    Cancel(Writer('d', i));
    Ask(Writer('d', i));
  });
  Costs("a read is renewed", writers, [&](int) { Renew(Reader('a')); });
  Costs("a read ends, and a writer gets in", writers, [&](int) {
    server_->Command({"DEL", name_});
    Release(Reader('a'));
  });
  Costs("inspect", writers, [&](int) { Inspect(); });
}

TEST_F(ReadWriteCost, DoesNotGrowWithDeadWriters) {
  const Call writers = [&](int many) {
    Token(Writer('a'));
    MakeWriters(many);
    Release(Writer('a'));
  };
  Costs("a reader asks behind dead writers", writers, [&](int) { Ask(Reader('c')); });
}

TEST_F(ReadWriteCost, DoesNotGrowWithWaitingReaders) {
  const auto behind = [&](const Request& writer, const std::string& channel) -> Call {
    return [this, writer, channel](int many) {
      Token(writer);
      MakeReaders(many, channel);
      Ask(Writer('c'));
      Cancel(Writer('c'));
      Release(writer);
    };
  };
  Costs("a check lets readers in", behind(Writer('a'), Channel('b')), [&](int) { Check(); });
  Costs("a reader asks among many", behind(Writer('a'), Channel('b')),
        [&](int i) { Ask(Reader('d', i)); });
  Costs("a check goes on with a turn", behind(Fair('a'), Channel('b')), [&](int) { Check(); });
  Costs("a check at dead readers", behind(Writer('a'), "redlatch:dead"), [&](int) { Check(); });
  Costs("a check at a turn of the dead", behind(Fair('a'), "redlatch:dead"), [&](int) { Check(); });
}

TEST_F(ReadWriteCost, DoesNotGrowWithReaders) {
  const Call reads = [&](int many) {
    MakeReads(many, 60'000'000);
    Ask(For(70000, Reader('a')));
  };
  Costs("one more reads", reads, [&](int i) { Ask(Reader('c', i)); });
  Costs("one of many renews", reads, [&](int) { Renew(Reader('a')); });
  Costs("a writer comes to many that read", reads, [&](int i) { Ask(Writer('c', i)); });
  Costs("one of many ends, and a writer waits", reads, [&](int i) {
    Ask(Writer('c'));
    Release(Reader('c', i));
  });
  Costs("inspect of many that read", reads, [&](int) { Inspect(); });
  Costs("forced release of many that read", reads, [&](int) { ForceRelease(); });

  const Call expired = [&](int many) {
    MakeReads(many, -100'000'000);
    server_->Command({"ZADD", Readers(), "8000000000000000", GrantId('a')});
  };
  Costs("one more reads, many expired", expired, [&](int i) { Ask(Reader('c', i)); });
  Costs("one renews, many expired", expired, [&](int) { Renew(Reader('a')); });
  Costs("one ends, many expired", expired, [&](int i) { Cancel(Reader('c', i)); });
}

}  // namespace
}  // namespace redlatch
