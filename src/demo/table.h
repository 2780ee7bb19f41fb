#ifndef REDLATCH_SRC_DEMO_TABLE_H_
#define REDLATCH_SRC_DEMO_TABLE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "redlatch/lock_info.h"
#include "src/demo/crew.h"

namespace redlatch::demo {

// What the demo shows: lines of what happens and, below them on a terminal, a table that is drawn
// over and over; elsewhere a line a second in its place.
class Table {
 public:
  struct Sight {
    absl::Duration elapsed;
    const LockInfo* lock = nullptr;  // null: not known
    int64_t count = 0;
    const std::vector<Worker>* workers = nullptr;
  };

  Table();

  void Print(std::string_view text);  // of any number of lines
  void Event(absl::Duration elapsed, std::string_view text);
  void Show(const Sight& sight);
  // What stood in the table stays.
  void End() { height_ = 0; }

 private:
  void Erase();
  void Draw(const Sight& sight);

  const bool terminal_;
  size_t height_ = 0;
  absl::Duration next_line_ = absl::ZeroDuration();
};

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_TABLE_H_
