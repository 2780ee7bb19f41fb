#ifndef REDLATCH_SRC_API_SIMPLE_SCRIPTS_H_
#define REDLATCH_SRC_API_SIMPLE_SCRIPTS_H_

#include "lua/scripts.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// Of a SimpleLock, which a MultiLock of one name is, too.
inline LockScripts SimpleScripts() {
  return {.acquire = lua::kSimpleAcquire,
          .release = lua::kSimpleRelease,
          .renew = lua::kSimpleRenew,
          .cancel = lua::kSimpleCancel,
          .inspect = lua::kSimpleInspect,
          .force_release = lua::kSimpleForceRelease};
}

}  // namespace redlatch

#endif  // REDLATCH_SRC_API_SIMPLE_SCRIPTS_H_
