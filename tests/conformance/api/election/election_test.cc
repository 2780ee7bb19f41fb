// Tests elections on every server group that supports observers.
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

using Led = std::optional<Leader>;

// Records what one observer is told.
class Seen {
 public:
  Election::LeaderCallback callback() {
    return [this](const Led& leader) {
      const base::MutexLock lock(mu_);
      EXPECT_FALSE(std::exchange(inside_, true)) << "calls overlap";
      if (leader) {
        EXPECT_GE(leader->epoch.value(), epoch_) << "it goes back";
        epoch_ = leader->epoch.value();
      }
      all_.push_back(leader ? leader->value : "none");
      inside_ = false;
    };
  }
  std::vector<std::string> all() {
    const base::MutexLock lock(mu_);
    return all_;
  }
  std::string last() {
    const base::MutexLock lock(mu_);
    return all_.empty() ? "nothing" : all_.back();
  }
  bool AwaitLast(const std::string& value) {
    return Await([&] { return last() == value; });
  }

 private:
  base::Mutex mu_;
  bool inside_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::string> all_ ABSL_GUARDED_BY(mu_);
};

struct ElectionConformance : Conformance {
  // Returns the value of the leader, or "none" if there is no leader.
  static std::string ValueOf(const Election& election) {
    const absl::StatusOr<Led> leader = election.Leader();
    EXPECT_OK(leader);
    return !leader.ok() ? "error" : *leader ? (*leader)->value : "none";
  }
  static Leadership Lead(Election& election, std::string_view value) {
    return Must(election.Campaign(value));
  }
  Observation Watch(const Election& election, Seen& seen) {
    auto observation = Must(election.Observe(seen.callback()));
    EXPECT_TRUE(Await([&] { return !seen.all().empty(); })) << "it is told the present state";
    return observation;
  }

  const Client client_ = NewClient();
  const Client other_ = NewClient();
  Election election_{client_, kName, Options()};
  Election theirs_{other_, kName, Options()};
};

INSTANTIATE_CONFORMANCE(ElectionConformance, CasesOf("election"));

TEST_P(ElectionConformance, LeaderIsKnownUntilItResigns) {
  EXPECT_EQ(ValueOf(theirs_), "none");
  const absl::Time before = absl::Now();
  Leadership leads = Lead(election_, "10.0.0.1:7000");
  EXPECT_TRUE(leads.valid());
  EXPECT_GT(leads.epoch().value(), 0);
  const absl::StatusOr<Led> leader = theirs_.Leader();
  ASSERT_TRUE(leader.ok() && *leader) << leader.status();
  EXPECT_EQ((*leader)->value, "10.0.0.1:7000");
  EXPECT_EQ((*leader)->epoch, leads.epoch());
  EXPECT_EQ((*leader)->client, client_.Stats().id);
  EXPECT_GE((*leader)->since, before - absl::Milliseconds(1));
  EXPECT_LE((*leader)->since, absl::Now() + absl::Milliseconds(1));
  EXPECT_EQ(CodeOf(theirs_.Campaign("x", {.wait = absl::ZeroDuration()})), kBusy);
  EXPECT_OK(leads.Resign());
  EXPECT_OK(leads.Resign()) << "again";
  EXPECT_EQ(ValueOf(theirs_), "none");
}

TEST_P(ElectionConformance, NextCandidateLeadsWithItsValueAfterResignation) {
  Leadership first = Lead(election_, "first");
  absl::StatusOr<Leadership> second = absl::UnknownError("it waits");
  std::atomic<bool> told = false;
  theirs_.CampaignAsync("second", {}, [&](absl::StatusOr<Leadership> leads) {
    second = std::move(leads);
    told = true;
  });
  ASSERT_TRUE(AwaitQueued(1));
  const FencingToken epoch = first.epoch();
  EXPECT_OK(first.Resign());
  ASSERT_TRUE(Await([&] { return told.load(); }));
  ASSERT_OK(second);
  EXPECT_GT(second->epoch().value(), epoch.value());
  EXPECT_EQ(ValueOf(election_), "second");
  EXPECT_OK(second->Resign());
}

