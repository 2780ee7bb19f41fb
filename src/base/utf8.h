// UTF-8 in texts that may contain any bytes.
#ifndef REDLATCH_SRC_BASE_UTF8_H_
#define REDLATCH_SRC_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace redlatch::base {

struct Character {
  uint32_t code = 0;
  size_t size = 0;  // in bytes; 0: these bytes are not UTF-8
};

// REQUIRES: `bytes` is not empty.
Character FirstCharacter(std::string_view bytes);

// Returns a text that is safe to show to people. Control characters, characters that hide or
// reverse their neighbours, and bytes that are not UTF-8 become \xNN. A text of more than `most`
// bytes is cut, and ends with "...". Applying it twice changes nothing more.
std::string Shown(std::string_view bytes, size_t most = std::string_view::npos);
// The same, with each backslash doubled, so that the bytes can be recovered.
std::string Printable(std::string_view bytes);
// The same between quotation marks, for a message. Marks within it are escaped.
std::string Quoted(std::string_view bytes);

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_UTF8_H_
