-- include: common/outer
-- include: common/inner
local t = { [ [[;]] ] = ';', ["x;y"] = "\"${CMAKE_VERSION}@CMAKE_VERSION@\\n\065" }
-- A backslash at the end \
-- [[ unbalanced, ]] [ ] and # $ENV{HOME} %d 'é' )" )lua"

return { inner, outer, t[';'], t["x;y"], [[
]] }
