#include "src/cli/term/text.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/base/utf8.h"

namespace redlatch::cli {
namespace {

template <size_t n>
bool IsIn(const std::array<std::array<uint32_t, 2>, n>& ranges, uint32_t code) {
  return std::ranges::any_of(
      ranges, [code](const auto& range) { return range[0] <= code && code <= range[1]; });
}

// Terminals give two columns to what is Chinese, Japanese or Korean, and to most pictures; none to
// what is written above or below another character.
size_t ColumnsOf(uint32_t code) {
  constexpr std::array<std::array<uint32_t, 2>, 10> kWide = {{
      {0x1100, 0x115f},
      {0x2e80, 0x303e},
      {0x3041, 0xa4cf},
      {0xac00, 0xd7a3},
      {0xf900, 0xfaff},
      {0xfe30, 0xfe6f},
      {0xff00, 0xff60},
      {0xffe0, 0xffe6},
      {0x1f300, 0x1faff},
      {0x20000, 0x3fffd},
  }};
  if (0x300 <= code && code <= 0x36f) return 0;
  return IsIn(kWide, code) ? 2 : 1;
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = base::FirstCharacter(bytes).size;
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

}  // namespace

std::string JsonText(std::string_view bytes) {
  std::string out = "\"";
  while (!bytes.empty()) {
    const base::Character first = base::FirstCharacter(bytes);
    if (first.size == 0) {
      out += "\xef\xbf\xbd";
    } else if (first.code < 0x20 || (0x7f <= first.code && first.code < 0xa0)) {
      absl::StrAppendFormat(&out, "\\u%04x", first.code);
    } else {
      if (first.code == '"' || first.code == '\\') out += '\\';
      out.append(bytes.substr(0, first.size));
    }
    bytes.remove_prefix(std::max<size_t>(first.size, 1));
  }
  return out + "\"";
}

size_t Columns(std::string_view printable) {
  size_t columns = 0;
  while (!printable.empty()) {
    const base::Character first = base::FirstCharacter(printable);
    columns += ColumnsOf(first.code);
    printable.remove_prefix(std::max<size_t>(first.size, 1));
  }
  return columns;
}

std::string Cut(std::string_view printable, size_t columns) {
  if (Columns(printable) <= columns) return std::string(printable);
  size_t size = 0;
  size_t taken = 1;  // of the dots
  while (size < printable.size()) {
    const base::Character next = base::FirstCharacter(printable.substr(size));
    taken += ColumnsOf(next.code);
    if (taken > columns) break;
    size += std::max<size_t>(next.size, 1);
  }
  return absl::StrCat(std::string(printable.substr(0, size)), "\u2026");
}

std::string Padded(std::string_view printable, size_t columns) {
  const size_t has = Columns(printable);
  return absl::StrCat(std::string(printable), std::string(has < columns ? columns - has : 0, ' '));
}

std::string Wrapped(std::string_view printable, size_t indent, size_t width) {
  std::string out(indent, ' ');
  size_t column = indent;
  for (const absl::string_view word : absl::StrSplit(
           absl::string_view(printable.data(), printable.size()), ' ', absl::SkipEmpty())) {
    const size_t columns = Columns({word.data(), word.size()});
    if (column > indent && column + 1 + columns > width) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += columns;
  }
  return out + "\n";
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

std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

void JsonObject::Text(std::string_view key, std::string_view bytes) {
  Json(key, JsonText(bytes));
  if (IsUtf8(bytes)) return;
  Json(absl::StrCat(std::string(key), "_base64"),
       JsonText(absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()))));
}

void JsonObject::Json(std::string_view key, std::string_view json) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", JsonText(key), ":", std::string(json));
}

void JsonObject::Millis(std::string_view key, absl::Duration time) {
  if (time == absl::InfiniteDuration()) return Null(key);
  Number(key, absl::ToInt64Milliseconds(time));
}

}  // namespace redlatch::cli
