-- Before release, cancel and force_release: as common/quarantine_end, of readers and writers.
-- include: common/end_quarantined
-- include: read_write/common/raise_fence
raise_fence(end_quarantined({2, #KEYS - 2}))
