#include "tests/sim/redis/lua_engine.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/sha1.h"
#include "tests/sim/redis/script_coverage.h"

extern "C" {
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
}

namespace redlatch::sim {
namespace {

using Words = absl::Span<const std::string_view>;

// Adds the position to an error, as Redis does. Also turns a text error into a table.
constexpr char kErrorHandler[] = R"(
local getinfo = debug.getinfo
return function(err)
  local place = getinfo(2, 'nSl')
  if place and place.what == 'C' then
    place = getinfo(3, 'nSl')
  end
  if type(err) ~= 'table' then
    err = {err = 'ERR ' .. tostring(err)}
  end
  if place then
    err.source, err.line = place.source, place.currentline
  end
  return err
end)";

std::string_view TextAt(lua_State* lua, int index) {
  size_t size = 0;
  const char* const text = lua_tolstring(lua, index, &size);
  return {text, size};
}

void PushText(lua_State* lua, std::string_view text) {
  lua_pushlstring(lua, text.data(), text.size());
}

void PushField(lua_State* lua, const char* name, std::string_view text) {
  lua_createtable(lua, 0, 1);
  PushText(lua, text);
  lua_setfield(lua, -2, name);
}

// Pushes replies as Lua sees them: one value, however deeply it nests.
class LuaOutput : public Output {
 public:
  explicit LuaOutput(lua_State* lua) : lua_(lua) {}
  bool failed() const { return failed_; }
  size_t values() const { return values_; }

  void Nil() override {
    lua_pushboolean(lua_, 0);
    Added();
  }
  void Integer(int64_t number) override {
    lua_pushnumber(lua_, static_cast<lua_Number>(number));
    Added();
  }
  void Text(std::string_view text) override {
    PushText(lua_, text);
    Added();
  }
  void Status(std::string_view text) override {
    PushField(lua_, "ok", text);
    Added();
  }
  void Error(std::string_view text) override {
    PushField(lua_, "err", text);
    failed_ = true;
  }
  void Array(size_t size) override {
    luaL_checkstack(lua_, 4, "a reply nests too deep");
    lua_createtable(lua_, static_cast<int>(size), 0);
    size == 0 ? Added() : open_.push_back({0, static_cast<int>(size)});
  }

 private:
  struct Open {
    int count, size;
  };
  // The value on top of the stack belongs to the array below it, if there is one.
  void Added() {
    ++values_;
    while (!open_.empty()) {
      lua_rawseti(lua_, -2, ++open_.back().count);
      if (open_.back().count < open_.back().size) return;
      open_.pop_back();
    }
  }

  lua_State* const lua_;
  bool failed_ = false;
  size_t values_ = 0;
  absl::InlinedVector<Open, 4> open_;
};

// Converts numbers to text with 17 digits, as Redis does. Returns false if a value is neither.
bool MakeTexts(lua_State* lua, int count) {
  for (int i = 1; i <= count; ++i) {
    const int type = lua_type(lua, i);
    if (type == LUA_TSTRING) continue;
    if (type != LUA_TNUMBER) return false;
    const double number = lua_tonumber(lua, i);
    char text[40];
    size_t size = 0;
    if (std::abs(number) < 1e15 && number == std::floor(number)) {
      const auto end = std::to_chars(text, text + sizeof text, static_cast<int64_t>(number)).ptr;
      size = static_cast<size_t>(end - text);
    } else {
      size = static_cast<size_t>(std::snprintf(text, sizeof text, "%.17g", number));
    }
    lua_pushlstring(lua, text, size);
    lua_replace(lua, i);
  }
  return true;
}

using WordList = absl::InlinedVector<std::string_view, 16>;

WordList WordsOn(lua_State* lua, int count) {
  WordList words(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) words[static_cast<size_t>(i)] = TextAt(lua, i + 1);
  return words;
}

// The reply to a command that ends with a table: {err = ...}, {ok = ...} or an array.
void ReplyWithTable(lua_State* lua, Output& out);

void ReplyWith(lua_State* lua, Output& out) {
  switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
      out.Text(TextAt(lua, -1));
      break;
    case LUA_TNUMBER:
      out.Integer(static_cast<int64_t>(lua_tonumber(lua, -1)));
      break;
    case LUA_TBOOLEAN:
      lua_toboolean(lua, -1) != 0 ? out.Integer(1) : out.Nil();
      break;
    case LUA_TTABLE:
      luaL_checkstack(lua, 4, "a reply nests too deep");
      ReplyWithTable(lua, out);
      break;
    default:
      out.Nil();
  }
  lua_pop(lua, 1);
}

