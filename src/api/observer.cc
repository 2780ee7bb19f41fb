#include "redlatch/observer.h"

#include <string>

#include "src/base/error_address.h"
#include "src/base/stderr_line.h"
#include "src/base/utf8.h"

namespace redlatch {
namespace {

using base::Quoted;

void Print(std::string line) {
  base::AddAddress(line);
  base::PrintLine(line);
}

}  // namespace

void Observer::OnAcquired(std::string_view, FencingToken, absl::Duration) {}
void Observer::OnWaitEnded(std::string_view, absl::Duration, const absl::Status&) {}
void Observer::OnReleased(std::string_view, FencingToken, const absl::Status&) {}
void Observer::OnRenewed(std::string_view, FencingToken) {}
void Observer::OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status&) {}
void Observer::OnRecovered(std::string_view, FencingToken) {}
void Observer::OnReconnected(std::string_view) {}
void Observer::OnResubscribed(std::string_view) {}

void Observer::OnLost(const LostLease& lost) {
  Print("lost the hold on " + Quoted(lost.lock) + " (" + lost.server + "): " + lost.reason);
}

void Observer::OnReleaseFailed(std::string_view lock, FencingToken, absl::Duration remaining,
                               const absl::Status& why) {
  Print("lock " + Quoted(lock) + ": the server refused to release it, so that it " +
        "stays taken for up to " + absl::FormatDuration(remaining) + ": " +
        std::string(why.message()));
}

void Observer::OnMisuse(std::string_view lock, std::string_view what) {
  Print("lock " + Quoted(lock) + ": " + std::string(what));
}

void Observer::OnUnsubscribed(std::string_view server, std::string_view why) {
  Print(std::string(server) + ": " + std::string(why));
}

}  // namespace redlatch
