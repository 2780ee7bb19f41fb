// What begins without a thread that waits for it.
#include <memory>
#include <utility>

#include "src/base/status.h"
#include "src/engine/runtime/async_acquisition.h"
#include "src/engine/runtime/async_release.h"
#include "src/engine/runtime/lock_session.h"

namespace redlatch::engine {

void LockSession::AcquireAsync(Want want, Finish finish, Elsewhere elsewhere,
                               AsyncDriver::Whose whose) noexcept {
  AsyncDriver& driver = core_->async();
  absl::Status bad = core_->Refusal();
  if (bad.ok()) bad = About(CheckLease(want.terms.lease));
  if (bad.ok() && want.options != nullptr) bad = About(CheckAcks(*want.options));
  if (bad.ok() && want.options != nullptr) bad = About(CheckStay(*want.options));
  if (bad.ok()) bad = About(core_->SeeToThreads());
  if (bad.ok() && !driver.Ready()) bad = About(base::NoThread());
  if (!bad.ok()) return driver.Complete(std::move(finish)(std::move(bad)), whose);
  if (!want.since) want.since = base::Now();
  want.gone = nullptr;  // it is told by AsyncDriver::StopObject()
  MachineTable::Refer(entry_);
  driver.Begin(std::make_unique<AsyncAcquisition>(driver, entry_, std::move(want),
                                                  std::move(finish), std::move(elsewhere), whose),
               entry_.keys.main());
}

AsyncLetterPtr LockSession::RunInARound(AsyncTask& task, const LuaScript& script,
                                        absl::Span<const std::string> args,
                                        base::Instant deadline) {
  return core_->async().RunInARound(task, entry_, Request(core_->SubjectOf(entry_), script, args),
                                    deadline);
}

void LockSession::ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept {
  AsyncDriver& driver = core_->async();
  if (absl::Status refused = core_->Refusal(); !refused.ok()) {
    if (then) driver.Complete(std::move(then)(std::move(refused)));
    return;
  }
  EndAsync(BeginRelease(hold, token, base::Now() + core_->command_timeout()), std::move(then));
}

void LockSession::EndAsync(Ending ending, Then then) {
  AsyncDriver& driver = core_->async();
  if (!driver.Ready()) {  // it is waited for
    absl::Status status = End(ending, base::Now() + core_->command_timeout());
    if (then) driver.Complete(std::move(then)(std::move(status)));
    return;
  }
  MachineTable::Refer(entry_);
  driver.Begin(std::make_unique<AsyncRelease>(driver, entry_, std::move(ending.released),
                                              std::move(ending.send), std::move(then)),
               entry_.keys.main());
}

}  // namespace redlatch::engine
