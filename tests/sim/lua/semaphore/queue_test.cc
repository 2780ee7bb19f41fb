// Who gets the semaphore's permits, and when.
#include <sstream>

#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SemaphoreScriptsQueueTest : public SemaphoreScriptsFixture {};

TEST_F(SemaphoreScriptsQueueTest, PermitsGatherForTheHeadAndNobodyOvertakesIt) {
  capacity_ = 4;
  Ear c(*server_, Channel('c')), d(*server_, Channel('d'));
  for (int i = 1; i <= 4; ++i) Ask(One('a', i));
  Ask(Many(3, 'c'));
  Ask(One('d'));
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(Release(One('a', i)), kReleased);
    EXPECT_EQ(c.Hear(), "");
    EXPECT_EQ(d.Hear(), "");
    EXPECT_EQ(Outcome(Impatient(One('e'))), "busy");
    EXPECT_EQ(First(Ask(One('f', i))), "queued");
  }
  EXPECT_EQ(Used(), 2);
  EXPECT_EQ(Release(One('a', 3)), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(Many(3, 'c')));
  EXPECT_EQ(d.Hear(), "");
  EXPECT_EQ(Release(One('a', 4)), kReleased);
  EXPECT_EQ(d.Hear(), GrantOf(One('d')));
}

TEST_F(SemaphoreScriptsQueueTest, WhatManyPermitsMakeRoomForGetsInAtOnceInTurn) {
  capacity_ = 4;
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Ask(Many(4, 'a'));
  Ask(For(60000, One('b')));
  Ask(Many(2, 'c'));
  Ask(Many(2, 'd'));
  Ask(One('e'));
  EXPECT_EQ(Release(Many(4, 'a')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(For(60000, One('b'))));
  EXPECT_EQ(c.Hear(), GrantOf(Many(2, 'c')));
  EXPECT_EQ(d.Hear(), "") << "two are not free";
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d'), Hold('e')));
  EXPECT_EQ(Used(), 3);
  EXPECT_GT(Pttl(Permits()), 59'000);
}

TEST_F(SemaphoreScriptsQueueTest, WhoLeavesTheHeadOfTheQueueMakesRoomForThoseBehind) {
  capacity_ = 3;
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Ask(Many(2, 'a'));
  Ask(Many(3, 'b'));
  Ask(One('c'));
  EXPECT_EQ(Cancel(Many(3, 'b')), kLeft);
  EXPECT_EQ(c.Hear(), GrantOf(One('c')));
  Ask(Many(3, 'b', 2));
  Ask(Many(2, 'd'));
  EXPECT_EQ(Cancel(Many(2, 'a')), kPassedOn);
  EXPECT_EQ(d.Hear(), "");
  EXPECT_EQ(Release(Many(3, 'b', 2)), kNotHeld);
  EXPECT_EQ(d.Hear(), GrantOf(Many(2, 'd')));
}

TEST_F(SemaphoreScriptsQueueTest, TheOverdueArePassedOverForTheLiveAndElseGetInInTurn) {
  capacity_ = 3;
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Ear e(*server_, Channel('e')), g(*server_, Channel('g'));
  Ask(Many(3, 'a'));
  for (const char client : {'b', 'c', 'd'}) Ask(Many(2, client));
  for (const char client : {'e', 'f', 'g'}) Ask(One(client));
  for (const char client : {'b', 'd', 'e', 'f', 'g'}) MakeOverdue(Hold(client));
  EXPECT_EQ(Release(Many(3, 'a')), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(Many(2, 'c')));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(e.Hear(), "") << "d does not fit";
  EXPECT_EQ(Release(Many(2, 'c')), kReleased);
  EXPECT_EQ(d.Hear(), GrantOf(Many(2, 'd')));
  EXPECT_EQ(e.Hear(), GrantOf(One('e')));
  EXPECT_EQ(g.Hear(), "");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('g')));
}

TEST_F(SemaphoreScriptsQueueTest, AnOverdueWaiterStaysWhereTheLiveOneBehindItDoesNotFit) {
  capacity_ = 3;
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Many(2, 'a'));
  Ask(One('a', 2));
  Ask(One('b'));
  Ask(Many(2, 'c'));
  MakeOverdue(Hold('b'));
  EXPECT_EQ(Release(One('a', 2)), kReleased);
  EXPECT_EQ(b.Hear(), "");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c')));
  EXPECT_EQ(Outcome(Again(One('b'))), "granted");
}

TEST_F(SemaphoreScriptsQueueTest, WhoDoesNotWaitComesAfterAllWhoDo) {
  {
    Ear b(*server_, Channel('b'));
    Ask(Many(2, 'a'));
    Ask(Many(2, 'b'));
    Expire(Hold('a'));
    EXPECT_EQ(Outcome(Impatient(One('c'))), "busy");
    EXPECT_EQ(b.Hear(), GrantOf(Many(2, 'b')));
    Ask(One('b', 2));
    MakeOverdue(Hold('b', 2));
    Expire(Hold('b'));
    EXPECT_EQ(Outcome(Impatient(One('c'))), "granted") << "two are free";
    EXPECT_EQ(b.Hear(), GrantOf(One('b', 2)));
    EXPECT_EQ(Used(), 2);
    Ask(Many(2, 'd'));
    Release(One('c'));
  }
  EXPECT_EQ(Outcome(Impatient(One('e'))), "granted") << "d has no subscriber";
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SemaphoreScriptsQueueTest, WhoAsksGetsInAtItsTicketAndLetsTheOthersIn) {
  capacity_ = 3;
  Ear b(*server_, Channel('b')), d(*server_, Channel('d'));
  Ask(Many(3, 'a'));
  Ask(One('b'));
  const std::string ticket = Ask(One('c')).elements[3].text;
  Ask(One('d'));
  Ask(One('e'));
  Expire(Hold('a'));
  EXPECT_EQ(Acquire(Again(One('c'), ticket)), Granted());
  EXPECT_EQ(b.Hear(), GrantOf(One('b')));
  EXPECT_EQ(d.Hear(), GrantOf(One('d')));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('e')));
}

