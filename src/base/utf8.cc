#include "src/base/utf8.h"

#include <array>

namespace redlatch::base {

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

}  // namespace redlatch::base
