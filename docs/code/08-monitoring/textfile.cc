// The program of 08-monitoring.md that writes for node_exporter.
#include "docs/code/expect.h"

// [body]
#include <string>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/stats.h"

constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

std::string MetricsBody(const std::vector<redlatch::Client>& clients) {
  std::vector<redlatch::ClientStats> stats;
  for (const redlatch::Client& client : clients) stats.push_back(client.Stats());
  return redlatch::PrometheusText(stats);
}
// [/body]

// [textfile]
#include <cstdio>
#include <fstream>

// The collector may read at any moment: it sees either the old file or the new one.
bool WriteMetrics(const std::string& path, const std::vector<redlatch::Client>& clients) {
  const std::string fresh = path + ".new";
  std::ofstream file(fresh);
  file << MetricsBody(clients);
  file.close();
  return file.good() && std::rename(fresh.c_str(), path.c_str()) == 0;
}
// [/textfile]

#include <iostream>
#include <mutex>

#include "redlatch/simple_lock.h"

// Output: redlatch_acquired_total\{server="embedded:.*",client="billing",lock="invoices"\} 2
// Output: redlatch_hold_seconds_count\{server="embedded:.*",client="billing",lock="invoices"\} 2
// Output: redlatch_held\{server="embedded:.*",client="reports",lock="nightly"\} 1
int main() {
  absl::StatusOr<redlatch::Client> billing = redlatch::Client::Connect("embedded:?name=billing");
  absl::StatusOr<redlatch::Client> reports = redlatch::Client::Connect("embedded:?name=reports");
  ExpectOk(billing.status());
  ExpectOk(reports.status());
  redlatch::SimpleLock invoices(*billing, "invoices");
  for (int i = 0; i < 2; ++i) {
    const std::scoped_lock guard(invoices);
  }
  redlatch::SimpleLock nightly(*reports, "nightly");
  const std::scoped_lock guard(nightly);
  Expect(std::string(kContentType).find("0.0.4") != std::string::npos);
  Expect(WriteMetrics("redlatch.prom", {*billing, *reports}));
  std::cout << std::ifstream("redlatch.prom").rdbuf();
}
