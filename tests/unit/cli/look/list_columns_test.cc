#include "src/cli/look/list_columns.h"

#include "src/cli/term/text.h"
#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

const ListCells kHeading = {"NAME", "KIND", "STATE", "LEASE", "WAITING", "HELD BY"};
const ListCells kLine = {.name = "a-name-that-is-longer-than-thirty-two-columns",
                         .kind = "read_write",
                         .state = "read by 12",
                         .lease = "29.9s",
                         .waiting = "3w",
                         .holder = "web1:4242 redlatch run: make-report and 11 more"};
const size_t kLongest = kLine.name.size();

std::string Heading(size_t width, size_t longest = kLongest) {
  return ListColumns(width, longest).Line(kHeading);
}

TEST(ListColumnsTest, KeepTheHolderOnANarrowTerminal) {
  EXPECT_EQ(ListColumns(48, kLongest).Line(kLine),
            "a-name-that-is-l…  read by 12  web1:4242 redlat…");
  EXPECT_EQ(Heading(48), "NAME               STATE       HELD BY");
  EXPECT_EQ(ListColumns(30, kLongest).Line(kLine), "a-name-…  read by 12  web1:42…");
}

TEST(ListColumnsTest, LeaveOutKindThenLeaseThenWaiting) {
  EXPECT_EQ(Heading(80), "NAME                  KIND        STATE       LEASE   WAITING  HELD BY");
  EXPECT_EQ(Heading(70), "NAME                  STATE       LEASE   WAITING  HELD BY");
  EXPECT_EQ(Heading(60), "NAME                  STATE       WAITING  HELD BY");
  EXPECT_EQ(Heading(51), "NAME                  STATE       HELD BY");
}

TEST(ListColumnsTest, FitAnyTerminal) {
  for (size_t width = 1; width <= 200; ++width) {
    for (const size_t longest : {size_t{4}, size_t{19}, kLongest}) {
      ListCells line = kLine;
      line.name.resize(longest);
      EXPECT_LE(Columns(ListColumns(width, longest).Line(line)), width);
    }
  }
}

TEST(ListColumnsTest, CutNothingInAPipe) {
  EXPECT_EQ(ListColumns(0, kLongest).Line(kLine),
            kLine.name + "  read_write  read by 12  29.9s   3w       " + kLine.holder);
  ListCells longer = kLine;
  longer.name = std::string(70, 'x');
  EXPECT_EQ(ListColumns(0, 70).Line(longer).substr(0, 75), longer.name + "  rea");
}

}  // namespace
}  // namespace redlatch::cli
