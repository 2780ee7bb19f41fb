-- Does what common/quarantine_end does, for the queues of all names. Their keys come last, before
-- that of the quarantine.
-- include: common/end_quarantined
local queues = {2}
for i = 6 + (#KEYS - 1) % 4, #KEYS - 1, 4 do
  queues[#queues + 1] = i
end
end_quarantined(queues)
