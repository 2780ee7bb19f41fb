#ifndef REDLATCH_SRC_CLI_LOOK_LIST_COLUMNS_H_
#define REDLATCH_SRC_CLI_LOOK_LIST_COLUMNS_H_

#include <cstddef>
#include <string>

namespace redlatch::cli {

// What one line of `redlatch ls` says.
struct ListCells {
  std::string name, kind, state, lease, waiting, holder;
};

// Which columns the list has, and how wide they are. On a terminal a line fits, and name, state and
// holder are always there: where it is too narrow for all, kind, lease and waiting are left out, in
// this order. In a pipe nothing is left out or cut.
class ListColumns {
 public:
  // `width`: the terminal's columns; 0: a pipe. `longest_name`: in columns.
  ListColumns(size_t width, size_t longest_name);

  std::string Line(const ListCells& cells) const;

 private:
  const size_t width_;
  size_t name_ = 0;
  size_t left_out_ = 0;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LIST_COLUMNS_H_