bool HasField(lua_State* lua, const char* name, std::string& text) {
  lua_pushstring(lua, name);
  lua_rawget(lua, -2);
  const bool found = lua_type(lua, -1) == LUA_TSTRING;
  if (found) text = lua_tostring(lua, -1);  // stops at a NUL
  for (char& letter : text) {
    if (letter == '\r' || letter == '\n') letter = ' ';
  }
  lua_pop(lua, 1);
  return found;
}

void ReplyWithTable(lua_State* lua, Output& out) {
  std::string text;
  if (HasField(lua, "err", text)) return out.Error(text);
  if (HasField(lua, "ok", text)) return out.Status(text);
  int size = 0;
  for (;; ++size) {
    lua_rawgeti(lua, -1, size + 1);
    const bool end = lua_isnil(lua, -1);
    lua_pop(lua, 1);
    if (end) break;
  }
  out.Array(static_cast<size_t>(size));
  for (int i = 1; i <= size; ++i) {
    lua_rawgeti(lua, -1, i);
    ReplyWith(lua, out);
  }
}

void SetGlobalList(lua_State* lua, const char* name, Words words) {
  lua_pushstring(lua, name);
  lua_createtable(lua, static_cast<int>(words.size()), 0);
  int place = 0;
  for (const std::string_view word : words) {
    PushText(lua, word);
    lua_rawseti(lua, -2, ++place);
  }
  lua_rawset(lua, LUA_GLOBALSINDEX);
}

// Raises an error if a script reads or writes a global that does not exist.
int NoSuchGlobal(lua_State* lua) {
  return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                    lua_tostring(lua, 2));
}
int NoNewGlobal(lua_State* lua) { return luaL_error(lua, "Attempt to modify a readonly table"); }

void ProtectGlobals(lua_State* lua) {
  lua_createtable(lua, 0, 2);
  lua_pushcfunction(lua, NoSuchGlobal);
  lua_setfield(lua, -2, "__index");
  lua_pushcfunction(lua, NoNewGlobal);
  lua_setfield(lua, -2, "__newindex");
  lua_setmetatable(lua, LUA_GLOBALSINDEX);
}

int PushError(lua_State* lua, const std::string& text) {
  PushField(lua, "err", text);
  return 1;
}

}  // namespace

// The functions of the table `redis`. Lua raises errors by longjmp(), so only functions without
// destructors may raise one.
struct LuaCalls {
  static constexpr int kRaise = -1;

  static int Execute(lua_State* lua, bool raises) {
    const int count = lua_gettop(lua);
    if (count == 0) {
      PushError(lua, "ERR Please specify at least one argument for this redis.call() call");
      return raises ? kRaise : 1;
    }
    if (!MakeTexts(lua, count)) {
      PushError(lua, "ERR Lua redis lib command arguments must be strings or integers");
      return raises ? kRaise : 1;
    }
    const WordList words = WordsOn(lua, count);
    LuaOutput out(lua);
    LuaEngine::OfThisThread().host_->CallFromScript(words, out);
    LuaEngine::OfThisThread().host_->CountWork(words.size() + out.values());
    return out.failed() && raises ? kRaise : 1;
  }

  static int Call(lua_State* lua) {
    const int results = Execute(lua, true);
    return results == kRaise ? lua_error(lua) : results;
  }

  static int Pcall(lua_State* lua) { return Execute(lua, false); }

  static int ErrorReply(lua_State* lua) {
    // "-CODE text" is used as it is; a text of one word gets a code, because it needs one.
    std::string text(lua_tostring(lua, 1));
    text.erase(0, text.starts_with('-') ? 1 : 0);
    return PushError(lua, text.find(' ') == text.npos ? "ERR " + text : text);
  }

  static int StatusReply(lua_State* lua) {
    PushField(lua, "ok", TextAt(lua, 1));
    return 1;
  }

  static int Sha1Hex(lua_State* lua) {
    PushText(lua, base::Sha1Hex(TextAt(lua, 1)));
    return 1;
  }

  static int Log(lua_State*) { return 0; }

  static int CheckAcl(lua_State* lua) {
    bool known = MakeTexts(lua, lua_gettop(lua));
    const bool allowed =
        known && LuaEngine::OfThisThread().host_->MayRun(WordsOn(lua, lua_gettop(lua)), known);
    lua_pushboolean(lua, allowed ? 1 : 0);
    return known ? 1 : kRaise;
  }

  static int AclCheckCmd(lua_State* lua) {
    if (CheckAcl(lua) == 1) return 1;
    return luaL_error(lua, "Invalid command passed to redis.acl_check_cmd()");
  }
};

LuaEngine& LuaEngine::OfThisThread() {
  static thread_local LuaEngine engine;
  return engine;
}

