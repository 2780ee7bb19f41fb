#include "src/demo/sum.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "redlatch/fencing_token.h"

namespace redlatch::demo {
namespace {

using Journal = std::vector<FencedCounter::Record>;

int64_t AdditionsBy(const Journal& journal, int worker) {
  int64_t additions = 0;
  for (const FencedCounter::Record& record : journal) {
    additions += record.written && record.worker == worker ? 1 : 0;
  }
  return additions;
}

// Each hold at most once, one after the other, each with a larger token.
int HoldsOutOfOrder(const Journal& journal) {
  int wrong = 0;
  FencingToken newest;
  for (const FencedCounter::Record& record : journal) {
    const bool fits = record.written ? record.token == newest : newest < record.token;
    wrong += fits ? 0 : 1;
    newest = record.token;
  }
  return wrong;
}

}  // namespace

absl::StatusOr<Sum> CountUp(const FencedCounter& counter, const std::vector<Worker>& workers) {
  const absl::StatusOr<Journal> journal = counter.Journal();
  if (!journal.ok()) return journal.status();
  Sum sum{.good = true};
  int64_t expected = 0;
  for (const Worker& worker : workers) {
    const int64_t made = AdditionsBy(*journal, worker.number);
    expected += made;
    absl::StrAppendFormat(&sum.text, "  worker %d   %5d additions", worker.number, made);
    if (worker.state == Worker::State::kKilled) {
      // Dead men tell no tales: the journal knows what it did.
      absl::StrAppendFormat(&sum.text, ", %d of them reported before it was killed", worker.told);
    } else if (made != worker.told) {
      absl::StrAppendFormat(&sum.text, " in the journal, but it reported %d: WRONG", worker.told);
      sum.good = false;
    }
    absl::StrAppend(&sum.text, "\n");
  }
  const int64_t actual = journal->empty() ? 0 : journal->back().count;
  absl::StrAppendFormat(&sum.text, "  expected   %5d\n  the number %5d: %s\n", expected, actual,
                        expected == actual ? "equal" : "WRONG");
  sum.good &= expected == actual && expected > 0;
  if (const int wrong = HoldsOutOfOrder(*journal); wrong > 0) {
    absl::StrAppendFormat(&sum.text, "  %d accesses came between those of another worker: WRONG\n",
                          wrong);
    sum.good = false;
  }
  return sum;
}

}  // namespace redlatch::demo
