#ifndef REDLATCH_SRC_CLI_TERM_SUGGESTION_H_
#define REDLATCH_SRC_CLI_TERM_SUGGESTION_H_

#include <string>
#include <string_view>
#include <vector>

namespace redlatch::cli {

// The one of `known` that somebody who typed `word` will have meant: it begins with `word`, or is
// spelt almost like it. Empty if there is none, or if several are equally near.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

// "; did you mean <it>?", or nothing.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_SUGGESTION_H_
