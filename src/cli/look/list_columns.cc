#include "src/cli/look/list_columns.h"

#include <algorithm>
#include <iterator>

#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kState = 10;
constexpr size_t kKindColumn = 10;
constexpr size_t kLeaseColumn = 6;
constexpr size_t kWaitingColumn = 7;
// In the order in which they are left out.
constexpr size_t kDispensable[] = {kKindColumn, kLeaseColumn, kWaitingColumn};

constexpr size_t kEnoughOfName = 20;
constexpr size_t kEnoughOfHolder = 16;
constexpr size_t kAllOfHolder = 32;
// In a pipe: longer names push the other columns to the right.
constexpr size_t kLongestName = 60;

// What the columns before the holder's take, without the name's.
size_t Taken(size_t left_out) {
  size_t taken = kGap + kState + kGap;
  for (size_t i = left_out; i < std::size(kDispensable); ++i) taken += kDispensable[i] + kGap;
  return taken;
}

}  // namespace

ListColumns::ListColumns(size_t width, size_t longest_name) : width_(width) {
  if (width == 0) {
    name_ = std::min(longest_name, kLongestName);
    return;
  }
  const size_t needed = std::min(longest_name, kEnoughOfName) + kEnoughOfHolder;
  const auto rest = [&] { return width - std::min(width, Taken(left_out_)); };
  while (left_out_ < std::size(kDispensable) && rest() < needed) ++left_out_;
  if (rest() < needed) {
    name_ = std::min(longest_name, rest() / 2);
  } else {
    const size_t generous = rest() - std::min(rest(), kAllOfHolder);
    name_ = std::min({longest_name, rest() - kEnoughOfHolder, std::max(kEnoughOfName, generous)});
  }
}

std::string ListColumns::Line(const ListCells& cells) const {
  std::string line;
  const auto add = [&](const std::string& cell, size_t columns) {
    line += Padded(width_ == 0 ? cell : Cut(cell, columns), columns) + std::string(kGap, ' ');
  };
  add(cells.name, name_);
  if (left_out_ < 1) add(Cut(cells.kind, kKindColumn), kKindColumn);
  add(cells.state, kState);
  if (left_out_ < 2) add(cells.lease, kLeaseColumn);
  if (left_out_ < 3) add(cells.waiting, kWaitingColumn);
  line += cells.holder;
  if (width_ > 0) line = Cut(line, width_);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace redlatch::cli
