-- Does what common/quarantine_end does, for readers and writers.
-- include: common/end_quarantined
-- include: read_write/common/raise_fence
raise_fence(end_quarantined({2, #KEYS - 2}))
