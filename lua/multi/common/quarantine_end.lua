-- Before release, cancel and force_release: as common/quarantine_end, of the queues of all names,
-- whose keys come last but for the one of the quarantine.
-- include: common/end_quarantined
local queues = {2}
for i = 6 + (#KEYS - 1) % 4, #KEYS - 1, 4 do
  queues[#queues + 1] = i
end
end_quarantined(queues)
