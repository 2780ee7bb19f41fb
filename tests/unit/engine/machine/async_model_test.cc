// As model_test.cc, with acquisitions that no thread waits for: each is an Acquisition that is
// resumed as runtime/async_acquisition does it. It runs scripts whose answers come later, or never;
// what wakes it is on its way for a while; its time and its stop token may come before.
// REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "src/engine/machine/acquisition.h"
#include "tests/unit/engine/machine/lock_schedule.h"
#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

class AsyncSchedule : public LockSchedule {
 public:
  AsyncSchedule(uint64_t seed, bool verbose) : LockSchedule(seed, verbose) {
    for (User& user : users_) {
      user.threads.resize(static_cast<size_t>(1 + Pick(8)));
      tasks_.emplace_back(user.threads.size());
    }
  }

  int overslept() const { return overslept_; }

 private:
  // What a thread of the model is here.
  struct Task {
    std::unique_ptr<Acquisition> acquisition;
    std::optional<Send> sent;  // and not answered yet
    Instant due = Instant::Infinite();
    bool wakes = false;  // a call of its waker is on its way
    bool stopped = false;
  };

  void Begin(int c, size_t i) override {
    Thread& thread = users_[c].threads[i];
    if (thread.state != Thread::State::kIdle) return;
    Waiter asked;
    Ask(asked);
    const absl::Duration waits[] = {absl::ZeroDuration(), absl::Milliseconds(1 + Pick(400)),
                                    absl::InfiniteDuration()};
    Say(c, ".", i, " begins, patience ", static_cast<int>(asked.patience));
    tasks_[c][i] = {.acquisition = std::make_unique<Acquisition>(
                        Acquisition::Call{.thread = i + 1,
                                          .terms = asked.terms,
                                          .options = asked.options,
                                          .began = Local(c),
                                          .wait = waits[static_cast<int>(asked.patience)],
                                          .command_timeout = absl::Seconds(1),
                                          .unreachable_after = absl::Seconds(2)})};
    thread.state = Thread::State::kWaiting;
    thread.waiter = &tasks_[c][i].acquisition->waiter();
    Resume(c, i, {}, /*woken=*/false);
  }

  void Stop(int c, size_t i) override {
    Task& task = tasks_[c][i];
    if (task.acquisition == nullptr) return;
    Say(c, ".", i, " is stopped");
    task.stopped = true;
    if (!task.sent) Resume(c, i, {}, /*woken=*/false);
  }

  void GoOn(int c, size_t i) override { GoOnWithReason(c, i); }
  // Its waker is called, or its time is over.
  bool GoOnWithReason(int c, size_t i) override {
    Task& task = tasks_[c][i];
    if (task.acquisition == nullptr || task.sent) return false;
    const bool woken = task.wakes;
    if (!woken && Local(c) < task.due) return false;
    Resume(c, i, {}, woken);
    return true;
  }

  void Resume(int c, size_t i, Acquisition::Event event, bool woken) {
    Task& task = tasks_[c][i];
    Waiter& waiter = task.acquisition->waiter();
    EXPECT_EQ(waiter.wake_pending, task.wakes);
    task.due = Instant::Infinite();
    if (!woken && waiter.wake_pending) {
      ++overslept_;
      return;
    }
    task.wakes = false;
    task.sent.reset();
    event.stopped = task.stopped;
    Effects effects;
    const Acquisition::Next next = task.acquisition->Resume(event, Local(c), Machine(c), effects);
    task.due = next.until;
    if (next.kind == Acquisition::Next::Kind::kRun) {
      task.sent = task.acquisition->send();
      SendIt(c, users_[c].port, *task.sent);
    }
    Absorb(c, *users_[c].port, effects);  // what it lost by this it never had
    if (next.kind != Acquisition::Next::Kind::kDone) return;
    OnDecision(c, users_[c].threads[i]);
    task = {};  // the machine knows nothing of it any more
    Check();
  }

  void Absorb(int c, Port& /*port*/, Effects& effects) override {
    for (Waiter* const waiter : effects.wakes) {
      Task& task = tasks_[c][waiter->thread - 1];
      EXPECT_TRUE(waiter->wake_pending);
      EXPECT_FALSE(task.wakes);
      task.wakes = true;
    }
    for (const Loss& loss : effects.losses) {
      // What is lost before it is noticed was never had.
      if (users_[c].threads[loss.hold.thread - 1].state == Thread::State::kWaiting) continue;
      OnLoss(c, loss);
    }
    for (Thread& thread : users_[c].threads) {
      if (thread.state != Thread::State::kHolding) continue;
      thread.deadline = std::max(thread.deadline, Machine(c).Deadline(thread.hold));
    }
    Outcomes(c);
    Check();
  }

  void Hear(const Request& request, const Answer& answer, const char* how) override {
    const int c = request.client;
    for (size_t i = 0; i < tasks_[c].size(); ++i) {
      const std::optional<Send>& sent = tasks_[c][i].sent;
      if (!sent || sent->sent != request.send.sent || sent->grant != request.send.grant ||
          sent->what.index() != request.send.what.index()) {
        continue;
      }
      Say(c, ".", i, how, Name(request.send));
      const GrantId bid = GrantOfBid(request.send);
      if (std::holds_alternative<BidQueued>(answer.bid()) ||
          std::holds_alternative<BidGranted>(answer.bid())) {
        Noticed(bid);
      }
      if (IsDebt(request.send) && answer.failed() == nullptr) {
        debts_since_.erase(request.send.grant);
      }
      return Resume(c, i, {.answer = &answer}, /*woken=*/false);
    }
    LockModel::Hear(request, answer, how);
  }

  Instant NextTimer() const override {
    Instant next = LockModel::NextTimer();
    for (int c = 0; c < clients(); ++c) {
      for (const Task& task : tasks_[c]) {
        if (!task.sent) next = std::min(next, FromLocal(c, task.due));
      }
    }
    return next;
  }

  std::vector<std::vector<Task>> tasks_;  // by client, and thread
  int overslept_ = 0;                     // looks for which a wake was on its way
};

TEST(AsyncAcquisitionModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<AsyncSchedule>(20000, {{"grants", &AsyncSchedule::grants}});
}

}  // namespace
}  // namespace redlatch::engine
