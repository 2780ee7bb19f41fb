-- include: common/check_note

-- caller_notes(request): what the caller cannot know: its channel has no subscriber here (if it
-- asked), and it missed a message.
local function caller_notes(request)
  return (request.unsubscribed and ' deaf' or '') .. (request.missed and ' missed' or '')
end
