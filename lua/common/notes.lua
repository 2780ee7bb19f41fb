-- include: common/check_note

-- caller_notes(request): returns notes about what the caller cannot know: that its channel has no
-- subscriber here (if it asked), and that it missed a message.
local function caller_notes(request)
  return (request.unsubscribed and ' deaf' or '') .. (request.missed and ' missed' or '')
end