LuaEngine::LuaEngine() : lua_(luaL_newstate()) {
  luaL_openlibs(lua_);
  if (luaL_dostring(lua_, kErrorHandler) != 0) std::abort();
  error_handler_ = luaL_ref(lua_, LUA_REGISTRYINDEX);
  static constexpr luaL_Reg kFunctions[] = {{"call", LuaCalls::Call},
                                            {"pcall", LuaCalls::Pcall},
                                            {"error_reply", LuaCalls::ErrorReply},
                                            {"status_reply", LuaCalls::StatusReply},
                                            {"sha1hex", LuaCalls::Sha1Hex},
                                            {"log", LuaCalls::Log},
                                            {"acl_check_cmd", LuaCalls::AclCheckCmd},
                                            {nullptr, nullptr}};
  luaL_register(lua_, "redis", kFunctions);
  lua_pop(lua_, 1);
  // Functions that Redis does not have, or whose results would differ between runs.
  for (const char* const name : {"dofile", "loadfile", "print", "require", "module", "package",
                                 "io", "os", "debug", "newproxy"}) {
    lua_pushnil(lua_);
    lua_setglobal(lua_, name);
  }
  if (luaL_dostring(lua_, "math.random, math.randomseed = nil, nil") != 0) std::abort();
  ProtectGlobals(lua_);
  if (ScriptCoverage* const coverage = ScriptCoverage::Get()) coverage->Watch(lua_);
}

void LuaEngine::CollectRarely() {
  lua_gc(lua_, LUA_GCSETPAUSE, 1000);
  lua_gc(lua_, LUA_GCCOLLECT, 0);
}

LuaEngine::~LuaEngine() { lua_close(lua_); }

void LuaEngine::CountInstructions() {
  if (ScriptCoverage::Get() != nullptr) return;  // it uses the hook
  static constexpr int kEach = 50;
  lua_sethook(
      lua_, [](lua_State*, lua_Debug*) { OfThisThread().instructions_ += kEach; }, LUA_MASKCOUNT,
      kEach);
}

const std::string& LuaEngine::Sha1(std::string_view body) {
  auto found = sha1s_.find(body);
  if (found == sha1s_.end()) found = sha1s_.emplace(body, base::Sha1Hex(body)).first;
  return found->second;
}

namespace {

// For mutants: the file of the script's SHA-1 in that directory runs instead of the script.
std::optional<std::string> MutantOf(const std::string& sha1) {
  static const char* const directory = std::getenv("REDLATCH_SIM_SCRIPTS");
  if (directory == nullptr) return std::nullopt;
  std::FILE* const file = std::fopen(absl::StrCat(directory, "/", sha1).c_str(), "re");
  if (file == nullptr) return std::nullopt;
  std::string text(1 << 20, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

std::string LuaEngine::Compile(const std::string& sha1, std::string_view body) {
  if (ScriptCoverage* const coverage = ScriptCoverage::Get()) coverage->Know(sha1, body);
  if (functions_.contains(sha1)) return "";
  const std::optional<std::string> mutant = MutantOf(sha1);
  if (mutant) body = *mutant;
  if (luaL_loadbuffer(lua_, body.data(), body.size(), "@user_script") != 0) {
    std::string error =
        absl::StrCat("ERR Error compiling script (new function): ", lua_tostring(lua_, -1));
    lua_pop(lua_, 1);
    return error;
  }
  functions_[sha1] = luaL_ref(lua_, LUA_REGISTRYINDEX);
  return "";
}

void LuaEngine::Run(const std::string& sha1, Words keys, Words args, ScriptHost& host,
                    Output& out) {
  host_ = &host;
  if (ScriptCoverage* const coverage = ScriptCoverage::Get()) coverage->Enter(sha1);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, error_handler_);
  SetGlobalList(lua_, "KEYS", keys);
  SetGlobalList(lua_, "ARGV", args);
  lua_rawgeti(lua_, LUA_REGISTRYINDEX, functions_.find(sha1)->second);
  if (lua_pcall(lua_, 0, 1, -2) == 0) {
    ReplyWith(lua_, out);
  } else {
    std::string text = "ERR unknown error", source;
    const bool table = lua_istable(lua_, -1);
    if (table) HasField(lua_, "err", text);
    if (table && HasField(lua_, "source", source)) {
      lua_getfield(lua_, -1, "line");
      const int line = static_cast<int>(lua_tonumber(lua_, -1));
      lua_pop(lua_, 1);
      absl::StrAppend(&text, " script: ", sha1, ", on ", source, ":", line, ".");
    }
    out.Error(text);
    lua_pop(lua_, 1);
  }
  lua_pop(lua_, 1);
  host_ = nullptr;
}

}  // namespace redlatch::sim