// The head knows nothing of a hold that has not ended when it asked, and may never ask again.
TEST_F(SemaphoreScriptsQueueTest, PermitsThatACrashedHolderHadComeBackUnderSteadyTraffic) {
  for (const int weight : {1, 2}) {
    for (const int others : {1, 2}) {  // that somebody else has
      server_->Command({"FLUSHALL"});
      Ear b(*server_, Channel('b'));
      capacity_ = 1 + weight + others;
      Ask(One('a'));
      Ask(Many(weight, 'x'));
      Ask(Many(others, 'y'));
      for (int i = 1; i <= 4; ++i) Ask(One('b', i));
      Expire(Hold('x'));
      EXPECT_EQ(Release(One('a')), kReleased);
      for (int i = 1; i <= 1 + weight; ++i) EXPECT_EQ(b.Hear(), GrantOf(One('b', i)));
      EXPECT_EQ(b.Hear(), "");
      EXPECT_EQ(Used(), capacity_);
      ExpectConsistent();
    }
  }
}

// As many are free as one release makes, if an expired weight were counted.
TEST_F(SemaphoreScriptsQueueTest, AnExpiredWeightDoesNotHideThatMoreThanOneIsFree) {
  Ear b(*server_, Channel('b'));
  SetCapacity(5);
  Ask(One('a', 1));
  Ask(One('a', 2));
  Ask(Many(3, 'x'));
  for (int i = 1; i <= 4; ++i) Ask(One('b', i));
  SetCapacity(4);
  Expire(Hold('x'));
  EXPECT_EQ(Release(One('a', 1)), kReleased);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(b.Hear(), GrantOf(One('b', i)));
  EXPECT_EQ(b.Hear(), "");
}

TEST_F(SemaphoreScriptsQueueTest, ALateReleaseOfAnExpiredHoldDoesNotLetOneTooManyIn) {
  Ear b(*server_, Channel('b'));
  Ask(One('a'));
  Ask(One('x'));
  for (int i = 1; i <= 3; ++i) Ask(One('b', i));
  Expire(Hold('x'));
  EXPECT_EQ(Release(One('x')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(One('b', 1)));
  EXPECT_EQ(b.Hear(), "");
  Expire(Hold('a'));
  server_->Command({"ZADD", Permits(), "99999999999999999", Hold('y')});  // and one more
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(Used(), 2);
  EXPECT_EQ(Release(One('y')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(One('b', 2)));
}

// Each costs about a microsecond of the server's only thread.
TEST_F(SemaphoreScriptsQueueTest, TheCommonCasesCostFewCommands) {
  const auto commands_of = [this](const Request& request, bool release) {
    server_->Command({"CONFIG", "RESETSTAT"});
    const std::string outcome = release ? Release(request) : First(Ask(request));
    int commands = 0;
    std::istringstream stats(server_->Text({"INFO", "commandstats"}));
    for (std::string line; std::getline(stats, line);) {
      if (!line.starts_with("cmdstat_") || line.starts_with("cmdstat_eval")) continue;
      if (line.starts_with("cmdstat_config")) continue;
      commands += std::stoi(line.substr(line.find('=') + 1));
    }
    return absl::StrCat(outcome, " by ", commands);
  };
  Ear b(*server_, Channel('b'));
  for (const int beside : {0, 1}) {  // somebody who has many permits
    server_->Command({"FLUSHALL"});
    capacity_ = beside == 0 ? 2 : 4;
    Ask(One('a', 0));
    if (beside == 1) Ask(Many(2, 'm'));
    EXPECT_EQ(commands_of(One('a'), false), "granted by 6");
    EXPECT_EQ(commands_of(Impatient(One('d')), false), "busy by 6");
    EXPECT_EQ(commands_of(One('b', 1), false), "queued by 10");
    EXPECT_EQ(commands_of(One('b', 2), false), absl::StrCat("queued by ", 10 + beside));
    EXPECT_EQ(commands_of(One('a'), true), absl::StrCat("[\"released\"] by ", 12 + beside));
    Cancel(One('b', 2));
    EXPECT_EQ(commands_of(One('b', 1), true), "[\"released\"] by 3");
  }
  EXPECT_EQ(commands_of(Many(2, 'm'), true), "[\"released\"] by 6");
  EXPECT_EQ(commands_of(Many(2, 'm', 2), false), "granted by 8");
  EXPECT_EQ(commands_of(Many(4, 'b', 3), false), "queued by 10");
}

}  // namespace
}  // namespace redlatch
