// Text for people and for programs, of names that may be any bytes.
#ifndef REDLATCH_SRC_CLI_TERM_TEXT_H_
#define REDLATCH_SRC_CLI_TERM_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "src/base/utf8.h"

namespace redlatch::cli {

// For a terminal. Within $'…' in a shell, the result is the name again.
using base::Printable;

// How many columns it takes, where it is printable; characters of two columns count as one.
size_t Columns(std::string_view printable);
// Cut to so many columns, with an ellipsis for what is left out.
std::string Cut(std::string_view printable, size_t columns);
// With spaces behind it, up to so many columns.
std::string Padded(std::string_view printable, size_t columns);

inline constexpr size_t kPageWidth = 80;
// The words in lines of so many columns, each of which begins with `indent` spaces.
std::string Wrapped(std::string_view printable, size_t indent, size_t width = kPageWidth);

// "0.3s", "21.4s", "3m12s", "2h05m", "3d04h"; "-" for an infinite one.
std::string Brief(absl::Duration time);

// "1 permit", "2 permits".
std::string Counted(int64_t count, std::string_view noun);

// A string of JSON, quotes included; of bytes that are not UTF-8 each one is U+FFFD.
std::string JsonText(std::string_view bytes);

// One line of JSON.
class JsonObject {
 public:
  // Of bytes that are not UTF-8 each one is U+FFFD, and `key`_base64 tells them all.
  void Text(std::string_view key, std::string_view bytes);
  void Number(std::string_view key, int64_t number) { Json(key, std::to_string(number)); }
  void Bool(std::string_view key, bool value) { Json(key, value ? "true" : "false"); }
  void Null(std::string_view key) { Json(key, "null"); }
  void Json(std::string_view key, std::string_view json);
  // Milliseconds; null where it is infinite.
  void Millis(std::string_view key, absl::Duration time);

  std::string Finish() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_TEXT_H_
