// A program unloads the plugin that contains the library.
#include <dlfcn.h>

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

std::string Plugin() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libredlatch_plugin.so";
}

// Loads the plugin, calls its function, if one is given, and unloads it. Returns that function's
// result.
int LoadAndUnload(const std::string& function, const std::string& url) {
  void* const plugin = dlopen(Plugin().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return 100;
  int result = 0;
  if (!function.empty()) {
    result = reinterpret_cast<int (*)(const char*)>(dlsym(plugin, function.c_str()))(url.c_str());
  }
  dlclose(plugin);
  return result;
}

bool IsLoaded() {
  std::ifstream maps("/proc/self/maps");
  const std::string text(std::istreambuf_iterator<char>(maps), {});
  return text.find("libredlatch_plugin") != std::string::npos;
}

// Arguments: function, URL, how many times. Returns 0 if the plugin does not stay.
REDLATCH_CHILD(LoadsPlugin) {
  support::LeaksOnPurpose();  // objects that live as long as the process outlive the plugin
  int times = 0;
  EXPECT_TRUE(absl::SimpleAtoi(args.at(2), &times));
  for (int i = 0; i < times; ++i) EXPECT_EQ(LoadAndUnload(args.at(0), args.at(1)), 0);
  // A thread may have kept it. The loader then unloads it at a later dlclose().
  return Await([] { return LoadAndUnload("", "") == 0 && !IsLoaded(); }) ? 0 : 2;
}

struct PluginTest : ::testing::Test {
  void ExpectUnloads(const std::string& function, const std::string& url, int times) {
    const auto child =
        support::SpawnChild("LoadsPlugin", {function, url, absl::StrCat(support::Scaled(times))});
    const auto ended = child->WaitFor(absl::Minutes(1));
    ASSERT_TRUE(ended.has_value());
    EXPECT_EQ(ended->code, 0) << "signal " << ended->signal;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
};

TEST_F(PluginTest, IsUnloadedAfterUse) { ExpectUnloads("UseClient", server_->url(), 50); }

TEST_F(PluginTest, IsUnloadedWhileCallbackThatDestroyedClientReturns) {
  ExpectUnloads("LetCallbackDestroyClient", server_->url(), 100);
}

TEST_F(PluginTest, IsUnloadedAfterLookUpsEnd) {
  ExpectUnloads("GiveUpConnecting", "redis://no-such-host.invalid", 60);
}

TEST_F(PluginTest, IsUnloadedAfterSilentSentinelsTimeOut) {
  server_->Stop();
  ExpectUnloads("GiveUpConnecting",
                absl::StrCat("redis-sentinel://127.0.0.1:", server_->port(), "/s"), 20);
  server_->Continue();
}

REDLATCH_CHILD(LeaksPluginsClient) {
  support::LeaksOnPurpose();
  EXPECT_EQ(LoadAndUnload("LeakClient", args.at(0)), 0);
  EXPECT_TRUE(IsLoaded());
  return 0;
}

TEST_F(PluginTest, LeakedClientGivesBackAtExit) {
  const auto child = support::SpawnChild("LeaksPluginsClient", {server_->url()});
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_EQ(server_->Integer({"EXISTS", "leaked"}), 0);
}

}  // namespace
}  // namespace redlatch
