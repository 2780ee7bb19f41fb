#include "src/base/utf8.h"

#include <algorithm>
#include <array>

namespace redlatch::base {
namespace {

// True for control characters, and for characters that hide or reverse their neighbours.
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

std::string Escaped(std::string_view bytes, size_t most, std::string_view backslash) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kDots = "...";
  std::string out;
  size_t room_for_dots = 0;  // the length at which it is cut to make room for the dots
  while (!bytes.empty()) {
    const Character first = FirstCharacter(bytes);
    const std::string_view taken = bytes.substr(0, std::max<size_t>(first.size, 1));
    if (first.size == 0 || IsHostile(first.code)) {
      for (const char c : taken) {
        const auto byte = static_cast<unsigned char>(c);
        out.append({'\\', 'x', kHex[byte >> 4U], kHex[byte & 15U]});
      }
    } else {
      out.append(first.code == '\\' ? backslash : taken);
    }
    bytes.remove_prefix(taken.size());
    if (out.size() > most) return out.substr(0, room_for_dots).append(kDots);
    if (out.size() + kDots.size() <= most) room_for_dots = out.size();
  }
  return out;
}

}  // namespace

Character FirstCharacter(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < size) return {};
  uint32_t code = lead & (0xffU >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(bytes[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = 0xd800 <= code && code <= 0xdfff;
  if (code < kLeast[size] || code > 0x10ffff || surrogate) return {};
  return {code, size};
}

std::string Shown(std::string_view bytes, size_t most) { return Escaped(bytes, most, "\\"); }

std::string Printable(std::string_view bytes) {
  return Escaped(bytes, std::string_view::npos, "\\\\");
}

std::string Quoted(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : Printable(bytes)) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace redlatch::base
