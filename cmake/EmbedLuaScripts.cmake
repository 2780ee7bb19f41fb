# Defines the target redlatch_lua_scripts, which generates lua/scripts.h in REDLATCH_GENERATED_DIR
# from lua/<folder>/<operation>.lua. See lua/README.md.
set(REDLATCH_GENERATED_DIR "${CMAKE_CURRENT_BINARY_DIR}/generated")

# Later Lua versions accept what Redis' 5.1 refuses.
find_program(REDLATCH_LUAC NAMES luac5.1 luac-5.1 luac51)
if(NOT REDLATCH_LUAC)
  message(FATAL_ERROR "redlatch checks its scripts with luac5.1 (Debian: lua5.1)")
endif()

file(GLOB redlatch_lua_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/lua/*/*.lua")
add_custom_command(
  OUTPUT "${REDLATCH_GENERATED_DIR}/lua/scripts.h"
  COMMAND "${CMAKE_COMMAND}" "-DLUA_DIR=${CMAKE_CURRENT_SOURCE_DIR}/lua"
    "-DOUTPUT_DIR=${REDLATCH_GENERATED_DIR}/lua" "-DLUAC=${REDLATCH_LUAC}"
    -P "${CMAKE_CURRENT_LIST_DIR}/embed_lua.cmake"
  DEPENDS ${redlatch_lua_sources} "${CMAKE_CURRENT_LIST_DIR}/embed_lua.cmake"
  COMMENT "Embedding Lua scripts"
  VERBATIM)
add_custom_target(redlatch_lua_scripts DEPENDS "${REDLATCH_GENERATED_DIR}/lua/scripts.h")
