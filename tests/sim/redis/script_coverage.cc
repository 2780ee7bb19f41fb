#include "tests/sim/redis/script_coverage.h"

extern "C" {
#include <lua.h>
}
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lua/pieces.h"

namespace redlatch::sim {
namespace {

constexpr size_t kTexts = size_t{8} << 20;

// A script with its includes, and the origin of each of its lines.
struct Assembled {
  std::string text;
  std::vector<ScriptCoverage::Line> lines;
};

const lua::Piece* FindPiece(std::string_view name) {
  for (const lua::Piece& piece : lua::kPieces) {
    if (piece.name == name) return &piece;
  }
  return nullptr;
}

// Assembles like the library: src/lock/lock_type.cc.
void Append(const lua::Piece& piece, std::vector<std::string_view>& included, Assembled& out) {
  int number = 0;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(piece.text.data(), piece.text.size()), '\n')) {
    ++number;
    const bool replaces = line.substr(0, 13) == "-- replaces: ";
    if (!replaces && line.substr(0, 12) != "-- include: ") {
      if (line.data() + line.size() == piece.text.data() + piece.text.size()) continue;
      absl::StrAppend(&out.text, line, "\n");
      out.lines.emplace_back(piece.name, number);
      continue;
    }
    const absl::string_view name = line.substr(replaces ? 13 : 12);
    const lua::Piece* const other = FindPiece({name.data(), name.size()});
    if (other == nullptr ||
        std::find(included.begin(), included.end(), other->name) != included.end()) {
      continue;
    }
    included.push_back(other->name);
    if (!replaces) Append(*other, included, out);
  }
}

Assembled Assemble(const lua::Piece& piece) {
  Assembled made;
  std::vector<std::string_view> included;
  Append(piece, included, made);
  return made;
}

// The lines of a text that contain code, according to luac.
std::set<int> CodeLines(const std::string& text) {
  char path[] = "/tmp/redlatch-script-XXXXXX";
  const int fd = mkstemp(path);
  FILE* const file = fdopen(fd, "w");
  fwrite(text.data(), 1, text.size(), file);
  fclose(file);
  std::set<int> lines;
  FILE* const listing = popen((std::string(REDLATCH_LUAC " -l -p ") + path).c_str(), "r");
  char row[256];
  std::string before;
  int returns = 0;
  while (fgets(row, sizeof row, listing) != nullptr) {
    int instruction = 0;
    int line = 0;
    char name[32] = "";
    sscanf(row, " %d [%d] %31s", &instruction, &line, name);
    const std::string now = name;
    // Two instructions are not counted: the return at the end of each function, which runs only if
    // no other did, and a jump after a return or after a loop's test that jumps itself.
    if (returns > 0 && line > 0) lines.insert(returns);
    returns = now == "RETURN" ? line : 0;
    const bool skipped = now == "JMP" && (before == "RETURN" || before == "TFORLOOP");
    if (line > 0 && returns == 0 && !skipped) lines.insert(line);
    before = now;
  }
  pclose(listing);
  unlink(path);
  return lines;
}

void NoteLine(lua_State*, lua_Debug* where) { ScriptCoverage::Get()->Note(where->currentline); }

}  // namespace

struct ScriptCoverage::Shared {
  std::atomic<bool> busy;
  uint32_t scripts, text_size;
  Script script[kScripts];
  char texts[kTexts];
};

ScriptCoverage* ScriptCoverage::instance_ = nullptr;

void ScriptCoverage::Begin() {
  instance_ = new ScriptCoverage;
  void* const made = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) abort();
  instance_->shared_ = static_cast<Shared*>(made);
}

void ScriptCoverage::Know(const std::string& sha1, std::string_view body) {
  if (known_.contains(sha1)) return;
  while (shared_->busy.exchange(true)) usleep(10);
  Script* found = std::find_if(shared_->script, shared_->script + shared_->scripts,
                               [&](const Script& each) { return each.sha1 == sha1; });
  if (found == shared_->script + shared_->scripts) {
    if (shared_->scripts == kScripts || shared_->text_size + body.size() > kTexts) abort();
    memcpy(found->sha1, sha1.c_str(), sizeof found->sha1);
    found->begin = shared_->text_size;
    found->size = static_cast<uint32_t>(body.size());
    memcpy(shared_->texts + shared_->text_size, body.data(), body.size());
    shared_->text_size += found->size;
    ++shared_->scripts;
  }
  shared_->busy = false;
  known_[sha1] = found;
}

void ScriptCoverage::Watch(lua_State* lua) { lua_sethook(lua, &NoteLine, LUA_MASKLINE, 0); }

ScriptCoverage::Result ScriptCoverage::Read() const {
  Result result;
  std::vector<Assembled> assembled;
  for (const lua::Piece& piece : lua::kPieces) {
    // Pieces in common/ are parts of other scripts.
    if (piece.name.find("common/") != std::string_view::npos &&
        piece.name.find("quarantine") == std::string_view::npos) {
      continue;
    }
    assembled.push_back(Assemble(piece));
    const Assembled& one = assembled.back();
    for (const int line : CodeLines(one.text)) {
      result.all.insert(one.lines[static_cast<size_t>(line) - 1]);
    }
  }
  for (uint32_t i = 0; i < shared_->scripts; ++i) {
    const Script& script = shared_->script[i];
    std::string_view rest(shared_->texts + script.begin, script.size);
    size_t line = 1;
    // One script, or the quarantine's prefix followed by the script.
    for (bool more = true; more && !rest.empty();) {
      more = false;
      for (const Assembled& one : assembled) {
        if (!rest.starts_with(one.text) || one.text.empty()) continue;
        for (size_t k = 0; k < one.lines.size(); ++k, ++line) {
          if (script.lines[line]) result.taken.insert(one.lines[k]);
        }
        rest.remove_prefix(one.text.size());
        more = true;
        break;
      }
    }
  }
  return result;
}

std::string ScriptCoverage::Describe(const Line& line) {
  const lua::Piece* const piece = FindPiece(line.first);
  const std::vector<absl::string_view> lines =
      absl::StrSplit(absl::string_view(piece->text.data(), piece->text.size()), '\n');
  const auto its = lines.begin() + line.second - 1;
  const absl::string_view text = absl::StripAsciiWhitespace(*its);
  const auto nth = 1 + std::count_if(lines.begin(), its, [&](absl::string_view each) {
                     return absl::StripAsciiWhitespace(each) == text;
                   });
  return absl::StrCat(line.first, ": ", text, nth > 1 ? absl::StrCat(" (", nth, ")") : "");
}

}  // namespace redlatch::sim
