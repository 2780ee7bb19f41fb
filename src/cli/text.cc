#include "src/cli/text.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/utf8.h"

namespace redlatch::cli {
namespace {

// What does something else on a terminal than show itself: control characters, and those that hide
// or turn round what stands beside them.
bool IsHostile(uint32_t code) {
  constexpr std::array<std::array<uint32_t, 2>, 11> kRanges = {{
      {0x00, 0x1f},
      {0x7f, 0x9f},
      {0xad, 0xad},
      {0x61c, 0x61c},
      {0x180e, 0x180e},
      {0x200b, 0x200f},
      {0x2028, 0x202e},
      {0x2060, 0x206f},
      {0xfeff, 0xfeff},
      {0xfff9, 0xfffb},
      {0xe0000, 0xe0fff},
  }};
  return std::ranges::any_of(
      kRanges, [code](const auto& range) { return range[0] <= code && code <= range[1]; });
}

}  // namespace

std::string JsonText(std::string_view bytes) {
  std::string out = "\"";
  while (!bytes.empty()) {
    const base::Character first = base::FirstCharacter(bytes);
    if (first.size == 0) {
      out += "\xef\xbf\xbd";
    } else if (first.code < 0x20 || first.code == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", first.code);
    } else {
      if (first.code == '"' || first.code == '\\') out += '\\';
      out.append(bytes.substr(0, first.size));
    }
    bytes.remove_prefix(std::max<size_t>(first.size, 1));
  }
  return out + "\"";
}

std::string Printable(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const base::Character first = base::FirstCharacter(bytes);
    const std::string_view taken = bytes.substr(0, std::max<size_t>(first.size, 1));
    if (first.size == 0 || IsHostile(first.code)) {
      for (const char byte : taken) {
        absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(byte));
      }
    } else {
      if (first.code == '\\') out += '\\';
      out.append(taken);
    }
    bytes.remove_prefix(taken.size());
  }
  return out;
}

size_t Columns(std::string_view printable) {
  return static_cast<size_t>(std::ranges::count_if(
      printable, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

std::string Cut(std::string_view printable, size_t columns) {
  if (Columns(printable) <= columns) return std::string(printable);
  size_t size = 0;
  for (size_t left = columns; left > 1; --left)
    size += base::FirstCharacter(printable.substr(size)).size;
  return absl::StrCat(std::string(printable.substr(0, size)), "\u2026");
}

std::string Padded(std::string_view printable, size_t columns) {
  const size_t has = Columns(printable);
  return absl::StrCat(std::string(printable), std::string(has < columns ? columns - has : 0, ' '));
}

std::string Brief(absl::Duration time) {
  if (time == absl::InfiniteDuration()) return "-";
  const int64_t seconds = absl::ToInt64Seconds(time);
  if (seconds < 60) {
    return absl::StrFormat("%.1fs",
                           absl::ToDoubleSeconds(absl::Floor(time, absl::Milliseconds(100))));
  }
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  const int64_t hours = seconds / 3600;
  if (hours < 48) return absl::StrFormat("%dh%02dm", hours, seconds / 60 % 60);
  return absl::StrFormat("%dd%02dh", hours / 24, hours % 24);
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = base::FirstCharacter(bytes).size;
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

void JsonObject::Key(std::string_view key) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", JsonText(key), ":");
}

void JsonObject::Text(std::string_view key, std::string_view bytes) {
  Key(key);
  members_ += JsonText(bytes);
  if (IsUtf8(bytes)) return;
  Key(absl::StrCat(std::string(key), "_base64"));
  members_ += JsonText(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size())));
}

void JsonObject::Number(std::string_view key, int64_t number) {
  Key(key);
  absl::StrAppend(&members_, number);
}

void JsonObject::Bool(std::string_view key, bool value) {
  Key(key);
  members_ += value ? "true" : "false";
}

void JsonObject::Null(std::string_view key) {
  Key(key);
  members_ += "null";
}

void JsonObject::Json(std::string_view key, std::string_view json) {
  Key(key);
  members_ += json;
}

void JsonObject::Millis(std::string_view key, absl::Duration time) {
  if (time == absl::InfiniteDuration()) return Null(key);
  Number(key, absl::ToInt64Milliseconds(time));
}

}  // namespace redlatch::cli
