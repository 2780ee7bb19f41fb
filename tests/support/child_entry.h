// Children that start as fresh processes: the test program itself, run again at a named entry.
// Unlike a forked child it shares no descriptor, lock or thread with its parent, and it runs under
// ThreadSanitizer with threads of its own.
//
//   REDLATCH_CHILD(Holder) {                       // in the test file, outside of any function
//     auto client = Client::Connect(args.at(0));
//     ...
//     parent.WriteLine("held");
//     parent.ReadLine();
//     return 0;
//   }
//
//   TEST(Lock, IsFreedByTheDeathOfItsHolder) {
//     auto holder = SpawnChild("Holder", {server->url()});
//     ASSERT_EQ(holder->pipe().ReadLine(), "held");
//     holder->Kill();
//
// A child whose body left a failed EXPECT_ exits with 1, not with 0.
#ifndef REDLATCH_TESTS_SUPPORT_CHILD_ENTRY_H_
#define REDLATCH_TESTS_SUPPORT_CHILD_ENTRY_H_

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/subprocess.h"

namespace redlatch::support {

using ChildEntry = int (*)(LinePipe& parent, const std::vector<std::string>& args);

// Runs this program again, at the entry of that name.
std::unique_ptr<Child> SpawnChild(std::string_view entry,
                                  const std::vector<std::string>& args = {});

// True if this process was spawned to run the entry of that name.
bool SpawnedFor(std::string_view entry);
// This process leaves objects behind on purpose: LeakSanitizer does not look for them.
void LeaksOnPurpose();
// Runs the body with the arguments of SpawnChild().
int RunChildEntry(ChildEntry body);

// GoogleTest sets up environments before the first test, so a spawned process runs no test.
class ChildEnvironment : public ::testing::Environment {
 public:
  ChildEnvironment(std::string_view name, ChildEntry body) : name_(name), body_(body) {}
  void SetUp() override {
    if (!SpawnedFor(name_)) return;
    const int code = RunChildEntry(body_);
    std::exit(code == 0 && ::testing::Test::HasFailure() ? 1 : code);
  }

 private:
  std::string name_;
  ChildEntry body_;
};

}  // namespace redlatch::support

#define REDLATCH_CHILD(name)                                                                     \
  static int ChildEntry_##name(::redlatch::support::LinePipe& parent,                            \
                               const std::vector<std::string>& args);                            \
  static ::testing::Environment* const child_entry_##name = ::testing::AddGlobalTestEnvironment( \
      new ::redlatch::support::ChildEnvironment(#name, ChildEntry_##name));                      \
  static int ChildEntry_##name([[maybe_unused]] ::redlatch::support::LinePipe& parent,           \
                               [[maybe_unused]] const std::vector<std::string>& args)

#endif  // REDLATCH_TESTS_SUPPORT_CHILD_ENTRY_H_
