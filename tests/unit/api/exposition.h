// A parser of Prometheus' text format that takes what version 0.0.4 allows and nothing else.
#ifndef REDLATCH_TESTS_UNIT_API_EXPOSITION_H_
#define REDLATCH_TESTS_UNIT_API_EXPOSITION_H_

#include <cctype>
#include <cstddef>

#include "src/base/utf8.h"
#include "tests/support/testing.h"

namespace redlatch {

using Labels = std::map<std::string, std::string>;

struct Family {
  std::string type;
  std::map<std::pair<std::string, Labels>, double> samples;  // by name and labels
};

// Complaints about the text; empty where it is well-formed.
class Exposition {
 public:
  explicit Exposition(std::string_view text) {
    if (!text.ends_with('\n')) Complain("the last line does not end");
    CheckUtf8(text);
    const std::vector<std::string> lines = absl::StrSplit(std::string(text), '\n');
    for (const std::string& line : lines) {
      line_ = line;
      if (line.empty()) continue;
      if (line[0] == '#') {
        Comment(line);
      } else {
        Sample(line);
      }
    }
    for (const auto& [name, family] : families) {
      if (family.samples.empty()) bare.push_back(name);
      if (family.type == "histogram") CheckHistogram(name, family);
    }
  }

  // Of the metric's only sample that has these labels among its own.
  double Value(const std::string& sample, const Labels& wanted = {}) const {
    std::vector<double> found;
    for (const auto& [name, family] : families) {
      for (const auto& [id, value] : family.samples) {
        if (id.first != sample) continue;
        bool fits = true;
        for (const auto& [label, text] : wanted) {
          const auto own = id.second.find(label);
          fits = fits && own != id.second.end() && own->second == text;
        }
        if (fits) found.push_back(value);
      }
    }
    EXPECT_EQ(found.size(), 1) << sample;
    return found.empty() ? -1 : found[0];
  }
  std::set<std::string> ValuesOf(const std::string& label) const {
    std::set<std::string> values;
    for (const auto& [name, family] : families) {
      for (const auto& [id, value] : family.samples) {
        if (const auto own = id.second.find(label); own != id.second.end()) {
          values.insert(own->second);
        }
      }
    }
    return values;
  }

  std::map<std::string, Family> families;
  std::vector<std::string> complaints;
  std::vector<std::string> bare;  // metrics without a sample

 private:
  void Complain(std::string_view what) {
    complaints.push_back(absl::StrCat(std::string(what), ": ", line_));
  }

  static bool IsName(std::string_view name, bool colons) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
    for (const char c : name) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (!letter && !(c >= '0' && c <= '9') && !(colons && c == ':')) return false;
    }
    return true;
  }

  void Comment(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    if (words.size() < 4 || words[0] != "#" || !IsName(words[2], true)) return Complain("comment");
    if (words[1] == "HELP") {
      if (families.contains(words[2])) Complain("a second HELP");
      if (absl::StrContains(words[3], '\\') || words[3].empty()) Complain("HELP");
      current_ = words[2];
      families[current_];
    } else if (words[1] == "TYPE") {
      if (words[2] != current_ || !families[current_].type.empty()) Complain("TYPE out of place");
      if (words[3] != "counter" && words[3] != "gauge" && words[3] != "histogram") Complain("TYPE");
      if ((words[3] == "counter") != words[2].ends_with("_total")) Complain("_total");
      families[current_].type = words[3];
    } else {
      Complain("comment");
    }
  }

  void Sample(std::string_view line) {
    const size_t name_end = line.find_first_of("{ ");
    if (name_end == std::string_view::npos) return Complain("no value");
    const std::string name(line.substr(0, name_end));
    if (!IsName(name, true)) return Complain("a sample's name");
    Family& family = families[current_];
    const bool histogram = family.type == "histogram";
    const bool fits = histogram ? name == current_ + "_bucket" || name == current_ + "_sum" ||
                                      name == current_ + "_count"
                                : name == current_;
    if (family.type.empty() || !fits) return Complain("a sample that is not its metric's");
    line.remove_prefix(name_end);
    std::optional<Labels> labels = Labels();
    if (line[0] == '{') labels = ReadLabels(line);
    if (!labels) return Complain("labels");
    if (line.empty() || line[0] != ' ') return Complain("no blank before the value");
    line.remove_prefix(1);
    const std::string number(line);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || number[0] == ' ') return Complain("a value");
    if (value < 0) Complain("less than nothing");
    if (histogram && (name == current_ + "_bucket") != labels->contains("le")) {
      return Complain("le");
    }
    if (!family.samples.emplace(std::pair(name, *labels), value).second) {
      Complain("a second sample of these labels");
    }
  }

  // Takes `{name="value",...}` from the line.
  static std::optional<Labels> ReadLabels(std::string_view& line) {
    Labels labels;
    line.remove_prefix(1);
    while (true) {
      const size_t equals = line.find("=\"");
      if (equals == std::string_view::npos) return std::nullopt;
      const std::string name(line.substr(0, equals));
      if (!IsName(name, false) || name.starts_with("__")) return std::nullopt;
      line.remove_prefix(equals + 2);
      std::string value;
      while (!line.empty() && line[0] != '"') {
        if (line[0] == '\\') {
          line.remove_prefix(1);
          if (line.empty() || !absl::StrContains("\\\"n", line[0])) return std::nullopt;
          value += line[0] == 'n' ? '\n' : line[0];
        } else {
          if (static_cast<unsigned char>(line[0]) < 0x20 || line[0] == 0x7F) return std::nullopt;
          value += line[0];
        }
        line.remove_prefix(1);
      }
      if (line.size() < 2 || !labels.emplace(name, value).second) return std::nullopt;
      line.remove_prefix(1);
      const char after = line[0];
      line.remove_prefix(1);
      if (after == '}') return labels;
      if (after != ',') return std::nullopt;
    }
  }

  // Every series has its buckets, in order, the last one infinite; never fewer than the one before.
  void CheckHistogram(const std::string& name, const Family& family) {
    std::map<Labels, std::map<double, double>> series;
    for (const auto& [id, value] : family.samples) {
      if (id.first != name + "_bucket") continue;
      Labels labels = id.second;
      char* end = nullptr;
      const double bound = std::strtod(labels.at("le").c_str(), &end);
      if (*end != '\0') complaints.push_back(name + ": a bound");
      labels.erase("le");
      series[labels][bound] = value;
    }
    for (const auto& [labels, buckets] : series) {
      double before = 0;
      for (const auto& [bound, value] : buckets) {
        if (value < before) complaints.push_back(name + ": a bucket has less than the one before");
        before = value;
      }
      const auto count = family.samples.find({name + "_count", labels});
      if (count == family.samples.end() || count->second != buckets.rbegin()->second ||
          buckets.rbegin()->first < 1e300 || !family.samples.contains({name + "_sum", labels})) {
        complaints.push_back(name + ": the last bucket, _count or _sum");
      }
    }
  }

  void CheckUtf8(std::string_view text) {
    while (!text.empty()) {
      const size_t size = base::FirstCharacter(text).size;
      if (size == 0) return complaints.push_back("not UTF-8");
      text.remove_prefix(size);
    }
  }

  std::string line_;
  std::string current_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_UNIT_API_EXPOSITION_H_
