-- include: common/inner
local outer = inner .. "\\;"
