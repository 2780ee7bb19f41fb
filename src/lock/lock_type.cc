#include "src/lock/lock_type.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lua/pieces.h"
#include "src/base/sha1.h"
#include "src/lock/kinds.h"

namespace redlatch::internal {
namespace {

constexpr std::string_view kInclude = "-- include: ";
constexpr std::string_view kReplaces =
    "-- replaces: ";  // a piece that the script has written itself

bool SameScript(const LuaScript& a, const LuaScript& b) {
  return a.body.data() == b.body.data() || a.body == b.body;
}

const lua::Piece* Find(std::string_view name) {
  for (const lua::Piece& piece : lua::kPieces) {
    if (piece.name == name) return &piece;
  }
  return nullptr;
}

// Pieces never include each other in a cycle; the build checks that.
absl::Status Append(std::string_view text, std::vector<std::string_view>& included,
                    std::string& assembled) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const bool replaces = line.starts_with(kReplaces);
    if (!replaces && !line.starts_with(kInclude)) {
      assembled.append(line);
      continue;
    }
    std::string_view name = line.substr(replaces ? kReplaces.size() : kInclude.size());
    name = name.substr(0, name.find_last_not_of(" \r\n") + 1);
    const lua::Piece* const piece = Find(name);
    if (piece == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("a script includes \"", std::string(name),
                       "\", and redlatch has no such piece; they are the files of its lua/"));
    }
    if (std::find(included.begin(), included.end(), piece->name) != included.end()) continue;
    included.push_back(piece->name);
    if (replaces) continue;
    if (absl::Status status = Append(piece->text, included, assembled); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

bool LockType::SameAs(const LockType& other) const {
  return traits.kind == other.traits.kind && use == other.use &&
         traits.reentrant == other.traits.reentrant &&
         SameScript(original.acquire, other.scripts.acquire) &&
         SameScript(original.release, other.scripts.release) &&
         SameScript(original.renew, other.scripts.renew) &&
         SameScript(original.cancel, other.scripts.cancel) && keys == other.keys &&
         extra_args == other.extra_args && others == other.others;
}

std::string LockType::OthersId() const {
  std::string id;
  for (const KeySet& other : others) {
    id.append(std::to_string(other.main().size())).append(":").append(other.main());
  }
  return id;
}

absl::StatusOr<std::string> Assemble(std::string_view script) {
  std::vector<std::string_view> included;
  std::string assembled;
  if (absl::Status status = Append(script, included, assembled); !status.ok()) return status;
  return assembled;
}

absl::StatusOr<LockType> Complete(LockType type) {
  type.original = type.scripts;
  type.texts.reserve(24);  // references into it must stay valid, here and in Quarantined()
  for (LuaScript* script :
       {&type.scripts.acquire, &type.scripts.release, &type.scripts.renew, &type.scripts.cancel,
        &type.scripts.inspect, &type.scripts.force_release}) {
    if (!script->sha1.empty()) continue;
    absl::StatusOr<std::string> assembled = Assemble(script->body);
    if (!assembled.ok()) return assembled.status();
    script->body = type.texts.emplace_back(*std::move(assembled));
    script->sha1 = type.texts.emplace_back(base::Sha1Hex(script->body));
  }
  return type;
}

LockType Quarantined(LockType type) {
  const std::string_view kind = type.traits.kind;
  const std::string_view writers = kind == kinds::kReadWrite ? "read_write/" : "";
  const std::string_view queues = kind == kinds::kMulti ? "multi/" : writers;
  const auto before = [&](std::string_view of, std::string_view piece, LuaScript& script) {
    std::string include(kInclude);
    absl::StatusOr<std::string> first = Assemble(include.append(of).append(piece).append("\n"));
    script.body = type.texts.emplace_back(*std::move(first) + std::string(script.body));
    script.sha1 = type.texts.emplace_back(base::Sha1Hex(script.body));
  };
  before(writers, "common/quarantine_acquire", type.scripts.acquire);
  for (LuaScript* script :
       {&type.scripts.release, &type.scripts.cancel, &type.scripts.force_release}) {
    before(queues, "common/quarantine_end", *script);
  }
  type.quarantined = true;
  return type;
}

}  // namespace redlatch::internal
