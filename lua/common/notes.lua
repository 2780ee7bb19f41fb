-- include: common/look_note

-- caller_notes(request): what the caller cannot know: that its channel has no subscriber here, if
-- it asked for that, and that it missed a message.
local function caller_notes(request)
  return (request.deaf and ' deaf' or '') .. (request.missed and ' missed' or '')
end
