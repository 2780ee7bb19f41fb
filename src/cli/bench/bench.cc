#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/cli/bench/figures.h"
#include "src/cli/bench/forget.h"
#include "src/cli/bench/places.h"
#include "src/cli/bench/run.h"
#include "src/cli/bench/slice.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/measures.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/shards.h"
#include "src/engine/protocol/key_set.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kShortest = absl::Milliseconds(500);
constexpr absl::Duration kLongest = absl::Minutes(10);

int Measure(const BenchPlan& plan, bool json) {
  Slices slices;
  Complain({"for about ", ShortTime(plan.time), " ", plan.url.DebugString(),
            " will be kept busy by up to ", absl::StrCat(kBenchThreads),
            " commands at a time, on keys that begin with ", plan.name,
            " and are deleted at the end; Ctrl-C stops it"});
  BenchFigures figures;
  figures.server = plan.url.DebugString();
  const absl::Status measured = RunBench(plan, slices, &figures);
  figures.interrupted = slices.signal() != 0;
  const absl::Status forgotten = slices.begun() ? ForgetBench(plan) : absl::OkStatus();
  if (!measured.ok() && !figures.interrupted) return Refuse(measured);
  if (!forgotten.ok()) {
    Complain({"keys that begin with ", plan.name,
              " could not be deleted, and go within a day: ", std::string(forgotten.message())});
  }
  std::fputs(json ? BenchJson(figures).c_str() : BenchText(figures).c_str(), stdout);
  return figures.interrupted ? kSignalled + slices.signal() : 0;
}

}  // namespace

int Bench(const std::vector<std::string>& words) {
  CommandLine line("bench");
  bool json = false;
  std::string prefix;
  absl::Duration time = absl::Seconds(5);
  line.Flag("--json", &json);
  line.Text("--prefix", "the beginning of your locks' names", &prefix);
  line.Time("--time", &time);
  if (const std::optional<int> over = line.Parse(words)) return *over;
  if (time < kShortest || time > kLongest) {
    return Refuse(WrongUsage("--time is out of range", "say 500ms to 10m"));
  }
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(line.server());
  if (!url.ok()) return Refuse(url.status());
  const std::string random = absl::StrCat(absl::Hex(base::RandomBits(), absl::kZeroPad16));
  const std::string name = absl::StrCat(prefix, "redlatch-bench:", random);
  if (absl::Status bad = engine::CheckMainKey(name); !bad.ok()) return Refuse(bad);
  for (const redis::Url& member : url->members) {
    if (member.kind != redis::Url::Kind::kCluster) continue;
    return Refuse(WrongUsage("a quorum of which a server is a cluster can't be measured",
                             "measure the cluster: --server " + member.DebugString()));
  }
  std::vector<Shard> shards;
  if (url->kind == redis::Url::Kind::kCluster) {
    const auto view = FindCluster(*url, url->nodes);
    if (!view.ok()) return Refuse(view.status());
    shards = ShardsOf(*view);
  }
  BenchPlan plan = {.url = *url,
                    .url_text = line.server(),
                    .shards = std::move(shards),
                    .name = name,
                    .own_names = {},
                    .channel = absl::StrCat("redlatch:bench:", random),
                    .time = time};
  plan.own_names = OwnNames(plan);
  return Measure(plan, json);
}

}  // namespace redlatch::cli
