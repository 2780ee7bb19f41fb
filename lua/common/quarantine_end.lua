-- Runs before release, cancel and force_release of a lock with one queue.
-- include: common/end_quarantined
end_quarantined({2})
