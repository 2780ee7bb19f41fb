// The text format of Prometheus, version 0.0.4: each metric once, with all of its samples behind
// its HELP and TYPE.
#include "redlatch/stats.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "redlatch/version.h"
#include "src/base/utf8.h"

namespace redlatch {
namespace {

template <class Number>
std::string Text(Number number) {
  std::array<char, 64> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
  return std::string(text.data(), written.ptr);
}

std::string Seconds(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "+Inf";
  return Text(absl::ToDoubleSeconds(duration));
}

// As it stands between a label's quotes.
std::string LabelValue(std::string_view text) {
  std::string value;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    size_t size = base::FirstCharacter(text).size;
    if (size == 0 || first < 0x20 || first == 0x7F) {
      size = 1;
      absl::StrAppendFormat(&value, "\\\\x%02X", first);
    } else {
      if (first == '\\' || first == '"') value += '\\';
      value += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return value;
}

std::string Label(std::string_view label, std::string_view text) {
  return absl::StrCat(std::string(label), "=\"", LabelValue(text), "\"");
}

// What clients of one name and server have done, by labels.
struct Clients {
  ClientStats sum;
  std::set<std::string> ids;
  std::map<std::string, LockStats> locks;
};

std::map<std::string, Clients> ByLabels(absl::Span<const ClientStats> clients) {
  std::map<std::string, Clients> by_labels;
  for (const ClientStats& client : clients) {
    const std::string labels =
        client.name.empty()
            ? Label("server", client.server)
            : absl::StrCat(Label("server", client.server), ",", Label("client", client.name));
    Clients& same = by_labels[labels];
    // Copies of a client are one; a sample that stood there twice would spoil the page.
    if (!same.ids.insert(client.id).second) continue;
    same.sum.connects += client.connects;
    same.sum.breaks += client.breaks;
    same.sum.reconnects += client.reconnects;
    same.sum.late += client.late;
    for (const LockStats& lock : client.locks) {
      same.locks[absl::StrCat(labels, ",", Label("lock", lock.name))] += lock;
    }
  }
  return by_labels;
}

class Writer {
 public:
  explicit Writer(absl::Span<const ClientStats> clients) : clients_(ByLabels(clients)) {}

  void Info() {
    Head("redlatch_client_info", "gauge", "1 for each client; its id stands in the server's keys.");
    for (const auto& [labels, clients] : clients_) {
      for (const std::string& id : clients.ids) {
        Sample("redlatch_client_info",
               absl::StrCat(labels, ",", Label("id", id), ",", Label("version", Version())), "1");
      }
    }
  }
  void OfClients(std::string_view name, uint64_t ClientStats::*number, std::string_view help) {
    Head(name, "counter", help);
    for (const auto& [labels, clients] : clients_) {
      Sample(name, labels, Text(clients.sum.*number));
    }
  }
  void OfLocks(std::string_view name, std::string_view type, uint64_t LockStats::*number,
               std::string_view help) {
    Head(name, type, help);
    ForEachLock([&](const std::string& labels, const LockStats& lock) {
      Sample(name, labels, Text(lock.*number));
    });
  }
  void OfLocks(std::string_view name, DurationHistogram LockStats::*durations,
               std::string_view help) {
    Head(name, "histogram", help);
    const std::string base(name);
    ForEachLock([&](const std::string& labels, const LockStats& lock) {
      const DurationHistogram& histogram = lock.*durations;
      uint64_t so_far = 0;
      for (int i = 0; i < DurationHistogram::kBuckets; ++i) {
        so_far += histogram.buckets[static_cast<size_t>(i)];
        const std::string bound = Label("le", Seconds(DurationHistogram::Bound(i)));
        Sample(base + "_bucket", absl::StrCat(labels, ",", bound), Text(so_far));
      }
      Sample(base + "_sum", labels, Seconds(histogram.sum));
      Sample(base + "_count", labels, Text(so_far));
    });
  }

  std::string Take() { return std::move(text_); }

 private:
  void Head(std::string_view name, std::string_view type, std::string_view help) {
    absl::StrAppendFormat(&text_, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
  }
  void Sample(std::string_view name, std::string_view labels, std::string_view value) {
    absl::StrAppendFormat(&text_, "%s{%s} %s\n", name, labels, value);
  }
  template <class Visit>
  void ForEachLock(const Visit& visit) {
    for (const auto& [of_clients, clients] : clients_) {
      for (const auto& [labels, lock] : clients.locks) visit(labels, lock);
    }
  }

  const std::map<std::string, Clients> clients_;
  std::string text_;
};

}  // namespace

std::string PrometheusText(absl::Span<const ClientStats> clients) {
  Writer text(clients);
  text.Info();
  text.OfClients("redlatch_connects_total", &ClientStats::connects, "Connections made.");
  text.OfClients("redlatch_breaks_total", &ClientStats::breaks, "Connections lost or given up.");
  text.OfClients("redlatch_reconnects_total", &ClientStats::reconnects,
                 "How often a lost connection was made again.");
  text.OfClients("redlatch_late_total", &ClientStats::late, "Commands not answered in time.");
  const auto counter = [&](std::string_view name, uint64_t LockStats::*number,
                           std::string_view help) { text.OfLocks(name, "counter", number, help); };
  counter("redlatch_acquired_total", &LockStats::acquired, "Holds that began.");
  counter("redlatch_passed_on_total", &LockStats::passed_on,
          "Of the holds that began, those got from a thread of the same client.");
  counter("redlatch_opened_total", &LockStats::opened, "Waits for a latch that opened.");
  counter("redlatch_busy_total", &LockStats::busy, "Calls whose wait was over before.");
  counter("redlatch_cancelled_total", &LockStats::cancelled, "Calls that were stopped.");
  counter("redlatch_failed_total", &LockStats::failed, "Calls that failed otherwise.");
  counter("redlatch_released_total", &LockStats::released, "Holds that were released.");
  counter("redlatch_releases_failed_total", &LockStats::releases_failed,
          "Holds whose release the server refused, did not confirm, or did not know.");
  counter("redlatch_lost_total", &LockStats::lost, "Holds that ended without a release.");
  counter("redlatch_renewed_total", &LockStats::renewed, "Renewals.");
  counter("redlatch_renewals_failed_total", &LockStats::renewals_failed,
          "Renewals that failed, and were tried again.");
  counter("redlatch_misused_total", &LockStats::misused, "Unlocks of what was not held.");
  text.OfLocks("redlatch_held", "gauge", &LockStats::held, "Holds now.");
  text.OfLocks("redlatch_permits", "gauge", &LockStats::permits, "Permits of semaphores held now.");
  text.OfLocks("redlatch_releasing", "gauge", &LockStats::releasing,
               "Holds whose release is not confirmed yet.");
  text.OfLocks("redlatch_waiting", "gauge", &LockStats::waiting, "Calls that wait now.");
  text.OfLocks("redlatch_wait_seconds", &LockStats::waited, "From the call to the hold.");
  text.OfLocks("redlatch_hold_seconds", &LockStats::held_for,
               "From there to the release or the loss.");
  return text.Take();
}

std::string PrometheusText(const ClientStats& client) {
  return PrometheusText(absl::MakeConstSpan(&client, 1));
}

}  // namespace redlatch
