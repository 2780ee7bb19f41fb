#include "src/cli/term/suggestion.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace redlatch::cli {
namespace {

// How many letters must be put in, left out, replaced, or swapped with their neighbour.
size_t Distance(std::string_view from, std::string_view to) {
  std::vector<size_t> before_last(to.size() + 1);
  std::vector<size_t> last(to.size() + 1);
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[to.size()];
}

// Of a longer word more may be wrong; of a single letter, nothing.
size_t Tolerated(std::string_view word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const size_t letters = word.size() - dashes;
  return letters < 2 ? 0 : (letters + 1) / 3;
}

// Beginning with it is nearer than any misspelling.
size_t Farness(std::string_view word, std::string_view known) {
  return known.starts_with(word) ? 0 : Distance(word, known);
}

}  // namespace

std::string Suggestion(std::string_view word, const std::vector<std::string>& known) {
  size_t nearest = Tolerated(word) + 1;
  if (nearest == 1) return "";
  std::string found;
  for (const std::string& each : known) {
    const size_t farness = Farness(word, each);
    if (farness == nearest) found.clear();
    if (farness >= nearest) continue;
    nearest = farness;
    found = each;
  }
  return found;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::string suggestion = Suggestion(word, known);
  return suggestion.empty() ? "" : absl::StrCat("; did you mean ", suggestion, "?");
}

}  // namespace redlatch::cli
