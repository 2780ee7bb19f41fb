#include "src/cli/term/suggestion.h"

#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

const std::vector<std::string> kCommands = {"run", "ls", "inspect", "break", "capacity", "doctor"};
const std::vector<std::string> kOptions = {"--all", "--json", "--server", "--shared", "--wait"};

TEST(SuggestionTest, IsTheWordThatWasMistypedOrBegun) {
  EXPECT_EQ(Suggestion("isnpect", kCommands), "inspect");  // swapped
  EXPECT_EQ(Suggestion("docter", kCommands), "doctor");    // replaced
  EXPECT_EQ(Suggestion("lss", kCommands), "ls");           // one too many
  EXPECT_EQ(Suggestion("brea", kCommands), "break");       // one missing
  EXPECT_EQ(Suggestion("rnu", kCommands), "run");
  EXPECT_EQ(Suggestion("brake", kCommands), "break");  // two wrong, of five
  EXPECT_EQ(Suggestion("--wiat", kOptions), "--wait");
  EXPECT_EQ(Suggestion("--severs", kOptions), "--server");
  EXPECT_EQ(Suggestion("insp", kCommands), "inspect");
  EXPECT_EQ(Suggestion("cap", kCommands), "capacity");
  EXPECT_EQ(Suggestion("--js", kOptions), "--json");
}

TEST(SuggestionTest, IsNoneIfNothingIsNear) {
  for (const char* const word : {"", "x", "status", "unlock", "-v", "--", "--x", "--verbose"}) {
    EXPECT_EQ(Suggestion(word, kCommands), "") << word;
    EXPECT_EQ(Suggestion(word, kOptions), "") << word;
  }
  EXPECT_EQ(Suggestion("ls", {}), "");
}

TEST(SuggestionTest, IsNoneIfTwoAreEquallyNear) {
  EXPECT_EQ(Suggestion("--s", {"--server", "--shared"}), "");
  EXPECT_EQ(Suggestion("--serve", {"--server", "--shared"}), "--server");
  EXPECT_EQ(Suggestion("cat", {"car", "bat", "cut"}), "");
}

TEST(SuggestionTest, IsAskedForInWords) {
  EXPECT_EQ(DidYouMean("lss", kCommands), "; did you mean ls?");
  EXPECT_EQ(DidYouMean("status", kCommands), "");
}

}  // namespace
}  // namespace redlatch::cli