TEST_P(ElectionConformance, ProclaimReplacesTheValueUntilTheTermEnds) {
  Leadership leads = Lead(election_, "starting");
  EXPECT_OK(leads.Proclaim("ready"));
  EXPECT_EQ(ValueOf(theirs_), "ready");
  Leadership moved = std::move(leads);
  EXPECT_OK(moved.Proclaim(""));
  EXPECT_EQ(ValueOf(theirs_), "");
  EXPECT_EQ(CodeOf(moved.Proclaim(std::string(4097, 'x'))), kBadInput);
  EXPECT_OK(moved.Proclaim(std::string(4096, 'x')));
  EXPECT_OK(moved.Resign());
  EXPECT_EQ(CodeOf(moved.Proclaim("late")), kLost);
  EXPECT_EQ(CodeOf(Leadership().Proclaim("none")), kMisuse);
  EXPECT_EQ(ValueOf(theirs_), "none");
}

TEST_P(ElectionConformance, ValuesMayHaveAnyBytes) {
  const std::string value = std::string("two words\n\0 Gr\xc3\xbc\xc3\x9f", 18) + "\xff";
  Seen seen;
  const Observation observation = Watch(theirs_, seen);
  Leadership leads = Lead(election_, value);
  EXPECT_EQ(ValueOf(theirs_), value);
  EXPECT_TRUE(seen.AwaitLast(value));
  EXPECT_EQ(CodeOf(theirs_.Campaign(std::string(4097, 'x'))), kBadInput);
}

TEST_P(ElectionConformance, ObserverIsToldOfEachChangeInOrder) {
  Seen seen;
  const Observation observation = Watch(theirs_, seen);
  EXPECT_THAT(seen.all(), ElementsAre("none"));
  Leadership first = Lead(election_, "a");
  EXPECT_TRUE(seen.AwaitLast("a"));
  EXPECT_OK(first.Proclaim("b"));
  EXPECT_TRUE(seen.AwaitLast("b"));
  EXPECT_OK(first.Resign());
  EXPECT_TRUE(seen.AwaitLast("none"));
  const Leadership second = Lead(theirs_, "c");
  EXPECT_TRUE(seen.AwaitLast("c"));
  EXPECT_THAT(seen.all(), ElementsAre("none", "a", "b", "none", "c"));
}

TEST_P(ElectionConformance, LateObserverIsToldOfTheCurrentLeader) {
  const Leadership leads = Lead(election_, "a");
  Seen seen;
  const Observation observation = Watch(theirs_, seen);
  EXPECT_EQ(seen.last(), "a");
  Seen later;
  const Observation again = Watch(theirs_, later);
  EXPECT_EQ(later.last(), "a");
  EXPECT_EQ(server().Integer({"ZCARD", Auxiliary("observers")}), 1) << "of one client";
}

TEST_P(ElectionConformance, ObserverIsToldWhenTheLeaseEnds) {
  Seen seen;
  const Observation observation = Watch(theirs_, seen);
  // The client does not renew it, and no candidate waits.
  const auto leads = Must(election_.Campaign("a", {.lease = kLease / 4}));
  EXPECT_TRUE(seen.AwaitLast("a"));
  EXPECT_TRUE(seen.AwaitLast("none"));
}

TEST_P(ElectionConformance, ObservationEndsWithItsHandle) {
  Seen seen;
  Observation observation = Watch(theirs_, seen);
  observation = Observation();
  Seen other;
  const Observation remains = Watch(theirs_, other);
  const Leadership leads = Lead(election_, "a");
  EXPECT_TRUE(other.AwaitLast("a"));
  EXPECT_THAT(seen.all(), ElementsAre("none"));
}

TEST_P(ElectionConformance, CallbackMayEndItsObservation) {
  absl::StatusOr<Observation> observation = absl::UnknownError("not yet");
  std::atomic<int> calls = 0;
  base::Mutex mu;
  {
    const base::MutexLock lock(mu);
    observation = theirs_.Observe([&](const Led&) {
      const base::MutexLock its(mu);
      if (observation.ok()) *observation = Observation();
      ++calls;
    });
    ASSERT_OK(observation);
  }
  EXPECT_TRUE(Await([&] { return calls == 1; }));
  const Leadership leads = Lead(election_, "a");
  Seen other;
  const Observation remains = Watch(theirs_, other);
  EXPECT_EQ(other.last(), "a");
  EXPECT_EQ(calls, 1);
}

TEST_P(ElectionConformance, ObservationOutlivesElectionAndClient) {
  Seen seen;
  Observation observation;
  {
    const Client third = NewClient();
    const Election election(third, kName, Options());
    observation = Watch(election, seen);
  }
  const Leadership leads = Lead(election_, "a");
  EXPECT_TRUE(seen.AwaitLast("a"));
}

