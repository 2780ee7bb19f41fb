// The processes of the soak, as their parent has them.
#ifndef REDLATCH_TESTS_FAULT_SOAK_CREW_H_
#define REDLATCH_TESTS_FAULT_SOAK_CREW_H_

#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_writer.h"
#include "tests/support/subprocess.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temp_dir.h"

namespace redlatch::soak {

class Crew {
 public:
  // `worker` is the REDLATCH_CHILD that each of them runs.
  Crew(std::string worker, int size, int server_port, uint64_t seed, absl::Duration longest_lease)
      : worker_(std::move(worker)), dice_(seed), longest_lease_(longest_lease) {
    for (int i = 0; i < (size + 2) / 3; ++i) {
      proxies_.push_back(
          std::make_unique<support::TcpProxy>(support::TcpProxyOptions{.port = server_port}));
    }
    members_.resize(static_cast<size_t>(size));
    lives_.resize(static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) Spawn(i);
  }

  int size() const { return static_cast<int>(members_.size()); }
  int lives() const { return static_cast<int>(histories_.size()); }
  support::Child& member(int i) { return *members_[static_cast<size_t>(i)]; }
  // Each is a few members' way to the server.
  int proxies() const { return static_cast<int>(proxies_.size()); }
  support::TcpProxy& proxy(int i) { return *proxies_[static_cast<size_t>(i)]; }

  // SIGKILL, and another in its place.
  void Replace(int i) {
    member(i).Kill();
    notes_.EndCallsOf(histories_[lives_[static_cast<size_t>(i)]]);
    Spawn(i);
  }

  // Asks all to end, and expects that they do, with nothing to complain about. Their last words.
  std::vector<std::string> Dismiss(absl::Duration patience) {
    std::vector<std::string> words;
    for (const auto& member : members_) member->pipe().WriteLine("stop");
    const base::Instant until = base::Now() + patience;
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto status = members_[i]->WaitFor(base::Until(until));
      EXPECT_TRUE(status.has_value()) << "member " << i << " does not end";
      if (!status) continue;
      EXPECT_TRUE(status->success())
          << "member " << i << ": code " << status->code << ", signal " << status->signal;
      words.push_back(members_[i]->pipe().ReadLine(absl::Seconds(1)).value_or("silent"));
    }
    return words;
  }

  // What the parent writes of the history.
  support::HistoryWriter& notes() { return notes_; }
  absl::StatusOr<history::History> History() const {
    std::vector<std::string> files = {notes_path_};
    files.insert(files.end(), histories_.begin(), histories_.end());
    return history::ReadHistory(std::move(files));
  }

 private:
  void Spawn(int i) {
    const int life = lives();
    histories_.push_back(absl::StrCat(directory_.path(), "/", life));
    const std::ofstream exists(histories_.back());  // even if it is killed before it writes
    lives_[static_cast<size_t>(i)] = static_cast<size_t>(life);
    const std::string url = absl::StrCat(proxy(i % proxies()).url(),
                                         "?command_timeout=", life % 2 == 0 ? "1s" : "300ms");
    members_[static_cast<size_t>(i)] = support::SpawnChild(
        worker_, {url, histories_.back(), absl::StrCat(life), absl::StrCat(dice_.Seed()),
                  absl::FormatDuration(longest_lease_)});
  }

  const std::string worker_;
  const support::TempDir directory_;
  const std::string notes_path_ = directory_.path() + "/parent";
  support::HistoryWriter notes_{notes_path_, -1};
  Dice dice_;
  const absl::Duration longest_lease_;
  std::vector<std::unique_ptr<support::TcpProxy>> proxies_;
  std::vector<std::string> histories_;
  std::vector<std::unique_ptr<support::Child>> members_;
  std::vector<size_t> lives_;  // of each member: which history it writes
};

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_CREW_H_