TEST_P(ElectionConformance, StdInterfaceLeadsWithoutValue) {
  {
    const std::scoped_lock guard(election_);
    EXPECT_EQ(ValueOf(theirs_), "");
    EXPECT_FALSE(theirs_.try_lock());
  }
  EXPECT_TRUE(Await([&] { return ValueOf(theirs_) == "none"; }));
}

TEST_P(ElectionConformance, EachTermOfOneClientHasItsOwnEpoch) {
  Seen seen;
  const Observation observation = Watch(theirs_, seen);
  std::mutex mu;
  std::set<uint64_t> epochs;
  {
    Crew crew;
    crew.Start(4, [&](int number) {
      for (int i = 0; i < 5; ++i) {
        // Two threads each have the same value.
        Leadership leads = Lead(election_, absl::StrCat(number / 2));
        const std::lock_guard<std::mutex> lock(mu);
        EXPECT_TRUE(epochs.insert(leads.epoch().value()).second);
        EXPECT_EQ(ValueOf(election_), absl::StrCat(number / 2));
      }
    });
  }
  EXPECT_EQ(epochs.size(), 20);
  EXPECT_TRUE(seen.AwaitLast("none"));
}

TEST_P(ElectionConformance, RunElectedLeadsUntilItIsStopped) {
  std::stop_source stop;
  std::vector<uint64_t> epochs;
  const absl::Status done = RunElected(
      election_,
      [&](const std::stop_token& ends, FencingToken epoch) {
        epochs.push_back(epoch.value());
        EXPECT_EQ(ValueOf(theirs_), "a");
        if (epochs.size() == 1) {  // the term is lost
          EXPECT_OK(theirs_.ForceRelease());
          EXPECT_TRUE(Await([&] { return ends.stop_requested(); }));
          return absl::OkStatus();
        }
        if (epochs.size() == 2) return absl::UnavailableError("its work fails");
        stop.request_stop();
        EXPECT_TRUE(ends.stop_requested());
        return absl::OkStatus();
      },
      stop.get_token(), "a");
  EXPECT_OK(done);
  ASSERT_EQ(epochs.size(), 3);
  EXPECT_LT(epochs[0], epochs[1]);
  EXPECT_LT(epochs[1], epochs[2]);
  EXPECT_EQ(ValueOf(theirs_), "none");
}

TEST_P(ElectionConformance, RunElectedStopsWhileItWaits) {
  const Leadership leads = Lead(election_, "a");
  std::stop_source stop;
  Crew crew;
  crew.Start([&] {
    const auto never = [](const std::stop_token&, FencingToken) {
      ADD_FAILURE() << "it does not lead";
      return absl::OkStatus();
    };
    EXPECT_OK(RunElected(theirs_, never, stop.get_token(), "b"));
  });
  ASSERT_TRUE(AwaitQueued(1));
  stop.request_stop();
}

// Observers are often told of a new leader before its own Campaign() returns.
TEST_P(ElectionConformance, RunElectedResignsIfStoppedAsItsTermBegins) {
  const auto work = [](const std::stop_token&, FencingToken) { return absl::OkStatus(); };
  for (int i = 0; i < 20; ++i) {
    std::stop_source stop;
    const auto observation = Must(theirs_.Observe([&](const std::optional<Leader>& leader) {
      if (leader) stop.request_stop();
    }));
    EXPECT_OK(RunElected(election_, work, stop.get_token(), "a"));
    EXPECT_EQ(ValueOf(theirs_), "none");
  }
}

TEST_P(ElectionConformance, RunElectedReturnsPermanentErrors) {
  Election nameless(client_, "", Options());
  const auto work = [](const std::stop_token&, FencingToken) { return absl::OkStatus(); };
  EXPECT_EQ(CodeOf(RunElected(nameless, work, {})), kBadInput);
  EXPECT_EQ(CodeOf(nameless.Campaign("a")), kBadInput);
  EXPECT_EQ(CodeOf(nameless.Leader()), kBadInput);
  EXPECT_EQ(CodeOf(nameless.Observe(nullptr)), kBadInput);
  std::atomic<absl::StatusCode> code = kOk;
  nameless.CampaignAsync("a", {}, [&](const auto& leads) { code = CodeOf(leads); });
  EXPECT_TRUE(Await([&] { return code == kBadInput; }));
}

}  // namespace
}  // namespace redlatch::conformance
